//! `fleet verify`, `diff` and `check`: what counts as done, and for which bytes.

use crate::support::checkout::{Checkout, reviewed, step};

const FILES: &str = "files = [\"a.txt\"]";
const DONE: &str = "write a.txt changed\nsay Status: needs-verification";

#[test]
fn a_step_is_accepted_as_it_is_and_with_evidence_alone() {
    let checkout = Checkout::with(1);
    let conditions = "\n[step.accept]\ncommands = [\"test -e proof\"]\n";
    let loud = "write a.txt changed\nsay STATUS: Needs-Verification";
    let plan = [step("one", FILES, loud) + conditions];
    checkout.plan("r", &plan);
    checkout.verify("r", "one").refused("step_not_ready");
    checkout.fleet(&["launch", "one"]);
    checkout.until_step("r", "one", "reported");
    let diff = checkout.fleet(&["diff", "one"]);
    assert_eq!(diff["files"], serde_json::json!(["a.txt"]));
    assert!(
        diff["text"].as_str().expect("text").contains("+changed"),
        "{diff}"
    );
    let output = checkout.world.sandbox.path("one.diff");
    let written = checkout.fleet(&["diff", "one", "--output", output.to_str().expect("UTF-8")]);
    assert_eq!(written["text"], serde_json::Value::Null);
    let text = std::fs::read_to_string(output).expect("the diff");
    assert_eq!(diff["text"], text.as_str());
    checkout.run(&["diff", "one-review"]).refused("not_found");
    // What the plan says has to hold, whoever accepts.
    let unmet = checkout.verify("r", "one").refused("step_not_ready");
    assert!(
        unmet["error"]
            .as_str()
            .expect("text")
            .contains("test -e proof"),
        "{unmet}"
    );
    checkout.write("proof", "");
    checkout.write("empty", " \n");
    checkout
        .run(&["verify", "one", "--evidence", "empty"])
        .refused("usage");
    checkout
        .run(&["verify", "one", "--evidence", "none"])
        .refused("not_found");
    let status = checkout.verify("r", "one").success();
    assert_eq!(status["state"], "done");
    assert_eq!(Checkout::worker(&status, "one")["report"], "verified");
    checkout.verify("r", "one").refused("step_not_ready");
}

#[test]
fn an_end_without_a_report_is_no_success() {
    let checkout = Checkout::with(1);
    let plan = [
        "max_attempts = 1\n".to_owned(),
        step("one", FILES, "spawn echo changed > a.txt"),
    ];
    checkout.plan("r", &plan);
    checkout.fleet(&["launch", "one"]);
    checkout.until_step("r", "one", "failed");
    checkout.verify("r", "one").refused("step_not_ready");
}

#[test]
fn a_review_counts_for_the_diff_that_it_judged_and_no_other() {
    let checkout = Checkout::with_reviewers(2, "cross-all");
    checkout.plan(
        "r",
        &[reviewed("one", FILES, DONE, "Fine.\n\nVerdict: approve")],
    );
    checkout.fleet(&["launch", "one"]);
    checkout.until_step("r", "one", "reported");
    checkout.verify("r", "one").refused("review_missing");
    checkout.fleet(&["launch", "one", "--review"]);
    let status = checkout.until_step("r", "one", "reported");
    assert_eq!(Checkout::step(&status, "one")["reason"], "reviewed");
    assert_eq!(Checkout::worker(&status, "one-review")["model"], "blue");
    // The reviewer may write nothing, so what it says last is its report.
    assert!(
        !checkout
            .world
            .project
            .join(".fleet/runs/r/reports/one-review.md")
            .exists()
    );
    checkout.write("a.txt", "changed once more\n");
    let stale = checkout.verify("r", "one").refused("review_missing");
    assert!(
        stale["error"]
            .as_str()
            .expect("text")
            .contains("of this diff"),
        "{stale}"
    );
    checkout.verify("r", "one-review").refused("review_missing");
    checkout.write("a.txt", "changed\n");
    let status = checkout.verify("r", "one").success();
    assert_eq!(status["state"], "done");
}

#[test]
fn a_review_that_requests_changes_is_no_approval_and_goes_back_to_the_author() {
    let checkout = Checkout::with_reviewers(2, "cross-all");
    let answer = "Verdict: changes-requested\n\n- a.txt:1: not enough";
    checkout.plan("r", &[reviewed("one", FILES, DONE, answer)]);
    checkout.fleet(&["launch", "one"]);
    checkout.until_step("r", "one", "reported");
    checkout.fleet(&["launch", "one", "--review"]);
    let status = checkout.until_step("r", "one", "changes_requested");
    assert_eq!(Checkout::worker(&status, "one")["queued"], 1);
    checkout.verify("r", "one").refused("review_missing");
    checkout.verify("r", "one-review").refused("step_not_ready");
}

#[test]
fn a_verdict_that_cannot_be_read_waits_for_the_lead() {
    let checkout = Checkout::with_reviewers(2, "cross-all");
    checkout.plan(
        "r",
        &[reviewed("one", FILES, DONE, "I would rather not say.")],
    );
    checkout.fleet(&["launch", "one"]);
    checkout.until_step("r", "one", "reported");
    checkout.fleet(&["launch", "one", "--review"]);
    let status = checkout.until_step("r", "one", "blocked");
    assert_eq!(Checkout::step(&status, "one")["reason"], "verdict_unclear");
    checkout.verify("r", "one").refused("review_missing");
    let status = checkout.verify("r", "one-review").success();
    // A review accepts nothing by itself.
    assert_eq!(Checkout::step(&status, "one")["state"], "reported");
    checkout.verify("r", "one").success();
}

