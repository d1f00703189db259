//! Workers in the provider's own screen, with nobody looking on: their turns begin, end and are judged like any other.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::background::Background;
use crate::support::checkout::{Checkout, step};
use crate::support::world::wait;

const ASKS: &str = "say Status: needs-verification";

/// A step on a screen.
fn on_screen(script: &str) -> String {
    step("one", "files = [\"a.txt\"]\nmode = \"terminal\"", script)
}

fn text(script: &str) -> String {
    format!("```script\n{script}\n{ASKS}\n```")
}

/// Runs a plan to the end of the run.
#[track_caller]
fn run(checkout: &Checkout, plan: &str) -> Value {
    checkout.write("plan.toml", plan);
    checkout.fleet(&["run", "plan.toml", "--run", "r"])
}

/// A record of a launch.
#[track_caller]
fn record(checkout: &Checkout, launch: &str, file: &str) -> Value {
    let path = checkout
        .records("r")
        .join(format!("launches/{launch}/{file}"));
    let bytes = std::fs::read(&path).unwrap_or_else(|_| panic!("no {}", path.display()));
    serde_json::from_slice(&bytes).expect("JSON")
}

/// The events that a consumer has not seen, once there are some.
#[track_caller]
fn events(checkout: &Checkout) -> Vec<(String, String, Value)> {
    let answer = checkout.fleet(&["wait", "--timeout", "60", "--settle", "0"]);
    let events = answer["events"].as_array().expect("events");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    events
        .iter()
        .map(|event| {
            (
                text(&event["id"]),
                text(&event["event"]),
                event["reason"].clone(),
            )
        })
        .collect()
}

#[test]
fn a_turn_on_a_screen_is_ended_when_it_is_over_and_judged_by_what_its_transcript_says() {
    let checkout = Checkout::with(1);
    let status = run(&checkout, &on_screen(&format!("write a.txt done\n{ASKS}")));
    assert_eq!(status["state"], "done", "{status}");
    let one = Checkout::worker(&status, "one");
    assert_eq!(
        (&one["state"], &one["launch"]),
        (&"parked".into(), &1.into()),
        "{status}"
    );
    assert!(one["session"].is_string(), "{one}");
    let step = Checkout::step(&status, "one");
    assert_eq!(
        (&step["state"], &step["attempts"]),
        (&"verified".into(), &0.into()),
        "{status}"
    );
    // Its screen would have stayed: the host asked it to end.
    assert_eq!(record(&checkout, "one.1", "exit.json")["signal"], 15);
    let kept = record(&checkout, "one.1", "turn.json");
    assert_eq!(
        (&kept["end"], &kept["answer"]),
        (&"completed".into(), &"Status: needs-verification".into())
    );
    let logs = checkout.run(&["logs", "one"]);
    for told in [
        "launch 1 of one",
        "\"  Status: needs-verification\"",
        "ended: done",
    ] {
        assert!(logs.stdout.contains(told), "{told}: {}", logs.stdout);
    }
    assert_eq!(checkout.world.requests("turn").len(), 1);
}

#[test]
fn a_limit_on_a_screen_is_ended_before_the_work_goes_on_elsewhere() {
    let checkout = Checkout::with(2);
    let script = "spawn test -e ../first && touch ../second; touch ../first; echo turn >> a.txt\n\
        say half of it\nunless ../second limit quota 3600\nsay Status: needs-verification";
    let status = run(&checkout, &on_screen(script));
    assert_eq!(status["state"], "done", "{status}");
    assert_eq!(Checkout::step(&status, "one")["attempts"], 0, "{status}");
    assert_eq!(Checkout::worker(&status, "one")["launch"], 2, "{status}");
    let profile = |launch| record(&checkout, launch, "receipt.json")["profile"].clone();
    assert_ne!(
        profile("one.1"),
        profile("one.2"),
        "it went on on the account at its limit"
    );
    let at = |launch, file, key: &str| -> jiff::Timestamp {
        let text = record(&checkout, launch, file)[key].clone();
        text.as_str().expect("a time").parse().expect("a time")
    };
    assert!(
        at("one.1", "exit.json", "at") <= at("one.2", "launch.json", "at"),
        "two writers met"
    );
    let handed = checkout.read(".fleet/runs/r/evidence/one.2.handoff.md");
    for told in ["Launch 1, which failed: quota", "> half of it"] {
        assert!(handed.contains(told), "{told}: {handed}");
    }
    assert_eq!(checkout.read("a.txt"), "as it was\nturn\nturn\n");
}

