//! `status`: who is free, who is blocked until when and why, what runs, what wants a look, and what to type.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::living::{CONVERSATION, Living};
use crate::support::sandbox::Sandbox;
use crate::support::world::{Account, POOL, World};

/// The row of a profile.
#[track_caller]
fn row(status: &Value, profile: &str) -> Value {
    let rows = status["profiles"].as_array().expect("rows");
    let found = rows.iter().find(|row| row["profile"] == profile);
    found
        .unwrap_or_else(|| panic!("no {profile} in {status}"))
        .clone()
}

/// The codes of the warnings.
fn warnings(status: &Value) -> Vec<String> {
    let warnings = status["warnings"].as_array().expect("warnings");
    let code = |warning: &Value| warning["code"].as_str().expect("a code").to_owned();
    warnings.iter().map(code).collect()
}

/// Two profiles of real CLIs in homes of their own, without a login.
fn homes() -> Sandbox {
    let sandbox = Sandbox::new();
    let mut registry = "version = 1\n".to_owned();
    for provider in ["claude", "codex"] {
        let home = sandbox.path(format!("homes/{provider}"));
        std::fs::create_dir_all(&home).expect("a home");
        let tables = format!(
            "[providers.{provider}]\nbinary = \"{}\"\nbase_home = false\n[profiles.\"{provider}-1\"]\nprovider = \"{provider}\"\nhome = \"{}\"\npools = [\"{POOL}\"]\nenabled = true\n",
            env!("CARGO_BIN_EXE_fake-provider"),
            home.display(),
        );
        registry.push_str(&tables);
    }
    sandbox.write("config/accounts.toml", registry);
    sandbox
}

#[test]
fn the_first_five_lines_say_who_is_free_and_blocked_what_runs_and_what_to_type() {
    let world = World::new(&[
        Account::new("free"),
        Account::new("spent").used(99.0),
        Account::new("stopped"),
        Account::new("full").slots(1).pools(&[POOL, "alone"]),
    ]);
    world.command(&["profile", "drain", "stopped", "--reason", "a new month"]);
    let project = world.project.to_str().expect("UTF-8");
    world.command(&[
        "lease",
        "choose",
        "--task",
        "t",
        "--pool",
        "alone",
        "--workspace",
        project,
    ]);
    let status = world.command(&["status"]);
    assert_eq!(status["schema"], 1);
    assert!(status["generated_at"].is_string());
    assert_eq!(
        status["summary"],
        serde_json::json!({"free": 1, "full": 1, "blocked": 2, "disabled": 0, "live_leases": 1, "waiting": 0, "unleased": 0, "warnings": 0})
    );
    for (profile, state, reason) in [
        ("free", "free", "fresh"),
        ("full", "full", "capacity"),
        ("spent", "blocked", "quota_reserve"),
        ("stopped", "blocked", "draining"),
    ] {
        let row = row(&status, profile);
        assert_eq!(
            (&row["state"], &row["reason"]),
            (&state.into(), &reason.into())
        );
    }
    assert!(
        row(&status, "spent")["until"].is_string(),
        "a window resets"
    );
    assert!(row(&status, "stopped")["since"].is_string());
    assert_eq!(status["next"], "agent-fleet profile undrain stopped");

    let page = world.sandbox.run(["--format", "human", "status"]);
    assert_eq!(page.status, 0, "{}", page.stderr);
    let lines: Vec<&str> = page.stdout.lines().take(6).collect();
    assert!(lines[0].starts_with("free      free 100%"), "{lines:#?}");
    assert!(lines[1].contains("spent quota_reserve for "), "{lines:#?}");
    assert!(lines[1].contains("stopped draining since "), "{lines:#?}");
    assert!(lines[1].contains("full full (1 lease)"), "{lines:#?}");
    assert_eq!(lines[2], "leases    0 running, 1 reserved");
    assert_eq!(lines[3], "warnings  none");
    assert_eq!(lines[4], "next      agent-fleet profile undrain stopped");
    assert_eq!(lines[5], "", "the details come after the first screen");
    assert!(page.stdout.contains("\nPROFILE"), "{}", page.stdout);

    let alone = world.command(&["status", "--pool", "alone"]);
    assert_eq!(alone["profiles"].as_array().map(Vec::len), Some(1));
    let refused = world.sandbox.run(["status", "--pool", "nobody"]);
    refused.refused("not_found");
}

