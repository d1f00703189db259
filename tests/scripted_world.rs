//! The scripted provider through the whole broker: what its server, settings and agent do reaches a choice.

use serde_json::{Value, json};

use crate::support::sandbox::Ran;
use crate::support::world::{Account, POOL, World};

/// Why a profile would not be chosen now, with the time when that may have passed.
fn reason(world: &World, profile: &str) -> (String, Value) {
    let project = world.project.to_str().expect("UTF-8");
    let line = [
        "choose",
        "--task",
        "asking",
        "--pool",
        POOL,
        "--workspace",
        project,
        "--dry-run",
        "--explain",
    ];
    let ran = world.sandbox.run(line);
    let answer: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let rows = answer
        .get("explain")
        .unwrap_or(&answer["details"]["explain"]);
    let row = rows
        .as_array()
        .and_then(|rows| rows.iter().find(|row| row["profile"] == profile))
        .expect("a row of the profile");
    let word = row["reason"].as_str().expect("a reason");
    (word.to_owned(), row["retry_at"].clone())
}

#[test]
fn the_reset_that_a_worker_was_told_is_the_one_that_choosing_waits_for() {
    let world = World::new(&[
        Account::new("one").used(10.0),
        Account::new("two").used(30.0),
    ]);
    let ran = world.exec("a", "limit quota 7200");
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    let stated: Value = {
        let bytes = std::fs::read(world.service().join("one.json")).unwrap();
        let account: Value = serde_json::from_slice(&bytes).unwrap();
        account["windows"][0]["resets_at"].clone()
    };
    assert_eq!(reason(&world, "one"), ("cooldown".to_owned(), stated));
    assert_eq!(world.exec("b", "say hi").status, 0);
    assert_eq!(world.requests("turn"), ["one ok", "two ok"]);
}

#[test]
fn a_project_or_a_caller_that_carries_a_token_cannot_move_a_worker() {
    let mut world = World::new(&[Account::new("one"), Account::new("two").pools(&["other"])]);
    let home = world.command(&["profile", "list"])["profiles"][1]["home"].clone();
    let login = format!("{}/login.json", home.as_str().unwrap());
    let login: Value = serde_json::from_slice(&std::fs::read(login).unwrap()).unwrap();
    let token = login["token"].as_str().unwrap().to_owned();
    world.sandbox.set("SCRIPTED_TOKEN", &token);
    world.sandbox.set("SCRIPTED_HOME", home.as_str().unwrap());
    assert_eq!(world.exec("a", "say hi").status, 0);
    assert_eq!(world.requests("turn"), ["one ok"]);
    let planted = json!({"env": {"SCRIPTED_TOKEN": token}}).to_string();
    world
        .sandbox
        .write("project/.scripted/settings.json", planted);
    let refused = world.exec("b", "say hi").refused("auth_override");
    let hint = refused["hint"].as_str().expect("a hint");
    assert!(hint.starts_with("${EDITOR:-vi} /"), "{hint}");
    assert!(!refused.to_string().contains(&token), "a token in an error");
    assert_eq!(world.requests("turn"), ["one ok"]);
}

#[test]
fn a_revoked_account_is_left_out_after_its_worker_failed() {
    let world = World::with(2);
    assert_eq!(world.exec("a", "limit auth").status, 1);
    assert_eq!(reason(&world, "one").0, "auth_broken");
    assert_eq!(world.exec("b", "say hi").status, 0);
    assert_eq!(world.requests("turn"), ["one ok", "two ok"]);
}

#[test]
fn a_login_that_was_refused_while_the_clock_was_ahead_is_cured_by_logging_in_again() {
    let mut world = World::with(1);
    world.sandbox.set("AGENT_FLEET_TEST_NOW", "+259200");
    assert_eq!(world.exec("a", "limit auth").status, 1);
    world.sandbox.set("AGENT_FLEET_TEST_NOW", "+0");
    world.change("one", |account| account["revoked"] = false.into());
    let home = world.command(&["profile", "status", "one"])["home"].clone();
    world.log_in(home.as_str().expect("a home"), &Account::new("one"));
    world.command(&["profile", "verify", "one"]);
    let row = world.command(&["status"])["profiles"][0].clone();
    assert_eq!(row["state"], "free", "{row}");
}

#[test]
fn what_was_seen_before_the_server_was_asked_is_older_than_its_answer() {
    let mut world = World::with(1);
    let home = world.command(&["profile", "status", "one"])["home"].clone();
    world.sandbox.set("AGENT_FLEET_TEST_NOW", "+259200");
    assert_eq!(world.exec("a", "limit auth").status, 1);
    world.sandbox.set("AGENT_FLEET_TEST_NOW", "+0");
    world.change("one", |account| account["revoked"] = false.into());
    world.log_in(home.as_str().expect("a home"), &Account::new("one"));
    // Nobody has folded the worker's words yet.
    world.command(&["profile", "verify", "one"]);
    let row = world.command(&["status"])["profiles"][0].clone();
    assert_eq!(row["state"], "free", "{row}");
}

#[test]
fn a_billing_block_stays_until_a_person_lifts_it_with_the_command_that_is_named() {
    let world = World::with(1);
    assert_eq!(world.exec("a", "limit billing").status, 1);
    let refused = world.exec("b", "say hi").refused("money_guard");
    let sentence = refused["error"].as_str().expect("a sentence");
    assert!(sentence.contains("billing"), "{refused}");
    let hint = "agent-fleet profile cooldown-clear one";
    assert_eq!(refused["hint"], hint);
    let status = world.command(&["profile", "status", "one"]);
    assert_eq!(status["routeability"]["hint"], hint, "{status}");
    let clear = ["profile", "cooldown-clear", "one"];
    assert_eq!(world.command(&clear)["changed"], true);
    assert_eq!(world.exec("c", "say hi").status, 0);
    assert_eq!(world.command(&clear)["changed"], false);
}

