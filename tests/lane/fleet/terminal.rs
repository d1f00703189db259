//! Workers of a fleet in the CLIs' own screens, with nobody looking on.

use std::path::Path;

use serde_json::{Value, json};

use crate::cli::Cli;
use crate::fleet::{Fleet, REPORT, named, rule};
use crate::lab::{Request, now};
use crate::ran::Ran;
use crate::terminal::Terminal;
use crate::wait::until;
use crate::worker::TURN;
use crate::world::World;

/// A plan of one step for each CLI, `claude` and `codex`, on screens.
const BOTH: &str = r#"
[[step]]
id = "claude"
text = "The words of a ticket."
provider = "claude"
files = ["a.txt"]
mode = "terminal"

[[step]]
id = "codex"
text = "The words of a ticket."
provider = "codex"
files = ["b.txt"]
mode = "terminal"
"#;

/// The plan's step of one CLI.
fn only(cli: Cli) -> String {
    let steps: Vec<&str> = BOTH.split("[[step]]").collect();
    let number = match cli {
        Cli::Claude => 1,
        Cli::Codex => 2,
    };
    format!("[[step]]{}", steps[number])
}

/// What a worker does in a turn: reads its prompt, changes its file, reports, and says so.
fn turn(project: &Path, worker: &str, launch: u32, file: &str, report: &str) -> Value {
    let path = project.join(format!(".fleet/runs/r/reports/{worker}.md"));
    let report = report.trim_end().replace('\n', "\\n");
    json!([
        {"shell": format!("cat .fleet/runs/r/prompts/{worker}.{launch}.md")},
        {"shell": format!("echo changed >> {file} && mkdir -p .fleet/runs/r/reports && printf '{report}\\n' > {}", path.display())},
        {"text": "finished"},
    ])
}

fn prompt(worker: &str, launch: u32, more: &Value, steps: &Value) -> Value {
    let mut rule = rule(worker, more, steps);
    rule["match"] = format!("prompts/{worker}\\.{launch}\\.md").into();
    rule
}

impl Fleet {
    /// The last line of the answer of a command about the run, which must succeed.
    #[track_caller]
    fn answer(&self, words: &[&str]) -> Value {
        self.command(words).last_line().success()
    }

    /// The same of a command that takes the run as a word.
    #[track_caller]
    fn plain(&self, words: &[&str]) -> Value {
        let mut line = self.world.command(["fleet"]);
        let ran = Ran::of(line.args(words).current_dir(&self.project));
        ran.last_line().success()
    }

    /// Launches the workers of a plan, and nobody drives the run.
    #[track_caller]
    fn launch_all(&self, plan: &str) {
        World::write(&self.project.join("plan.toml"), plan);
        self.plain(&["init", "r"]);
        self.answer(&["plan", "--file", "plan.toml"]);
        self.answer(&["launch", "--ready"]);
    }
}

#[test]
fn a_step_of_each_cli_on_its_screen_is_worked_on_for_two_turns_and_verified() {
    const ASKS: &str = "Status: blocked\n\nWhich way?\n";
    let fleet = Fleet::new(|project| {
        json!([
            prompt(
                "claude",
                1,
                &json!({}),
                &turn(project, "claude", 1, "a.txt", ASKS)
            ),
            prompt(
                "claude",
                2,
                &json!({}),
                &turn(project, "claude", 2, "a.txt", REPORT)
            ),
            prompt(
                "codex",
                1,
                &json!({}),
                &turn(project, "codex", 1, "b.txt", ASKS)
            ),
            prompt(
                "codex",
                2,
                &json!({}),
                &turn(project, "codex", 2, "b.txt", REPORT)
            ),
        ])
    });
    let status = fleet.run(BOTH);
    assert_eq!(status["state"], "blocked", "{status}");
    let mut sessions = Vec::new();
    for name in ["claude", "codex"] {
        let worker = named(&status, "workers", "name", name);
        assert_eq!(
            (&worker["state"], &worker["launch"]),
            (&"parked".into(), &1.into()),
            "{status}"
        );
        let step = named(&status, "steps", "id", name);
        assert_eq!(step["reason"], "reported_blocked", "{status}");
        sessions.push(worker["session"].clone());
        let logs = fleet.line(&["logs", name]).output();
        let logs = String::from_utf8(logs.expect("it runs").stdout).expect("UTF-8");
        assert!(logs.contains("finished"), "{logs}");
        fleet.answer(&["send", name, "This way."]);
    }
    let status = fleet.plain(&["resume", "r", "--go"]);
    assert_eq!(status["state"], "done", "{status}");
    for (name, session) in ["claude", "codex"].iter().zip(&sessions) {
        let worker = named(&status, "workers", "name", name);
        assert_eq!(
            (&worker["launch"], &worker["session"]),
            (&2.into(), session),
            "{status}"
        );
        assert_eq!(
            named(&status, "steps", "id", name)["attempts"],
            0,
            "{status}"
        );
    }
    for file in ["a.txt", "b.txt"] {
        let text = std::fs::read_to_string(fleet.project.join(file)).expect("a file");
        assert_eq!(text, "as it was\nchanged\nchanged\n");
    }
}