#[test]
fn a_worker_that_ended_is_told_as_ended_and_its_slot_is_free() {
    let world = World::new(&[Account::new("one").slots(1)]);
    let worker = world.start("t", "sleep 60");
    let status = world.command(&["status"]);
    assert_eq!(
        (
            &row(&status, "one")["state"],
            &status["summary"]["live_leases"]
        ),
        (&"full".into(), &1.into())
    );
    assert_eq!(status["unleased"], serde_json::json!([]));
    worker.kill();
    let status = world.command(&["status"]);
    assert_eq!(
        (
            &row(&status, "one")["state"],
            &status["summary"]["live_leases"]
        ),
        (&"free".into(), &0.into())
    );
    assert_eq!(status["leases"][0]["verdict"], "dead");
}

#[test]
fn without_a_registry_it_says_what_to_type_first() {
    let sandbox = Sandbox::new();
    let status = sandbox.run(["status"]).success();
    assert_eq!(status["next"], "agent-fleet init");
    assert_eq!(warnings(&status), ["config_missing"]);
    sandbox.write("config/accounts.toml", "version = 1\nnonsense");
    let status = sandbox.run(["status"]).success();
    assert_eq!(warnings(&status), ["config_invalid"]);
    sandbox.write("config/accounts.toml", "version = 1\n");
    let status = sandbox.run(["status"]).success();
    assert_eq!(
        status["next"],
        "agent-fleet profile add claude-1 --provider claude"
    );
}

#[test]
fn one_broken_part_is_named_and_the_rest_is_told_as_it_is() {
    let world = World::with(3);
    let home = world.command(&["profile", "status", "two"])["home"].clone();
    let record = world.sandbox.path("state/profiles/one.json");
    std::fs::remove_file(&record).expect("a record");
    world.sandbox.write(&record, "{");
    let home = home.as_str().expect("a home");
    std::fs::remove_dir_all(home).expect("a home to take away");
    world.sandbox.write(home, "no directory");
    let status = world.command(&["status"]);
    let one = row(&status, "one");
    assert_eq!(
        (&one["state"], &one["reason"]),
        (&"blocked".into(), &"record_damaged".into())
    );
    assert!(
        one["hint"].as_str().expect("a hint").starts_with("mv "),
        "{one}"
    );
    assert_eq!(row(&status, "two")["state"], "blocked");
    assert_eq!(row(&status, "three")["state"], "free");
    assert_eq!(world.sandbox.run(["doctor"]).success()["healthy"], false);
}

#[test]
fn a_state_in_which_nothing_can_be_locked_or_written_is_still_told() {
    let world = World::with(1);
    let _worker = world.start("t", "sleep 60");
    let locks = world.sandbox.path("state/locks");
    std::fs::remove_dir_all(&locks).expect("the locks");
    world.sandbox.write("state/locks", "in the way");
    world
        .sandbox
        .write("state/evidence/scripted.jsonl", "new evidence\n");
    let status = world.command(&["status"]);
    assert_eq!(row(&status, "one")["state"], "free", "{status}");
    assert_eq!(status["summary"]["live_leases"], 1);
    assert_eq!(warnings(&status), ["io"]);
    let doctor = world.command(&["doctor"]);
    assert_eq!(doctor["healthy"], false);
}

