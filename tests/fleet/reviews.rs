//! Reviews by another model family: whose verdict counts, and for what.

use serde_json::Value;

use crate::support::checkout::{Checkout, step};

/// Two accounts and two model families: one for the work, one for the reviews.
fn two_families() -> Checkout {
    let checkout = Checkout::with(2);
    checkout.world.sandbox.write(
        "config/fleet.toml",
        "[[tiers.standard]]\nprovider = \"scripted\"\nmodel = \"red-large\"\n\
         [[tiers.review]]\nprovider = \"scripted\"\nmodel = \"blue-small\"\n\
         [providers.scripted.model_families]\nred-large = \"red\"\nblue-small = \"blue\"\n",
    );
    checkout
}

/// Runs one step whose author adds a line per turn and whose reviewer does what the script says.
fn reviewed(checkout: &Checkout, review: &str) -> Value {
    let script = format!(
        "spawn echo turn >> a.txt\nsay Status: needs-verification\n```\n```script review\n{review}"
    );
    let keys = "files = [\"a.txt\"]\nreview = true";
    checkout.write("plan.toml", &step("one", keys, &script));
    drop(checkout.run(&["run", "plan.toml", "--run", "r"]));
    checkout.fleet(&["status", "--run", "r"])
}

#[test]
fn what_a_reviewer_wants_changed_is_changed_and_reviewed_anew() {
    let checkout = two_families();
    // The second time it is content.
    let status = reviewed(
        &checkout,
        "spawn test -e ../seen && touch ../again; touch ../seen\n\
         say Verdict: approve\nunless ../again say Verdict: changes-requested",
    );
    assert_eq!(status["state"], "done", "{status}");
    assert_eq!(Checkout::step(&status, "one")["state"], "verified");
    assert_eq!(checkout.read("a.txt"), "as it was\nturn\nturn\n");
    let (author, reviewer) = (
        Checkout::worker(&status, "one"),
        Checkout::worker(&status, "one-review"),
    );
    assert_eq!(author["launch"], 2, "{status}");
    assert_eq!(reviewer["launch"], 2, "{status}");
    assert_eq!(author["model"], "red-large", "{status}");
    assert_eq!(reviewer["model"], "blue-small", "{status}");
    assert_eq!(reviewer["role"], "review", "{status}");
    assert_eq!(reviewer["report"], "approve", "{status}");
}

#[test]
fn a_review_without_a_clear_verdict_is_a_question_for_a_person() {
    let checkout = two_families();
    let status = reviewed(&checkout, "say It looks fine to me.");
    assert_eq!(status["state"], "blocked", "{status}");
    let step = Checkout::step(&status, "one");
    assert_eq!(step["state"], "blocked", "{status}");
    assert_eq!(step["reason"], "verdict_unclear", "{status}");
    assert_eq!(
        status["next"][0],
        "agent-fleet fleet logs one-review --run r"
    );
    assert_eq!(
        Checkout::worker(&status, "one-review")["launch"],
        1,
        "{status}"
    );
}

#[test]
fn without_another_family_there_is_no_plan_that_wants_a_review() {
    let checkout = Checkout::with(2);
    let keys = "files = [\"a.txt\"]\nreview = true";
    let script = "say Status: needs-verification";
    checkout.write("plan.toml", &step("one", keys, script));
    let refused = checkout.run(&["run", "plan.toml", "--run", "r"]);
    assert_eq!(refused.status, 2, "{}{}", refused.stdout, refused.stderr);
    assert!(refused.stdout.contains("another model family"));
    checkout.run(&["status", "--run", "r"]).refused("not_found");
}

#[test]
fn a_text_to_a_reviewer_is_its_next_turn_about_the_same_change_and_decides() {
    let checkout = two_families();
    let status = reviewed(&checkout, "say It looks fine to me.");
    let before = Checkout::worker(&status, "one-review");
    checkout.run(&["send", "one-review", ""]).refused("usage");
    let text = "Say it in one line.\n```script review\nsay Verdict: approve\n```";
    let sent = checkout.fleet(&["send", "one-review", text]);
    assert_eq!(
        (&sent["outcome"], &sent["launch"]),
        (&"launched".into(), &2.into()),
        "{sent}"
    );
    let status = checkout.fleet(&["resume", "r", "--go"]);
    assert_eq!(status["state"], "done", "{status}");
    let after = Checkout::worker(&status, "one-review");
    assert_eq!(
        (&after["launch"], &after["session"], &after["profile"]),
        (&2.into(), &before["session"], &before["profile"]),
        "{status}"
    );
    assert_eq!(after["report"], "approve", "{status}");
    assert_eq!(Checkout::worker(&status, "one")["launch"], 1, "{status}");
    let told = checkout.read(".fleet/runs/r/prompts/one-review.2.md");
    assert!(told.contains("Say it in one line."), "{told}");
    checkout
        .run(&["send", "one-review", "Again."])
        .refused("run_over");
}