#[test]
fn a_failed_request_on_a_screen_is_a_failed_attempt() {
    let checkout = Checkout::with(1);
    let status = run(&checkout, &on_screen("fly"));
    assert_eq!(status["state"], "failed", "{status}");
    let step = Checkout::step(&status, "one");
    assert_eq!(
        (&step["reason"], &step["attempts"]),
        (&"request_failed".into(), &2.into()),
        "{status}"
    );
    let kept = record(&checkout, "one.2", "turn.json");
    assert_eq!(
        (&kept["end"], &kept["failed"]),
        (&"failed".into(), &"invalid_request".into())
    );
}

#[test]
fn a_text_for_a_worker_on_a_screen_is_its_next_turn_in_the_same_conversation() {
    let checkout = Checkout::with(1);
    let script = format!("write a.txt begun\nhold go\n{ASKS}");
    let mut run = Background::start(&checkout, "r", &on_screen(&script));
    let session = || Checkout::worker(&run.status(), "one")["session"].clone();
    run.until_busy("one", "a.txt");
    let sent = checkout.fleet(&["send", "one", &text("write a.txt sent")]);
    assert_eq!(sent["outcome"], "queued", "{sent}");
    checkout.write("go", "go");
    wait("the text to be told", || {
        (checkout.read("a.txt") == "sent\n").then_some(())
    });
    let first = session();
    let status = run.ended().success();
    assert_eq!(status["state"], "done", "{status}");
    let one = Checkout::worker(&status, "one");
    assert_eq!(
        (&one["launch"], &one["session"]),
        (&2.into(), &first),
        "{one}"
    );
}

#[test]
fn a_turn_on_a_screen_is_interrupted_for_a_text_and_stopped_for_good() {
    let checkout = Checkout::with(1);
    let holds = "write a.txt begun\nhold never";
    let mut run = Background::start(&checkout, "r", &on_screen(holds));
    run.until_busy("one", "a.txt");
    let sent = checkout.fleet(&[
        "send",
        "--now",
        "one",
        "--",
        "```script\nwrite a.txt sent\nhold never\n```",
    ]);
    assert!(
        sent["outcome"] == "launched" || sent["launch"] == 2,
        "{sent}"
    );
    wait("the text to be told", || {
        (checkout.read("a.txt") == "sent\n").then_some(())
    });
    let pid = run.process("one", 2, "child");
    let stopped = checkout.fleet(&["stop", "one"]);
    assert_eq!(stopped["confirmed"], true, "{stopped}");
    assert!(!std::path::Path::new(&format!("/proc/{pid}/stat")).exists());
    let status = run.ended().success();
    let step = Checkout::step(&status, "one");
    assert_eq!(
        (&step["state"], &step["reason"], &step["attempts"]),
        (&"blocked".into(), &"stopped".into(), &0.into()),
        "{status}"
    );
}

