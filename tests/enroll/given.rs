//! A long-lived token and an API key that a person gives: tried first, kept privately, handed over out of sight.

use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::{Value, json};

use super::SECOND_PROOF;
use crate::support::https::{Answer, Asked};
use crate::support::online::{CLAUDE_USAGE, Online, POOL, PROFILE, truth};
use crate::support::ran::Ran;
use crate::support::sandbox::Sandbox;

/// The account that these may not name, or may.
pub(super) const SILENT: &str = "sk-ant-oat01-silent-synthetic";
pub(super) const SILENT_TOO: &str = "sk-ant-oat01-silent-too-synthetic";
const NAMED: &str = "sk-ant-oat01-named-synthetic";
const CLAUDE_KEY: &str = "sk-ant-api03-synthetic-key";
const CODEX_KEY: &str = "sk-synthetic-key";

/// Tokens of account 1; keys that are good.
fn server(asked: &Asked) -> Answer {
    match (asked.token.as_str(), asked.path.as_str()) {
        (NAMED, PROFILE) => Answer::json(&json!({
            "account": {"uuid": "account-1"}, "organization": {"uuid": "organization"},
        })),
        (SILENT | SILENT_TOO | NAMED, PROFILE | CLAUDE_USAGE) => Answer::status(403),
        (key, path)
            if [CLAUDE_KEY, CODEX_KEY]
                .iter()
                .any(|good| key.trim_end_matches("-2") == *good)
                && path.starts_with("/v1/models") =>
        {
            Answer::json(&json!({}))
        }
        (token, _) if token.starts_with("sk-") => Answer::status(401),
        _ => truth(asked),
    }
}

/// `claude-1` and `codex-1` with logins; `token` to be given a token of account 1.
pub(super) fn world() -> Online {
    let mut world = Online::new(&["claude-1", "codex-1"]);
    world.sandbox.set(SECOND_PROOF, "20");
    world.https.respond(server);
    world.run("profile verify claude-1").success();
    add(&world, "token", "claude", "setup-token");
    world
}

pub(super) fn add(world: &Online, id: &str, provider: &str, credential: &str) {
    let line =
        format!("profile add {id} --provider {provider} --pool {POOL} --credential {credential}");
    world.run(&line).success();
}

/// Runs a line with something on its standard input.
pub(super) fn give(world: &Online, line: &str, input: &str) -> Ran {
    Ran::answered(&mut world.sandbox.command(line.split(' ')), input)
}

pub(super) fn enroll(world: &Online, token: &str) -> Ran {
    give(
        world,
        "profile enroll token --setup-token --same-account-as claude-1",
        token,
    )
}

pub(super) fn kept(world: &Online) -> PathBuf {
    world
        .sandbox
        .path("state/credentials/token.setup-token.json")
}

fn exec(world: &Online, profile: &str) -> Ran {
    let project = world.project.to_str().expect("UTF-8");
    let prompt = if profile.starts_with("codex") {
        "exec say"
    } else {
        "-p say"
    };
    let line = format!(
        "exec --task t-{profile} --pool {POOL} --profile {profile} --workspace {project} -- {prompt}"
    );
    world.run(&line)
}

/// A secret as the stand-in tells it, since none may be printed.
fn backwards(secret: &str) -> String {
    secret.chars().rev().collect()
}

/// Does what a person types.
fn typed(line: &str) {
    let status = Sandbox::tool("sh").args(["-c", line]).status();
    assert!(status.expect("a shell").success(), "{line}");
}

