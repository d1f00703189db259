//! `fleet launch`: exactly one worker for a step, and a refusal that leaves nothing behind.

use std::process::Stdio;

use crate::support::checkout::{Checkout, step};
use crate::support::sandbox::Ran;

const DONE: &str = "write a.txt changed\nsay Status: needs-verification";

#[test]
fn a_lead_launches_what_is_ready_and_only_that() {
    let checkout = Checkout::with(2);
    let plan = [
        step("one", "files = [\"a.txt\"]", DONE),
        step("two", "files = [\"b.txt\"]\nneeds = [\"one\"]", DONE),
    ];
    let status = checkout.plan("r", &plan);
    assert_eq!(status["state"], "planned");
    assert_eq!(Checkout::step(&status, "one")["state"], "ready");
    checkout.run(&["launch", "two"]).refused("step_not_ready");
    let answer = checkout.fleet(&["launch", "--ready"]);
    assert_eq!(
        answer["rows"].as_array().expect("rows").len(),
        1,
        "{answer}"
    );
    assert_eq!(answer["rows"][0]["outcome"], "launched");
    assert_eq!(answer["rows"][0]["worker"], "one");
    checkout.until_step("r", "one", "reported");
    // Handed back is not accepted: nothing else is ready, and the same is not done twice.
    let none = checkout.fleet(&["launch", "--ready"]);
    assert_eq!(none["rows"], serde_json::json!([]));
    checkout.run(&["launch", "one"]).refused("step_not_ready");
    checkout.verify("r", "one").success();
    checkout.run(&["launch", "one"]).refused("step_not_ready");
    checkout.fleet(&["launch", "two"]);
    checkout.until_step("r", "two", "reported");
    let status = checkout.verify("r", "two").success();
    assert_eq!(status["state"], "done", "{status}");
}

#[test]
fn a_refused_launch_leaves_the_run_as_it_was() {
    let checkout = Checkout::with(2);
    let plan = [
        "max_parallel = 1\n".to_owned(),
        step(
            "one",
            "files = [\"a.txt\"]",
            "hold go\nsay Status: needs-verification",
        ),
        step("other", "files = [\"b.txt\"]", DONE),
        step("same", "files = [\"a.txt\"]", DONE),
        step("later", "worktree = true\nneeds = [\"one\"]", DONE),
        "[[step]]\nid = \"open\"\nworktree = true\ntext = \"<!-- LEAD: say more -->\"\n".to_owned(),
    ];
    checkout.plan("r", &plan);
    let unchanged = |words: &[&str], code: &str| {
        let before = checkout.bytes_of("r");
        checkout.run(words).refused(code);
        let after = checkout.bytes_of("r");
        let names =
            |files: &std::collections::BTreeMap<_, _>| files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&before), names(&after), "{words:?}");
        assert!(before == after, "{words:?} changed a record");
    };
    unchanged(&["launch", "open"], "prompt_invalid");
    checkout.fleet(&["hold", "--reason", "lunch"]);
    unchanged(&["launch", "one"], "held");
    checkout.fleet(&["release"]);
    unchanged(&["launch", "later"], "step_not_ready");
    unchanged(&["launch", "none"], "not_found");
    unchanged(&["launch", "one", "--review"], "step_not_ready");
    checkout.fleet(&["launch", "one"]);
    let running = checkout.until_step("r", "one", "running");
    assert_eq!(running["active"], 1);
    // Once its account is known nothing more is learnt of it until it ends.
    crate::support::world::wait("the worker's account", || {
        checkout.fleet(&["launch", "--ready"]);
        let status = checkout.fleet(&["status"]);
        let worker = Checkout::worker(&status, "one");
        worker["profile"].is_string().then_some(())
    });
    unchanged(&["launch", "one"], "worker_active");
    unchanged(&["launch", "other"], "capacity");
    unchanged(&["launch", "same"], "step_not_ready");
    unchanged(&["prompt", "one"], "worker_active");
    unchanged(&["diff", "one"], "worker_active");
    unchanged(
        &["verify", "one", "--evidence", "plan.toml"],
        "worker_active",
    );
    unchanged(&["drop", "one", "--reason", "why not"], "plan_invalid");
    checkout.write("go", "");
    checkout.until_step("r", "one", "reported");
    // Its files stay its own until it is accepted.
    unchanged(&["launch", "same"], "step_not_ready");
}