#[test]
fn a_screen_that_does_not_begin_is_told_of_once_and_nothing_answers_it() {
    let checkout = Checkout::with(1);
    let mut run = Background::start(&checkout, "r", &on_screen("trust\nwrite a.txt begun"));
    run.until("one", "running");
    let receipt = run.launch("one", 1, "receipt.json");
    wait("the broker's answer", || receipt.exists().then_some(()));
    let waiting = checkout.start(&["wait", "--timeout", "60", "--settle", "0"]);
    // As if the CLI had been let on a while ago.
    let file = std::fs::File::options()
        .write(true)
        .open(&receipt)
        .expect("a receipt");
    let found = file.metadata().and_then(|found| found.modified());
    file.set_modified(found.expect("a time") - Duration::from_secs(21))
        .expect("a time");
    let told = waiting.ended().success();
    assert_eq!(
        (
            &told["events"][0]["id"],
            &told["events"][0]["event"],
            &told["events"][0]["reason"]
        ),
        (
            &json!("one.1.start_blocked"),
            &json!("blocked"),
            &json!("start_blocked")
        ),
        "{told}"
    );
    let one = run.until("one", "start_blocked");
    assert_eq!(one["launch"], 1, "{one}");
    assert_eq!(checkout.read("a.txt"), "as it was\n");
    let stopped = checkout.fleet(&["stop", "one"]);
    assert_eq!(stopped["confirmed"], true, "{stopped}");
    assert_eq!(
        Checkout::step(&run.ended().success(), "one")["reason"],
        "stopped"
    );
    let again: Vec<String> = events(&checkout).into_iter().map(|event| event.0).collect();
    assert!(
        !again.contains(&"one.1.start_blocked".to_owned()),
        "{again:?}"
    );
    assert!(checkout.world.requests("turn").is_empty());
}

#[test]
fn a_permission_that_is_asked_for_is_told_of_and_a_stop_grants_nothing() {
    let checkout = Checkout::with(1);
    let script = "write a.txt begun\nask Write\nwrite a.txt allowed";
    let mut run = Background::start(&checkout, "r", &on_screen(script));
    run.until_busy("one", "a.txt");
    let told = events(&checkout);
    let asked = (
        "one.1.permission.1".to_owned(),
        "blocked".to_owned(),
        json!("permission_asked"),
    );
    assert_eq!(told, [asked]);
    let one = Checkout::worker(&run.status(), "one");
    assert_eq!(
        (&one["state"], &one["reason"]),
        (&"running".into(), &"permission_asked".into())
    );
    checkout.fleet(&["stop", "one"]);
    let status = run.ended().success();
    assert_eq!(
        Checkout::step(&status, "one")["reason"],
        "stopped",
        "{status}"
    );
    assert_eq!(checkout.read("a.txt"), "begun\n", "it was allowed");
}

#[test]
fn a_screen_whose_host_is_killed_ends_and_the_next_command_tries_again() {
    let checkout = Checkout::with(1);
    let script = format!("spawn echo begun > a.txt\nunless ../go hold ../go\n{ASKS}");
    let mut run = Background::start(&checkout, "r", &on_screen(&script));
    run.until_busy("one", "a.txt");
    let (host, child) = (
        run.process("one", 1, "host"),
        run.process("one", 1, "child"),
    );
    super::background::kill(host.into());
    wait("the end of the screen", || {
        (!super::background::lives(child.into())).then_some(())
    });
    checkout.world.sandbox.write("go", "");
    let status = run.ended().success();
    assert_eq!(status["state"], "done", "{status}");
    let step = Checkout::step(&status, "one");
    assert_eq!(
        step["attempts"], 1,
        "a turn that was cut off counts: {status}"
    );
    assert_eq!(Checkout::worker(&status, "one")["launch"], 2, "{status}");
}

#[test]
fn the_reviewer_of_a_step_on_a_screen_has_none() {
    let checkout = Checkout::with_reviewers(2, "cross-all");
    let keys = "files = [\"a.txt\"]\nmode = \"terminal\"";
    let script = format!("write a.txt done\n{ASKS}");
    let plan = crate::support::checkout::reviewed("one", keys, &script, "Verdict: approve");
    let status = run(&checkout, &plan);
    assert_eq!(status["state"], "done", "{status}");
    let mode = |launch| record(&checkout, launch, "launch.json")["mode"].clone();
    assert_eq!(
        (mode("one.1"), mode("one-review.1")),
        ("terminal".into(), "headless".into())
    );
}