#[test]
fn a_token_that_may_not_name_its_account_needs_someone_who_vouches_and_is_told_as_asserted() {
    let mut world = world();
    let alone = give(&world, "profile enroll token --setup-token", SILENT);
    let refused = alone.refused("identity_unproven");
    assert_eq!(refused["details"]["reason"], "forbidden");
    assert_eq!(
        refused["hint"],
        "agent-fleet profile enroll token --setup-token --same-account-as PROFILE"
    );
    assert!(!kept(&world).exists());
    // Both would be given work on one account.
    let both = enroll(&world, SILENT).refused("duplicate_provider_identity");
    assert_eq!(both["hint"], "agent-fleet profile disable claude-1");
    world.run("profile disable claude-1").success();
    let ran = enroll(&world, SILENT);
    let path = kept(&world);
    assert!(
        ran.stderr.contains(path.to_str().expect("UTF-8")),
        "{}",
        ran.stderr
    );
    let enrolled = ran.success();
    assert_eq!(
        (&enrolled["outcome"], &enrolled["identity_source"]),
        (&json!("promoted"), &json!("asserted"))
    );
    let mode = |path: &PathBuf| {
        std::fs::metadata(path)
            .expect("it is there")
            .permissions()
            .mode()
    };
    assert_eq!(mode(&path) & 0o777, 0o600);
    assert_eq!(
        mode(&path.parent().expect("a folder").into()) & 0o777,
        0o700
    );
    world.https.take_paths();
    for (line, field) in [
        ("profile identity show token", "identity_source"),
        ("profile verify token", "identity_source"),
    ] {
        let said = world.run(line).success().to_string();
        assert!(
            said.contains("\"asserted\""),
            "{line} says nothing of {field}: {said}"
        );
    }
    // It is asked for what it may not say once a day at most, each try counts against the account.
    assert_eq!(world.https.take_paths(), [""; 0]);
    world.later(25 * 3600);
    world.run("profile verify token").success();
    world.run("profile verify token").success();
    assert_eq!(world.https.take_paths(), [PROFILE]);
    let status = world.run("profile status token").success();
    assert!(status.to_string().contains("asserted"), "{status}");
}

#[test]
fn a_token_is_handed_to_its_worker_alone_once_the_registry_says_so() {
    let world = world();
    world.run("profile disable claude-1").success();
    let enrolled = enroll(&world, SILENT).success();
    assert_eq!(
        (&enrolled["reason"], &enrolled["hint"]),
        (
            &json!("quota_unavailable"),
            &json!("agent-fleet config set settings.unmeasured allow")
        ),
        "{enrolled}"
    );
    world.https.take_paths();
    world.run("config set settings.unmeasured allow").success();
    world.run("profile enable token").success();
    let ran = exec(&world, "token");
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
    let worker: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(worker["handed_backwards"], backwards(SILENT));
    let around = worker["variables"].to_string() + &worker["argv"].to_string();
    assert!(!around.contains(SILENT), "{around}");
    assert!(worker["variables"]["CLAUDE_CODE_OAUTH_TOKEN_FILE_DESCRIPTOR"].is_string());
    assert_eq!(
        world.https.take_paths(),
        [""; 0],
        "a token that may not tell is left alone"
    );
    // The login of the same account may not work beside it.
    let beside = world.run("profile enable claude-1");
    let refused = beside.refused("duplicate_provider_identity");
    assert_eq!(refused["hint"], "agent-fleet profile disable token");
}

#[test]
fn the_server_names_the_account_where_it_may_and_nobody_can_vouch_for_another() {
    let world = world();
    world.run("profile disable claude-1").success();
    let named = give(&world, "profile enroll token --setup-token", NAMED).success();
    assert_eq!(named["identity_source"], "oauth-profile");
    let before = (
        std::fs::metadata(kept(&world)).expect("a file").ino(),
        std::fs::read(kept(&world)).expect("a file"),
    );
    let again = give(&world, "profile enroll token --setup-token", NAMED).success();
    assert_eq!(again["outcome"], "unchanged");
    let after = (
        std::fs::metadata(kept(&world)).expect("a file").ino(),
        std::fs::read(kept(&world)).expect("a file"),
    );
    assert_eq!(after, before);
    // The pair is of account 3.
    world.log_in_as("claude-1", "3", "third");
    let mut world = world;
    world.later(3600);
    add(&world, "claude-3", "claude", "home");
    world.sandbox.write(
        world.home("claude-3").join(".credentials.json"),
        std::fs::read(world.home("claude-1").join(".credentials.json")).expect("a login"),
    );
    world.run("profile verify claude-3").success();
    let refused = give(
        &world,
        "profile enroll token --setup-token --same-account-as claude-3",
        NAMED,
    )
    .refused("identity_changed");
    assert!(!refused.to_string().contains("account-"), "{refused}");
}

