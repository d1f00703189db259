//! `fleet run`: from a plan file, or from words, to verified changes.

use serde_json::{Value, json};

use crate::support::checkout::{Checkout, step};
use crate::support::sandbox::Ran;

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

#[test]
fn a_plan_file_may_have_spaces_in_its_name_and_takes_no_options_of_words() {
    let checkout = Checkout::with(1);
    let script = "write a.txt changed\nsay Status: needs-verification";
    checkout.write("my plan.toml", &step("one", "files = [\"a.txt\"]", script));
    for more in [
        &["--tier", "heavy"][..],
        &["--worktree"],
        &["--investigate"],
        &["--files", "a.txt"],
    ] {
        let words = [&["run", "my plan.toml", "--run", "r"], more].concat();
        let refused = checkout.run(&words).refused("usage");
        let text = refused["error"].as_str().expect("text");
        assert!(text.contains(more[0]), "{refused}");
    }
    let status = checkout.fleet(&["run", "my plan.toml", "--run", "r"]);
    assert_eq!(status["state"], "done", "{status}");
    // Words that only end like one are words.
    let refused = checkout.run(&["run", "Rename it to new.toml"]);
    let text = refused.refused("usage")["error"].to_string();
    assert!(text.contains("what the work may change"), "{text}");
}

#[test]
fn files_are_named_from_where_the_person_stands() {
    let checkout = Checkout::with(1);
    checkout.write("deep/x.txt", "as it was\n");
    let text = "```script\nwrite deep/x.txt changed\nwrite a.txt changed\nsay Status: needs-verification\n```";
    let absolute = checkout.world.project.join("b.txt");
    let mut line = checkout.line(&["run", text, "--run", "r", "--files", "x.txt", "../a.txt"]);
    line.arg(&absolute);
    let ran = Ran::of(line.current_dir(checkout.world.project.join("deep")));
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
    let diff = checkout.fleet(&["diff", "work"]);
    assert_eq!(diff["files"], json!(["a.txt", "deep/x.txt"]), "{diff}");
    let mut outside = checkout.line(&["run", text, "--run", "s", "--files", "../../x.txt"]);
    Ran::of(outside.current_dir(checkout.world.project.join("deep"))).refused("plan_invalid");
}

#[test]
fn nothing_is_begun_in_a_checkout_where_workers_may_not_work() {
    let checkout = Checkout::with(1);
    let path = checkout.world.project.to_str().expect("UTF-8").to_owned();
    let remove = ["project", "remove", "--provider", "scripted", &path];
    checkout.world.command(&remove);
    let script = "write a.txt changed\nsay Status: needs-verification";
    checkout.write("plan.toml", &step("one", "files = [\"a.txt\"]", script));
    let register = format!("agent-fleet project register --provider scripted {path}");
    let refused = checkout.run(&["run", "plan.toml", "--run", "r"]);
    let refused = refused.refused("workspace_untrusted");
    assert_eq!(refused["hint"], register.as_str(), "{refused}");
    checkout.run(&["status", "--run", "r"]).refused("not_found");
    let doctor = checkout.fleet(&["doctor"]);
    assert_eq!(doctor["healthy"], false, "{doctor}");
    assert_eq!(doctor["next"], register.as_str(), "{doctor}");
    // A lead may plan, and is told at the launch, which leaves nothing behind.
    checkout.fleet(&["init", "l"]);
    checkout.fleet(&["plan", "--file", "plan.toml", "--run", "l"]);
    let before = checkout.bytes_of("l");
    checkout
        .run(&["launch", "one", "--run", "l"])
        .refused("workspace_untrusted");
    assert_eq!(checkout.bytes_of("l"), before);
    checkout
        .world
        .command(&["project", "register", "--provider", "scripted", &path]);
    let status = checkout.fleet(&["run", "--run", "l"]);
    assert_eq!(Checkout::step(&status, "one")["state"], "reported");
}

#[test]
fn a_script_can_tell_whether_all_was_done() {
    let checkout = Checkout::with(1);
    for (name, script, exit) in [
        (
            "done",
            "write a.txt changed\nsay Status: needs-verification",
            0,
        ),
        ("blocked", "say Status: blocked", 3),
        ("failed", "exit 4", 3),
    ] {
        checkout.write("plan.toml", &step("one", "files = [\"a.txt\"]", script));
        let ran = checkout.run(&["run", "plan.toml", "--run", name]);
        assert_eq!(ran.status, exit, "{name}: {}{}", ran.stdout, ran.stderr);
        assert_eq!(checkout.fleet(&["status", "--run", name])["state"], name);
    }
    checkout.run(&["run", "none.toml"]).refused("plan_invalid");
}

#[test]
fn a_launch_that_the_broker_refuses_for_its_account_leads_to_the_doctor() {
    let checkout = Checkout::with(1);
    let home = checkout.world.command(&["profile", "status", "one"])["home"].clone();
    let home = std::path::PathBuf::from(home.as_str().expect("a home"));
    std::fs::remove_file(home.join("login.json")).expect("its login");
    let script = "write a.txt changed\nsay Status: needs-verification";
    checkout.write("plan.toml", &step("one", "files = [\"a.txt\"]", script));
    let status = checkout.fleet(&["run", "plan.toml", "--run", "r"]);
    assert_eq!(status["state"], "blocked", "{status}");
    assert_eq!(Checkout::step(&status, "one")["attempts"], 0, "{status}");
    assert_eq!(status["next"], json!(["agent-fleet doctor"]), "{status}");
}