#[test]
fn a_turn_on_either_screen_is_interrupted_and_its_conversation_goes_on_with_the_text() {
    let fleet = Fleet::new(|project| {
        let busy = |file: &str| json!([{"shell": format!("echo begun >> {file}; sleep 90")}, {"text": "no"}]);
        let turn = |name: &str, file: &str| turn(project, name, 2, file, REPORT);
        json!([
            prompt("claude", 1, &json!({}), &busy("a.txt")),
            prompt("claude", 2, &json!({}), &turn("claude", "a.txt")),
            prompt("codex", 1, &json!({}), &busy("b.txt")),
            prompt("codex", 2, &json!({}), &turn("codex", "b.txt")),
        ])
    });
    fleet.launch_all(BOTH);
    for (name, file) in [("claude", "a.txt"), ("codex", "b.txt")] {
        let status = fleet.until("a turn that goes on", |status| {
            let text = std::fs::read_to_string(fleet.project.join(file)).expect("a file");
            let worker = named(status, "workers", "name", name);
            text.contains("begun") && worker["state"] == "running"
        });
        assert_eq!(
            named(&status, "workers", "name", name)["reason"],
            Value::Null
        );
        fleet.answer(&["send", "--now", name, "This way."]);
    }
    let status = fleet.until("the end of both", |status| {
        let all = ["claude", "codex"];
        all.map(|name| named(status, "steps", "id", name)["state"].clone()) == ["reported"; 2]
    });
    for name in ["claude", "codex"] {
        let worker = named(&status, "workers", "name", name);
        assert_eq!(worker["launch"], 2, "{status}");
        let step = named(&status, "steps", "id", name);
        assert_eq!(
            (&step["state"], &step["attempts"]),
            (&"reported".into(), &0.into()),
            "{status}"
        );
    }
    for file in ["a.txt", "b.txt"] {
        let text = std::fs::read_to_string(fleet.project.join(file)).expect("a file");
        assert_eq!(text, "as it was\nbegun\nchanged\n");
    }
}

#[test]
fn a_screen_of_either_cli_ends_with_its_host_and_its_turn_is_an_attempt() {
    let fleet = Fleet::new(|_| {
        let busy = |file: &str| json!([{"shell": format!("echo begun >> {file}; sleep 90")}, {"text": "no"}]);
        json!([
            rule("claude", &json!({}), &busy("a.txt")),
            rule("codex", &json!({}), &busy("b.txt")),
        ])
    });
    fleet.launch_all(BOTH);
    for (name, file) in [("claude", "a.txt"), ("codex", "b.txt")] {
        fleet.until("a turn that goes on", |_| {
            let text = std::fs::read_to_string(fleet.project.join(file)).expect("a file");
            text.contains("begun")
        });
        let runs = std::fs::read_dir(fleet.world.lab.path("state/fleet/runs")).expect("runs");
        let run = runs.flatten().next().expect("a run").path();
        let started = run.join(format!("launches/{name}.1/started.json"));
        let started = std::fs::read(started).expect("it started");
        let started: Value = serde_json::from_slice(&started).expect("JSON");
        let host = started["host"]["pid"].as_i64().expect("a pid");
        let host = i32::try_from(host).expect("a pid");
        let host = rustix::process::Pid::from_raw(host).expect("a pid");
        rustix::process::kill_process(host, rustix::process::Signal::KILL).expect("it is ours");
        let status = fleet.until("the end of the worker", |status| {
            let worker = named(status, "workers", "name", name);
            worker["state"] == "exited"
        });
        let step = named(&status, "steps", "id", name);
        assert_eq!(
            (&step["state"], &step["attempts"]),
            (&"ready".into(), &1.into()),
            "{status}"
        );
    }
}