#[test]
fn leads_who_launch_one_step_at_once_get_one_worker() {
    let checkout = Checkout::with(3);
    checkout.plan(
        "r",
        &[step(
            "one",
            "files = [\"a.txt\"]",
            "hold go\nsay Status: needs-verification",
        )],
    );
    let link = checkout.world.sandbox.path("linked");
    std::os::unix::fs::symlink(&checkout.world.project, &link).expect("a link");
    let leads: Vec<_> = (0..4)
        .map(|number| {
            let mut line = checkout.line(&["launch", "one"]);
            // However the checkout is reached, it is one.
            if number % 2 == 1 {
                line.current_dir(&link);
            }
            line.stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("the program starts")
        })
        .collect();
    let ended: Vec<Ran> = leads
        .into_iter()
        .map(|lead| Ran::ended(&lead.wait_with_output().expect("it ends")))
        .collect();
    let launched = ended.iter().filter(|ran| ran.status == 0).count();
    assert_eq!(launched, 1, "{ended:?}");
    for refused in ended.into_iter().filter(|ran| ran.status != 0) {
        refused.refused("worker_active");
    }
    checkout.write("go", "");
    let status = checkout.until_step("r", "one", "reported");
    assert_eq!(Checkout::worker(&status, "one")["launch"], 1);
    assert_eq!(checkout.world.requests("turn").len(), 1);
}

#[test]
fn two_runs_of_a_checkout_do_not_work_at_once() {
    let checkout = Checkout::with(2);
    let hold = "hold go\nsay Status: needs-verification";
    checkout.plan("r", &[step("one", "files = [\"a.txt\"]", hold)]);
    checkout.plan("s", &[step("two", "files = [\"b.txt\"]", hold)]);
    checkout.run(&["launch", "one"]).refused("usage");
    checkout.fleet(&["launch", "one", "--run", "r"]);
    checkout
        .run(&["launch", "two", "--run", "s"])
        .refused("run_active");
    let skipped = checkout.fleet(&["launch", "--ready", "--run", "s"]);
    assert_eq!(skipped["rows"][0]["outcome"], "skipped");
    assert_eq!(skipped["rows"][0]["code"], "run_active");
    checkout.run(&["init", "t"]).refused("run_active");
    checkout.write("go", "");
    checkout.until_step("r", "one", "reported");
    checkout.fleet(&["launch", "two", "--run", "s"]);
    checkout.until_step("s", "two", "reported");
}

#[test]
fn a_step_that_failed_is_tried_again_with_the_words_that_the_lead_prepared() {
    let checkout = Checkout::with(2);
    let plan = [
        "max_attempts = 1\n".to_owned(),
        step("one", "files = [\"a.txt\"]", "write a.txt half\ncrash"),
        step("two", "files = [\"b.txt\"]\nneeds = [\"one\"]", DONE),
    ];
    checkout.plan("r", &plan);
    checkout.fleet(&["launch", "one"]);
    // The step's end is written down before that of the run.
    checkout.until_step("r", "two", "skipped");
    let failed = crate::support::world::wait("the run has failed", || {
        let status = checkout.fleet(&["status", "--run", "r"]);
        (status["state"] == "failed").then_some(status)
    });
    assert_eq!(Checkout::step(&failed, "one")["state"], "failed");
    // Not by itself.
    assert_eq!(
        checkout.fleet(&["launch", "--ready"])["rows"],
        serde_json::json!([])
    );
    let again = format!("Again, and whole.\n\n```script\n{DONE}\n```\n");
    checkout.world.sandbox.write("again.md", again);
    let file = checkout.world.sandbox.path("again.md");
    let edit = ["prompt", "one", "--edit", file.to_str().expect("UTF-8")];
    checkout.fleet(&edit);
    checkout.run(&edit).refused("already_exists");
    assert!(
        checkout
            .run(&["prompt", "one", "--print"])
            .stdout
            .starts_with("Again, and whole.")
    );
    checkout.fleet(&["launch", "one"]);
    let status = checkout.until_step("r", "one", "reported");
    assert_eq!(status["state"], "running", "{status}");
    assert_eq!(Checkout::step(&status, "two")["state"], "pending");
    assert_eq!(checkout.read("a.txt"), "changed\n");
    checkout.verify("r", "one").success();
    checkout.fleet(&["launch", "two"]);
    checkout.until_step("r", "two", "reported");
    let done = checkout.verify("r", "two").success();
    assert_eq!(done["state"], "done");
}
