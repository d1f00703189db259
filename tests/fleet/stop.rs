//! `fleet stop`: ends what is meant and nothing else, loses no login, and keeps what it could not end.

use crate::support::background::Background;
use crate::support::checkout::{Checkout, holds, step};
use crate::support::sandbox::{Ran, Sandbox};
use crate::support::world::{Account, wait};

fn kill(signal: &str, pid: u32) {
    let pid = pid.to_string();
    let done = Sandbox::tool("kill").args([signal, &pid]).status();
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
    let ran = Ran::of(&mut line);
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
        let ran = Ran::of(&mut line);
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

/// What a command answers that is typed where none of these processes can be seen; `None` where nobody may make such a
/// place.
fn elsewhere(checkout: &Checkout, words: &[&str]) -> Option<Ran> {
    const OPTIONS: [&str; 2] = ["-Urpf", "--mount-proc"];
    let allowed = Sandbox::tool("unshare")
        .args(OPTIONS)
        .arg("true")
        .stderr(std::process::Stdio::null())
        .status();
    if !allowed.is_ok_and(|status| status.success()) {
        println!("SKIPPED: no pid namespace can be made here (unshare needs user namespaces)");
        return None;
    }
    let inner = checkout.line(words);
    let mut outer = Sandbox::tool("unshare");
    outer
        .args(OPTIONS)
        .arg(inner.get_program())
        .args(inner.get_args())
        .env_clear()
        .envs(
            inner
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .current_dir(&checkout.world.project)
        .stdin(std::process::Stdio::null());
    Some(Ran::of(&mut outer))
}

#[test]
fn from_another_pid_namespace_nothing_is_signalled_and_the_slot_is_kept() {
    let checkout = Checkout::with(1);
    let mut run = Background::start(&checkout, "r", &holds());
    run.until_busy("one", "a.txt");
    run.kill();
    let child = run.process("one", 1, "child");
    let Some(ran) = elsewhere(&checkout, &["stop", "one", "--force", "--timeout", "1"]) else {
        return;
    };
    assert_eq!(ran.status, 1, "{}{}", ran.stdout, ran.stderr);
    let stopped: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(stopped["confirmed"], false, "{stopped}");
    let one = &stopped["runs"][0]["workers"][0];
    assert_eq!(one["outcome"], "stop_failed", "{stopped}");
    let why = one["why"].as_str().expect("text");
    assert!(why.contains("cannot be told"), "{why}");
    let lives = || std::path::Path::new(&format!("/proc/{child}")).exists();
    assert!(lives(), "it was signalled");
    let status = run.status();
    assert_eq!(status["active"], 1, "{status}");
    let worker = Checkout::worker(&status, "one");
    assert_eq!(
        (&worker["state"], &worker["reason"]),
        (&"stop_failed".into(), &"not_seen".into()),
        "{status}"
    );
    let lease = checkout
        .world
        .lease(worker["task"].as_str().expect("a task"));
    assert_eq!(lease.expect("a lease")["verdict"], "alive");
    // Where it can be seen, it is stopped.
    let stopped = checkout.fleet(&["stop", "one"]);
    assert_eq!(stopped["confirmed"], true, "{stopped}");
    assert!(!lives());
}
