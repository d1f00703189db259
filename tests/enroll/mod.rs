//! Enrollment through the real binary: the scripted provider's login at the person's terminal.

mod ends;
mod given;
mod interrupted;
mod many;
mod pasted;
mod refused;
mod stubs;

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::ran::Ran;
use crate::support::world::{Account, POOL, World};

/// Milliseconds between the two proofs.
pub(crate) const SECOND_PROOF: &str = "AGENT_FLEET_TEST_SECOND_PROOF";

/// A login that the server does not know.
const GONE: &str =
    r#"{"account":"alpha","token":"synthetic-gone","refresh_token":"synthetic-gone-too"}"#;

/// A world without an account, with profiles that were only added.
fn world(profiles: &[&str]) -> World {
    let mut world = World::with(0);
    world.sandbox.set(SECOND_PROOF, "20");
    for id in profiles {
        let line = [
            "profile",
            "add",
            id,
            "--provider",
            "scripted",
            "--pool",
            POOL,
        ];
        world.command(&line);
    }
    world
}

/// Enrolls a profile; the person answers the provider's question with `answer`.
fn enroll(world: &World, arguments: &[&str], answer: &str) -> Ran {
    let mut command = world.sandbox.command(["profile", "enroll"]);
    Ran::answered(command.args(arguments), answer)
}

fn credential(world: &World, id: &str) -> PathBuf {
    world
        .sandbox
        .path(format!("share/accounts/scripted/{id}/login.json"))
}

/// The credential file: which one, and what is in it.
fn kept(world: &World, id: &str) -> (u64, Vec<u8>) {
    let path = credential(world, id);
    let inode = std::fs::metadata(&path).expect("a credential").ino();
    (inode, std::fs::read(path).expect("a credential"))
}

/// Everything below the state root that an enrollment could leave behind.
fn left(world: &World) -> Vec<String> {
    let mut found = Vec::new();
    for folder in ["state/staging", "state/transactions"] {
        let entries = std::fs::read_dir(world.sandbox.path(folder));
        for entry in entries.into_iter().flatten().flatten() {
            found.push(format!("{folder}/{}", entry.file_name().display()));
        }
    }
    found
}

/// Every file of the homes and the registry, and which one it is. What workers write of their own is left out.
fn homes(world: &World) -> Vec<(PathBuf, u64, i64)> {
    let mut found = Vec::new();
    let mut folders = vec![world.sandbox.path("share"), world.sandbox.path("config")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a directory").flatten() {
            let metadata = entry.metadata().expect("an entry");
            if metadata.is_dir() && entry.file_name() != "transcripts" {
                folders.push(entry.path());
            }
            let at = if metadata.is_dir() {
                0
            } else {
                metadata.mtime()
            };
            found.push((entry.path(), metadata.ino(), at));
        }
    }
    found.sort();
    found
}

/// Every path below the roots and the places that programs use without asking.
fn paths(world: &World) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let roots = ["share", "config", "state", "tmp", "home"];
    let mut folders: Vec<PathBuf> = roots.map(|root| world.sandbox.path(root)).to_vec();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a directory").flatten() {
            if entry.metadata().expect("an entry").is_dir() {
                folders.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found.sort();
    found
}

#[test]
fn one_command_gives_a_profile_its_login_and_work_follows_at_once() {
    let world = world(&["one"]);
    let ran = enroll(&world, &["one"], "alpha\n");
    let said = ran.stderr.clone();
    let enrolled = ran.success();
    assert_eq!(enrolled["outcome"], "promoted");
    assert_eq!(
        enrolled["hint"], "agent-fleet profile enable one",
        "what is missing is said: {enrolled}"
    );
    for words in ["which account?", "asking again", "is in force"] {
        assert!(said.contains(words), "`{words}` is not in {said}");
    }
    world.command(&["profile", "enable", "one"]);
    assert_eq!(world.exec("task", "say hello").status, 0);
    assert_eq!(world.requests("turn"), ["alpha ok"]);
    // The next one is ready by itself, since its profile is enabled already.
    std::fs::remove_file(credential(&world, "one")).expect("a credential");
    let again = enroll(&world, &["one"], "alpha\n").success();
    assert_eq!(
        (&again["routeable"], &again["reason"]),
        (&json!(true), &json!("ready")),
        "{again}"
    );
    assert_eq!(world.exec("other", "say hello").status, 0);
    assert_eq!(left(&world), [""; 0]);
}