#[test]
fn sessions_and_daemons_without_a_lease_are_named_without_their_words() {
    let sandbox = homes();
    let (session, daemon) = (Living::start(), Living::start());
    session.publish_session(&sandbox, &sandbox.path("homes/claude"));
    daemon.publish_daemon(&sandbox, &sandbox.path("homes/codex"));
    let home = sandbox.path("homes/codex");
    let stop = format!(
        "env CODEX_HOME={} {} app-server daemon stop",
        home.display(),
        env!("CARGO_BIN_EXE_fake-provider")
    );
    let status = sandbox.run(["status"]).success();
    assert_eq!(warnings(&status), ["daemons", "unleased_sessions"]);
    for answer in [&status, &sandbox.run(["lease", "list"]).success()] {
        let unleased = answer["unleased"].as_array().expect("a list");
        let told: Vec<_> = unleased
            .iter()
            .map(|one| (&one["profile"], &one["role"], one["pid"].as_u64()))
            .collect();
        assert_eq!(
            told,
            [
                (
                    &"claude-1".into(),
                    &"session".into(),
                    Some(session.pid().into())
                ),
                (
                    &"codex-1".into(),
                    &"daemon".into(),
                    Some(daemon.pid().into())
                ),
            ]
        );
        assert_eq!(unleased[0]["session_id"], CONVERSATION);
        assert_eq!(unleased[1]["hint"], stop.as_str());
        assert!(!answer.to_string().contains("SECRET"), "{answer}");
    }
    for words in [&["status"][..], &["lease", "list"]] {
        let page = sandbox.run([&["--format", "human"], words].concat());
        assert!(
            page.stdout.contains("session without a lease"),
            "{}",
            page.stdout
        );
        assert!(page.stdout.contains(CONVERSATION), "{}", page.stdout);
    }
    drop((session, daemon));
    let status = sandbox.run(["status"]).success();
    assert_eq!(status["unleased"], serde_json::json!([]), "they ended");
}

#[test]
fn a_login_that_ends_soon_is_a_warning_and_one_that_ended_is_in_the_way() {
    let mut world = World::with(2);
    let now: jiff::Timestamp = "2030-01-10T12:00:00Z".parse().expect("a time");
    let ends = |days: i64| (now + jiff::SignedDuration::from_hours(days * 24)).to_string();
    for (profile, days) in [("one", 2), ("two", 30)] {
        let home = world.command(&["profile", "status", profile])["home"].clone();
        let file = format!("{}/login.json", home.as_str().expect("a home"));
        let text = std::fs::read_to_string(&file).expect("a login");
        let mut login: Value = serde_json::from_str(&text).expect("JSON");
        login["login_expires_at"] = ends(days).into();
        login["access_expires_at"] = ends(1).into();
        world.sandbox.write(&file, login.to_string());
    }
    world.sandbox.set("AGENT_FLEET_TEST_NOW", now.to_string());
    world.command(&["profile", "verify", "--all"]);
    let status = world.command(&["status"]);
    assert_eq!(warnings(&status), ["login_expiry"], "{status}");
    assert_eq!(status["warnings"][0]["profile"], "one");
    // It comes first in the registry, and is as full as the other.
    let project = world.project.to_str().expect("UTF-8");
    let line = [
        "choose",
        "--dry-run",
        "--task",
        "t",
        "--pool",
        POOL,
        "--workspace",
    ];
    let chosen = world.command(&[&line[..], &[project]].concat());
    assert_eq!(chosen["profile"], "two");
    world.sandbox.set("AGENT_FLEET_TEST_NOW", ends(3));
    let status = world.command(&["status"]);
    assert_eq!(row(&status, "one")["reason"], "login_expired");
    let doctor = world.command(&["doctor"]);
    let checks = doctor["profiles"][0]["checks"].as_array().expect("checks");
    let expiry = checks.iter().find(|check| check["id"] == "login_expiry");
    assert_eq!(expiry.expect("the check")["level"], "fail");
}

#[test]
fn a_watch_begins_with_the_whole_and_goes_on_with_what_changed() {
    let world = World::with(2);
    let mut child = world
        .sandbox
        .command(["status", "--watch"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = || -> Value {
        let mut line = String::new();
        lines.read_line(&mut line).expect("text");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: `{line}`"))
    };
    assert_eq!(line()["summary"]["free"], 2);
    world.command(&["profile", "drain", "one", "--reason", "x"]);
    let change = line();
    assert_eq!(
        (&change["change"], &change["kind"], &change["row"]["reason"]),
        (&"changed".into(), &"profile".into(), &"draining".into())
    );
    child.kill().expect("a child of ours");
    child.wait().expect("a child of ours");
}

#[test]
fn it_answers_in_milliseconds_whatever_the_number_of_profiles() {
    let world = World::with(8);
    world.command(&["status"]);
    let fastest = (0..5)
        .map(|_| {
            let began = Instant::now();
            world.command(&["status"]);
            began.elapsed()
        })
        .min();
    // A debug build on a busy machine; the budget of a shipped one is in the benchmark.
    assert!(fastest < Some(Duration::from_millis(200)), "{fastest:?}");
}
