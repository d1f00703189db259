//! Every durable step of a launch, ended right after it, in each process that takes part: the next command comes to
//! the same verified result, and the worker's turn is run once.

use std::path::PathBuf;

use super::background::{Background, directory, launches, well};
use crate::crash::ABORTED;
use crate::support::checkout::{Checkout, step};
use crate::support::ran::Ran;
use crate::support::world::wait;

/// One of so many crash points is tried, all when the variable says 1.
const EVERY: &str = "AGENT_FLEET_TEST_CRASH_EVERY";
/// Moves the clock past the patience with hosts that never came.
const LATER: (&str, &str) = ("AGENT_FLEET_TEST_NOW", "+60");

/// What a worker runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    /// Files.
    Files,
    /// A screen, which goes with its host.
    Screen,
}

/// A worker that leaves a line for each time it ran.
fn plan(checkout: &Checkout, run: &str, on: On) {
    let mode = match on {
        On::Files => "headless",
        On::Screen => "terminal",
    };
    let text = step(
        "one",
        &format!(
            "mode = \"{mode}\"\nfiles = [\"a.txt\"]\naccept.commands = [\"grep -q changed a.txt\"]"
        ),
        &format!("spawn echo changed {run} >> a.txt\nsay Status: needs-verification"),
    );
    checkout.write("plan.toml", &text);
}

fn trace(checkout: &Checkout) -> PathBuf {
    checkout.world.sandbox.path("trace")
}

/// Starts a run with switches for the processes one of whose words is `only`.
fn begin(
    checkout: &Checkout,
    run: &str,
    on: On,
    only: &str,
    switches: &[(&str, &str)],
) -> Background {
    plan(checkout, run, on);
    let mut all = vec![("AGENT_FLEET_TEST_CRASH_ONLY", only)];
    all.extend(switches);
    Background::start(checkout, &["run", "plan.toml", "--run", run], &all)
}

/// Goes on with a run as far as it came, with the clock moved.
#[track_caller]
fn go_on(checkout: &Checkout, run: &str, at: &str) {
    let again = |words: &[&str]| Ran::of(checkout.line(words).env(LATER.0, LATER.1));
    let mut ran = again(&["run", "--run", run]);
    let refused = ran.status == 2;
    if refused
        && ["not_found", "step_not_ready"]
            .iter()
            .any(|code| ran.stdout.contains(code))
    {
        ran = again(&["run", "plan.toml", "--run", run]);
    }
    assert_eq!(ran.status, 0, "{at}: {}{}", ran.stdout, ran.stderr);
}

/// The run is verified, after so many attempts that came to nothing. A turn on files is run once; one on a screen may have
/// been cut off with its host.
#[track_caller]
fn verified(checkout: &Checkout, run: &str, on: On, at: &str, attempts: u64) {
    let status = checkout.fleet(&["status", "--run", run]);
    assert_eq!(status["state"], "done", "{at}: {status}");
    let step = Checkout::step(&status, "one");
    assert_eq!(step["state"], "verified", "{at}: {status}");
    assert_eq!(step["attempts"], attempts, "{at}: {status}");
    let turns = checkout.read("a.txt");
    let turns = turns.lines().filter(|line| line.ends_with(run)).count();
    let most = match on {
        On::Files => 1,
        On::Screen => 2,
    };
    assert!(
        (1..=most).contains(&turns),
        "{at}: the turn was run {turns} times"
    );
    let result = directory(checkout, run).join("result.json");
    assert!(result.exists(), "{at}: no result");
    assert!(
        launches(checkout, run, "one", "claim.json") <= 3,
        "{at}: {status}"
    );
}

/// The points that are tried: the first of each name, and one of so many others, beginning at another one for each
/// process.
fn chosen(points: &[&str], every: usize) -> Vec<usize> {
    let first =
        |index: usize| points.iter().position(|point| *point == points[index]) == Some(index);
    (0..points.len())
        .filter(|&index| first(index) || index % every == 0)
        .collect()
}

