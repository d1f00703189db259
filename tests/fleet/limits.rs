//! A worker at a usage limit: it goes on elsewhere with what it did so far, or waits and says so; never as an attempt.

use serde_json::Value;

use super::background::{Background, until};
use crate::support::checkout::{Checkout, step};
use crate::support::ran::Ran;
use crate::support::world::Account;

/// A worker that meets a limit the first time it runs, and finishes the second time.
fn script(limit: &str) -> String {
    [
        "spawn test -e ../first && touch ../second; touch ../first; echo turn >> a.txt",
        &format!("unless ../second limit {limit}"),
        "say Status: needs-verification",
    ]
    .join("\n")
}

fn plan(checkout: &Checkout, head: &str, limit: &str) {
    let one = step("one", "files = [\"a.txt\"]", &script(limit));
    checkout.write("plan.toml", &format!("{head}\n{one}"));
}

/// The account of each launch of the worker.
fn profiles(checkout: &Checkout, count: u64) -> Vec<String> {
    let root = super::background::directory(checkout, "r");
    (1..=count)
        .map(|number| {
            let path = root.join(format!("launches/one.{number}/receipt.json"));
            let text = std::fs::read(path).unwrap_or_default();
            let receipt: Value = serde_json::from_slice(&text).unwrap_or_default();
            receipt["profile"].as_str().unwrap_or("-").to_owned()
        })
        .collect()
}

#[track_caller]
fn done(checkout: &Checkout) -> Value {
    let status = checkout.fleet(&["status", "--run", "r"]);
    assert_eq!(status["state"], "done", "{status}");
    let step = Checkout::step(&status, "one");
    assert_eq!(step["state"], "verified", "{status}");
    assert_eq!(step["attempts"], 0, "a limit is no attempt: {status}");
    Checkout::worker(&status, "one")
}

#[test]
fn work_goes_on_at_once_on_another_account_with_what_was_done_so_far() {
    let checkout = Checkout::with(2);
    plan(&checkout, "", "quota 3600");
    checkout.fleet(&["run", "plan.toml", "--run", "r"]);
    let worker = done(&checkout);
    assert_eq!(worker["launch"], 2, "{worker}");
    let used = profiles(&checkout, 2);
    assert_ne!(used[0], used[1], "it went on on the account at its limit");
    let prompt = checkout.read(".fleet/runs/r/prompts/one.2.md");
    assert!(prompt.contains("You continue"), "{prompt}");
    let handed = checkout.read(".fleet/runs/r/evidence/one.2.handoff.md");
    assert!(handed.contains("echo turn >> a.txt"), "{handed}");
    let diff = checkout.read(".fleet/runs/r/evidence/one.2.diff");
    assert!(diff.contains("+turn"), "{diff}");
    assert_eq!(checkout.read("a.txt"), "as it was\nturn\nturn\n");
    let turns = checkout.world.requests("turn");
    assert_eq!(turns.len(), 2, "{turns:?}");
    let history = checkout.fleet(&["history", "one"]);
    let outcome = |number: usize| history["launches"][number]["outcome"].as_str();
    assert_eq!(
        (outcome(0), outcome(1)),
        (Some("limited"), Some("done")),
        "{history}"
    );
    let mut page = checkout.line(&["history", "one"]);
    let page = Ran::of(page.env("AGENT_FLEET_FORMAT", "human")).stdout;
    assert!(!page.contains("(limit)"), "{page}");
}

#[test]
fn a_reset_that_is_near_is_waited_for_in_the_same_conversation() {
    let checkout = Checkout::with(2);
    plan(
        &checkout,
        "continue = \"sticky\"\nsticky_max = \"1m\"",
        "quota 3",
    );
    checkout.fleet(&["run", "plan.toml", "--run", "r"]);
    drop(done(&checkout));
    let number = Checkout::worker(&checkout.fleet(&["status", "--run", "r"]), "one")["launch"]
        .as_u64()
        .expect("a number");
    let mut used = profiles(&checkout, number);
    used.retain(|profile| profile != "-");
    assert_eq!(used.len(), 2, "{used:?}");
    assert_eq!(used[0], used[1], "another account has another conversation");
    let root = super::background::directory(&checkout, "r");
    let session = |number: u64| {
        let output =
            std::fs::read_to_string(root.join(format!("launches/one.{number}/output.jsonl")));
        let output = output.expect("an output");
        let first: Value =
            serde_json::from_str(output.lines().next().expect("a line")).expect("JSON");
        first["session_id"].clone()
    };
    assert_eq!(session(1), session(number));
}

