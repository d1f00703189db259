//! `fleet init`, `plan`, `add`, `steer` and `prompt`.

use crate::support::checkout::{Checkout, step};

const DONE: &str = "write a.txt changed\nsay Status: needs-verification";

#[test]
fn a_dry_run_says_who_would_do_each_step_and_writes_nothing() {
    let checkout = Checkout::with_reviewers(1, "cross-all");
    let plan = [
        step("one", "files = [\"a.txt\"]", DONE),
        step("two", "files = [\"a.txt\"]", DONE),
        step("three", "worktree = true\nneeds = [\"one\"]", DONE),
    ];
    checkout.write("plan.toml", &plan.concat());
    let dry = ["plan", "--file", "plan.toml", "--dry-run"];
    let forecast = checkout.fleet(&dry);
    let steps = forecast["steps"].as_array().expect("steps").clone();
    assert_eq!(steps.len(), 3);
    for row in &steps {
        assert_eq!(row["account"]["profile"], "one", "{row}");
        assert_eq!(row["account"]["wait_seconds"], 0, "{row}");
        assert_eq!(row["model"], "red", "{row}");
        assert_eq!(row["reviewer"]["family"], "blue-family", "{row}");
    }
    let named = |id: &str| {
        steps
            .iter()
            .find(|row| row["id"] == id)
            .expect("a row")
            .clone()
    };
    assert_eq!(named("three")["wave"], 1);
    assert_eq!(named("one")["beside"], serde_json::json!(["two"]));
    checkout.run(&["status"]).refused("not_found");
    let rest = ["profile", "cooldown", "one", "--for", "60m"];
    let rested = checkout.world.sandbox.run(rest);
    assert_eq!(rested.status, 0, "{rested:?}");
    let forecast = checkout.fleet(&dry);
    let account = &forecast["steps"][0]["account"];
    assert_eq!(account["profile"], serde_json::Value::Null, "{account}");
    assert!(
        account["wait_seconds"].as_u64().expect("a wait") > 3000,
        "{account}"
    );
}

#[test]
fn a_plan_is_replaced_until_the_first_launch_and_a_bad_one_changes_nothing() {
    let checkout = Checkout::with(1);
    let options = [
        "init",
        "r",
        "--max-parallel",
        "2",
        "--on-failure",
        "continue",
    ];
    let status = checkout.fleet(&options);
    assert_eq!(
        (&status["state"], &status["max_parallel"]),
        (&"draft".into(), &2.into())
    );
    checkout.run(&options).refused("already_exists");
    checkout
        .run(&["launch", "--ready"])
        .refused("step_not_ready");
    checkout.write("plan.toml", &step("one", "files = [\"a.txt\"]", DONE));
    let plan = ["plan", "--file", "plan.toml"];
    let planned = checkout.fleet(&plan);
    assert_eq!(planned["max_parallel"], 2, "the run's own word stays");
    let before = checkout.bytes_of("r");
    checkout.write("bad.toml", &step("one", "files = [\"../a.txt\"]", DONE));
    checkout
        .run(&["plan", "--file", "bad.toml"])
        .refused("plan_invalid");
    checkout
        .run(&["plan", "--file", "none.toml"])
        .refused("plan_invalid");
    assert!(before == checkout.bytes_of("r"));
    checkout.write("plan.toml", &step("uno", "files = [\"a.txt\"]", DONE));
    checkout.fleet(&plan);
    checkout.run(&["launch", "one"]).refused("not_found");
    checkout.fleet(&["launch", "uno"]);
    checkout.until_step("r", "uno", "reported");
    checkout.run(&plan).refused("step_not_ready");
    checkout.write(
        "more.toml",
        &step("dos", "files = [\"b.txt\"]\nneeds = [\"uno\"]", DONE),
    );
    let grown = checkout.fleet(&["add", "--file", "more.toml"]);
    assert_eq!(Checkout::step(&grown, "dos")["state"], "pending");
    checkout.verify("r", "uno").success();
    checkout.fleet(&["drop", "dos", "--reason", "not wanted"]);
    let done = checkout.fleet(&["status"]);
    assert_eq!(done["state"], "done");
    checkout
        .run(&["add", "--file", "more.toml", "--run", "r"])
        .refused("run_over");
}

#[test]
fn steering_concerns_the_launches_to_come() {
    let checkout = Checkout::with_reviewers(1, "off");
    checkout.plan("r", &[step("one", "files = [\"a.txt\"]", DONE)]);
    let model = |status: &serde_json::Value| Checkout::step(status, "one")["model"].clone();
    let steered = checkout.fleet(&["steer", "one", "provider", "scripted", "model", "blue"]);
    assert_eq!(model(&steered), "blue");
    let reset = checkout.fleet(&["steer", "one", "reset"]);
    assert_eq!(model(&reset), "red");
    for wrong in [
        &["model"][..],
        &["colour", "blue"],
        &["provider", "none"],
        &["reset", "now"],
    ] {
        let mut words = vec!["steer", "one"];
        words.extend(wrong);
        let refused = checkout.run(&words);
        assert_eq!(refused.status, 2, "{wrong:?}: {refused:?}");
    }
    checkout.fleet(&["steer", "one", "provider", "scripted", "model", "blue"]);
    checkout.fleet(&["launch", "one"]);
    let status = checkout.until_step("r", "one", "reported");
    assert_eq!(Checkout::worker(&status, "one")["model"], "blue");
    checkout.verify("r", "one").success();
    checkout
        .run(&["steer", "one", "reset", "--run", "r"])
        .refused("run_over");
}

#[test]
fn a_prompt_is_what_the_worker_is_told_unless_the_lead_prepares_another() {
    let checkout = Checkout::with(1);
    checkout.plan("r", &[step("one", "files = [\"a.txt\"]", DONE)]);
    let printed = checkout.run(&["prompt", "one", "--print"]);
    assert!(
        printed.stdout.contains("write a.txt changed"),
        "{printed:?}"
    );
    let prepared = checkout.fleet(&["prompt", "one"]);
    assert_eq!(prepared["open"], false);
    let path = prepared["path"].as_str().expect("a path");
    assert_eq!(
        std::fs::read_to_string(path).expect("the prompt"),
        printed.stdout
    );
    checkout.run(&["prompt", "one"]).refused("already_exists");
    checkout.run(&["prompt", "none"]).refused("not_found");
    checkout.write(
        "mine.md",
        "```script\nwrite a.txt mine\nsay Status: needs-verification\n```\n<!-- LEAD: more -->\n",
    );
    let open = checkout.fleet(&["prompt", "one", "--edit", "mine.md", "--force"]);
    assert_eq!(open["open"], true);
    checkout.run(&["launch", "one"]).refused("prompt_invalid");
    checkout.write(
        "mine.md",
        "```script\nwrite a.txt mine\nsay Status: needs-verification\n```\n",
    );
    checkout.fleet(&["prompt", "one", "--edit", "mine.md", "--force"]);
    checkout.fleet(&["launch", "one"]);
    checkout.until_step("r", "one", "reported");
    assert_eq!(checkout.read("a.txt"), "mine\n");
}
