//! `fleet stop`: ends what is meant and nothing else, loses no login, and keeps what it could not end.

use crate::support::background::Background;
use crate::support::checkout::{Checkout, step};
use crate::support::world::{Account, wait};

const HOLDS: &str = "write a.txt begun\nhold never";

fn holds() -> String {
    step("one", "files = [\"a.txt\"]", HOLDS)
}

fn kill(signal: &str, pid: u32) {
    let pid = pid.to_string();
    let done = crate::support::sandbox::Sandbox::tool("kill")
        .args([signal, &pid])
        .status();
    assert!(done.expect("kill runs").success(), "kill {signal} {pid}");
}

#[test]
fn a_stopped_worker_stays_stopped_and_the_others_go_on() {
    let checkout = Checkout::with(2);
    checkout.write("wanted", "");
    let other = "write b.txt begun\nhold go\nwrite b.txt done\nsay Status: needs-verification";
    let plan = holds() + &step("two", "files = [\"b.txt\"]", other);
    let mut run = Background::start(&checkout, "r", &plan);
    run.until_busy("one", "a.txt");
    run.until_busy("two", "b.txt");
    let stopped = checkout.fleet(&["stop", "one"]);
    assert_eq!(stopped["confirmed"], true, "{stopped}");
    assert_eq!(stopped["runs"][0]["workers"][0]["outcome"], "stopped");
    checkout.run(&["stop", "nobody"]).refused("not_found");
    checkout.run(&["stop"]).refused("usage");
    checkout.write("go", "go");
    let ended = run.ended();
    let status = ended.success();
    assert_eq!(status["state"], "blocked", "{status}");
    let one = Checkout::worker(&status, "one");
    assert_eq!(
        (&one["state"], &one["launch"]),
        (&"exited".into(), &1.into())
    );
    let step = Checkout::step(&status, "one");
    assert_eq!(
        (&step["state"], &step["reason"]),
        (&"blocked".into(), &"stopped".into())
    );
    assert_eq!(Checkout::step(&status, "two")["state"], "verified");
    let again = checkout.fleet(&["stop", "one"]);
    assert_eq!(again["runs"][0]["workers"][0]["outcome"], "idle");
}

#[test]
fn a_run_that_is_stopped_as_a_whole_is_over() {
    let checkout = Checkout::with(1);
    let plan = holds() + &step("two", "files = [\"b.txt\"]\nneeds = [\"one\"]", "say hi");
    let mut run = Background::start(&checkout, "r", &plan);
    run.until_busy("one", "a.txt");
    let stopped = checkout.fleet(&["stop", "--all"]);
    assert_eq!(stopped["runs"][0]["state"], "stopped", "{stopped}");
    assert_eq!(run.ended().success()["state"], "stopped");
    checkout.run(&["send", "one", "say hi"]).refused("run_over");
    checkout.run(&["resume", "r"]).refused("run_over");
}

#[test]
fn a_launch_that_its_host_has_not_claimed_never_begins() {
    let checkout = Checkout::with(1);
    let hold = checkout.world.sandbox.write("hold-hosts", "");
    let hold = hold.to_str().expect("UTF-8").to_owned();
    let variables = [
        ("AGENT_FLEET_TEST_HOLD_AT", "host.begun"),
        ("AGENT_FLEET_TEST_HOLD", hold.as_str()),
    ];
    let mut run = Background::start_with(&checkout, "r", &holds(), &variables);
    run.until("one", "launching");
    let stopped = checkout.fleet(&["stop", "one"]);
    assert_eq!(stopped["runs"][0]["workers"][0]["outcome"], "revoked");
    std::fs::remove_file(&hold).expect("it is there");
    let status = run.ended().success();
    assert_eq!(
        Checkout::step(&status, "one")["reason"],
        "stopped",
        "{status}"
    );
    assert_eq!(checkout.read("a.txt"), "as it was\n");
    assert!(checkout.world.requests("turn").is_empty());
}

/// Stops a worker in the middle of the refresh that its start begins; says whether its login works afterwards.
fn stopped_while_refreshing(faults: &str) -> (bool, String) {
    let checkout = Checkout::new(&[Account::new("one").expires_in(60)]);
    checkout.world.change("one", |account| {
        account["refresh_latency_seconds"] = 1.5.into();
        account["reuse_revokes"] = true.into();
    });
    let run = Background::start(&checkout, "r", &holds());
    let spent = checkout.world.service().join("spent");
    wait("the refresh to begin", || {
        std::fs::read_dir(&spent).ok()?.next().map(drop)
    });
    let mut line = checkout.line(&["stop", "one"]);
    line.env("AGENT_FLEET_TEST_FAULTS", faults);
    let ran = crate::support::sandbox::Ran::of(&mut line);
    let told = ran.stderr.clone();
    assert_eq!(ran.success()["confirmed"], true);
    drop(run);
    let after = checkout.world.exec("after", "say hi");
    (after.status == 0, told)
}

