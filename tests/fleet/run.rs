//! `fleet run`: from a plan file, or from words, to verified changes.

use serde_json::{Value, json};

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

#[test]
fn every_change_is_a_line_and_the_last_one_is_the_status() {
    let checkout = Checkout::with(1);
    let script = "write a.txt changed\nsay Status: needs-verification";
    checkout.write("plan.toml", &step("one", "files = [\"a.txt\"]", script));
    let ran = checkout.run(&["run", "plan.toml", "--run", "r"]);
    let mut lines: Vec<Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect();
    let status = lines.pop().expect("a last line");
    assert_eq!(
        (&status["run"], &status["state"]),
        (&json!("r"), &json!("done"))
    );
    let states = |kind: &str| -> Vec<&str> {
        let rows = lines.iter().filter(|line| line["kind"] == kind);
        rows.filter_map(|line| line["row"]["state"].as_str())
            .collect()
    };
    assert_eq!(lines[0]["change"], "new", "{lines:?}");
    assert_eq!(states("step").last(), Some(&"verified"), "{lines:?}");
    assert_eq!(states("worker").last(), Some(&"parked"), "{lines:?}");
    for pair in lines.windows(2) {
        assert_ne!(pair[0], pair[1], "told twice");
    }
    let words = ["--format", "human", "run", "plan.toml", "--run", "s"];
    let ran = checkout.run(&words);
    assert!(
        ran.stdout.contains("\nstep one: verified\n"),
        "{}",
        ran.stdout
    );
    assert!(!ran.stdout.contains('\u{1b}'), "{}", ran.stdout);
}
