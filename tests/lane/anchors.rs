//! The base CLI login and the Desktop app's: which account no worker may share, and what is done when nobody can
//! tell.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::accounts::{granted, refused_everywhere, status, type_hint, world};
use crate::cli::{BOTH, Cli};
use crate::lab::{Plan, now};
use crate::wait::until;
use crate::worker::TURN;
use crate::world::World;

fn set(world: &World, cli: Cli, key: &str, value: &str) {
    world.configure(&format!("providers.{}.{key}", cli.name()), value);
}

fn text(path: &Path) -> &str {
    path.to_str().expect("the lab's paths are UTF-8")
}

fn credential(cli: Cli, home: &Path) -> PathBuf {
    home.join(match cli {
        Cli::Claude => ".credentials.json",
        Cli::Codex => "auth.json",
    })
}

fn unverified(world: &World, cli: Cli) {
    for account in [1, 2] {
        refused_everywhere(world, cli, account, "base_identity_unverified");
    }
}

fn base(cli: Cli) {
    let world = world(cli, &Plan::default());
    let home = world.lab.path("base");
    let file = credential(cli, &home);
    set(&world, cli, "base_home", text(&home));
    unverified(&world, cli);
    world.lab.make_home(cli.name(), 1, &home, None);
    refused_everywhere(&world, cli, 1, "base_identity");
    drop(granted(&world, cli, 2));
    let login = std::fs::read(&file).expect("the base login");
    World::write(&file, "{\"");
    unverified(&world, cli);
    std::fs::remove_file(&file).expect("the base login");
    std::os::unix::fs::symlink(world.lab.path("elsewhere"), &file).expect("a link");
    unverified(&world, cli);
    std::fs::remove_file(&file).expect("the link");
    World::write(&file, "{}");
    drop(granted(&world, cli, 1));
    World::write(&file, &String::from_utf8(login).expect("text"));
    refused_everywhere(&world, cli, 1, "base_identity");
    set(&world, cli, "base_home", "false");
    drop(granted(&world, cli, 1));
}

#[test]
fn the_base_login_of_claude_is_shared_with_no_worker_and_fails_closed() {
    base(Cli::Claude);
}

#[test]
fn the_base_login_of_codex_is_shared_with_no_worker_and_fails_closed() {
    base(Cli::Codex);
}

/// The hint is typed: the person's own CLI renews the base login, and nothing else is asked of it.
fn expired_base(cli: Cli) {
    let mut world = world(cli, &Plan::default());
    let home = world.lab.path("base");
    world.lab.make_home(cli.name(), 2, &home, Some(200));
    set(&world, cli, "base_home", text(&home));
    drop(granted(&world, cli, 1));
    world.set("AGENT_FLEET_TEST_NOW", "+7200");
    refused_everywhere(&world, cli, 2, "base_identity");
    std::fs::remove_dir_all(world.lab.path("state/snapshot")).expect("a snapshot");
    unverified(&world, cli);
    let since = now();
    // Claude may have to be told more than once.
    let log = until("the refresh of the base login", TURN, || {
        drop(type_hint(&world, cli, 1, &[]));
        let log = world.lab.log(since);
        let done = log.iter().any(|request| request.refresh.is_some());
        if done {
            Ok(log)
        } else {
            Err("none yet".to_owned())
        }
    });
    let outcomes: Vec<_> = log
        .iter()
        .filter_map(|request| request.refresh.clone())
        .collect();
    assert_eq!(outcomes, ["ok"]);
    assert!(
        !log.iter().any(|request| cli.asks_model(request)),
        "the model was asked"
    );
    refused_everywhere(&world, cli, 2, "base_identity");
    drop(granted(&world, cli, 1));
}

#[test]
fn an_expired_base_login_of_claude_keeps_its_proof_and_is_renewed_by_the_command_told() {
    expired_base(Cli::Claude);
}

#[test]
fn an_expired_base_login_of_codex_keeps_its_proof_and_is_renewed_by_the_command_told() {
    expired_base(Cli::Codex);
}

/// Claude's own settings of the default login lie beside its home, and claim whose it is.
#[test]
fn a_base_login_whose_own_files_claim_another_account_is_unverified() {
    let cli = Cli::Claude;
    let world = world(cli, &Plan::default());
    let home = world.lab.path("home/.claude");
    world.lab.make_home(cli.name(), 1, &home, None);
    let beside = world.lab.path("home/.claude.json");
    let inside = home.join(".claude.json");
    std::fs::copy(&inside, &beside).expect("the CLI's settings");
    std::fs::remove_file(&inside).expect("the CLI's settings");
    set(&world, cli, "base_home", "~/.claude");
    refused_everywhere(&world, cli, 1, "base_identity");
    drop(granted(&world, cli, 2));
    let mut settings: Value =
        serde_json::from_slice(&std::fs::read(&beside).expect("settings")).expect("JSON");
    settings["oauthAccount"]["accountUuid"] = "someone-else".into();
    World::write(&beside, &settings.to_string());
    std::fs::remove_dir_all(world.lab.path("state/snapshot")).expect("a snapshot");
    unverified(&world, cli);
    assert_eq!(
        status(&world, cli, 1)["routeability"]["hint"],
        "claude auth login"
    );
}

fn desktop(cli: Cli) {
    let world = world(cli, &Plan::default());
    let file = world.lab.path("desktop/config.json");
    let says = |account: &Value| {
        World::write(&file, &json!({"lastKnownAccountUuid": account}).to_string());
    };
    let claims = |account: u32| -> Value {
        let bytes = std::fs::read(match cli {
            Cli::Claude => world.home(cli, account).join(".claude.json"),
            Cli::Codex => credential(cli, &world.home(cli, account)),
        });
        let file: Value = serde_json::from_slice(&bytes.expect("a file")).expect("JSON");
        match cli {
            Cli::Claude => file["oauthAccount"]["accountUuid"].clone(),
            Cli::Codex => file["tokens"]["account_id"].clone(),
        }
    };
    set(&world, cli, "desktop_identity_file", text(&file));
    for account in [1, 2] {
        refused_everywhere(&world, cli, account, "desktop_identity_unverified");
    }
    says(&claims(1));
    refused_everywhere(&world, cli, 1, "desktop_identity");
    drop(granted(&world, cli, 2));
    says(&claims(2));
    refused_everywhere(&world, cli, 2, "desktop_identity");
    drop(granted(&world, cli, 1));
    for unreadable in [json!(null), json!(""), json!(7)] {
        says(&unreadable);
        refused_everywhere(&world, cli, 1, "desktop_identity_unverified");
    }
    World::write(&file, "{");
    refused_everywhere(&world, cli, 1, "desktop_identity_unverified");
    set(&world, cli, "desktop_identity_file", "false");
    drop(granted(&world, cli, 1));
}

#[test]
fn the_desktop_account_is_shared_with_no_worker_is_read_each_time_and_fails_closed() {
    for cli in BOTH {
        desktop(cli);
    }
}
