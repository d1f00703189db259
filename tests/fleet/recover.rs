//! `fleet recover`: a worker is given up on somebody's word, and what comes of it later changes nothing.

use std::fs;

use crate::support::background::Background;
use crate::support::checkout::{Checkout, holds, step};
use crate::support::sandbox::Sandbox;
use crate::support::world::wait;

fn kill(pid: u32) {
    let mut kill = Sandbox::tool("kill");
    let done = kill.args(["-KILL", &pid.to_string()]).status();
    assert!(done.expect("kill runs").success());
}

#[test]
fn a_worker_that_nobody_can_see_is_given_up_with_evidence_and_only_when_it_is_gone() {
    let checkout = Checkout::with(1);
    checkout.write("evidence", "The machine was rebooted.\n");
    checkout.write("empty", " \n");
    let mut run = Background::start(&checkout, "r", &holds());
    run.until_busy("one", "a.txt");
    run.kill();
    let processes = ["host", "child"].map(|which| run.process("one", 1, which));
    let started = run.launch("one", 1, "started.json");
    let kept = fs::read(&started).expect("it started");
    checkout.world.sandbox.write(&started, "{");
    let recover = ["recover", "one", "--evidence", "evidence"];
    checkout.run(&recover).refused("worker_active");
    let one = run.until("one", "unknown");
    assert_eq!(one["reason"], "record_damaged");
    for process in processes {
        kill(process);
    }
    wait("the lease to end", || {
        let task = one["task"].as_str().expect("a task");
        let lease = checkout.world.lease(task);
        lease
            .is_none_or(|lease| lease["verdict"] == "dead")
            .then_some(())
    });
    checkout
        .run(&["recover", "one", "--evidence", "empty"])
        .refused("usage");
    checkout
        .run(&["recover", "one", "--evidence", "none"])
        .refused("io");
    let status = checkout.fleet(&recover);
    let one = Checkout::worker(&status, "one");
    assert_eq!(
        (&one["state"], &one["reason"]),
        (&"exited".into(), &"recovered".into())
    );
    assert_eq!(Checkout::step(&status, "one")["state"], "blocked");
    assert_eq!(
        checkout.fleet(&recover),
        status,
        "once more changes nothing"
    );
    let evidence = run.directory().join("receipts/recover.one.1.evidence");
    assert_eq!(
        fs::read_to_string(evidence).expect("kept"),
        "The machine was rebooted.\n"
    );

    // What comes of the old launch after all changes nothing.
    checkout.world.sandbox.write(&started, kept);
    let record: serde_json::Value =
        serde_json::from_slice(&fs::read(run.record("one")).expect("a record")).expect("JSON");
    let exit = serde_json::json!({
        "schema": 1, "token": record["token"], "status": 0, "signal": null,
        "at": "2026-01-01T00:00:00Z",
    });
    checkout
        .world
        .sandbox
        .write(run.launch("one", 1, "exit.json"), exit.to_string());
    assert_eq!(run.status(), status);
    checkout.run(&["stop", "--all"]).success();
}

#[test]
fn a_host_that_is_late_finds_its_launch_given_up() {
    let checkout = Checkout::with(1);
    checkout.write("evidence", "It hangs.\n");
    let hold = checkout.world.sandbox.write("hold-hosts", "");
    let hold = hold.to_str().expect("UTF-8").to_owned();
    let variables = [
        ("AGENT_FLEET_TEST_HOLD_AT", "host.begun"),
        ("AGENT_FLEET_TEST_HOLD", hold.as_str()),
    ];
    let mut run = Background::start_with(&checkout, "r", &holds(), &variables);
    run.until("one", "launching");
    checkout.fleet(&["recover", "one", "--evidence", "evidence"]);
    fs::remove_file(&hold).expect("it is there");
    assert_eq!(run.ended().success()["state"], "blocked");
    assert_eq!(checkout.read("a.txt"), "as it was\n");
}

#[test]
fn a_damaged_record_is_kept_and_its_worker_given_up() {
    let checkout = Checkout::with(1);
    checkout.write("evidence", "I looked.\n");
    let plan = step("one", "files = [\"a.txt\"]", "say Status: blocked");
    let run = Background::start(&checkout, "r", &plan);
    run.until("one", "parked");
    let record = run.record("one");
    checkout.world.sandbox.write(&record, "{\"schema\":1");
    let status = run.status();
    assert_eq!(status["active"], 1, "it may run: {status}");
    let stop = checkout.run(&["stop", "one"]);
    assert_eq!(stop.status, 1, "{}", stop.stdout);
    let status = checkout.fleet(&["recover", "one", "--evidence", "evidence"]);
    assert_eq!(
        Checkout::worker(&status, "one")["reason"],
        "recovered",
        "{status}"
    );
    assert_eq!(status["active"], 0);
    let corrupt = format!("{}.corrupt", record.display());
    assert_eq!(fs::read_to_string(corrupt).expect("kept"), "{\"schema\":1");
}

#[test]
fn a_recovery_that_was_cut_short_anywhere_is_finished_by_the_next() {
    let checkout = Checkout::with(1);
    checkout.write("evidence", "I looked.\n");
    checkout.write(
        "plan.toml",
        &step("one", "files = [\"a.txt\"]", "say Status: blocked"),
    );
    for point in 1.. {
        let name = format!("r{point}");
        checkout.fleet(&["run", "plan.toml", "--run", &name]);
        let record = Background::record_of(&checkout, &name, "one");
        checkout.world.sandbox.write(&record, "{");
        let words = ["recover", "one", "--evidence", "evidence", "--run", &name];
        let mut line = checkout.line(&words);
        line.env("AGENT_FLEET_TEST_CRASH_AT", point.to_string());
        let ran = crate::support::sandbox::Ran::of(&mut line);
        let cut = ran.status == crate::crash::ABORTED;
        assert!(cut || ran.status == 0, "{point}: {}", ran.stderr);
        let status = checkout.fleet(&words);
        assert_eq!(
            Checkout::worker(&status, "one")["reason"],
            "recovered",
            "{point}"
        );
        assert_eq!(
            Checkout::step(&status, "one")["state"],
            "blocked",
            "{point}"
        );
        let corrupt = format!("{}.corrupt", record.display());
        assert_eq!(fs::read_to_string(corrupt).expect("kept"), "{", "{point}");
        if !cut {
            assert!(point > 8, "only {point} durable steps");
            return;
        }
    }
}
