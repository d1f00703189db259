//! What is refused, and that each refusal leaves the login in the home as it was and nothing else behind.

use std::io::Write as _;
use std::process::Stdio;

use super::interrupted::waiting;
use super::{GONE, credential, enroll, homes, kept, left, world};
use crate::support::ran::Ran;
use crate::support::world::{Account, World, wait};

/// Runs an enrollment that must be refused, and checks that it changed nothing.
#[track_caller]
fn untouched(world: &World, arguments: &[&str], answer: &str, code: &str) -> serde_json::Value {
    let before = (kept(world, "one"), homes(world));
    let refused = enroll(world, arguments, answer).refused(code);
    assert_eq!((kept(world, "one"), homes(world)), before);
    assert_eq!(left(world), [""; 0]);
    refused
}

#[test]
fn another_account_is_refused_with_two_short_fingerprints() {
    let world = world(&["one"]);
    let mine = enroll(&world, &["one"], "alpha\n").success();
    let refused = untouched(&world, &["one"], "beta\n", "identity_changed");
    let sentence = refused["error"].as_str().expect("a sentence");
    let mine = &mine["identity_fingerprint"].as_str().expect("64 digits")[..8];
    assert!(sentence.contains(mine), "{sentence}");
    let digits = sentence.split(|letter: char| !letter.is_ascii_hexdigit());
    assert_eq!(
        digits.filter(|word| word.len() == 8).count(),
        2,
        "{sentence}"
    );
    assert!(!sentence.contains("beta"), "{sentence}");
    assert_eq!(refused["hint"], "agent-fleet profile enroll one");
}

#[test]
fn the_account_of_a_sibling_is_refused() {
    let world = world(&["one", "two"]);
    enroll(&world, &["one"], "alpha\n").success();
    let refused = enroll(&world, &["two"], "alpha\n").refused("duplicate_provider_identity");
    assert!(!credential(&world, "two").exists());
    assert!(
        refused["error"]
            .as_str()
            .expect("a sentence")
            .contains("`one`")
    );
    assert_eq!(left(&world), [""; 0]);
    // Nobody was isolated by it.
    world.command(&["profile", "enable", "one"]);
}

#[test]
fn a_login_that_the_person_or_the_server_denies_is_refused() {
    let world = world(&["one"]);
    enroll(&world, &["one"], "alpha\n").success();
    let refused = untouched(&world, &["one"], "\n", "login_failed");
    assert_eq!(refused["details"]["reason"], "login_refused");
}

#[test]
fn a_login_that_is_withdrawn_seconds_later_is_refused() {
    let mut world = world(&["one"]);
    world.sandbox.set(super::SECOND_PROOF, "3000");
    let asked = world.requests("usage").len();
    let mut child = world
        .sandbox
        .shell(&format!(
            "echo alpha | {} profile enroll one",
            env!("CARGO_BIN_EXE_agent-fleet")
        ))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    wait("the first proof", || {
        (world.requests("usage").len() > asked).then_some(())
    });
    world.change("alpha", |account| account["revoked"] = true.into());
    drop(child.stdin.take());
    let ran = Ran::ended(&child.wait_with_output().expect("the program ends"));
    let refused = ran.refused("auth_broken");
    assert_eq!(refused["details"]["reason"], "withdrawn");
    let sentence = refused["error"].as_str().expect("a sentence");
    assert!(sentence.contains("private window"), "{sentence}");
    assert!(!credential(&world, "one").exists());
    assert_eq!(left(&world), [""; 0]);
}