#[test]
fn a_token_in_force_stays_until_the_new_one_is_proved_and_a_profile_vouches_for_itself() {
    let world = world();
    world.run("profile disable claude-1").success();
    enroll(&world, SILENT).success();
    let before = std::fs::read(kept(&world)).expect("a file");
    for (input, code, reason) in [
        (
            "sk-ant-oat01-revoked-synthetic",
            "auth_broken",
            "unauthorized",
        ),
        ("", "login_failed", "misshapen"),
        (" \n", "login_failed", "misshapen"),
        (CLAUDE_KEY, "login_failed", "misshapen"),
        (
            "sk-ant-oat01-a\nsk-ant-oat01-b\n",
            "login_failed",
            "misshapen",
        ),
    ] {
        let ran = enroll(&world, input);
        assert!(input.trim().is_empty() || !ran.stdout.contains(input.trim()));
        let refused = ran.refused(code);
        assert_eq!(refused["details"]["reason"], reason, "{refused}");
        assert_eq!(std::fs::read(kept(&world)).expect("a file"), before);
    }
    let itself = "profile enroll token --setup-token --same-account-as token";
    let renewed = give(&world, itself, SILENT_TOO).success();
    assert_eq!(renewed["outcome"], "promoted");
    assert_ne!(std::fs::read(kept(&world)).expect("a file"), before);
    let left = std::fs::read_dir(world.sandbox.path("state/credentials"))
        .expect("a folder")
        .count();
    assert_eq!(left, 1, "nothing lies beside it");
}

