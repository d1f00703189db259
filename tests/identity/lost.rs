//! What the snapshot knows can be lost without harm, and a lost record is never made up again.

use serde_json::Value;

use super::{
    OLD, choose, credential, exec, one_works, read, refused_everywhere, resume, row,
    sibling_goes_on, status, swap, world,
};
use crate::support::world::World;

fn lose_snapshot(world: &World) {
    std::fs::remove_dir_all(world.sandbox.path("state/snapshot")).expect("a snapshot");
}

fn record(world: &World) -> Value {
    let bytes = std::fs::read(world.sandbox.path("state/profiles/one.json")).expect("a record");
    serde_json::from_slice(&bytes).expect("JSON")
}

/// Writes one of the durable facts into the record of `one`, as its own verb or a worker's end would.
fn set(world: &World, key: &str, value: Value) {
    let mut record = record(world);
    record[key] = value;
    let path = world.sandbox.path("state/profiles/one.json");
    std::fs::remove_file(&path).expect("a record");
    world.sandbox.write(path, record.to_string());
}

#[test]
fn without_its_snapshot_a_profile_is_proved_anew_by_itself_and_keeps_its_account() {
    let world = world();
    let pinned = record(&world)["pinned"].clone();
    lose_snapshot(&world);
    one_works(&world, "t");
    assert_eq!(record(&world)["pinned"], pinned);
}

#[test]
fn a_login_swapped_while_the_snapshot_was_gone_is_caught_by_choose() {
    let world = world();
    lose_snapshot(&world);
    swap(&world, "two", "one");
    sibling_goes_on(&world, "first");
    refused_everywhere(&world, "identity_changed");
}

#[test]
fn a_login_swapped_while_the_snapshot_was_gone_is_caught_by_exec_of_an_old_lease() {
    let world = world();
    drop(super::asked(&world, &["lease", "choose"], "t", Some("one")).success());
    lose_snapshot(&world);
    swap(&world, "two", "one");
    drop(world.exec("t", "say hi").refused("identity_changed"));
    refused_everywhere(&world, "identity_changed");
}

#[test]
fn a_login_swapped_while_the_snapshot_was_gone_is_caught_by_resume() {
    let world = world();
    lose_snapshot(&world);
    swap(&world, "two", "one");
    drop(resume(&world, OLD).refused("identity_changed"));
    refused_everywhere(&world, "identity_changed");
}

#[test]
fn quarantine_drain_billing_block_and_a_long_cooldown_outlive_the_snapshot() {
    let note = serde_json::json!({"reason": "a test", "at": "2026-01-01T00:00:00Z"});
    let cooldown = serde_json::json!({"reason": "quota", "since": "2026-01-01T00:00:00Z", "until": "2099-01-01T00:00:00Z"});
    for (key, value, code) in [
        ("quarantine", &note, "identity_changed"),
        ("drain", &note, "draining"),
        ("billing_block", &note, "money_guard"),
        ("cooldown", &cooldown, "cooldown"),
    ] {
        let world = world();
        set(&world, key, value.clone());
        for _ in 0..2 {
            assert_eq!(row(&world, "one"), code, "{key}");
            drop(exec(&world, "t", "one").refused(code));
            drop(resume(&world, OLD).refused(code));
            lose_snapshot(&world);
        }
        sibling_goes_on(&world, "other");
        assert_eq!(record(&world)[key], *value, "{key}");
    }
}

#[test]
fn a_lost_record_is_unproven_for_choose_exec_and_resume_and_never_pinned_anew_by_itself() {
    for with_snapshot in [true, false] {
        let world = world();
        drop(super::asked(&world, &["lease", "choose"], "held", Some("one")).success());
        std::fs::remove_file(world.sandbox.path("state/profiles/one.json")).unwrap();
        if !with_snapshot {
            lose_snapshot(&world);
        }
        drop(world.exec("held", "say hi").refused("identity_unproven"));
        refused_everywhere(&world, "identity_unproven");
        sibling_goes_on(&world, "other");
        assert!(
            !world.sandbox.path("state/profiles/one.json").exists(),
            "it was pinned anew by itself"
        );
        let hint = status(&world, "one")["hint"].clone();
        assert_eq!(hint, "agent-fleet profile verify one");
        drop(world.command(&["profile", "verify", "one"]));
        one_works(&world, "again");
    }
}

#[test]
fn the_account_of_a_lost_record_is_still_known_so_that_another_ones_login_is_not_adopted() {
    let world = world();
    std::fs::remove_file(world.sandbox.path("state/profiles/one.json")).unwrap();
    lose_snapshot(&world);
    let own = swap(&world, "two", "one");
    drop(
        world
            .sandbox
            .run(["profile", "verify", "one"])
            .refused("identity_changed"),
    );
    refused_everywhere(&world, "identity_changed");
    drop(choose(&world, "t").success());
    world.sandbox.write(credential(&world, "one"), &own);
    drop(world.command(&["profile", "verify", "one"]));
    assert_eq!(read(&world, "one"), own);
    one_works(&world, "again");
}

#[test]
fn where_nobody_knows_any_more_whose_a_profile_is_a_person_says_so_and_no_choice_does() {
    let world = world();
    swap(&world, "two", "one");
    lose_snapshot(&world);
    std::fs::remove_dir_all(world.sandbox.path("state/profiles")).expect("records");
    let before = world.requests("usage").len();
    refused_everywhere(&world, "identity_unproven");
    assert_eq!(world.requests("usage").len(), before, "asked in vain");
    world.command(&["profile", "verify", "two"]);
    sibling_goes_on(&world, "other");
}

#[test]
fn under_a_new_key_every_account_is_proved_again_when_a_person_says_so_and_none_is_quarantined() {
    let world = world();
    std::fs::remove_file(world.sandbox.path("state/install.json")).expect("an install");
    world.command(&["config", "set", "install_id", "adopt"]);
    refused_everywhere(&world, "identity_unproven");
    world.command(&["profile", "verify", "--all"]);
    one_works(&world, "t");
    swap(&world, "two", "one");
    drop(exec(&world, "again", "one").refused("identity_changed"));
}
