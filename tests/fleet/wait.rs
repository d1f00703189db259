//! `fleet wait`: every event once to every consumer, and nothing spent in between.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::checkout::{Checkout, step};
use crate::support::sandbox::Ran;
use crate::support::world::wait;

const HANDED_BACK: &str = "say Status: needs-verification";

/// The ids of the events of an answer.
fn ids(ran: &Ran) -> Vec<String> {
    let answer: Value = serde_json::from_str(&ran.stdout).expect("an answer");
    let events = answer["events"].as_array().expect("events");
    let id = |event: &Value| event["id"].as_str().expect("an id").to_owned();
    events.iter().map(id).collect()
}

/// A checkout whose run `r` is over.
fn done() -> Checkout {
    let checkout = Checkout::with(1);
    checkout.write(
        "plan.toml",
        &step("one", "kind = \"investigate\"", HANDED_BACK),
    );
    let status = checkout.fleet(&["run", "plan.toml", "--run", "r"]);
    assert_eq!(status["state"], "done", "{status}");
    checkout
}

#[test]
fn two_consumers_at_once_are_each_given_every_event_once() {
    let checkout = Checkout::with(2);
    let investigate = |id: &str| {
        let script = format!("hold go-{id}\n{HANDED_BACK}");
        step(id, "kind = \"investigate\"", &script)
    };
    let plan = [investigate("one"), investigate("two")].concat();
    checkout.write("plan.toml", &plan);
    let run = checkout.start(&["run", "plan.toml", "--run", "r"]);
    checkout.until("r", "one", "running");
    checkout.until("r", "two", "running");
    let consumers = ["lead", "other"];
    let line = |consumer| ["wait", "--timeout", "60", "--consumer", consumer];
    let waits = consumers.map(|consumer| checkout.start(&line(consumer)));
    checkout.write("go-one", "");
    let mut given = waits.map(|wait| {
        let ran = wait.ended();
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        ids(&ran)
    });
    for given in &given {
        assert_eq!(given[0], "one.1.report");
    }
    checkout.write("go-two", "");
    for (consumer, given) in consumers.iter().zip(&mut given) {
        while given.last().map(String::as_str) != Some("run.done") {
            let ran = checkout.run(&line(consumer));
            assert_eq!(ran.status, 0, "{}", ran.stdout);
            given.extend(ids(&ran));
        }
        assert_eq!(given[..], ["one.1.report", "two.1.report", "run.done"]);
    }
    assert_eq!(run.ended().status, 0);
}

#[test]
fn waits_of_one_consumer_share_its_events_and_nothing_is_given_twice() {
    let checkout = done();
    let waits: Vec<_> = (0..4)
        .map(|_| checkout.start(&["wait", "--timeout", "0"]))
        .collect();
    let mut given: Vec<String> = Vec::new();
    for wait in waits {
        given.extend(ids(&wait.ended()));
    }
    assert_eq!(given, ["one.1.report", "run.done"]);
    let over = checkout.run(&["wait", "--timeout", "60"]);
    let answer: Value = serde_json::from_str(&over.stdout).expect("an answer");
    assert_eq!((over.status, &answer["timed_out"]), (3, &json!(true)));
    assert_eq!(
        (&answer["state"], &answer["pending"]),
        (&json!("done"), &json!([]))
    );
    let every = checkout.run(&[
        "wait",
        "--timeout",
        "0",
        "--any-change",
        "--consumer",
        "all",
    ]);
    let every = ids(&every);
    assert!(every.contains(&"launch.one.1".to_owned()), "{every:?}");
    assert!(every.contains(&"one.1.report".to_owned()), "{every:?}");
}

#[test]
fn a_killed_wait_loses_nothing_and_one_killed_after_printing_gives_the_same_ids_again() {
    let checkout = Checkout::with(1);
    let script = format!("hold go\n{HANDED_BACK}");
    checkout.write("plan.toml", &step("one", "kind = \"investigate\"", &script));
    let run = checkout.start(&["run", "plan.toml", "--run", "r"]);
    checkout.until("r", "one", "running");
    let pending = checkout.run(&["wait", "--timeout", "0"]);
    let answer: Value = serde_json::from_str(&pending.stdout).expect("an answer");
    assert_eq!(pending.status, 3);
    assert_eq!(answer["pending"][0]["name"], "one", "{answer}");
    checkout.start(&["wait", "--timeout", "60"]).kill();
    checkout.write("go", "");
    assert_eq!(run.ended().status, 0);
    assert_eq!(
        ids(&checkout.run(&["wait", "--timeout", "60"])),
        ["one.1.report", "run.done"]
    );

    let trace = checkout.world.sandbox.path("trace");
    let line = |consumer| ["wait", "--timeout", "60", "--consumer", consumer];
    let mut traced = checkout.line(&line("traced"));
    let ran = Ran::of(traced.env("AGENT_FLEET_TEST_CRASH_TRACE", &trace));
    assert_eq!(ran.status, 0);
    let passed = std::fs::read_to_string(&trace).expect("a trace");
    let mut points = passed.lines();
    let at = points.position(|point| point.contains("consumer.given"));
    let at = at.expect("the point is passed") + 1;
    let mut killed = checkout.line(&line("killed"));
    let killed = Ran::of(killed.env("AGENT_FLEET_TEST_CRASH_AT", at.to_string()));
    assert_ne!(killed.status, 0);
    assert_eq!(ids(&killed), ["one.1.report", "run.done"]);
    let again = checkout.run(&line("killed"));
    assert_eq!(ids(&again), ids(&killed));
    assert_eq!(checkout.run(&line("killed")).status, 3);
}

/// How often a process gave up the processor by itself.
fn sleeps(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
    line.trim().parse().ok()
}

/// Whether a process has begun to be told of changes to files.
fn watches_files(pid: u32) -> bool {
    let open = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten();
    let links = open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    links
        .into_iter()
        .any(|link| link.to_str() == Some("anon_inode:inotify"))
}

#[test]
fn fifty_parked_workers_cost_no_process_and_no_polling() {
    let checkout = Checkout::parked();
    while checkout.run(&["wait", "--timeout", "0"]).status == 0 {}
    let status = checkout.fleet(&["status"]);
    assert_eq!(status["workers"].as_array().map(Vec::len), Some(50));
    let waiting = checkout.start(&["wait", "--timeout", "600"]);
    let look = || {
        let before = sleeps(waiting.pid());
        checkout.fleet(&["status"]);
        (sleeps(waiting.pid()), before)
    };
    // A busy machine may not have let it begin: it sleeps once it has slept, and still does three looks later.
    let mut still = 0;
    wait("it to fall asleep", || {
        let (now, before) = look();
        let sleeps = watches_files(waiting.pid()) && now == before && now > Some(0);
        still = if sleeps { still + 1 } else { 0 };
        (still == 3).then_some(())
    });
    let asleep = sleeps(waiting.pid());
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(2500) {
        look();
    }
    assert_eq!(sleeps(waiting.pid()), asleep, "it woke up for nothing");
    let state = checkout.world.sandbox.path("state");
    let state = state.to_str().expect("UTF-8");
    let living = agent_fleet::sys::process::carrying("AGENT_FLEET_STATE_DIR", state);
    assert_eq!(living.expect("a list"), [waiting.pid()]);
}