fn each_end(on: On, only: &str, every: usize) {
    let checkout = Checkout::with(1);
    let trace = trace(&checkout);
    let switch = (
        "AGENT_FLEET_TEST_CRASH_TRACE",
        trace.to_str().expect("UTF-8"),
    );
    well(
        &begin(&checkout, "traced", on, only, &[switch]).finish(),
        "traced",
    );
    verified(&checkout, "traced", on, "nowhere", 0);
    let points = std::fs::read_to_string(&trace).expect("a trace");
    let points: Vec<&str> = points.lines().collect();
    assert!(!points.is_empty(), "`{only}` passes no crash point");
    #[expect(
        clippy::disallowed_methods,
        reason = "a switch for whoever runs the tests"
    )]
    let every = std::env::var(EVERY)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(every);
    for index in chosen(&points, every) {
        let run = format!("r{index}");
        let at = format!("`{only}` ended at {} ({index})", points[index]);
        let once = checkout.world.sandbox.path(format!("ended-{run}"));
        let number = (index + 1).to_string();
        let switches = [
            ("AGENT_FLEET_TEST_CRASH_AT", number.as_str()),
            ("AGENT_FLEET_TEST_CRASH_ONCE", once.to_str().expect("UTF-8")),
        ];
        let mut first = begin(&checkout, &run, on, only, &switches);
        if only == "_host" {
            // The one that drives the run would wait for a host that never came.
            wait("the end of the host", || {
                (once.exists() || first.has_ended()).then_some(())
            });
            first.kill();
        } else {
            let ran = first.finish();
            // One that passed fewer points than the traced one came to its end.
            let ended = if only == "run" && once.exists() {
                ABORTED
            } else {
                0
            };
            assert_eq!(ran.status, ended, "{at}: {}{}", ran.stdout, ran.stderr);
        }
        if only != "exec" && once.exists() {
            go_on(&checkout, &run, &at);
        }
        // A process that ends before the broker has an answer for it may cost one attempt, and so may one whose screen
        // went away.
        let status = checkout.fleet(&["status", "--run", &run]);
        let attempts = Checkout::step(&status, "one")["attempts"].as_u64();
        let most = u64::from(only == "exec" || (on, only) == (On::Screen, "_host"));
        let attempts = attempts.unwrap_or(9);
        assert!(attempts <= most, "{at}: {status}");
        verified(&checkout, &run, on, &at, attempts);
    }
}

#[test]
fn a_run_survives_any_end_of_the_command_that_drives_it() {
    each_end(On::Files, "run", 16);
}

#[test]
fn a_run_survives_any_end_of_a_host() {
    each_end(On::Files, "_host", 8);
}

#[test]
fn a_run_survives_any_end_of_what_becomes_the_worker() {
    each_end(On::Files, "exec", 12);
}

#[test]
fn a_run_on_a_screen_survives_any_end_of_its_host() {
    each_end(On::Screen, "_host", 16);
}

#[test]
fn a_run_on_a_screen_survives_any_end_of_what_becomes_the_worker() {
    each_end(On::Screen, "exec", 24);
}

#[test]
fn a_child_that_always_ends_behind_its_gate_is_tried_as_often_as_attempts_are_left() {
    let checkout = Checkout::with(1);
    let switch = ("AGENT_FLEET_TEST_CRASH_AT", "turn.passed");
    let ran = begin(&checkout, "r", On::Files, "_turn", &[switch]).finish();
    let status = checkout.fleet(&["status", "--run", "r"]);
    assert_eq!(status["state"], "failed", "{status} {}", ran.stderr);
    let step = Checkout::step(&status, "one");
    assert_eq!(
        (&step["attempts"], &step["reason"]),
        (&2.into(), &"killed".into())
    );
    assert_eq!(checkout.read("a.txt"), "as it was\n");
}