#[test]
fn a_stop_waits_for_a_refresh_and_the_login_is_kept() {
    let (works, told) = stopped_while_refreshing("");
    assert!(works, "the login is lost");
    assert!(told.contains("has refreshed its login"), "{told}");
}

#[test]
fn without_the_gate_a_stop_loses_the_login() {
    let (works, _) = stopped_while_refreshing("no-start-gate");
    assert!(!works, "nothing is protected here");
}

#[test]
fn what_does_not_end_keeps_its_place_until_it_is_killed() {
    let checkout = Checkout::with(2);
    let other = "write b.txt begun\nhold never";
    let plan = holds() + &step("two", "files = [\"b.txt\"]", other);
    let run = Background::start(&checkout, "r", &plan);
    run.until_busy("one", "a.txt");
    run.until_busy("two", "b.txt");
    kill("-STOP", run.process("one", 1, "child"));
    let ran = checkout.run(&["stop", "one", "two", "--timeout", "1"]);
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    let stopped: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let workers = &stopped["runs"][0]["workers"];
    assert_eq!(workers[0]["outcome"], "stop_failed", "{stopped}");
    assert_eq!(workers[1]["outcome"], "stopped", "{stopped}");
    let status = run.status();
    assert_eq!(Checkout::worker(&status, "one")["state"], "stop_failed");
    assert_eq!(status["active"], 1, "it keeps its place");
    let killed = checkout.fleet(&["stop", "one", "--timeout", "0", "--force"]);
    assert_eq!(killed["runs"][0]["workers"][0]["outcome"], "stopped");
    assert_eq!(Checkout::step(&run.status(), "one")["reason"], "stopped");
}

#[test]
fn an_end_that_comes_late_frees_the_place() {
    let checkout = Checkout::with(1);
    let run = Background::start(&checkout, "r", &holds());
    run.until_busy("one", "a.txt");
    let pid = run.process("one", 1, "child");
    kill("-STOP", pid);
    assert_eq!(checkout.run(&["stop", "one", "--timeout", "0"]).status, 1);
    kill("-CONT", pid);
    let one = run.until("one", "exited");
    assert_eq!(one["reason"], "stopped");
}

#[test]
fn a_worker_whose_host_died_is_stopped_all_the_same() {
    let checkout = Checkout::with(1);
    let mut run = Background::start(&checkout, "r", &holds());
    run.until_busy("one", "a.txt");
    run.kill();
    kill("-KILL", run.process("one", 1, "host"));
    let stopped = checkout.fleet(&["stop", "--host"]);
    assert_eq!(stopped["confirmed"], true, "{stopped}");
    assert_eq!(Checkout::step(&run.status(), "one")["reason"], "stopped");
    assert_eq!(run.status()["state"], "stopped");
}

#[test]
fn a_stop_that_was_cut_short_anywhere_is_finished_by_the_next() {
    let checkout = Checkout::with(1);
    for point in 1.. {
        checkout.write("a.txt", "");
        let name = format!("r{point}");
        let mut run = Background::start(&checkout, &name, &holds());
        run.until_busy("one", "a.txt");
        let mut line = checkout.line(&["stop", "one", "--run", &name]);
        line.env("AGENT_FLEET_TEST_CRASH_AT", point.to_string());
        let ran = crate::support::sandbox::Ran::of(&mut line);
        let cut = ran.status == crate::crash::ABORTED;
        assert!(cut || ran.status == 0, "{point}: {}", ran.stderr);
        let stopped = checkout.fleet(&["stop", "one", "--run", &name]);
        assert_eq!(stopped["confirmed"], true, "{point}: {stopped}");
        let status = run.ended().success();
        let step = Checkout::step(&status, "one");
        assert_eq!(step["reason"], "stopped", "{point}: {status}");
        assert_eq!(Checkout::worker(&status, "one")["launch"], 1);
        if !cut {
            assert!(point > 8, "only {point} durable steps");
            return;
        }
    }
}
