//! `fleet hold` and `release`: launches stop, and nothing else; and what a worker of a fleet may type.

use crate::support::checkout::{Checkout, step};
use crate::support::sandbox::Ran;

const DONE: &str = "write a.txt changed\nsay Status: needs-verification";

#[test]
fn held_launches_wait_until_they_are_released() {
    let checkout = Checkout::with(1);
    let plan = [
        step("one", "files = [\"a.txt\"]", DONE),
        step("two", "files = [\"b.txt\"]", DONE),
    ];
    checkout.plan("r", &plan);
    checkout.run(&["release"]).refused("not_found");
    let held = checkout.fleet(&["hold", "--reason", "lunch", "--for", "30m"]);
    assert_eq!(held["hold"]["scope"], "run");
    let status = checkout.fleet(&["status"]);
    assert_eq!(status["state"], "paused", "{status}");
    assert_eq!(status["reason"], "held");
    assert_eq!(status["holds"][0]["reason"], "lunch");
    let refused = checkout.run(&["launch", "one"]).refused("held");
    assert_eq!(refused["retry_at"], held["hold"]["expires"]);
    let rows = checkout.fleet(&["launch", "--ready"])["rows"].clone();
    assert_eq!(rows.as_array().expect("rows").len(), 2);
    assert!(
        rows.as_array()
            .expect("rows")
            .iter()
            .all(|row| row["code"] == "held"),
        "{rows}"
    );
    // A wider one stays when the narrower one goes.
    checkout.fleet(&["hold", "--scope", "host"]);
    checkout.run(&["release"]).refused("usage");
    checkout.fleet(&["release", "--scope", "run"]);
    checkout.run(&["launch", "one"]).refused("held");
    checkout.fleet(&["release"]);
    assert_eq!(checkout.fleet(&["status"])["state"], "planned");
    checkout.fleet(&["hold", "--step", "two"]);
    assert_eq!(checkout.fleet(&["status"])["state"], "planned");
    checkout.run(&["launch", "two"]).refused("held");
    checkout.fleet(&["launch", "one"]);
    checkout.until_step("r", "one", "reported");
    for wrong in [
        &["hold", "--for", "0s"][..],
        &["hold", "--scope", "step"],
        &["hold", "--for", "x"],
    ] {
        checkout.run(wrong).refused("usage");
    }
    // What cannot be read is neither open nor held for ever.
    checkout.world.sandbox.write("state/fleet/holds.json", "{");
    let damaged = checkout.run(&["launch", "two"]).refused("record_damaged");
    assert!(
        damaged["error"]
            .as_str()
            .expect("text")
            .contains("holds.json"),
        "{damaged}"
    );
}

#[test]
fn a_worker_of_a_fleet_steers_nothing() {
    let checkout = Checkout::with(1);
    checkout.plan("r", &[step("one", "files = [\"a.txt\"]", DONE)]);
    let lines: [&[&str]; 14] = [
        &["init", "s"],
        &["plan", "--file", "plan.toml"],
        &["add", "--file", "plan.toml"],
        &["drop", "one", "--reason", "x"],
        &["steer", "one", "reset"],
        &["prompt", "one"],
        &["launch", "one"],
        &["launch", "--ready"],
        &["verify", "one", "--evidence", "plan.toml"],
        &["merge", "one"],
        &["hold"],
        &["release"],
        &["run", "plan.toml"],
        &["skill", "install", "--dir", "skills"],
    ];
    let before = checkout.bytes_of("r");
    for words in lines {
        let mut line = checkout.line(words);
        line.env("AGENT_FLEET_LABEL_FLEET_TOKEN", "t");
        Ran::of(&mut line).refused("nested");
    }
    assert!(before == checkout.bytes_of("r"));
    let mut look = checkout.line(&["status"]);
    look.env("AGENT_FLEET_LABEL_FLEET_TOKEN", "t");
    Ran::of(&mut look).success();
}
