//! A record that cannot be read costs its own worker and nobody else.

use serde_json::Value;

use crate::support::checkout::{Checkout, step};

/// The ids and words of what a wait gives at once.
fn given(checkout: &Checkout) -> Vec<(String, String)> {
    let ran = checkout.run(&["wait", "--timeout", "0"]);
    let answer: Value = serde_json::from_str(&ran.stdout).expect("an answer");
    let events = answer["events"].as_array().expect("events");
    let word = |event: &Value, key: &str| event[key].as_str().expect("a word").to_owned();
    events
        .iter()
        .map(|event| (word(event, "id"), word(event, "event")))
        .collect()
}

#[test]
fn a_torn_worker_record_degrades_one_worker_and_wakes_the_lead_once_per_episode() {
    let checkout = Checkout::with(1);
    let script = "say Status: needs-verification";
    let plan = ["one", "two"].map(|id| step(id, "kind = \"investigate\"", script));
    checkout.write("plan.toml", &plan.concat());
    checkout.fleet(&["run", "plan.toml", "--run", "r"]);
    given(&checkout);
    let sandbox = &checkout.world.sandbox;
    let path = checkout.records("r").join("workers/one.json");
    let inside = path.strip_prefix(sandbox.path("")).expect("inside");
    let whole = std::fs::read_to_string(&path).expect("a record");
    let unreachable = |id: &str| vec![(id.to_owned(), "unreachable".to_owned())];

    sandbox.write(inside, &whole[..whole.len() / 2]);
    assert_eq!(given(&checkout), unreachable("one.damaged"));
    assert_eq!(given(&checkout), []);
    let status = checkout.fleet(&["status"]);
    assert_eq!(Checkout::worker(&status, "two")["state"], "parked");
    assert_eq!(status["not_read"][0]["what"], "one", "{status}");
    let list = checkout.fleet(&["list"]);
    assert_eq!(list["runs"][0]["active"], 1, "{list}");
    let history = checkout.fleet(&["history"]);
    assert_eq!(history["launches"].as_array().map(Vec::len), Some(2));
    assert_eq!(checkout.run(&["logs", "two"]).status, 0);
    checkout.run(&["logs", "one"]).refused("record_damaged");
    assert_eq!(
        std::fs::read_to_string(&path).expect("a record"),
        whole[..whole.len() / 2]
    );

    sandbox.write(inside, &whole);
    assert_eq!(given(&checkout), []);
    sandbox.write(inside, "{");
    assert_eq!(given(&checkout), unreachable("one.damaged.2"));
}
