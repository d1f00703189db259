//! Torn, empty and foreign files of a running launch: one worker becomes uncertain, keeps its place and is never
//! started twice; the rest of the run goes on, and so does the worker once the file is put right.

use std::path::Path;

use serde_json::{Value, json};

use super::background::{Background, HeldBack, directory, lives, record, until, well};
use crate::support::checkout::{Checkout, step};
use crate::support::world::wait;

/// Two workers that run, each until its file is there, with nobody that drives them.
fn two_running(checkout: &Checkout, run: &str) {
    let script = |file: &str| {
        format!(
            "spawn echo {run} >> {file}\nhold ../go-{run}-{file}\nsay Status: needs-verification"
        )
    };
    let text = [
        step("one", "files = [\"a.txt\"]", &script("a.txt")),
        step("two", "files = [\"b.txt\"]", &script("b.txt")),
    ];
    checkout.write("plan.toml", &text.concat());
    let mut first = Background::start(checkout, &["run", "plan.toml", "--run", run], &[]);
    for (worker, file) in [("one", "a.txt"), ("two", "b.txt")] {
        until(checkout, run, worker, &["running"]);
        wait("its first line", || {
            checkout
                .read(file)
                .lines()
                .find(|line| *line == run)
                .map(drop)
        });
    }
    first.kill();
}

fn go(checkout: &Checkout, run: &str, file: &str) {
    checkout.world.sandbox.write(format!("go-{run}-{file}"), "");
}

/// What stands in the place of a file, by what it was.
fn foreign(before: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let half = before.get(..before.len() / 2).unwrap_or_default().to_vec();
    let mut other: Value = serde_json::from_slice(before).unwrap_or_else(|_| json!({"schema": 1}));
    for key in ["token", "name"] {
        if other.get(key).is_some() {
            other[key] = "another".into();
        }
    }
    vec![
        ("torn", half),
        ("empty", Vec::new()),
        ("another launch's", other.to_string().into_bytes()),
    ]
}

fn put(path: &Path, bytes: &[u8]) {
    #[expect(clippy::disallowed_methods, reason = "test data")]
    std::fs::write(path, bytes).expect("a file of the run");
}

/// The state of a worker, or that its record cannot be read.
fn state_of(status: &Value, name: &str) -> String {
    let workers = status["workers"].as_array().expect("a list");
    let found = workers.iter().find(|worker| worker["name"] == name);
    found.map_or_else(
        || "not read".to_owned(),
        |worker| worker["state"].as_str().unwrap_or_default().to_owned(),
    )
}

#[test]
fn a_file_that_cannot_be_read_costs_one_worker_its_certainty_and_nothing_else() {
    let checkout = Checkout::with(2);
    two_running(&checkout, "r");
    let root = directory(&checkout, "r");
    let files = [
        ("workers/one.json", "not read"),
        ("launches/one.1/launch.json", "unknown"),
        ("launches/one.1/claim.json", "unknown"),
        ("launches/one.1/started.json", "unknown"),
    ];
    for (file, expected) in files {
        let path = root.join(file);
        let before = std::fs::read(&path).expect("a file of the run");
        for (what, bytes) in foreign(&before) {
            put(&path, &bytes);
            let status = checkout.fleet(&["status", "--run", "r"]);
            assert_eq!(
                state_of(&status, "one"),
                expected,
                "{what} {file}: {status}"
            );
            assert_eq!(
                state_of(&status, "two"),
                "running",
                "{what} {file}: {status}"
            );
            assert_eq!(status["active"], 2, "{what} {file}: {status}");
            assert_eq!(std::fs::read(&path).expect("it"), bytes, "{what} {file}");
        }
        put(&path, &before);
        let status = checkout.fleet(&["status", "--run", "r"]);
        assert_eq!(state_of(&status, "one"), "running", "{file}: {status}");
    }
    // The broker's receipt is not needed to know that it runs, and an end that another launch came to is none.
    let receipt = root.join("launches/one.1/receipt.json");
    let whole = std::fs::read(&receipt).expect("a receipt");
    put(&receipt, b"{\"ok\":");
    let status = checkout.fleet(&["status", "--run", "r"]);
    assert_eq!(state_of(&status, "one"), "running", "{status}");
    put(&receipt, &whole);
    let exit = json!({"schema": 1, "token": "another", "status": 0, "signal": null, "at": "2026-01-01T00:00:00Z"});
    put(
        &root.join("launches/one.1/exit.json"),
        exit.to_string().as_bytes(),
    );
    let status = checkout.fleet(&["status", "--run", "r"]);
    assert_eq!(state_of(&status, "one"), "unknown", "{status}");

    // While one cannot be told, the other is finished and verified; then the first is.
    put(&root.join("launches/one.1/claim.json"), b"");
    go(&checkout, "r", "b.txt");
    let run = Background::start(&checkout, &["run", "--run", "r"], &[]);
    wait("the other step", || {
        let status = checkout.fleet(&["status", "--run", "r"]);
        (Checkout::step(&status, "two")["state"] == "verified").then_some(())
    });
    go(&checkout, "r", "a.txt");
    well(&run.finish(), "the run");
    let status = checkout.fleet(&["status", "--run", "r"]);
    assert_eq!(status["state"], "done", "{status}");
    for (worker, file) in [("one", "a.txt"), ("two", "b.txt")] {
        assert_eq!(Checkout::worker(&status, worker)["launch"], 1, "{status}");
        let turns = checkout.read(file);
        assert_eq!(turns.lines().filter(|line| *line == "r").count(), 1);
    }
}

