//! What a fleet never does, whatever it is asked.

use std::process::Stdio;

use crate::support::checkout::{Checkout, step};
use crate::support::world::wait;

#[test]
fn a_checkout_has_one_run_with_workers_at_a_time() {
    let checkout = Checkout::with(2);
    let script = "spawn echo begun >> a.txt\nhold ../go\nsay Status: needs-verification";
    checkout.write("plan.toml", &step("one", "files = [\"a.txt\"]", script));
    let mut first = checkout
        .line(&["run", "plan.toml", "--run", "first"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    wait("the worker", || {
        checkout.read("a.txt").contains("begun").then_some(())
    });
    let other = step(
        "two",
        "files = [\"b.txt\"]",
        "say Status: needs-verification",
    );
    checkout.write("other.toml", &other);
    let refused = checkout.run(&["run", "other.toml", "--run", "second"]);
    refused.refused("run_active");
    checkout
        .run(&["status", "--run", "second"])
        .refused("not_found");
    checkout.world.sandbox.write("go", "");
    assert!(first.wait().expect("a child of ours").success());
    let status = checkout.fleet(&["run", "other.toml", "--run", "second"]);
    assert_eq!(status["state"], "done", "{status}");
}

#[test]
fn a_worker_of_a_fleet_starts_none() {
    let checkout = Checkout::with(1);
    let program = env!("CARGO_BIN_EXE_agent-fleet");
    let script = format!(
        "spawn {program} --format json fleet run 'do more' --worktree --run inner > b.txt 2>&1; true\n\
         say Status: needs-verification"
    );
    let keys = "files = [\"a.txt\", \"b.txt\"]";
    checkout.write("plan.toml", &step("one", keys, &script));
    let status = checkout.fleet(&["run", "plan.toml", "--run", "r"]);
    assert_eq!(status["state"], "done", "{status}");
    let said = checkout.read("b.txt");
    assert!(said.contains("\"nested\""), "{said}");
    checkout
        .run(&["status", "--run", "inner"])
        .refused("not_found");
}

#[test]
fn what_a_check_writes_is_no_change_and_a_failed_one_goes_back_to_the_worker() {
    let checkout = Checkout::with(1);
    let keys = "files = [\"a.txt\"]\n\
                accept.commands = [\"echo built > built.txt; grep -q 'turn.turn' a.txt\"]";
    let script = "spawn printf turn- >> a.txt\n\
                  write .fleet/runs/r/reports/one.md Status: needs-verification\nsay done";
    checkout.write("plan.toml", &step("one", keys, script));
    let status = checkout.fleet(&["run", "plan.toml", "--run", "r"]);
    assert_eq!(status["state"], "done", "{status}");
    let reports = checkout.world.project.join(".fleet/runs/r/reports");
    let entries = std::fs::read_dir(reports).expect("the reports");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let aside = names.filter(|name| name.to_string_lossy().ends_with(".previous"));
    assert_eq!(aside.count(), 1, "the first turn's report is set aside");
    let worker = Checkout::worker(&status, "one");
    assert_eq!(worker["launch"], 2, "{status}");
    assert_eq!(Checkout::step(&status, "one")["attempts"], 1, "{status}");
    assert_eq!(checkout.read("a.txt"), "as it was\nturn-turn-");
    assert_eq!(checkout.read("built.txt"), "built\n");
    let prompt = checkout.read(".fleet/runs/r/prompts/one.2.md");
    assert!(prompt.contains("Put it right"), "{prompt}");
}

#[test]
fn resuming_a_run_says_what_is_next_and_launches_nothing() {
    let checkout = Checkout::with(1);
    let script = "write a.txt changed\nsay Status: needs-verification";
    checkout.write("plan.toml", &step("one", "files = [\"a.txt\"]", script));
    checkout.fleet(&["init", "r"]);
    checkout.fleet(&["plan", "--file", "plan.toml"]);
    let resumed = checkout.fleet(&["resume", "r"]);
    assert_eq!(resumed["state"], "planned", "{resumed}");
    assert_eq!(resumed["workers"], serde_json::json!([]), "{resumed}");
    let next = resumed["next"].to_string();
    assert!(next.contains("agent-fleet fleet launch"), "{next}");
    assert_eq!(checkout.read("a.txt"), "as it was\n");
}

#[test]
fn a_wait_has_bounds() {
    let checkout = Checkout::with(1);
    for words in [
        ["--timeout", "86401"],
        ["--timeout", "NaN"],
        ["--settle", "61"],
        ["--settle", "x"],
    ] {
        checkout.run(&["wait", words[0], words[1]]).refused("usage");
    }
}

#[test]
fn a_change_while_it_is_checked_is_checked_again() {
    let checkout = Checkout::with(1);
    let keys = "files = [\"a.txt\"]\n\
                accept.commands = [\"test -e ../checked || echo more >> a.txt; echo run >> ../checked\"]";
    let script = "write a.txt changed\nsay Status: needs-verification";
    checkout.write("plan.toml", &step("one", keys, script));
    let status = checkout.fleet(&["run", "plan.toml", "--run", "r"]);
    assert_eq!(status["state"], "done", "{status}");
    assert_eq!(checkout.read("a.txt"), "changed\nmore\n");
    assert_eq!(checkout.read("../checked"), "run\nrun\n");
    assert_eq!(Checkout::worker(&status, "one")["launch"], 1, "{status}");
}