#[test]
fn a_crash_leaves_the_old_token_or_the_new_one() {
    let world = world();
    world.run("profile disable claude-1").success();
    enroll(&world, SILENT).success();
    let itself = "profile enroll token --setup-token --same-account-as token";
    let mut crashes = 0;
    loop {
        let mut command = world.sandbox.command(itself.split(' '));
        let mut child = command
            .env("AGENT_FLEET_TEST_CRASH_AT", (crashes + 1).to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        drop(stdin.write_all(SILENT_TOO.as_bytes()));
        drop(stdin);
        if child.wait().expect("it ends").success() {
            break;
        }
        crashes += 1;
        let text = std::fs::read_to_string(kept(&world)).expect("a token");
        let holds = |token: &str| text.contains(&format!("\"{token}\""));
        assert!(holds(SILENT) || holds(SILENT_TOO), "crash {crashes}");
        // Whichever it is, the next command goes on from it.
        give(&world, itself, SILENT).success();
        let text = std::fs::read_to_string(kept(&world)).expect("a token");
        assert!(text.contains(&format!("\"{SILENT}\"")), "crash {crashes}");
    }
    assert!(crashes >= 7, "only {crashes} crash points were reached");
    drop(world.run("doctor --fix"));
    let left = std::fs::read_dir(world.sandbox.path("state/credentials"))
        .expect("a folder")
        .count();
    assert_eq!(left, 1, "what crashes left is removed");
}

#[test]
fn a_token_ends_after_a_year_and_its_removal_is_said_and_asked_for() {
    let mut world = world();
    world.run("profile disable claude-1").success();
    enroll(&world, SILENT).success();
    let status = world.run("profile status token").success();
    assert!(status["login_expires_at"].is_string(), "{status}");
    world.later(366 * 24 * 3600);
    let ended = world.run("profile enable token").refused("login_expired");
    assert_eq!(
        ended["hint"],
        "agent-fleet profile enroll token --setup-token"
    );
    let removed = world.run("profile remove token").success();
    let path = kept(&world);
    assert_eq!(removed["credentials"], json!([path.to_str()]));
    assert!(path.exists());
    let home = world.sandbox.path("share/accounts/claude/token");
    let home = home.display();
    let again = format!("profile add token --provider claude --home {home} --in-place");
    world.run(&again).success();
    let deleted = world
        .run("profile remove token --delete-credential")
        .success();
    assert_eq!(deleted["credentials"], Value::Null);
    assert!(!path.exists());
}

#[test]
fn a_login_in_the_home_beside_a_token_is_refused_with_the_command_that_puts_it_aside() {
    let world = world();
    world
        .run("profile policy claude-1 --credential setup-token")
        .success();
    let home = world.home("claude-1").join(".credentials.json");
    let itself = "profile enroll claude-1 --setup-token --same-account-as claude-1";
    let refused = give(&world, itself, SILENT).refused("auth_override");
    let hint = refused["hint"].as_str().expect("a hint");
    assert_eq!(hint, format!("mv -n {0} {0}.aside", home.display()));
    typed(hint);
    assert_eq!(
        give(&world, itself, SILENT).success()["outcome"],
        "promoted"
    );
    // It comes back by itself, as a person's login in that home would.
    typed(&format!("mv {0}.aside {0}", home.display()));
    world.run("config set settings.unmeasured allow").success();
    exec(&world, "claude-1").refused("auth_override");
}

#[test]
fn a_key_is_paid_for_only_where_the_profile_allows_it() {
    let world = world();
    add(&world, "claude-key", "claude", "api-key");
    add(&world, "codex-key", "codex", "api-key");
    for (id, key, file) in [
        (
            "claude-key",
            CLAUDE_KEY,
            "state/credentials/claude-key.api-key.json",
        ),
        (
            "codex-key",
            CODEX_KEY,
            "share/accounts/codex/codex-key/auth.json",
        ),
    ] {
        let line = format!("profile enroll {id} --api-key-stdin");
        let bad = give(&world, &line, &format!("{key}-revoked\n"));
        bad.refused("auth_broken");
        let ran = give(&world, &line, &format!("{key}\n"));
        let file = world.sandbox.path(file);
        let mode = std::fs::metadata(&file)
            .expect("a file")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        let enrolled = ran.success();
        assert_eq!(
            (&enrolled["reason"], &enrolled["hint"]),
            (
                &json!("money_guard"),
                &json!(format!("agent-fleet profile policy {id} --allow-overage"))
            ),
            "{enrolled}"
        );
        world
            .run(&format!("profile enable {id}"))
            .refused("money_guard");
        world
            .run(&format!("profile policy {id} --allow-overage"))
            .success();
        world.run(&format!("profile enable {id}")).success();
        let ran = exec(&world, id);
        assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
        let worker: Value = serde_json::from_str(&ran.stdout).expect("JSON");
        let handed = if id == "claude-key" {
            json!(backwards(key))
        } else {
            Value::Null
        };
        assert_eq!(worker["handed_backwards"], handed);
        let around = worker["variables"].to_string() + &worker["argv"].to_string();
        assert!(!around.contains(key), "{around}");
        // A key is replaced by another every now and then.
        let next = give(&world, &line, &format!("{key}-2\n")).success();
        assert_eq!(next["outcome"], "promoted", "{next}");
        assert_eq!(exec(&world, id).status, 0, "work goes on with the next key");
        // Subscriptions come first, as long as they have anything left.
        let chosen = world.sandbox.run(world.dry_run()).success();
        assert_ne!(chosen["profile"], id, "{chosen}");
    }
}

#[test]
fn what_a_profile_is_not_for_is_refused_by_name() {
    let world = world();
    let refused = |line: &str| give(&world, line, SILENT).refused("policy");
    let codex = refused("profile enroll codex-1 --setup-token");
    assert!(
        codex["error"]
            .as_str()
            .expect("a sentence")
            .contains("Codex has no long-lived tokens")
    );
    assert_eq!(
        refused("profile enroll claude-1 --setup-token")["hint"],
        "agent-fleet profile policy claude-1 --credential setup-token"
    );
    refused("profile enroll token");
    refused("profile enroll token --api-key-stdin");
    let line = "profile add other --provider codex --credential setup-token";
    let other = world.run(line).refused("usage");
    assert!(
        other.to_string().contains("Codex has no long-lived tokens"),
        "{other}"
    );
    let argument = world.run("profile enroll token --setup-token in-argv");
    argument.refused("usage");
}