#[test]
fn a_reset_that_is_far_is_not_waited_for() {
    let checkout = Checkout::with(2);
    plan(
        &checkout,
        "continue = \"sticky\"\nsticky_max = \"1m\"",
        "quota 3600",
    );
    checkout.fleet(&["run", "plan.toml", "--run", "r"]);
    assert_eq!(done(&checkout)["launch"], 2);
    let used = profiles(&checkout, 2);
    assert_ne!(used[0], used[1]);
}

#[test]
fn with_every_account_used_up_it_waits_for_the_first_reset_and_says_so() {
    let checkout = Checkout::with(1);
    plan(&checkout, "", "quota 3000");
    let mut run = Background::start(&checkout, &["run", "plan.toml", "--run", "r"], &[]);
    let waits = until(&checkout, "r", "one", &["exited"]);
    assert!(waits["held_until"].is_string(), "{waits}");
    assert!(waits["reason"].is_string(), "{waits}");
    let status = checkout.fleet(&["status", "--run", "r"]);
    assert_eq!(status["state"], "running", "{status}");
    assert_eq!(Checkout::step(&status, "one")["state"], "ready", "{status}");
    assert!(!run.has_ended(), "it does not wait");
    run.kill();
    let turns = checkout.world.requests("turn").len();
    assert_eq!(turns, 1, "it was tried before the reset");
    let mut later = checkout.line(&["run", "--run", "r"]);
    let ran = Ran::of(later.env("AGENT_FLEET_TEST_NOW", "+3100"));
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
    drop(done(&checkout));
    assert_eq!(checkout.world.requests("turn").len(), 2);
}

#[test]
fn a_tier_that_lists_another_pool_goes_on_there() {
    let accounts = [Account::new("one"), Account::new("two").pools(&["spare"])];
    let checkout = Checkout::new(&accounts);
    checkout.world.sandbox.write(
        "config/fleet.toml",
        "[[tiers.standard]]\nprovider = \"scripted\"\npool = \"crew\"\n\
         [[tiers.standard]]\nprovider = \"scripted\"\npool = \"spare\"\n",
    );
    plan(&checkout, "", "quota 3600");
    checkout.fleet(&["run", "plan.toml", "--run", "r"]);
    let worker = done(&checkout);
    assert_eq!(worker["profile"], "two", "{worker}");
}

#[test]
fn a_reviewer_that_comes_to_nothing_is_launched_again() {
    let accounts = [Account::new("one"), Account::new("two").pools(&["spare"])];
    let checkout = Checkout::new(&accounts);
    checkout.world.sandbox.write(
        "config/fleet.toml",
        "[[tiers.standard]]\nprovider = \"scripted\"\npool = \"crew\"\nfamily = \"ours\"\n\
         [[tiers.review]]\nprovider = \"scripted\"\npool = \"spare\"\nfamily = \"theirs\"\n",
    );
    let script = "write a.txt done\nsay Status: needs-verification\n```\n```script review\n\
         spawn test -e ../first && touch ../second; touch ../first\nunless ../second crash\n\
         answer\nVerdict: approve";
    checkout.write(
        "plan.toml",
        &step("one", "files = [\"a.txt\"]\nreview = true", script),
    );
    checkout.fleet(&["run", "plan.toml", "--run", "r"]);
    let status = checkout.fleet(&["status", "--run", "r"]);
    assert_eq!(status["state"], "done", "{status}");
    let reviewer = Checkout::worker(&status, "one-review");
    assert_eq!(
        (&reviewer["launch"], &reviewer["profile"]),
        (&2.into(), &"two".into()),
        "{status}"
    );
}
