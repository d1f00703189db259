//! `on_event`: the person's own program, once for each wake event, and nobody is harmed by it.

use serde_json::Value;

use crate::support::checkout::{Checkout, step};
use crate::support::world::wait;

#[test]
fn the_program_is_run_once_for_each_event_and_its_failure_is_noted_and_harms_nothing() {
    let checkout = Checkout::with(1);
    let sandbox = &checkout.world.sandbox;
    let seen = sandbox.path("seen");
    let settings = format!(
        "on_event = [\"sh\", \"-c\", \"cat >> {}; echo it is broken >&2; exit 7\"]\n",
        seen.display()
    );
    sandbox.write("config/fleet.toml", settings);
    let script = "say Status: needs-verification";
    checkout.write("plan.toml", &step("one", "kind = \"investigate\"", script));
    let status = checkout.fleet(&["run", "plan.toml", "--run", "r"]);
    assert_eq!(status["state"], "done", "{status}");
    let line = [
        "wait",
        "--timeout",
        "20",
        "--any-change",
        "--consumer",
        "all",
    ];
    let mut noted = Vec::new();
    wait("both failures to be noted", || {
        let answer: Value = serde_json::from_str(&checkout.run(&line).stdout).ok()?;
        let events = answer["events"].as_array()?.clone();
        noted.extend(
            events
                .into_iter()
                .filter(|event| event["event"] == "on_event"),
        );
        (noted.len() == 2).then_some(())
    });
    for event in &noted {
        assert_eq!(event["reason"], "exit_7", "{event}");
    }
    let seen = std::fs::read_to_string(seen).expect("what it was told");
    let mut told: Vec<String> = seen
        .lines()
        .map(|line| {
            let notice: Value = serde_json::from_str(line).expect("JSON");
            assert_eq!(notice["run"], "r", "{notice}");
            notice["event"]["id"].as_str().expect("an id").to_owned()
        })
        .collect();
    told.sort();
    assert_eq!(told, ["one.1.report", "run.done"]);
    let log = std::fs::read_to_string(checkout.records("r").join("on_event.log"));
    assert!(log.expect("a log").contains("it is broken"));
}

#[test]
fn a_program_that_is_not_there_harms_nothing() {
    let checkout = Checkout::with(1);
    let sandbox = &checkout.world.sandbox;
    sandbox.write("config/fleet.toml", "on_event = [\"/not/there\"]\n");
    let script = "say Status: needs-verification";
    checkout.write("plan.toml", &step("one", "kind = \"investigate\"", script));
    let status = checkout.fleet(&["run", "plan.toml", "--run", "r"]);
    assert_eq!(status["state"], "done", "{status}");
    wait("the failure to be noted", || {
        let ledger = checkout.records("r").join("ledger.jsonl");
        let ledger = std::fs::read_to_string(ledger).ok()?;
        ledger.contains("\"not_started\"").then_some(())
    });
}