#[test]
fn the_same_account_again_leaves_a_good_login_as_it_is() {
    let world = world(&["one"]);
    enroll(&world, &["one"], "alpha\n").success();
    let before = kept(&world, "one");
    let again = enroll(&world, &["one"], "alpha\n").success();
    assert_eq!(again["outcome"], "unchanged");
    assert_eq!(kept(&world, "one"), before);
    // One that the server takes no longer gives way.
    world.sandbox.write(credential(&world, "one"), GONE);
    let renewed = enroll(&world, &["one"], "alpha\n").success();
    assert_eq!(renewed["outcome"], "promoted");
    world.command(&["profile", "enable", "one"]);
    assert_eq!(left(&world), [""; 0]);
}

#[test]
fn a_good_login_that_ends_within_a_week_gives_way_to_one_of_its_account() {
    for (days, outcome) in [(5, "promoted"), (8, "unchanged")] {
        let world = world(&["one"]);
        enroll(&world, &["one"], "alpha\n").success();
        let file = credential(&world, "one");
        let bytes = std::fs::read(&file).expect("a credential");
        let mut login: Value = serde_json::from_slice(&bytes).expect("JSON");
        // Its access token lasts for some hours from now.
        let soon: jiff::Timestamp = login["expires_at"]
            .as_str()
            .and_then(|at| at.parse().ok())
            .expect("a time");
        let ends = soon + jiff::SignedDuration::from_hours(24 * days);
        login["login_expires_at"] = ends.to_string().into();
        world.sandbox.write(&file, login.to_string());
        let before = kept(&world, "one");
        let enrolled = enroll(&world, &["one"], "alpha\n").success();
        assert_eq!(enrolled["outcome"], outcome, "{days} days");
        assert_eq!(kept(&world, "one") == before, outcome == "unchanged");
        world.command(&["profile", "enable", "one"]);
        assert_eq!(world.exec("task", "say hello").status, 0);
    }
}

#[test]
fn a_login_that_is_in_the_home_already_is_adopted_where_it_is() {
    let world = world(&["one"]);
    let home = credential(&world, "one");
    let home = home.parent().and_then(|home| home.to_str()).expect("UTF-8");
    world.log_in(home, &Account::new("alpha"));
    let before = kept(&world, "one");
    let adopted = world.command(&["profile", "enroll", "one", "--adopt"]);
    assert_eq!(adopted["outcome"], "adopted");
    assert_eq!(kept(&world, "one"), before);
    world.command(&["profile", "enable", "one"]);
    assert_eq!(world.exec("task", "say hello").status, 0);
    let nothing = world
        .sandbox
        .run(["profile", "add", "two", "--provider", "scripted"]);
    nothing.success();
    let refused = world.sandbox.run(["profile", "enroll", "two", "--adopt"]);
    assert_eq!(
        refused.refused("login_failed")["details"]["reason"],
        "no_login"
    );
}

#[test]
fn every_profile_without_a_login_gets_its_turn_and_a_row() {
    let world = world(&["one", "two", "three"]);
    enroll(&world, &["two"], "beta\n").success();
    // The second answer names an account that a sibling has.
    let ran = enroll(&world, &["--all-missing"], "alpha\n");
    let said = ran.stderr.clone();
    let refused = ran.refused("login_failed");
    let rows = refused["details"]["enrollments"].as_array().expect("rows");
    let told: Vec<(&str, &Value)> = rows
        .iter()
        .map(|row| (row["profile"].as_str().expect("an id"), &row["code"]))
        .collect();
    assert_eq!(
        told,
        [("one", &Value::Null), ("three", &json!("login_failed"))]
    );
    assert!(
        said.contains("three") && said.contains("promoted"),
        "{said}"
    );
    let rest = enroll(&world, &["--all-missing"], "gamma\n").success();
    assert_eq!(rest["enrollments"][0]["enrolled"]["outcome"], "promoted");
    let none = enroll(&world, &["--all-missing"], "").success();
    assert_eq!(none, json!({"enrollments": []}));
    assert_eq!(left(&world), [""; 0]);
}

#[test]
fn twenty_enrollments_leave_no_litter() {
    let world = world(&["one"]);
    enroll(&world, &["one"], "alpha\n").success();
    let before = paths(&world);
    for round in 0..20 {
        // It is gone, or the server does not take it any more.
        if round % 2 == 0 {
            std::fs::remove_file(credential(&world, "one")).expect("a credential");
        } else {
            world.sandbox.write(credential(&world, "one"), GONE);
        }
        let enrolled = enroll(&world, &["one"], "alpha\n").success();
        assert_eq!(enrolled["outcome"], "promoted");
    }
    assert_eq!(paths(&world), before);
}
