//! Who may not share an account with whom: each combination has its code, on every way to a worker.

use super::{one_works, refused_everywhere, sibling_goes_on, world};
use crate::support::world::{Account, POOL};

#[test]
fn two_homes_of_one_account_are_both_refused_and_a_third_profile_goes_on() {
    let world = world();
    let line = [
        "profile",
        "add",
        "three",
        "--provider",
        "scripted",
        "--pool",
        POOL,
    ];
    let added = world.command(&line)["home"].clone();
    world.log_in(added.as_str().expect("a home"), &Account::new("one"));
    drop(world.command(&["profile", "provision", "three"]));
    one_works(&world, "t");
    let refused = world.sandbox.run(["profile", "verify", "three"]);
    let refused = refused.refused("duplicate_provider_identity");
    assert!(
        refused["error"]
            .as_str()
            .is_some_and(|text| text.contains("`one`")),
        "{refused}"
    );
    refused_everywhere(&world, "duplicate_provider_identity");
    drop(
        world
            .sandbox
            .run(["profile", "enable", "three"])
            .refused("duplicate_provider_identity"),
    );
    sibling_goes_on(&world, "u");
    let shown = world.command(&["profile", "identity", "show", "one"]);
    assert_eq!(shown["conflict"]["with"], serde_json::json!(["three"]));
    // Without the snapshot the accounts that both were pinned to are known still.
    std::fs::remove_dir_all(world.sandbox.path("state/snapshot")).expect("a snapshot");
    refused_everywhere(&world, "duplicate_provider_identity");
    drop(world.command(&["profile", "remove", "three"]));
    one_works(&world, "v");
}

#[test]
fn one_person_in_two_organisations_and_two_people_in_one_are_different_accounts() {
    let world = world();
    for (account, user, organization) in [("one", "ada", "o1"), ("two", "ada", "o2")] {
        world.change(account, |file| {
            file["user"] = user.into();
            file["organization"] = organization.into();
        });
    }
    world.add(&Account::new("three"));
    world.change("three", |file| {
        file["user"] = "bob".into();
        file["organization"] = "o1".into();
    });
    for account in ["one", "two", "three"] {
        let path = world.sandbox.path(format!("state/profiles/{account}.json"));
        drop(std::fs::remove_file(path));
    }
    drop(std::fs::remove_file(
        world.sandbox.path("state/profiles/scripted.pins"),
    ));
    drop(std::fs::remove_dir_all(
        world.sandbox.path("state/snapshot"),
    ));
    drop(world.command(&["profile", "verify", "--all"]));
    let mut fingerprints: Vec<String> = ["one", "two", "three"]
        .iter()
        .map(|profile| {
            let shown = world.command(&["profile", "identity", "show", profile]);
            assert_eq!(shown["verified"], true, "{shown}");
            shown["pinned"]["fingerprint"].as_str().unwrap().to_owned()
        })
        .collect();
    one_works(&world, "t");
    fingerprints.sort_unstable();
    fingerprints.dedup();
    assert_eq!(fingerprints.len(), 3);
}
