//! Runs of a fleet whose workers are the real CLIs: prompts by pointer, reports, a review by the other family, a limit.

mod limits;
mod screens;
mod steer;
mod terminal;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::cli::{BOTH, Cli};
use crate::lab::{Plan, Request, now, tool};
use crate::ran::Ran;
use crate::wait::until;
use crate::worker::{TURN, Worker};
use crate::world::World;

/// A project with three files and a commit, and accounts that work on the run `r` in it.
#[derive(Debug)]
struct Fleet {
    world: World,
    project: PathBuf,
}

impl Drop for Fleet {
    fn drop(&mut self) {
        // A test that ended well has seen the end of every worker.
        if std::thread::panicking() {
            let line = ["fleet", "stop", "--host", "--timeout", "2", "--force"];
            drop(self.world.command(line).output());
        }
    }
}

impl Fleet {
    /// With two accounts of each provider, the first preferred; the model follows these rules.
    fn new(rules: impl FnOnce(&Path) -> Value) -> Self {
        Self::of(&BOTH, 2, rules)
    }

    /// With so many accounts of these providers.
    fn of(clis: &[Cli], accounts: u32, rules: impl FnOnce(&Path) -> Value) -> Self {
        let mut plan = Plan {
            accounts,
            scenario: json!({"accounts": {"1": {"five_hour": 10}, "2": {"five_hour": 50}}}),
            ..Plan::default()
        };
        let world = World::new(&plan, &["project"]);
        for cli in clis {
            for account in 1..=accounts {
                world.add(*cli, account, 4);
            }
        }
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
        Self { world, project }
    }

    /// `agent-fleet fleet …` about the run, in the project.
    fn line(&self, words: &[&str]) -> Command {
        let mut line = self.world.command(["fleet"]);
        line.args(words)
            .args(["--run", "r"])
            .current_dir(&self.project);
        line
    }

    /// The same to its end.
    fn command(&self, words: &[&str]) -> Ran {
        Ran::of(&mut self.line(words))
    }

    /// `fleet run` of a plan, in the background.
    fn begin(&self, plan: &str) -> Worker {
        World::write(&self.project.join("plan.toml"), plan);
        Worker::start(&self.world, "run", &mut self.line(&["run", "plan.toml"]))
    }

    /// Runs a plan to its end.
    #[track_caller]
    fn run(&self, plan: &str) -> Value {
        World::write(&self.project.join("plan.toml"), plan);
        let ran = self.command(&["run", "plan.toml"]);
        assert!(ran.status < 128, "{}{}", ran.stdout, ran.stderr);
        self.status()
    }

    #[track_caller]
    fn status(&self) -> Value {
        self.command(&["status"]).success()
    }

    /// Waits until the run's status shows what is wanted.
    #[track_caller]
    fn until(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        until(what, TURN, || {
            let status = self.status();
            if wanted(&status) {
                Ok(status)
            } else {
                Err(status.to_string())
            }
        })
    }

    fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.project.join(file)).expect("a file of the project")
    }

    /// Waits until a file of the project holds this line alone.
    #[track_caller]
    fn until_written(&self, file: &str, line: &str) {
        until(&format!("`{line}` in {file}"), TURN, || {
            let found = self.read(file);
            if found.trim_end() == line {
                Ok(())
            } else {
                Err(format!("{found}\n{}", self.command(&["status"]).stdout))
            }
        });
    }

    /// A file of a worker's launch.
    fn launch(&self, worker: &str, number: u64, file: &str) -> PathBuf {
        let runs = std::fs::read_dir(self.world.lab.path("state/fleet/runs")).expect("runs");
        let run = runs.flatten().next().expect("the run").path();
        run.join(format!("launches/{worker}.{number}/{file}"))
    }
}

#[track_caller]
fn named(status: &Value, list: &str, key: &str, name: &str) -> Value {
    let rows = status[list].as_array().expect("a list");
    let row = rows.iter().find(|row| row[key] == name);
    row.unwrap_or_else(|| panic!("no `{name}` in {status}"))
        .clone()
}

/// A step of a plan.
fn step(id: &str, cli: Cli, file: &str) -> String {
    let cli = cli.name();
    format!(
        "[[step]]\nid = \"{id}\"\ntext = \"The words of ticket-{id}.\"\nprovider = \"{cli}\"\nfiles = [\"{file}\"]\n\n"
    )
}

/// Whether the model was shown these words by one of this provider's workers.
fn was_told(log: &[Request], cli: Cli, words: &str) -> bool {
    let mut asked = log.iter().filter(|request| cli.asks_model(request));
    asked.any(|request| request.body.to_string().contains(words))
}

/// A rule for the prompts of one worker.
fn rule(worker: &str, more: &Value, steps: &Value) -> Value {
    let mut rule = json!({"match": format!("fleet worker {worker}\\."), "steps": steps});
    for (key, value) in more.as_object().into_iter().flatten() {
        rule[key] = value.clone();
    }
    rule
}

/// A command line by which a worker of either CLI reports.
fn reports(worker: &str, status: &str) -> String {
    let reports = ".fleet/runs/r/reports";
    format!(
        "mkdir -p {reports} && printf 'Status: {status}\\n\\nSo it is.\\n' > {reports}/{worker}.md"
    )
}

const REPORT: &str = "Status: needs-verification\n\nIt is done.\n";

#[test]
fn three_tickets_are_done_by_both_clis_with_a_review_by_the_other_and_a_limit_on_the_way() {
    let fleet = Fleet::new(|project| {
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
    let status = fleet.run(
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
        !fleet.project.join("forbidden.txt").exists(),
        "a reviewer wrote a file"
    );
    let two = named(&status, "workers", "name", "two");
    assert_eq!(
        (&two["launch"], &two["profile"]),
        (&2.into(), &"claude-2".into()),
        "{status}"
    );
    assert_eq!(
        (
            fleet.read("a.txt").as_str(),
            fleet.read("b.txt").as_str(),
            fleet.read("c.txt").as_str()
        ),
        ("changed\n", "changed\n", "as it was\n")
    );

    let log = fleet.world.lab.log(since);
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
    let fleet = Fleet::of(&[Cli::Claude], 1, |project| {
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
    let status = fleet.run(&step("one", Cli::Claude, "a.txt"));
    assert_eq!(status["state"], "blocked", "{status}");
    let step = named(&status, "steps", "id", "one");
    assert_eq!(
        (&step["state"], &step["reason"]),
        (&"blocked".into(), &"denied".into()),
        "{status}"
    );
    let outside = fleet.world.lab.path("outside.txt");
    assert!(!outside.exists(), "it was written");
}