#[test]
fn a_torn_line_of_the_ledger_stops_nothing_and_a_foreign_one_stops_new_launches() {
    let checkout = Checkout::with(1);
    let text = [
        step(
            "one",
            "files = [\"a.txt\"]",
            "hold ../go\nsay Status: needs-verification",
        ),
        step(
            "two",
            "files = [\"b.txt\"]\nneeds = [\"one\"]",
            "write b.txt done\nsay Status: needs-verification",
        ),
    ];
    checkout.write("plan.toml", &text.concat());
    let mut first = Background::start(&checkout, &["run", "plan.toml", "--run", "r"], &[]);
    until(&checkout, "r", "one", &["running"]);
    first.kill();
    let path = directory(&checkout, "r").join("ledger.jsonl");
    let whole = std::fs::read(&path).expect("a ledger");
    let with = |line: &[u8]| [whole.as_slice(), line].concat();
    put(&path, &with(b"{\"id\":\"launch.two.1\",\"kind\":\"int"));
    let status = checkout.fleet(&["status", "--run", "r"]);
    assert_eq!(status["not_read"], json!([]), "{status}");
    put(&path, &with(b"nothing of ours\n"));
    checkout.world.sandbox.write("go", "");
    let ran = checkout.run(&["run", "--run", "r"]);
    assert!(ran.stderr.contains("ledger"), "{}", ran.stderr);
    let status = checkout.fleet(&["status", "--run", "r"]);
    assert_eq!(
        Checkout::step(&status, "one")["state"],
        "verified",
        "{status}"
    );
    assert_eq!(Checkout::step(&status, "two")["state"], "ready", "{status}");
    assert_eq!(status["not_read"][0]["what"], "ledger", "{status}");
    let text = String::from_utf8(std::fs::read(&path).expect("a ledger")).expect("text");
    put(&path, text.replace("nothing of ours\n", "").as_bytes());
    checkout.fleet(&["run", "--run", "r"]);
    assert_eq!(checkout.read("b.txt"), "done\n");
}

#[test]
fn a_run_whose_own_records_cannot_be_read_is_refused_by_name_and_goes_on_once_they_can() {
    let checkout = Checkout::with(1);
    checkout.write(
        "plan.toml",
        &step(
            "one",
            "files = [\"a.txt\"]",
            "hold ../go\nsay Status: needs-verification",
        ),
    );
    let mut first = Background::start(&checkout, &["run", "plan.toml", "--run", "r"], &[]);
    until(&checkout, "r", "one", &["running"]);
    first.kill();
    drop(record(&checkout, "r", "steps.json"));
    for file in ["steps.json", "plan.json", "run.json"] {
        let path = directory(&checkout, "r").join(file);
        let before = std::fs::read(&path).expect("a file of the run");
        for bytes in [&before[..before.len() / 2], b"", b"{\"schema\":99}"] {
            put(&path, bytes);
            for words in [["status", "--run", "r"], ["run", "--run", "r"]] {
                let ran = checkout.run(&words);
                assert_ne!(ran.status, 0, "{file}: {}", ran.stdout);
                assert!(ran.stdout.contains(file), "{file}: {}", ran.stdout);
            }
            assert_eq!(
                std::fs::read(&path).expect("it"),
                bytes,
                "{file} was changed"
            );
        }
        put(&path, &before);
    }
    checkout.world.sandbox.write("go", "");
    checkout.fleet(&["run", "--run", "r"]);
    let status = checkout.fleet(&["status", "--run", "r"]);
    assert_eq!(status["state"], "done", "{status}");
    assert_eq!(Checkout::worker(&status, "one")["launch"], 1, "{status}");
}

