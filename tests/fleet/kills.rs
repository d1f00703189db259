//! SIGKILL to each process of a run, at moments that a seed decides: the run comes to the same verified result, no
//! turn is run twice, and none is lost.

use super::background::{Background, HeldBack, kill, launches, lives, pid, until, well};
use crate::support::checkout::{Checkout, step};
use crate::support::ran::Ran;
use crate::support::world::wait;

/// Moves the clock past the patience with hosts that never came.
const LATER: (&str, &str) = ("AGENT_FLEET_TEST_NOW", "+60");
const ASKS: &str = "say Status: needs-verification";

/// Two steps, the second after the first; each leaves a line for each time that it ran.
fn plan(checkout: &Checkout, run: &str) {
    let one = format!("spawn echo {run} >> a.txt\n{ASKS}");
    let two = format!("spawn echo {run} >> b.txt\n{ASKS}");
    let text = [
        step("one", "files = [\"a.txt\"]", &one),
        step("two", "files = [\"b.txt\"]\nneeds = [\"one\"]", &two),
    ];
    checkout.write("plan.toml", &text.concat());
}

fn lines(checkout: &Checkout, file: &str, line: &str) -> usize {
    let text = checkout.read(file);
    text.lines().filter(|found| *found == line).count()
}

/// A worker that says that it began, and goes on once a file is there.
fn held(checkout: &Checkout, keys: &str) {
    let script = format!("spawn echo begun >> a.txt\nhold ../go\n{ASKS}");
    let text = format!("{keys}\n{}", step("one", "files = [\"a.txt\"]", &script));
    checkout.write("plan.toml", &text);
}

fn go(checkout: &Checkout) {
    checkout.world.sandbox.write("go", "");
}

#[track_caller]
fn go_on(checkout: &Checkout, run: &str) {
    let ran = Ran::of(checkout.line(&["run", "--run", run]).env(LATER.0, LATER.1));
    assert_eq!(ran.status, 0, "{run}: {}{}", ran.stdout, ran.stderr);
}

#[test]
fn a_supervisor_killed_at_any_moment_loses_no_turn_and_runs_none_twice() {
    let checkout = Checkout::with(2);
    let mut seed: u64 = 0x5eed_f1ee;
    for number in 0..5 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let moment = usize::try_from(seed >> 33).expect("31 bits") % 110;
        let run = format!("k{number}");
        plan(&checkout, &run);
        let trace = checkout.world.sandbox.path(format!("trace-{number}"));
        let mut first = Background::start(
            &checkout,
            &["run", "plan.toml", "--run", &run],
            &[(
                "AGENT_FLEET_TEST_CRASH_TRACE",
                trace.to_str().expect("UTF-8"),
            )],
        );
        wait("the moment", || {
            let text = std::fs::read_to_string(&trace).unwrap_or_default();
            (text.lines().count() >= moment || first.has_ended()).then_some(())
        });
        first.kill();
        let ran = Ran::of(checkout.line(&["run", "--run", &run]).env(LATER.0, LATER.1));
        let refused = ran.status == 2;
        if refused
            && ["not_found", "step_not_ready"]
                .iter()
                .any(|code| ran.stdout.contains(code))
        {
            well(&checkout.run(&["run", "plan.toml", "--run", &run]), &run);
        } else {
            assert_eq!(
                ran.status, 0,
                "{run} at {moment}: {}{}",
                ran.stdout, ran.stderr
            );
        }
        let status = checkout.fleet(&["status", "--run", &run]);
        assert_eq!(status["state"], "done", "{run} at {moment}: {status}");
        for (id, file) in [("one", "a.txt"), ("two", "b.txt")] {
            let step = Checkout::step(&status, id);
            assert_eq!(step["state"], "verified", "{run} at {moment}: {status}");
            assert_eq!(step["attempts"], 0, "{run} at {moment}: {status}");
            assert_eq!(lines(&checkout, file, &run), 1, "{run} at {moment}");
        }
    }
}

#[test]
fn a_worker_outlives_its_killed_host_and_its_result_counts() {
    let checkout = Checkout::with(1);
    held(&checkout, "");
    let run = Background::start(&checkout, &["run", "plan.toml", "--run", "r"], &[]);
    until(&checkout, "r", "one", &["running"]);
    let (host, child) = (
        pid(&checkout, "r", "one.1", "host"),
        pid(&checkout, "r", "one.1", "child"),
    );
    wait("the worker's first line", || {
        (lines(&checkout, "a.txt", "begun") == 1).then_some(())
    });
    kill(host);
    wait("the host's end", || (!lives(host)).then_some(()));
    let adopted = until(&checkout, "r", "one", &["running"]);
    assert_eq!(adopted["launch"], 1, "{adopted}");
    assert!(lives(child), "the worker ended with its host");
    go(&checkout);
    well(&run.finish(), "the run");
    let status = checkout.fleet(&["status", "--run", "r"]);
    assert_eq!(status["state"], "done", "{status}");
    assert_eq!(Checkout::step(&status, "one")["attempts"], 0, "{status}");
    assert_eq!(Checkout::worker(&status, "one")["launch"], 1, "{status}");
    assert_eq!(lines(&checkout, "a.txt", "begun"), 1);
    assert_eq!(launches(&checkout, "r", "one", "exit.json"), 0);
}

