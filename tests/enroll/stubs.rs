//! What a provider's CLI may leave although it says that it succeeded, and disks that cannot take a login.

use std::os::unix::fs::MetadataExt as _;

use serde_json::{Value, json};

use super::SECOND_PROOF;
use crate::support::fleet::Fleet;
use crate::support::ran::Ran;

/// A credential file of Codex, with synthetic tokens.
fn login(access: &str) -> String {
    json!({
        "auth_mode": "chatgpt",
        "OPENAI_API_KEY": null,
        "tokens": {"access_token": access, "refresh_token": access, "account_id": "codex-1-account"},
        "last_refresh": "2026-11-30T08:00:00Z",
    })
    .to_string()
}

/// Enrolls the fleet's first profile with a CLI that writes this.
fn enroll(fleet: &Fleet, written: &str) -> Ran {
    Ran::of(
        fleet
            .sandbox
            .command(["profile", "enroll", "codex-1"])
            .env("FAKE_LOGIN", written),
    )
}

/// A profile that has a login, whose account its reader knows.
fn fleet() -> Fleet {
    let mut fleet = Fleet::new(1, 1);
    fleet.sandbox.set(SECOND_PROOF, "20");
    // It has run out, so that another login may take its place.
    let old = json!({"tokens": {"access_token": "synthetic-a.eyJleHAiOjF9.c", "refresh_token": "synthetic-old"}});
    fleet
        .sandbox
        .write("share/accounts/codex/codex-1/auth.json", old.to_string());
    fleet
}

fn kept(fleet: &Fleet) -> (u64, Vec<u8>) {
    let path = fleet.sandbox.path("share/accounts/codex/codex-1/auth.json");
    let inode = std::fs::metadata(&path).expect("a credential").ino();
    (inode, std::fs::read(path).expect("a credential"))
}

#[test]
fn a_login_that_is_none_is_refused_and_the_old_one_stays() {
    let fleet = fleet();
    let before = kept(&fleet);
    let key = json!({"auth_mode": "apikey", "OPENAI_API_KEY": "synthetic-key"}).to_string();
    for (written, code, reason) in [
        ("", "login_failed", "credential_unparsable"),
        ("{\"tok", "login_failed", "credential_unparsable"),
        ("{}", "login_failed", "logged_out"),
        (&login(""), "login_failed", "logged_out"),
        (&key, "money_guard", "api_key"),
    ] {
        let refused = enroll(&fleet, written).refused(code);
        assert_eq!(refused["details"]["reason"], reason, "{written}");
        assert!(!refused.to_string().contains("synthetic"), "{refused}");
        assert_eq!(kept(&fleet), before, "{written}");
    }
    let enrolled = enroll(&fleet, &login("synthetic-new")).success();
    assert_eq!(enrolled["outcome"], "promoted", "{enrolled}");
    assert_eq!(
        (&enrolled["routeable"], &enrolled["identity_source"]),
        (&Value::Bool(true), &json!("quota-account"))
    );
    assert_eq!(kept(&fleet).1, login("synthetic-new").into_bytes());
}

#[test]
fn a_linked_credential_is_never_replaced() {
    let fleet = fleet();
    let path = fleet.sandbox.path("share/accounts/codex/codex-1/auth.json");
    let elsewhere = fleet.sandbox.path("elsewhere.json");
    std::fs::hard_link(&path, &elsewhere).expect("a link");
    fleet.sandbox.knows(&elsewhere);
    let before = kept(&fleet);
    let refused = enroll(&fleet, &login("synthetic-new"));
    drop(refused.refused("not_provisioned"));
    assert_eq!(kept(&fleet), before);
}
