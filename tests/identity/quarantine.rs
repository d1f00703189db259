//! Another account's login in a home stops that home, at whichever step it is seen first.

use super::{
    OLD, asked, choose, credential, exec, home, one_works, read, refused_everywhere, resume,
    sibling_goes_on, status, swap, world,
};
use crate::support::world::Account;

#[test]
fn a_swapped_login_is_caught_at_the_next_choose_and_the_sibling_goes_on() {
    let world = world();
    swap(&world, "two", "one");
    sibling_goes_on(&world, "first");
    refused_everywhere(&world, "identity_changed");
    assert!(
        world
            .requests("turn")
            .iter()
            .all(|turn| turn == "one ok" || turn == "two ok"),
        "{:?}",
        world.requests("turn")
    );
    let shown = world.command(&["profile", "identity", "show", "one"]);
    assert_eq!(shown["quarantine"]["reason"], "identity_changed");
    assert_eq!(
        shown["conflict"],
        serde_json::Value::Null,
        "the intruder is not taken for the profile"
    );
    let sibling = world.command(&["profile", "identity", "show", "two"]);
    assert_eq!(
        (&sibling["verified"], &sibling["reason"]),
        (&true.into(), &"proven".into())
    );
}

#[test]
fn a_login_swapped_between_choose_and_exec_is_caught_at_exec_and_nothing_is_kept() {
    let world = world();
    let chosen = asked(&world, &["lease", "choose"], "t", Some("one")).success();
    assert_eq!(chosen["profile"], "one");
    swap(&world, "two", "one");
    drop(world.exec("t", "say hi").refused("identity_changed"));
    assert!(
        world.lease("t").is_none(),
        "the lease of the refused exec is still there"
    );
    let before = world.requests("turn").len();
    sibling_goes_on(&world, "t");
    assert_eq!(world.requests("turn").len(), before + 1);
    refused_everywhere(&world, "identity_changed");
}

#[test]
fn a_login_swapped_since_the_last_turn_is_caught_at_resume() {
    let world = world();
    swap(&world, "two", "one");
    drop(resume(&world, OLD).refused("identity_changed"));
    refused_everywhere(&world, "identity_changed");
    sibling_goes_on(&world, "other");
}

#[test]
fn the_old_login_coming_back_frees_nothing_until_a_person_has_it_verified() {
    let world = world();
    let own = swap(&world, "two", "one");
    drop(exec(&world, "t", "one").refused("identity_changed"));
    world.sandbox.write(credential(&world, "one"), &own);
    refused_everywhere(&world, "identity_changed");
    drop(world.command(&["profile", "verify", "one"]));
    assert_eq!(read(&world, "one"), own);
    one_works(&world, "again");
}

#[test]
fn a_new_login_to_the_old_account_frees_it_when_a_person_has_it_verified_and_another_one_never() {
    let world = world();
    swap(&world, "two", "one");
    drop(exec(&world, "t", "one").refused("identity_changed"));
    let home = home(&world, "one");
    world.log_in(home.to_str().expect("UTF-8"), &Account::new("three"));
    let refused = world
        .sandbox
        .run(["profile", "verify", "one"])
        .refused("identity_changed");
    assert_eq!(
        refused["hint"], "agent-fleet profile enroll one",
        "to verify again would not help"
    );
    refused_everywhere(&world, "identity_changed");
    world.log_in(home.to_str().expect("UTF-8"), &Account::new("one"));
    drop(world.command(&["profile", "verify", "one"]));
    one_works(&world, "again");
}

#[test]
fn the_home_of_a_quarantined_profile_is_not_written_by_anything_we_do() {
    let world = world();
    swap(&world, "two", "one");
    let foreign = read(&world, "one");
    drop(choose(&world, "t").success());
    for _ in 0..3 {
        refused_everywhere(&world, "identity_changed");
    }
    assert_eq!(
        read(&world, "one"),
        foreign,
        "whose login it is stays for a person to see"
    );
    assert_eq!(
        status(&world, "one")["hint"],
        "agent-fleet profile verify one"
    );
}
