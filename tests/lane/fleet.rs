//! Runs of a fleet whose workers are the real CLIs: prompts by pointer, reports, a review by the other family, a limit.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::cli::Cli;
use crate::lab::{Plan, Request, now, tool};
use crate::ran::Ran;
use crate::terminal::Terminal;
use crate::wait::until;
use crate::worker::TURN;
use crate::world::World;

/// A world with two accounts of each provider, the first preferred, and a project with a commit.
pub(crate) fn world(rules: impl FnOnce(&Path) -> Value) -> (World, PathBuf) {
    let mut plan = Plan {
        scenario: json!({"accounts": {"1": {"five_hour": 10}, "2": {"five_hour": 50}}}),
        ..Plan::default()
    };
    let world = World::enabled(&plan, 4, &["project"]);
    let project = world.project("project");
    for file in ["a.txt", "b.txt", "c.txt"] {
        World::write(&project.join(file), "as it was\n");
    }
    let who = ["-c", "user.name=Ada", "-c", "user.email=ada@lab.invalid"];
    for words in [
        ["add", "."].as_slice(),
        ["commit", "-q", "-m", "Begin"].as_slice(),
    ] {
        let done = tool("git")
            .arg("-C")
            .arg(&project)
            .args(who)
            .args(words)
            .status();
        assert!(done.expect("git runs").success(), "git {words:?}");
    }
    plan.scenario["rules"] = rules(&project);
    world.lab.scenario(&plan.scenario);
    (world, project)
}

/// Runs a plan to its end.
pub(crate) fn run(world: &World, project: &Path, plan: &str) -> Value {
    World::write(&project.join("plan.toml"), plan);
    let mut line = world.command(["fleet", "run", "plan.toml", "--run", "r"]);
    let ran = Ran::of(line.current_dir(project));
    let mut status = world.command(["fleet", "status", "--run", "r"]);
    let status = Ran::of(status.current_dir(project)).success();
    assert!(ran.status < 128, "{}{}", ran.stdout, ran.stderr);
    status
}

#[track_caller]
pub(crate) fn named(status: &Value, list: &str, key: &str, name: &str) -> Value {
    let rows = status[list].as_array().expect("a list");
    let row = rows.iter().find(|row| row[key] == name);
    row.unwrap_or_else(|| panic!("no `{name}` in {status}"))
        .clone()
}

/// Whether the model was shown these words by one of this account's workers.
fn was_told(log: &[Request], cli: Cli, words: &str) -> bool {
    let mut asked = log.iter().filter(|request| cli.asks_model(request));
    asked.any(|request| request.body.to_string().contains(words))
}

/// A rule for the prompts of one worker.
pub(crate) fn rule(worker: &str, more: &Value, steps: &Value) -> Value {
    let mut rule = json!({"match": format!("fleet worker {worker}\\."), "steps": steps});
    for (key, value) in more.as_object().into_iter().flatten() {
        rule[key] = value.clone();
    }
    rule
}

/// A report that asks to be looked at.
pub(crate) const REPORT: &str = "Status: needs-verification\n\nIt is done.\n";

#[test]
fn three_tickets_are_done_by_both_clis_with_a_review_by_the_other_and_a_limit_on_the_way() {
    let (world, project) = world(|project| {
        let path = |file: &str| project.join(".fleet/runs/r").join(file);
        let author = |worker: &str, launch: u32, file: &str| {
            json!([
                {"tool": {"name": "Read", "input": {"file_path": path(&format!("prompts/{worker}.{launch}.md"))}}},
                {"shell": format!("echo changed > {file}")},
                {"write": {"path": path(&format!("reports/{worker}.md")), "content": REPORT}},
                {"text": "finished"},
            ])
        };
        let report = "mkdir -p .fleet/runs/r/reports && printf 'Status: needs-verification\\n' > .fleet/runs/r/reports/three.md";
        json!([
            rule("one", &json!({}), &author("one", 1, "a.txt")),
            rule(
                "one-review",
                &json!({}),
                &json!([
                    {"shell": "cat .fleet/runs/r/prompts/one-review.1.md"},
                    {"shell": "cat .fleet/runs/r/evidence/one-review.diff"},
                    {"shell": "echo no > forbidden.txt"},
                    {"text": "I looked at it.\n\nVerdict: approve\n"},
                ])
            ),
            rule(
                "two",
                &json!({"account": 1}),
                &json!([
                    {"shell": "echo begun > b.txt"},
                    {"usage_limit": {"resets_in": 3000}},
                ])
            ),
            rule("two", &json!({"account": 2}), &author("two", 2, "b.txt")),
            rule(
                "three",
                &json!({}),
                &json!([
                    {"shell": "cat .fleet/runs/r/prompts/three.1.md"},
                    {"shell": format!("echo changed > c.txt && {report}")},
                    {"text": "finished"},
                ])
            ),
        ])
    });
    let since = now();
    let status = run(
        &world,
        &project,
        r#"
[[step]]
id = "one"
text = "The words of ticket-one."
provider = "claude"
files = ["a.txt"]
review = true

[[step]]
id = "two"
text = "The words of ticket-two."
provider = "claude"
files = ["b.txt"]
needs = ["one"]

[[step]]
id = "three"
text = "The words of ticket-three."
provider = "codex"
worktree = true
"#,
    );
    assert_eq!(status["state"], "done", "{status}");
    for id in ["one", "two", "three"] {
        let step = named(&status, "steps", "id", id);
        assert_eq!(
            (&step["state"], &step["attempts"]),
            (&"verified".into(), &0.into()),
            "{status}"
        );
    }
    let reviewer = named(&status, "workers", "name", "one-review");
    assert_eq!(reviewer["provider"], "codex", "{status}");
    assert!(
        !project.join("forbidden.txt").exists(),
        "a reviewer wrote a file"
    );
    let two = named(&status, "workers", "name", "two");
    assert_eq!(
        (&two["launch"], &two["profile"]),
        (&2.into(), &"claude-2".into()),
        "{status}"
    );
    let read = |file: &str| std::fs::read_to_string(project.join(file)).expect("a file");
    assert_eq!(
        (
            read("a.txt").as_str(),
            read("b.txt").as_str(),
            read("c.txt").as_str()
        ),
        ("changed\n", "changed\n", "as it was\n")
    );

    let log = world.lab.log(since);
    let odd: Vec<String> = log
        .iter()
        .filter(|request| {
            request.log == "foreign" || !matches!(request.account, None | Some(1 | 2))
        })
        .map(Request::line)
        .collect();
    assert!(odd.is_empty(), "{odd:#?}");
    for cli in [Cli::Claude, Cli::Codex] {
        for request in log.iter().filter(|request| cli.asks_model(request)) {
            assert_eq!(request.credential, "login", "{}", request.line());
        }
    }
    assert!(
        was_told(&log, Cli::Claude, "The words of ticket-one."),
        "the prompt was not read"
    );
    assert!(
        was_told(&log, Cli::Codex, "The words of ticket-three."),
        "the prompt was not read"
    );
    assert!(
        was_told(&log, Cli::Codex, "+changed"),
        "the diff was not read"
    );
    assert!(
        was_told(&log, Cli::Claude, "You continue"),
        "the handed over prompt was not read"
    );
    let limit = log
        .iter()
        .find(|request| Cli::Claude.asks_model(request) && request.status == Some(429))
        .expect("the limit");
    let later: Vec<String> = log
        .iter()
        .filter(|request| {
            Cli::Claude.asks_model(request) && request.account == Some(1) && request.t > limit.t
        })
        .map(Request::line)
        .collect();
    assert!(
        later.is_empty(),
        "the account at its limit was asked again: {later:#?}"
    );
}