#[test]
fn a_worker_killed_with_its_host_and_its_supervisor_is_tried_again_once() {
    let checkout = Checkout::with(1);
    held(&checkout, "");
    let mut run = Background::start(&checkout, &["run", "plan.toml", "--run", "r"], &[]);
    wait("the worker's first line", || {
        (lines(&checkout, "a.txt", "begun") == 1).then_some(())
    });
    until(&checkout, "r", "one", &["running"]);
    let pids = ["host", "child"].map(|which| pid(&checkout, "r", "one.1", which));
    run.kill();
    for pid in pids {
        kill(pid);
        wait("its end", || (!lives(pid)).then_some(()));
    }
    go(&checkout);
    go_on(&checkout, "r");
    let status = checkout.fleet(&["status", "--run", "r"]);
    assert_eq!(status["state"], "done", "{status}");
    assert_eq!(Checkout::step(&status, "one")["attempts"], 1, "{status}");
    assert_eq!(Checkout::worker(&status, "one")["launch"], 2, "{status}");
    assert_eq!(lines(&checkout, "a.txt", "begun"), 2);
}

#[test]
fn a_killed_worker_counts_as_an_attempt_and_the_last_one_fails_the_step() {
    let checkout = Checkout::with(1);
    held(&checkout, "max_attempts = 2");
    let run = Background::start(&checkout, &["run", "plan.toml", "--run", "r"], &[]);
    for launch in ["one.1", "one.2"] {
        // Before the broker has answered there is no worker yet.
        let receipt =
            super::background::record(&checkout, "r", &format!("launches/{launch}/receipt.json"));
        assert_eq!(receipt["ok"], true, "{receipt}");
        kill(pid(&checkout, "r", launch, "child"));
    }
    let ran = run.finish();
    let status = checkout.fleet(&["status", "--run", "r"]);
    assert_eq!(status["state"], "failed", "{status} {}", ran.stderr);
    let step = Checkout::step(&status, "one");
    assert_eq!(
        (&step["state"], &step["reason"]),
        (&"failed".into(), &"killed".into())
    );
    assert_eq!(step["attempts"], 2, "{status}");
}

#[test]
fn a_host_killed_before_its_claim_is_given_up_at_once_by_whoever_started_it() {
    let checkout = Checkout::with(1);
    let script = format!("spawn echo begun >> a.txt\n{ASKS}");
    checkout.write("plan.toml", &step("one", "files = [\"a.txt\"]", &script));
    let held = HeldBack::start(&checkout, "r");
    kill(held.host);
    held.let_go();
    well(&held.command.finish(), "the run");
    let claim = super::background::record(&checkout, "r", "launches/one.1/claim.json");
    assert_eq!(claim["revoked"], "host_ended", "{claim}");
    let status = checkout.fleet(&["status", "--run", "r"]);
    assert_eq!(status["state"], "done", "{status}");
    assert_eq!(Checkout::worker(&status, "one")["launch"], 2, "{status}");
    assert_eq!(Checkout::step(&status, "one")["attempts"], 0, "{status}");
    assert_eq!(lines(&checkout, "a.txt", "begun"), 1);
}

#[test]
fn a_host_that_comes_too_late_starts_nothing() {
    let checkout = Checkout::with(1);
    let script = format!("spawn echo begun >> a.txt\n{ASKS}");
    checkout.write("plan.toml", &step("one", "files = [\"a.txt\"]", &script));
    let mut held = HeldBack::start(&checkout, "r");
    held.command.kill();
    go_on(&checkout, "r");
    let claim = super::background::record(&checkout, "r", "launches/one.1/claim.json");
    assert_eq!(claim["revoked"], "overdue", "{claim}");
    held.let_go();
    wait("the end of the late host", || {
        (!lives(held.host)).then_some(())
    });
    assert!(
        !held.launch.join("started.json").exists(),
        "it was started all the same"
    );
    assert!(
        !held.launch.join("output.jsonl").exists(),
        "it was started all the same"
    );
    let status = checkout.fleet(&["status", "--run", "r"]);
    assert_eq!(status["state"], "done", "{status}");
    assert_eq!(Checkout::step(&status, "one")["attempts"], 0, "{status}");
    assert_eq!(lines(&checkout, "a.txt", "begun"), 1);
}