#[test]
fn a_run_that_cannot_be_read_is_set_aside_once_nothing_of_it_lives() {
    let checkout = Checkout::with(1);
    let holds = "hold ../go\nsay Status: needs-verification";
    checkout.write("plan.toml", &step("one", "files = [\"a.txt\"]", holds));
    let mut first = Background::start(&checkout, &["run", "plan.toml", "--run", "old"], &[]);
    until(&checkout, "old", "one", &["running"]);
    first.kill();
    let aside = ["recover", "--set-aside", "--run", "old"];
    checkout.run(&aside).refused("step_not_ready");
    let root = directory(&checkout, "old");
    put(&root.join("run.json"), b"{\"schema\":1,");

    // It is in the way of every other run, and says what to type.
    for words in [
        &["run", "plan.toml", "--run", "new"][..],
        &["status", "--run", "old"],
        &["status"],
    ] {
        let refused = checkout.run(words).refused("record_damaged");
        assert_eq!(
            refused["hint"], "agent-fleet fleet recover --set-aside --run old",
            "{refused}"
        );
    }
    let doctor = checkout.fleet(&["doctor"]);
    assert!(
        doctor.to_string().contains("recover --set-aside --run old"),
        "{doctor}"
    );
    checkout.run(&aside).refused("worker_active");
    checkout.run(&["recover", "--set-aside"]).refused("usage");
    checkout.world.sandbox.write("go", "");
    let moved = wait("the end of its worker", || {
        let ran = checkout.run(&aside);
        (ran.status == 0).then_some(ran)
    });
    let kept = moved.success()["directory"]
        .as_str()
        .map(Path::new)
        .map(Path::to_owned);
    let kept = kept.expect("a directory");
    assert!(!root.exists() && kept.ends_with(root.file_name().expect("a name")));
    assert_eq!(
        std::fs::read(kept.join("run.json")).expect("kept"),
        b"{\"schema\":1,"
    );
    checkout.run(&aside).refused("not_found");
    checkout.fleet(&["run", "plan.toml", "--run", "new"]);
    assert_eq!(checkout.fleet(&["status"])["run"], "new");
}

#[test]
fn a_launch_that_waits_for_its_host_never_begins_once_its_run_is_set_aside() {
    let checkout = Checkout::with(1);
    let script = "write a.txt begun\nsay Status: needs-verification";
    checkout.write("plan.toml", &step("one", "files = [\"a.txt\"]", script));
    let mut held = HeldBack::start(&checkout, "old");
    held.command.kill();
    let root = directory(&checkout, "old");
    put(&root.join("plan.json"), b"");
    checkout.fleet(&["recover", "--set-aside", "--run", "old"]);
    held.let_go();
    wait("the end of the late host", || {
        (!lives(held.host)).then_some(())
    });
    assert_eq!(checkout.read("a.txt"), "as it was\n");
    assert!(checkout.world.requests("turn").is_empty());
}

#[test]
fn a_worktree_that_its_worker_removed_costs_its_step_and_nothing_else() {
    let checkout = Checkout::with(1);
    let asks = "say Status: needs-verification";
    let text = [
        step(
            "one",
            "worktree = true",
            &format!("spawn rm -rf ../one\n{asks}"),
        ),
        step(
            "two",
            "files = [\"b.txt\"]",
            &format!("write b.txt done\n{asks}"),
        ),
    ];
    checkout.write("plan.toml", &text.concat());
    let status = checkout.fleet(&["run", "plan.toml", "--run", "r"]);
    let one = Checkout::step(&status, "one");
    assert_eq!(
        (&one["state"], &one["reason"]),
        (&"blocked".into(), &"work_not_read".into()),
        "{status}"
    );
    assert_eq!(status["next"][0], "agent-fleet fleet diff one --run r");
    assert_eq!(
        Checkout::step(&status, "two")["state"],
        "verified",
        "{status}"
    );
    checkout.run(&["diff", "one"]).refused("not_found");
    let status = checkout.fleet(&["drop", "one", "--reason", "gone", "--discard"]);
    assert_eq!(status["state"], "done", "{status}");
    assert!(
        !checkout
            .git(&["worktree", "list"])
            .contains("share/worktrees")
    );
}