#[test]
fn a_live_worker_of_the_provider_is_not_disturbed() {
    let world = world(&["one", "two"]);
    enroll(&world, &["one"], "alpha\n").success();
    world.command(&["profile", "enable", "one"]);
    world.command(&["profile", "provision", "two"]);
    let worker = world.start("task", "hold end");
    let refused = untouched(&world, &["two"], "beta\n", "lease_active");
    assert_eq!(
        refused["error"],
        "refusing scripted login while any same-provider Fleet lease is active"
    );
    assert_eq!(
        refused["hint"],
        "agent-fleet profile enroll two --beside-live"
    );
    // Who looks is told so at once.
    let told = "agent-fleet profile enroll two --beside-live";
    let shown = world.command(&["profile", "status", "two"]);
    assert_eq!(shown["routeability"]["hint"], told);
    let status = world.command(&["status"]);
    let rows = status["profiles"].as_array().expect("rows");
    let two = rows.iter().find(|row| row["profile"] == "two");
    assert_eq!(two.expect("a row")["hint"], told);
    let doctor = world.command(&["doctor"]).to_string();
    assert!(doctor.contains(told), "{doctor}");
    untouched(&world, &["one", "--beside-live"], "alpha\n", "lease_active");
    let enrolled = enroll(&world, &["two", "--beside-live"], "beta\n").success();
    assert_eq!(enrolled["outcome"], "promoted");
    world.sandbox.write("project/end", "");
    assert_eq!(worker.wait(), 0);
}

#[test]
fn maintenance_and_a_missing_home_of_logins_are_refused_before_anyone_logs_in() {
    let world = world(&["one"]);
    enroll(&world, &["one"], "alpha\n").success();
    let path = world.sandbox.path("state/locks/provider-scripted.lock");
    let lock = std::fs::File::open(path).expect("a lock");
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).expect("a free lock");
    untouched(&world, &["one"], "alpha\n", "maintenance_busy");
    drop(lock);
    let ran = enroll(&world, &["nobody"], "alpha\n");
    assert!(!ran.stderr.contains("which account?"), "{}", ran.stderr);
    ran.refused("not_found");
    world.command(&["profile", "policy", "one", "--safety-policy", "manual_only"]);
    untouched(&world, &["one"], "alpha\n", "policy");
}

#[test]
fn a_profile_whose_account_is_somebody_elses_gets_another_one_by_the_command_that_is_told() {
    let world = world(&["one", "two"]);
    enroll(&world, &["one"], "alpha\n").success();
    let home = credential(&world, "two");
    let home = home.parent().and_then(|home| home.to_str()).expect("UTF-8");
    world.log_in(home, &Account::new("alpha"));
    let refused = world.sandbox.run(["profile", "verify", "two"]);
    let refused = refused.refused("duplicate_provider_identity");
    assert_eq!(refused["hint"], "agent-fleet profile enroll two");
    let enrolled = enroll(&world, &["two"], "beta\n").success();
    assert_eq!(enrolled["outcome"], "promoted");
    for id in ["one", "two"] {
        world.command(&["profile", "verify", id]);
        world.command(&["profile", "enable", id]);
    }
}

#[test]
fn what_begins_during_a_login_refuses_it_at_its_end() {
    let world = world(&["one", "two"]);
    for (id, account) in [("one", "alpha\n"), ("two", "beta\n")] {
        enroll(&world, &[id], account).success();
    }
    world.command(&["profile", "enable", "two"]);
    // The server does not take it any more, so that a new one would take its place.
    world.sandbox.write(credential(&world, "one"), GONE);
    let before = (kept(&world, "one"), homes(&world));
    let answered = |during: &dyn Fn()| {
        let mut child = waiting(&world, "one");
        during();
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin.write_all(b"alpha\n").expect("it reads");
        drop(stdin);
        Ran::ended(&child.wait_with_output().expect("the program ends"))
    };
    let worker = std::cell::RefCell::new(None);
    let work = || drop(worker.replace(Some(world.start("task", "hold end"))));
    drop(answered(&work).refused("lease_active"));
    assert_eq!((kept(&world, "one"), homes(&world)), before);
    assert_eq!(left(&world), [""; 0]);
    world.sandbox.write("project/end", "");
    assert_eq!(worker.take().expect("a worker").wait(), 0);
    let enrolled = enroll(&world, &["one"], "alpha\n").success();
    assert_eq!(enrolled["outcome"], "promoted");
}
