//! A login that ended, and the one that takes its place: no further riddle after logging in.

use serde_json::json;

use super::{
    asked, credential, home, one_works, refused_everywhere, sibling_goes_on, status, world,
};
use crate::support::world::{Account, World};

fn revoke(world: &World, revoked: bool) {
    world.change("one", |account| account["revoked"] = revoked.into());
}

/// The server says no to the login of `one`, and it is noticed.
fn broken() -> World {
    let world = world();
    revoke(&world, true);
    drop(
        world
            .sandbox
            .run(["profile", "verify", "one"])
            .refused("auth_broken"),
    );
    world
}

fn log_in(world: &World, account: &str) {
    world.log_in(
        home(world, "one").to_str().expect("UTF-8"),
        &Account::new(account),
    );
}

#[test]
fn a_revoked_login_is_broken_everywhere_and_the_next_command_logs_in_to_its_home() {
    let world = broken();
    refused_everywhere(&world, "auth_broken");
    sibling_goes_on(&world, "other");
    let hint = status(&world, "one")["hint"].clone();
    assert_eq!(hint, "agent-fleet profile enroll one");
}

#[test]
fn after_a_new_login_the_next_choose_proves_it_and_no_further_command_is_needed() {
    let world = broken();
    revoke(&world, false);
    log_in(&world, "one");
    one_works(&world, "t");
    assert_eq!(status(&world, "one")["eligible"], true);
}

#[test]
fn a_new_login_that_is_refused_too_is_asked_about_once_and_stays_broken() {
    let world = broken();
    log_in(&world, "one");
    revoke(&world, true);
    let before = world.requests("usage").len();
    for _ in 0..4 {
        drop(asked(&world, &["lease", "choose"], "t", Some("one")).refused("auth_broken"));
    }
    assert_eq!(world.requests("usage").len(), before + 1);
    refused_everywhere(&world, "auth_broken");
}

#[test]
fn a_new_login_to_another_account_is_quarantined_and_not_adopted() {
    let world = broken();
    revoke(&world, false);
    log_in(&world, "three");
    drop(asked(&world, &["lease", "choose"], "t", Some("one")).refused("identity_changed"));
    refused_everywhere(&world, "identity_changed");
}

#[test]
fn a_login_past_its_life_is_expired_until_a_new_one_takes_its_place() {
    let mut world = world();
    let path = credential(&world, "one");
    let mut login: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&path).expect("a login")).expect("JSON");
    login["login_expires_at"] = json!("2031-01-01T00:00:00Z");
    world.sandbox.write(&path, login.to_string());
    drop(world.command(&["profile", "verify", "one"]));
    let at = world.command(&["profile", "status", "one"])["login_expires_at"].clone();
    assert_eq!(at, "2031-01-01T00:00:00Z");
    world
        .sandbox
        .set("AGENT_FLEET_TEST_NOW", "2031-01-01T00:00:01Z");
    refused_everywhere(&world, "login_expired");
    let shown = world.command(&["profile", "auth-status", "one"]);
    assert_eq!(shown["auth_status"], "expired");
    assert_eq!(shown["hint"], "agent-fleet profile enroll one");
    log_in(&world, "one");
    one_works(&world, "t");
}

#[test]
fn an_expired_token_is_no_lost_login_and_the_first_worker_refreshes_it_once() {
    let world = World::new(&[Account::new("one").slots(8).expires_in(100)]);
    drop(world.command(&["quota", "refresh"]));
    let mut later = world;
    later.sandbox.set("AGENT_FLEET_TEST_NOW", "+36000");
    let shown = later.command(&["profile", "auth-status", "one"]);
    assert_eq!(
        (&shown["auth_status"], &shown["refreshable"], &shown["hint"]),
        (&json!("refreshable"), &json!(true), &json!(null))
    );
    let chosen = super::choose(&later, "t").success();
    assert_eq!(
        (&chosen["degraded"], &chosen["degraded_reason"]),
        (&json!(true), &json!("token_expired")),
        "{chosen}"
    );
    assert_eq!(later.requests("refresh"), [""; 0]);
    assert_eq!(later.exec("t", "say hi").status, 0);
    assert_eq!(later.requests("refresh"), ["one ok"]);
    let chosen = super::choose(&later, "u").success();
    assert_eq!(
        chosen["degraded"], false,
        "the new token was shown to the server: {chosen}"
    );
    assert_eq!(later.requests("refresh"), ["one ok"]);
}

#[test]
fn a_login_that_was_proved_or_refused_while_the_clock_was_ahead_is_asked_about_again() {
    const AHEAD: &str = "2099-01-02T03:04:05Z";
    const NOW: &str = "2030-01-02T03:04:05Z";
    let mut world = world();
    world.sandbox.set("AGENT_FLEET_TEST_NOW", AHEAD);
    log_in(&world, "one");
    world.command(&["profile", "verify", "one"]);
    world.sandbox.set("AGENT_FLEET_TEST_NOW", NOW);
    revoke(&world, true);
    let verify = |world: &World| world.sandbox.run(["profile", "verify", "one"]);
    drop(verify(&world).refused("auth_broken"));
    world.sandbox.set("AGENT_FLEET_TEST_NOW", AHEAD);
    drop(verify(&world).refused("auth_broken"));
    world.sandbox.set("AGENT_FLEET_TEST_NOW", NOW);
    revoke(&world, false);
    log_in(&world, "one");
    verify(&world).success();
    assert_eq!(status(&world, "one")["eligible"], true);
}
