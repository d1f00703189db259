//! `fleet run`: from a plan file, or from words, to verified changes.

use crate::support::checkout::{Checkout, step};

#[test]
fn a_plan_runs_to_its_verified_end_in_the_order_of_its_needs() {
    let checkout = Checkout::with(2);
    let plan = [
        step(
            "one",
            "files = [\"a.txt\"]",
            "write a.txt changed\nsay Status: needs-verification",
        ),
        step(
            "two",
            "files = [\"b.txt\"]\nneeds = [\"one\"]",
            "spawn grep -q changed a.txt && echo seen > b.txt\nsay Status: needs-verification",
        ),
    ];
    checkout.write("plan.toml", &plan.concat());
    let status = checkout.fleet(&["run", "plan.toml", "--run", "r"]);
    assert_eq!(status["state"], "done", "{status}");
    for id in ["one", "two"] {
        assert_eq!(Checkout::step(&status, id)["state"], "verified");
        assert_eq!(Checkout::worker(&status, id)["state"], "parked");
    }
    assert_eq!(checkout.read("b.txt"), "seen\n");
    let again = checkout.run(&["run", "plan.toml", "--run", "r"]);
    again.refused("already_exists");
}

#[test]
fn work_in_words_runs_in_a_worktree_of_its_own_and_leaves_the_checkout_alone() {
    let checkout = Checkout::with(1);
    let text = "```script\nwrite a.txt changed\nsay Status: needs-verification\n```";
    let status = checkout.fleet(&["run", text, "--worktree", "--run", "r"]);
    assert_eq!(status["state"], "done", "{status}");
    assert_eq!(checkout.read("a.txt"), "as it was\n");
    assert_eq!(checkout.git(&["status", "--porcelain"]), "");
    checkout.run(&["run", "do something"]).refused("usage");
}
