//! Logins by the real CLIs that are not taken: the one in force is the same file afterwards.

use std::os::unix::process::CommandExt as _;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::json;

use crate::cli::Cli;
use crate::enroll::{add, credential, kept, nothing_left, person, with_browser, world};
use crate::ran::Ran;
use crate::wait::until;
use crate::world::World;

/// Logs in to a profile as this account, by the CLI's usual way.
fn enroll(world: &World, cli: Cli, id: &str, account: u32) -> Ran {
    match cli {
        Cli::Claude => with_browser(world, id, account),
        Cli::Codex => {
            person(world, account);
            world.run(["profile", "enroll", id])
        }
    }
}

/// Another account, a sibling's and the person's own are refused, and nobody's login changes.
fn wrong_accounts(cli: Cli) {
    let world = world();
    let (id, sibling) = (format!("{}-7", cli.name()), world.add(cli, 1, 1));
    add(&world, cli, &id);
    drop(enroll(&world, cli, &id, 7).success());
    let base = world.lab.path("base");
    world.lab.make_home(cli.name(), 2, &base, None);
    let base = base.to_str().expect("UTF-8");
    world.configure(&format!("providers.{}.base_home", cli.name()), base);
    let path = credential(&world, cli, &id);
    let before = kept(&path);
    for (account, code) in [
        (8, "identity_changed"),
        (1, "duplicate_provider_identity"),
        (2, "base_identity"),
    ] {
        let refused = enroll(&world, cli, &id, account).refused(code);
        let text = refused.to_string();
        assert!(
            !text.contains("lab.invalid") && !text.contains("LAB0"),
            "{text}"
        );
        assert_eq!(kept(&path), before, "{code}");
        nothing_left(&world);
    }
    drop(world.run(["profile", "verify", &sibling]).success());
    drop(world.run(["profile", "verify", &id]).success());
}

#[test]
fn a_claude_login_of_anybody_else_is_refused() {
    wrong_accounts(Cli::Claude);
}

#[test]
fn a_codex_login_of_anybody_else_is_refused() {
    wrong_accounts(Cli::Codex);
}

#[test]
fn a_codex_login_that_is_denied_or_expired_or_switched_off_or_interrupted_changes_nothing() {
    let world = world();
    add(&world, Cli::Codex, "codex-7");
    drop(enroll(&world, Cli::Codex, "codex-7", 7).success());
    let path = credential(&world, Cli::Codex, "codex-7");
    let before = kept(&path);
    for device in [
        json!({"deny": true}),
        json!({"expires": true, "account": 7, "pending_polls": 1, "interval": 1}),
        json!({"disabled": true}),
    ] {
        world.lab.set(&json!({ "device": device }));
        let refused = world.run(["profile", "enroll", "codex-7"]);
        let refused = refused.refused("login_failed");
        assert_eq!(refused["details"]["reason"], "login_refused", "{device}");
        assert_eq!(kept(&path), before);
    }
    world
        .lab
        .set(&json!({"device": {"account": 7, "pending_polls": 1000}}));
    let since = crate::lab::now();
    let child = world
        .command(["profile", "enroll", "codex-7"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("the program starts");
    until("codex asks for a code", Duration::from_secs(30), || {
        let asked = world.lab.log(since);
        let asked = asked
            .iter()
            .any(|one| one.path.contains("deviceauth/token"));
        asked.then_some(()).ok_or_else(|| "nothing".to_owned())
    });
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    kill_process_group(pid.expect("a pid"), Signal::INT).expect("it lives");
    let refused = Ran::ended(&child.wait_with_output().expect("the program ends"));
    assert_eq!(
        refused.refused("login_failed")["details"]["reason"],
        "interrupted"
    );
    assert_eq!(kept(&path), before);
    nothing_left(&world);
}
