//! `fleet merge`: a verified worktree arrives in the checkout or on a branch, and goes.

use crate::support::checkout::{Checkout, step};

const DONE: &str = "write new.txt made\nsay Status: needs-verification";

fn verified(checkout: &Checkout) -> std::path::PathBuf {
    checkout.plan("r", &[step("one", "worktree = true", DONE)]);
    checkout.fleet(&["launch", "one"]);
    checkout.until_step("r", "one", "reported");
    checkout.run(&["merge", "one"]).refused("step_not_ready");
    checkout.verify("r", "one").success();
    let worktrees = checkout.world.sandbox.path("share/worktrees");
    let run = std::fs::read_dir(worktrees).expect("worktrees").next();
    run.expect("a run").expect("an entry").path().join("one")
}

#[test]
fn a_verified_worktree_is_merged_once_and_removed() {
    let checkout = Checkout::with(1);
    let worktree = verified(&checkout);
    // What was accepted, and nothing that came later.
    checkout
        .world
        .sandbox
        .write(worktree.join("new.txt"), "other\n");
    checkout.run(&["merge", "one"]).refused("merge_conflict");
    checkout
        .world
        .sandbox
        .write(worktree.join("new.txt"), "made\n");
    let merged = checkout.fleet(&["merge", "one"]);
    assert_eq!(merged["outcome"], "merged");
    assert_eq!(merged["files"], serde_json::json!(["new.txt"]));
    assert_eq!(merged["worktree_removed"], true);
    assert_eq!(checkout.read("new.txt"), "made\n");
    assert!(!worktree.exists());
    assert!(!checkout.git(&["worktree", "list"]).contains("worktrees/"));
    checkout.fleet(&["check"]);
    let again = checkout.fleet(&["merge", "one"]);
    assert_eq!(again["outcome"], "already");
}

#[test]
fn a_branch_is_made_for_those_who_ask_and_the_checkout_stays() {
    let checkout = Checkout::with(1);
    let worktree = verified(&checkout);
    checkout.git(&["config", "user.name", "Ada"]);
    checkout.git(&["config", "user.email", "ada@lab.invalid"]);
    let merged = checkout.fleet(&["merge", "one", "--branch", "fleet/one"]);
    assert_eq!(merged["branch"], "fleet/one");
    assert_eq!(checkout.read("new.txt"), "");
    assert_eq!(checkout.git(&["show", "fleet/one:new.txt"]), "made\n");
    assert!(
        checkout
            .git(&["log", "-1", "--format=%s", "fleet/one"])
            .starts_with("one: ")
    );
    assert!(!worktree.exists());
}

#[test]
fn a_dropped_step_leaves_its_files_to_others_and_its_worktree_to_the_person() {
    let checkout = Checkout::with(2);
    let plan = [
        step("one", "worktree = true", DONE),
        step(
            "two",
            "files = [\"a.txt\"]",
            "write a.txt half\nsay Status: needs-verification",
        ),
    ];
    checkout.plan("r", &plan);
    checkout.fleet(&["launch", "--ready"]);
    checkout.until_step("r", "one", "reported");
    checkout.until_step("r", "two", "reported");
    let dropped = checkout.run(&["drop", "one", "--reason", "not wanted"]);
    assert!(dropped.stderr.contains("worktrees/"), "{dropped:?}");
    dropped.success();
    checkout.write("more.toml", &step("three", "files = [\"a.txt\"]", DONE));
    checkout
        .run(&["add", "--file", "more.toml"])
        .refused("plan_invalid");
    checkout.fleet(&["drop", "two", "--reason", "done otherwise"]);
    let status = checkout.fleet(&["status"]);
    assert_eq!(status["state"], "done", "{status}");
    let doctor = checkout.fleet(&["doctor"]);
    let worktrees = doctor["checks"].as_array().expect("checks").iter();
    let left = worktrees.clone().find(|check| check["id"] == "worktrees");
    assert_eq!(left.expect("the check")["level"], "warn", "{doctor}");
    let worktrees = checkout.world.sandbox.path("share/worktrees");
    let there = || {
        checkout
            .git(&["worktree", "list"])
            .contains("share/worktrees")
    };
    assert!(there() && worktrees.exists());
    let discard = [
        "drop",
        "one",
        "--reason",
        "not wanted",
        "--discard",
        "--run",
        "r",
    ];
    checkout.fleet(&discard);
    assert!(!there());
    let doctor = checkout.fleet(&["doctor"]);
    let mut checks = doctor["checks"].as_array().expect("checks").iter();
    let left = checks.find(|check| check["id"] == "worktrees");
    assert_eq!(left.expect("the check")["level"], "ok", "{doctor}");
}
