//! Which accounts are one, and which only look alike.

use serde_json::{Value, json};

use crate::accounts::{credential, granted, job, refused_everywhere, status, world};
use crate::cli::Cli;
use crate::lab::Plan;
use crate::world::{World, profile, text};

/// Accounts 1 and 2 are one person in two organisations; 3 is another person in the first of them.
fn look_alikes() -> Plan {
    let account = |person: &str, organization: &str| {
        json!({
            "email": format!("{person}@lab.invalid"),
            "account_uuid": format!("person-{person}"),
            "org_uuid": format!("organisation-{organization}"),
            "chatgpt_user_id": format!("user-{person}"),
            "chatgpt_account_id": format!("workspace-{organization}"),
        })
    };
    Plan {
        accounts: 3,
        scenario: json!({"accounts": {"1": account("ada", "x"), "2": account("ada", "y"), "3": account("bob", "x")}}),
        ..Plan::default()
    }
}

fn different(cli: Cli) {
    let world = world(cli, &look_alikes());
    let mut fingerprints: Vec<String> = (1..=3)
        .map(|account| {
            let chosen = granted(&world, cli, account);
            text(&chosen["identity"], "fingerprint")
        })
        .collect();
    fingerprints.sort_unstable();
    fingerprints.dedup();
    assert_eq!(fingerprints.len(), 3, "two accounts were taken for one");
    // Desktop knows a person and no organisation, so it may be either.
    if cli == Cli::Claude {
        let file = world.lab.path("desktop.json");
        World::write(&file, r#"{"lastKnownAccountUuid":"person-ada"}"#);
        let file = file.to_str().expect("UTF-8");
        world.configure("providers.claude.desktop_identity_file", file);
        for account in [1, 2] {
            refused_everywhere(&world, cli, account, "desktop_identity");
        }
        drop(granted(&world, cli, 3));
    }
}

#[test]
fn one_person_in_two_organisations_and_two_in_one_are_three_claude_accounts() {
    different(Cli::Claude);
}

#[test]
fn one_person_in_two_workspaces_and_two_in_one_are_three_codex_accounts() {
    different(Cli::Codex);
}

/// Profile 2 was never proved before: its home holds account 1's login from the start.
fn duplicate(cli: Cli) {
    let world = World::new(
        &Plan {
            accounts: 3,
            ..Plan::default()
        },
        &["project"],
    );
    world.add(cli, 1, 4);
    let old = job(&world, cli, crate::accounts::OLD);
    drop(world.turn(cli, &old, r#"LAB:{"text":"hello"}"#));
    let second = world.home(cli, 2);
    std::fs::remove_dir_all(&second).expect("the lab's home");
    world.lab.make_home(cli.name(), 1, &second, None);
    let id = world.add_unproved(cli, 2);
    drop(world.run(["profile", "enable", &id]));
    world.add(cli, 3, 4);
    drop(
        world
            .run(["profile", "verify", &id])
            .refused("duplicate_provider_identity"),
    );
    refused_everywhere(&world, cli, 1, "duplicate_provider_identity");
    let chosen = world.choose(&job(&world, cli, "t")).success();
    assert_eq!(chosen["profile"], profile(cli, 3).as_str());
    let told = status(&world, cli, 2);
    assert_eq!(
        told["routeability"]["reason"],
        "duplicate_provider_identity"
    );
}

#[test]
fn two_claude_homes_of_one_account_are_both_refused() {
    duplicate(Cli::Claude);
}

#[test]
fn two_codex_homes_of_one_account_are_both_refused() {
    duplicate(Cli::Codex);
}

/// The file that names the account says one, the token is another's: what is half-way in is not pinned.
#[test]
fn a_claude_home_whose_files_claim_another_account_than_its_token_is_pinned_to_neither() {
    let cli = Cli::Claude;
    let world = World::new(&Plan::default(), &["project"]);
    let own = std::fs::read_to_string(credential(&world, cli, 1)).expect("a login");
    let other = std::fs::read_to_string(credential(&world, cli, 2)).expect("a login");
    let id = world.add_unproved(cli, 1);
    World::write(&credential(&world, cli, 1), &other);
    drop(
        world
            .run(["profile", "verify", &id])
            .refused("identity_unproven"),
    );
    let shown: Value = world.run(["profile", "identity", "show", &id]).success();
    assert_eq!(
        (&shown["pinned"], &shown["proof"]),
        (&Value::Null, &Value::Null)
    );
    World::write(&credential(&world, cli, 1), &own);
    drop(world.run(["profile", "verify", &id]).success());
}

/// Account 2's login in account 1's home while nothing else changes.
fn swapped(cli: Cli) {
    let world = world(cli, &Plan::default());
    let own = std::fs::read(credential(&world, cli, 1)).expect("a login");
    let other = std::fs::read_to_string(credential(&world, cli, 2)).expect("a login");
    World::write(&credential(&world, cli, 1), &other);
    drop(crate::accounts::choose(&world, cli, "first", 1).refused("identity_changed"));
    refused_everywhere(&world, cli, 1, "identity_changed");
    let since = crate::lab::now();
    let work = job(&world, cli, "t");
    let (chosen, _) = world.turn(cli, &work, r#"LAB:{"text":"hello"}"#);
    assert_eq!(chosen, profile(cli, 2));
    drop(world.only(cli, 2, since));
    let shown: Value = world
        .run(["profile", "identity", "show", &profile(cli, 1)])
        .success();
    assert_eq!(shown["quarantine"]["reason"], "identity_changed");
    World::write(
        &credential(&world, cli, 1),
        &String::from_utf8(own).expect("text"),
    );
    refused_everywhere(&world, cli, 1, "identity_changed");
    drop(world.run(["profile", "verify", &profile(cli, 1)]).success());
    drop(granted(&world, cli, 1));
}

#[test]
fn another_claude_accounts_login_in_a_home_is_caught_at_the_next_choose() {
    swapped(Cli::Claude);
}

#[test]
fn another_codex_accounts_login_in_a_home_is_caught_at_the_next_choose() {
    swapped(Cli::Codex);
}