#[test]
fn a_denied_tool_is_no_success_whatever_the_report_says() {
    let (world, project) = world(|project| {
        let outside = project.parent().expect("a parent").join("outside.txt");
        let report = project.join(".fleet/runs/r/reports/one.md");
        json!([rule(
            "one",
            &json!({}),
            &json!([
                {"write": {"path": outside, "content": "no"}},
                {"write": {"path": report, "content": REPORT}},
                {"text": "finished"},
            ])
        )])
    });
    let plan =
        "[[step]]\nid = \"one\"\ntext = \"Do it.\"\nprovider = \"claude\"\nfiles = [\"a.txt\"]\n";
    let status = run(&world, &project, plan);
    assert_eq!(status["state"], "blocked", "{status}");
    let step = named(&status, "steps", "id", "one");
    assert_eq!(
        (&step["state"], &step["reason"]),
        (&"blocked".into(), &"denied".into()),
        "{status}"
    );
    assert!(!world.lab.path("outside.txt").exists(), "it was written");
}

/// Waits until a command of the fleet shows what is wanted.
#[track_caller]
pub(crate) fn eventually(
    world: &World,
    project: &Path,
    what: &str,
    wanted: impl Fn(&Value) -> bool,
) -> Value {
    let mut last = Value::Null;
    until(what, TURN, || {
        let mut line = world.command(["fleet", "status", "--run", "r"]);
        last = Ran::of(line.current_dir(project)).success();
        if wanted(&last) {
            Ok(())
        } else {
            Err(last.to_string())
        }
    });
    last
}

#[test]
fn a_stop_at_a_permission_prompt_approves_nothing() {
    let (world, project) = world(|project| {
        let outside = project.parent().expect("a parent").join("outside.txt");
        let report = project.join(".fleet/runs/r/reports/one.md");
        json!([
            rule("one", &json!({}), &json!([
                {"write": {"path": report, "content": "Status: blocked\n\nWhich way?\n"}},
                {"text": "finished"},
            ])),
            {"match": "GO-OUTSIDE", "steps": [
                {"write": {"path": outside, "content": "no"}},
                {"text": "went"},
            ]},
        ])
    });
    let plan =
        "[[step]]\nid = \"one\"\ntext = \"Do it.\"\nprovider = \"claude\"\nfiles = [\"a.txt\"]\n";
    let status = run(&world, &project, plan);
    assert_eq!(status["state"], "blocked", "{status}");

    let mut take = world.command(["fleet", "take", "one", "--run", "r"]);
    take.current_dir(&project);
    let screen = Terminal::start(&world, "take", &take);
    eventually(&world, &project, "the worker on its screen", |status| {
        named(status, "workers", "name", "one")["state"] == "running"
    });
    screen.wait_for("finished");
    let since = now();
    screen.type_line("GO-OUTSIDE");
    screen.wait_for("Do you want");
    let mut stop = world.command(["fleet", "stop", "one", "--run", "r"]);
    let stopped = Ran::of(stop.current_dir(&project));
    assert_eq!(stopped.status, 0, "{}{}", stopped.stdout, stopped.stderr);
    let status = eventually(&world, &project, "the end of the worker", |status| {
        status["active"] == 0
    });
    assert!(
        !world.lab.path("outside.txt").exists(),
        "it was approved: {status}"
    );
    // The answer to the tool would be another request.
    let log = world.lab.log(since);
    let answered = log
        .iter()
        .filter(|request| Cli::Claude.asks_model(request))
        .filter(|request| request.body.to_string().contains("outside.txt"))
        .count();
    assert_eq!(answered, 0, "the tool was answered");
}
