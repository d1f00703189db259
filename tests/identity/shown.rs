//! What people are shown of an account: fingerprints and files, never whose it is.

use serde_json::{Value, json};

use super::{credential, exec, home, status, world};
use crate::support::world::{Account, POOL, World};

/// A profile whose account has ids that must never be seen.
fn secretive() -> World {
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
    drop(world.command(&line));
    world.log_in(
        home(&world, "three").to_str().expect("UTF-8"),
        &Account::new("zelda"),
    );
    world.change("zelda", |account| {
        account["user"] = "zelda@example.invalid".into();
        account["organization"] = "zelda-org".into();
    });
    drop(world.command(&["profile", "provision", "three"]));
    drop(world.command(&["profile", "verify", "three"]));
    world
}

#[test]
fn an_identity_is_shown_by_fingerprint_components_source_and_binding_and_never_by_name() {
    let world = secretive();
    let shown = world.command(&["profile", "identity", "show", "three"]);
    assert_eq!(
        (&shown["verified"], &shown["reason"]),
        (&json!(true), &json!("proven"))
    );
    let components = json!(["account", "organization", "user"]);
    for account in ["pinned", "proof"] {
        assert_eq!(shown[account]["components"], components, "{shown}");
        assert_eq!(shown[account]["source"], "scripted");
        assert_eq!(
            shown[account]["fingerprint"].as_str().map(str::len),
            Some(64)
        );
    }
    assert_eq!(
        (&shown["proof"]["holds"], &shown["proof"]["binding"]),
        (&json!(true), &json!("tokens"))
    );
    assert!(shown["proof"]["age_seconds"].is_u64());
    assert_eq!(
        (&shown["conflict"], &shown["hint"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(
        (&shown["base"]["state"], &shown["desktop"]["state"]),
        (&json!("off"), &json!("off"))
    );
    let line = ["--format", "human", "profile", "identity", "show", "three"];
    let page = world.sandbox.run(line).stdout;
    let short = &shown["pinned"]["fingerprint"].as_str().unwrap()[..8];
    assert!(
        page.contains(short) && page.contains("holds for the login"),
        "{page}"
    );
    for text in [&page, &shown.to_string()] {
        assert!(!text.contains("zelda"), "{text}");
    }
    // Another login of the same account: the proof was made for the old one, and nobody is asked by a look.
    world.log_in(
        home(&world, "three").to_str().expect("UTF-8"),
        &Account::new("zelda"),
    );
    let shown = world.command(&["profile", "identity", "show", "three"]);
    assert_eq!(
        (&shown["verified"], &shown["proof"]["holds"], &shown["hint"]),
        (
            &json!(false),
            &json!(false),
            &json!("agent-fleet profile verify three")
        )
    );
}

#[test]
fn a_profile_that_was_never_proved_has_nothing_to_show_but_what_to_type() {
    let world = world();
    drop(world.command(&["profile", "add", "three", "--provider", "scripted"]));
    let shown = world.command(&["profile", "identity", "show", "three"]);
    assert_eq!(
        (&shown["pinned"], &shown["proof"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(shown["reason"], "no_login");
    assert_eq!(shown["hint"], "agent-fleet profile enroll three");
    drop(
        world
            .sandbox
            .run(["profile", "identity", "show", "nobody"])
            .refused("not_found"),
    );
}

/// The row of `one`, whose file is changed first.
fn said(world: &World, change: impl FnOnce(&mut Value)) -> Value {
    let path = credential(world, "one");
    let mut login: Value =
        serde_json::from_slice(&std::fs::read(&path).expect("a login")).expect("JSON");
    change(&mut login);
    world.sandbox.write(&path, login.to_string());
    world.command(&["profile", "auth-status", "one"])
}

#[test]
fn auth_status_tells_what_the_credential_file_says_and_what_would_replace_it() {
    let world = world();
    let all = world.command(&["profile", "auth-status", "--all"]);
    assert_eq!(all, world.command(&["profile", "auth-status"]));
    assert_eq!(all["profiles"].as_array().map(Vec::len), Some(2));
    let row = said(&world, |_| {});
    assert_eq!(
        (&row["auth_status"], &row["present"], &row["refreshable"]),
        (&json!("logged_in"), &json!(true), &json!(true))
    );
    assert_eq!(
        (&row["auth_overrides"], &row["hint"]),
        (&json!([]), &Value::Null)
    );
    let row = said(&world, |login| {
        login["expires_at"] = json!("2020-01-01T00:00:00Z");
    });
    assert_eq!(
        (&row["auth_status"], &row["hint"]),
        (&json!("refreshable"), &Value::Null)
    );
    let row = said(&world, |login| login["refresh_token"] = Value::Null);
    assert_eq!(row["auth_status"], "expired", "nothing can renew it");
    assert_eq!(row["login_expires_at"], "2020-01-01T00:00:00Z");
    let row = said(&world, |login| login["api_key"] = true.into());
    assert_eq!(
        (&row["auth_status"], &row["reason"], &row["hint"]),
        (
            &json!("api_key"),
            &json!("api_key"),
            &json!("agent-fleet profile enroll one")
        )
    );
    let row = said(&world, |login| login["token"] = "".into());
    assert_eq!(
        (&row["auth_status"], &row["reason"]),
        (&json!("logged_out"), &json!("logged_out"))
    );
    assert_eq!(row["hint"], "agent-fleet profile enroll one");
    world.sandbox.write(credential(&world, "one"), "{");
    let row = world.command(&["profile", "auth-status", "one"]);
    assert_eq!(
        (&row["auth_status"], &row["reason"]),
        (&json!("unknown"), &json!("credential_unparsable"))
    );
    std::fs::remove_file(credential(&world, "one")).unwrap();
    let row = world.command(&["profile", "auth-status", "one"]);
    assert_eq!(
        (&row["present"], &row["reason"]),
        (&json!(false), &json!("no_login"))
    );
    let settings = home(&world, "two").join("settings.json");
    let mut file: Value = serde_json::from_slice(&std::fs::read(&settings).unwrap()).unwrap();
    file["env"] = json!({"SCRIPTED_TOKEN": "foreign"});
    world.sandbox.write(&settings, file.to_string());
    let row = world.command(&["profile", "auth-status", "two"]);
    let named = row["auth_overrides"][0]["source"]
        .as_str()
        .expect("a source");
    assert!(
        named.contains("settings.json") && named.contains("SCRIPTED_TOKEN"),
        "{named}"
    );
    assert!(
        row["hint"]
            .as_str()
            .is_some_and(|hint| hint.contains("settings.json")),
        "{row}"
    );
    assert!(
        !row.to_string().contains("foreign"),
        "a token is shown: {row}"
    );
}

#[test]
fn a_credential_that_another_place_shares_is_named_and_nothing_is_started_on_it() {
    let world = world();
    let own = credential(&world, "one");
    let second = world.sandbox.path("second-name");
    for share in [
        std::fs::hard_link::<&std::path::Path, &std::path::Path>,
        |from, to| {
            std::fs::copy(from, to)?;
            std::fs::remove_file(from)?;
            std::os::unix::fs::symlink(to, from)
        },
    ] {
        share(&own, &second).expect("another name");
        world.sandbox.knows(&second);
        let refused = world
            .sandbox
            .run(["profile", "verify", "one"])
            .refused("identity_unproven");
        assert!(
            refused["hint"]
                .as_str()
                .is_some_and(|hint| hint.ends_with(own.to_str().expect("UTF-8"))),
            "{refused}"
        );
        let row = world.command(&["profile", "auth-status", "one"]);
        assert_eq!(
            (&row["auth_status"], &row["reason"]),
            (&json!("unknown"), &json!("credential_link"))
        );
        drop(
            world
                .sandbox
                .run(["profile", "verify", "one", "--probe"])
                .refused("identity_unproven"),
        );
        drop(exec(&world, "t", "one").refused("identity_unproven"));
        assert_eq!(status(&world, "one")["reason"], "identity_unproven");
        if own.symlink_metadata().unwrap().is_symlink() {
            continue;
        }
        std::fs::remove_file(&second).expect("the second name");
    }
}