#[test]
fn a_limit_on_either_screen_is_followed_on_another_account() {
    for cli in [Cli::Claude, Cli::Codex] {
        let name = cli.name();
        let file = match cli {
            Cli::Claude => "a.txt",
            Cli::Codex => "b.txt",
        };
        let fleet = Fleet::new(|project| {
            let begins = json!([
                {"shell": format!("echo begun >> {file}")},
                {"usage_limit": {"resets_in": 3000}},
            ]);
            json!([
                rule(name, &json!({"account": 1}), &begins),
                rule(
                    name,
                    &json!({"account": 2}),
                    &turn(project, name, 2, file, REPORT)
                ),
            ])
        });
        let since = now();
        let status = fleet.run(&only(cli));
        assert_eq!(status["state"], "done", "{status}");
        let worker = named(&status, "workers", "name", name);
        assert_eq!(
            (&worker["launch"], &worker["profile"]),
            (&2.into(), &format!("{name}-2").into()),
            "{status}"
        );
        assert_eq!(
            named(&status, "steps", "id", name)["attempts"],
            0,
            "{status}"
        );
        let log = fleet.world.lab.log(since);
        let asked: Vec<&Request> = log
            .iter()
            .filter(|request| cli.asks_model(request))
            .collect();
        let other = asked.iter().find(|request| request.account == Some(2));
        let other = other.expect("the other account").t;
        // Codex lets the model name a conversation beside it, on the account of the screen.
        let later = asked
            .iter()
            .filter(|request| request.account == Some(1) && request.t > other);
        let later: Vec<String> = later.map(|request| request.line()).collect();
        assert!(later.is_empty(), "two writers met: {later:#?}");
    }
}

#[test]
fn a_permission_on_a_screen_is_told_of_and_a_stop_approves_nothing() {
    let fleet = Fleet::new(|project| {
        let outside = project.parent().expect("a parent").join("outside.txt");
        json!([rule(
            "claude",
            &json!({}),
            &json!([{"write": {"path": outside, "content": "no"}}, {"text": "went"}]),
        )])
    });
    fleet.launch_all(&only(Cli::Claude));
    let told = fleet.answer(&["wait", "--timeout", "100"]);
    let event = &told["events"][0];
    assert_eq!(
        (&event["event"], &event["reason"]),
        (&"blocked".into(), &"permission_asked".into()),
        "{told}"
    );
    fleet.until("the question", |status| {
        let worker = named(status, "workers", "name", "claude");
        worker["state"] == "running" && worker["reason"] == "permission_asked"
    });
    let since = now();
    fleet.answer(&["stop", "claude"]);
    let status = fleet.until("the end of the worker", |status| status["active"] == 0);
    let step = named(&status, "steps", "id", "claude");
    assert_eq!(step["reason"], "stopped", "{status}");
    assert!(
        !fleet.world.lab.path("outside.txt").exists(),
        "it was approved: {status}"
    );
    let log = fleet.world.lab.log(since);
    let answered = log.iter().filter(|request| Cli::Claude.asks_model(request));
    assert_eq!(answered.count(), 0, "the tool was answered");
}

#[test]
fn the_screen_of_either_cli_can_be_seen_and_typed_at_while_its_turn_goes_on() {
    let fleet = Fleet::new(|project| {
        let rules = ["claude", "codex"].map(|name| {
            let file = if name == "claude" { "a.txt" } else { "b.txt" };
            let mut steps = turn(project, name, 1, file, REPORT);
            let wait = "while [ ! -e .fleet/runs/go ]; do sleep 0.1; done";
            steps[0]["shell"] = wait.into();
            rule(name, &json!({}), &steps)
        });
        json!(rules)
    });
    fleet.launch_all(BOTH);
    for name in ["claude", "codex"] {
        let peek = || fleet.answer(&["peek", name]);
        fleet.until("the prompt on the screen", |_| {
            let seen = peek();
            let rows = seen["lines"].as_array().expect("lines");
            let text: Vec<&str> = rows.iter().filter_map(Value::as_str).collect();
            let text = text.join(" ");
            seen["source"] == "screen" && text.contains(&format!("You are fleet worker {name}."))
        });
        // At another terminal, of another size.
        let words = ["--format", "human", "fleet", "attach", name, "--type"];
        let mut attach = fleet.world.command(words);
        attach.args(["--run", "r"]).current_dir(&fleet.project);
        let typing = Terminal::start(&fleet.world, &format!("{name}-typing"), &attach);
        typing.wait_for(&format!("{name}, launch 1: your keys go to it"));
        typing.type_text("half a thought");
        let seen = peek().to_string();
        assert!(seen.contains("half a thought"), "{seen}");
        assert!(!seen.contains('\u{fffd}'), "{seen}");
        typing.press("C-\\");
        until("the end of the viewer", TURN, || {
            typing.ended().then_some(()).ok_or_else(|| typing.screen())
        });
    }
    World::write(&fleet.project.join(".fleet/runs/go"), "");
    let status = fleet.until("the end of both", |status| status["active"] == 0);
    for name in ["claude", "codex"] {
        let step = named(&status, "steps", "id", name);
        assert_eq!(step["state"], "reported", "{status}");
    }
}