#[test]
fn an_id_that_is_used_again_after_half_a_removal_begins_anew() {
    let world = World::with(1);
    world.command(&["profile", "drain", "one", "--reason", "leaving"]);
    let home = world.command(&["profile", "status", "one"])["home"].clone();
    let home = home.as_str().expect("a home");
    // The fourth durable step puts the registry without it in force.
    let mut removal = world.sandbox.command(["profile", "remove", "one"]);
    let ended = Ran::of(removal.env("AGENT_FLEET_TEST_CRASH_AT", "4"));
    assert_ne!(ended.status, 0, "{ended:?}");
    let gone = ["profile", "status", "one"];
    world.sandbox.run(gone).refused("not_found");
    let add = ["profile", "add", "one", "--provider", "scripted"];
    let place = ["--home", home, "--in-place"];
    world.command(&[add.as_slice(), &place].concat());
    let status = world.command(&["profile", "status", "one"]);
    assert_eq!(status["drain"], Value::Null, "{status}");
    assert_eq!(status["quota"]["identity_fingerprint"], Value::Null);
}

#[test]
fn an_agent_that_a_tool_starts_does_not_move_the_task_s_session() {
    let world = World::with(1);
    let program = env!("CARGO_BIN_EXE_agent-fleet");
    let script = format!("spawn {program} scripted-agent -- -p 'say nested'; true");
    let ran = world.exec("a", &script);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(ran.stdout, "nested\n");
    let before = world.command(&["session", "status", "--task", "a"]);
    let project = world.project.to_str().unwrap();
    let resume = [
        "resume",
        "--task",
        "a",
        "--workspace",
        project,
        "--",
        "-p",
        "say on",
    ];
    assert_eq!(world.sandbox.run(resume).status, 0);
    let after = world.command(&["session", "status", "--task", "a"]);
    assert_eq!(before["session_id"], after["session_id"]);
    assert_eq!(world.requests("turn").len(), 3);
}

#[test]
fn a_killed_worker_frees_its_only_slot_for_the_next_choice() {
    let world = World::new(&[Account::new("one").slots(1)]);
    let worker = world.start("a", "hold never");
    world.exec("b", "say hi").refused("capacity");
    worker.kill();
    let ran = world.exec("b", "say hi");
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let worker = world.start("c", "hold go");
    world.sandbox.write("project/go", "");
    assert_eq!(worker.wait(), 0);
}

#[test]
fn a_state_root_on_a_network_file_system_is_refused_by_name_and_nothing_is_leased() {
    let mut world = World::with(1);
    world.sandbox.set("AGENT_FLEET_TEST_FILESYSTEM", "NFS");
    let line = world.exec_line("anything", "say hello");
    let error = world.sandbox.run(line).refused("unsupported_filesystem");
    assert!(
        error["error"]
            .as_str()
            .is_some_and(|text| text.contains("NFS")),
        "{error}"
    );
    world.sandbox.set("AGENT_FLEET_TEST_FILESYSTEM", "");
    assert_eq!(world.lease("anything"), None);
}

#[test]
fn a_clock_that_was_set_back_is_seen_through() {
    let mut world = World::with(1);
    let asked = world.requests("usage").len();
    world.sandbox.set("AGENT_FLEET_TEST_NOW", "-90000");
    for task in ["a", "b"] {
        let project = world.project.to_str().expect("UTF-8").to_owned();
        let line = [
            "choose",
            "--dry-run",
            "--pool",
            POOL,
            "--task",
            task,
            "--workspace",
            &project,
        ];
        let chosen = world.command(&line);
        assert_eq!(chosen["quota_fresh"], true, "{chosen}");
    }
    let more = world.requests("usage").len() - asked;
    assert_eq!(more, 1, "the reading from ahead is replaced, once");
}

#[test]
fn a_profile_rests_as_long_as_a_person_says_and_no_longer() {
    let mut world = World::with(1);
    let rest = ["profile", "cooldown", "one", "--for", "2h"];
    let set = world.command(&[&rest[..], &["--reason", "night shift"]].concat());
    assert_eq!(
        (&set["cooldown"]["reason"], &set["changed"]),
        (&"manual".into(), &true.into())
    );
    let refused = world.exec("a", "say hi").refused("cooldown");
    assert_eq!(refused["retry_at"], set["cooldown"]["until"], "{refused}");
    // A shorter one does not end it, and the snapshot may be lost.
    let shorter = world.command(&["profile", "cooldown", "one", "--seconds", "60"]);
    assert_eq!(shorter["changed"], false, "{shorter}");
    assert_eq!(shorter["cooldown"], set["cooldown"]);
    std::fs::remove_file(world.sandbox.path("state/snapshot/scripted")).expect("a snapshot");
    drop(world.exec("a", "say hi").refused("cooldown"));
    let told = world.command(&["audit", "--profile", "one", "--limit", "4"]);
    let words = told["events"].as_array().expect("a list").iter();
    let words: Vec<_> = words.map(|one| (&one["event"], &one["reason"])).collect();
    assert!(
        words.contains(&(&"reason_given".into(), &"night shift".into())),
        "{words:?}"
    );
    world.sandbox.set("AGENT_FLEET_TEST_NOW", "+7300");
    assert_eq!(world.exec("a", "say hi").status, 0);
    for wrong in [
        &["--for", "0s"][..],
        &["--for", "32d"],
        &["--seconds", "0"],
        &[],
    ] {
        let line = [&["profile", "cooldown", "one"], wrong].concat();
        drop(world.sandbox.run(line).refused("usage"));
    }
}