#[test]
fn a_lead_has_any_step_reviewed() {
    let checkout = Checkout::with_reviewers(2, "off");
    let answer = "Verdict: changes-requested\n\n- a.txt:1: not enough";
    checkout.plan("r", &[reviewed("one", FILES, DONE, answer)]);
    checkout.fleet(&["launch", "one"]);
    checkout.until_step("r", "one", "reported");
    checkout.fleet(&["launch", "one", "--review"]);
    let status = checkout.until_step("r", "one", "changes_requested");
    assert_eq!(Checkout::worker(&status, "one-review")["model"], "blue");
    let alone = Checkout::with(1);
    alone.plan("r", &[step("one", FILES, DONE)]);
    alone.fleet(&["launch", "one"]);
    alone.until_step("r", "one", "reported");
    let refused = alone
        .run(&["launch", "one", "--review"])
        .refused("plan_invalid");
    let said = refused["error"].as_str().expect("text");
    assert!(said.contains("another model family"), "{refused}");
}

#[test]
fn a_plan_whose_reviewers_are_all_of_the_authors_family_is_refused() {
    let checkout = Checkout::with(1);
    checkout.fleet(&["init", "r", "--review", "cross-all"]);
    checkout.write("plan.toml", &step("one", FILES, DONE));
    let refused = checkout
        .run(&["plan", "--file", "plan.toml"])
        .refused("plan_invalid");
    assert!(
        refused["error"].as_str().expect("text").contains("family"),
        "{refused}"
    );
    assert_eq!(checkout.fleet(&["status"])["state"], "draft");
}

#[test]
fn a_commit_or_a_staged_file_is_told_by_name() {
    let checkout = Checkout::with(1);
    checkout.plan("r", &[step("one", FILES, DONE)]);
    let clean = checkout.fleet(&["check"]);
    assert_eq!(clean["changed"], false);
    checkout.write("b.txt", "mine\n");
    checkout.fleet(&["check"]);
    checkout.git(&["add", "b.txt"]);
    let refused = checkout.run(&["check"]).refused("tree_changed");
    let changes = refused["details"]["changes"]
        .as_array()
        .expect("changes")
        .clone();
    assert_eq!(changes, ["`b.txt` was staged or unstaged"]);
    // Staging other bytes of a staged file is another change than none.
    checkout.git(&["reset", "-q"]);
    checkout.fleet(&["check"]);
    let who = ["-c", "user.name=Ada", "-c", "user.email=ada@lab.invalid"];
    let mut line = who.to_vec();
    line.extend(["commit", "-q", "-a", "-m", "Mine"]);
    checkout.git(&line);
    let refused = checkout.run(&["check"]).refused("tree_changed");
    assert!(
        refused["error"]
            .as_str()
            .expect("text")
            .contains("HEAD was"),
        "{refused}"
    );
}

fn commit(checkout: &Checkout) {
    let who = ["-c", "user.name=Ada", "-c", "user.email=ada@lab.invalid"];
    let mut line = who.to_vec();
    line.extend(["commit", "-q", "-a", "-m", "Mine"]);
    checkout.git(&line);
}

#[test]
fn nothing_is_accepted_while_somebody_committed_or_staged_until_a_person_says_that_it_was_them() {
    // By the program: a worker that stages is not overlooked.
    let checkout = Checkout::with(1);
    let stages = "write a.txt changed\nspawn git add a.txt\nsay Status: needs-verification";
    checkout.write("plan.toml", &step("one", FILES, stages));
    checkout.fleet(&["run", "plan.toml", "--run", "p"]);
    let status = checkout.fleet(&["status", "--run", "p"]);
    let one = Checkout::step(&status, "one");
    assert_eq!(
        (&one["state"], &one["reason"]),
        (&"blocked".into(), &"tree_changed".into()),
        "{status}"
    );
    assert_eq!(status["next"][0], "agent-fleet fleet check --run p");
    let refused = checkout
        .run(&["check", "--run", "p"])
        .refused("tree_changed");
    assert_eq!(
        refused["details"]["changes"][0],
        "`a.txt` was staged or unstaged"
    );
    let taken = checkout.fleet(&["check", "--accept", "--run", "p"]);
    assert_eq!(taken["accepted"], true);
    checkout.fleet(&["check", "--run", "p"]);
    checkout.fleet(&["run", "--run", "p"]);
    let status = checkout.fleet(&["status", "--run", "p"]);
    assert_eq!(status["state"], "done", "{status}");
    assert_eq!(Checkout::worker(&status, "one")["launch"], 1, "{status}");

    // By a lead.
    checkout.git(&["reset", "-q", "--hard"]);
    checkout.plan("l", &[step("one", FILES, DONE)]);
    checkout.fleet(&["launch", "one", "--run", "l"]);
    checkout.until_step("l", "one", "reported");
    commit(&checkout);
    checkout.verify("l", "one").refused("tree_changed");
    let status = checkout.fleet(&["status", "--run", "l"]);
    assert_eq!(
        Checkout::step(&status, "one")["state"],
        "reported",
        "{status}"
    );
    checkout.fleet(&["check", "--accept", "--run", "l"]);
    checkout.verify("l", "one").success();
}

#[test]
fn no_worker_says_whose_change_it_was() {
    let checkout = Checkout::with(1);
    let program = env!("CARGO_BIN_EXE_agent-fleet");
    let tries = format!(
        "write a.txt changed\nspawn git add a.txt && ! {program} fleet check --accept --run r\n\
         say Status: needs-verification"
    );
    checkout.write("plan.toml", &step("one", FILES, &tries));
    checkout.fleet(&["run", "plan.toml", "--run", "r"]);
    checkout
        .run(&["check", "--run", "r"])
        .refused("tree_changed");
}
