//! Logins that the real CLIs refresh, that run out, and that the server takes no longer.

use std::time::Duration;

use serde_json::{Value, json};

use crate::accounts::{
    OLD, choose, credential, exec, granted, job, refused_everywhere, status, type_hint, world,
};
use crate::cli::Cli;
use crate::enroll::with_code;
use crate::lab::{Plan, Request, now};
use crate::wait::until;
use crate::worker::{TURN, Worker};
use crate::world::{World, profile};

fn refreshes(log: &[Request]) -> Vec<String> {
    log.iter()
        .filter_map(|request| request.refresh.clone())
        .collect()
}

/// Everything since then was on account 1; returns how often its login was refreshed, which always worked.
#[track_caller]
fn refreshed(world: &World, since: f64) -> usize {
    let log = world.lab.log(since);
    let elsewhere: Vec<String> = log
        .iter()
        .filter(|request| request.account.is_some_and(|account| account != 1))
        .map(Request::line)
        .collect();
    assert!(elsewhere.is_empty(), "{elsewhere:#?}");
    let outcomes = refreshes(&log);
    assert!(
        outcomes.iter().all(|outcome| outcome == "ok"),
        "{outcomes:?}"
    );
    outcomes.len()
}

fn plan(expires_in: u32) -> Plan {
    Plan {
        accounts: 1,
        expires_in: Some(expires_in),
        ..Plan::default()
    }
}

/// Both CLIs refresh a token that has less than this left, in seconds.
const EARLY: u32 = 300;
/// How much longer than that a token lasts which is to get old under a worker, in seconds: a busy machine is to start
/// the worker meanwhile.
const YOUNG: u32 = 12;
/// The same for one that the worker itself was given.
const BRIEFLY: u32 = 5;

/// Its CLI refreshes the login before it goes on: the model's answer is kept back until the token is old.
fn mid_run(cli: Cli) {
    let world = world(cli, &plan(30_000));
    let login = credential(&world, cli, 1);
    let go = world.lab.path("go");
    let steps = json!([{"shell": "true", "after": go}, {"text": "done"}]);
    let working = job(&world, cli, "t");
    let since = now();
    let given = match cli {
        // What has only minutes left is refreshed at the start, for a token that gets old soon.
        Cli::Claude => {
            let own = std::fs::read(&login).expect("a login");
            let mut file: Value = serde_json::from_slice(&own).expect("JSON");
            let soon = (now() + 200.0) * 1000.0;
            file["claudeAiOauth"]["expiresAt"] = json!(soon.round());
            World::write(&login, &file.to_string());
            let brief = json!({"accounts": {"1": {"access_ttl": EARLY + BRIEFLY}}});
            world.lab.set(&brief);
            None
        }
        Cli::Codex => {
            let fresh = world.lab.path("fresh");
            let life = i64::from(EARLY + YOUNG);
            world.lab.make_home(cli.name(), 1, &fresh, Some(life));
            let fresh = std::fs::read_to_string(fresh.join("auth.json"));
            World::write(&login, &fresh.expect("a login"));
            Some(now())
        }
    };
    let before = std::fs::read(&login).expect("a login");
    let (_, worker) = world.start(cli, &working, &format!("LAB:{steps}"));
    let (old, wanted) = if let Some(given) = given {
        (given + f64::from(YOUNG), 1)
    } else {
        let given = until("the refresh at the start", TURN, || {
            let log = world.lab.log(since);
            let first = log.iter().find(|request| request.refresh.is_some());
            first
                .map(|request| request.t)
                .ok_or_else(|| worker.stdout())
        });
        world.lab.set(&json!({}));
        (given + f64::from(BRIEFLY), 2)
    };
    until("a token that is old", TURN, || {
        let left = old + 1.0 - now();
        if left < 0.0 {
            Ok(())
        } else {
            Err(format!("{left} s left"))
        }
    });
    World::write(&go, "");
    drop(worker.clean());
    assert_eq!(refreshed(&world, since), wanted);
    let after = std::fs::read(&login).expect("a login");
    assert!(before != after, "the login was not rewritten");
    let chosen = granted(&world, cli, 1);
    assert_eq!(chosen["degraded"], false, "{chosen}");
    let mut resumed = world.resume(
        &job(&world, cli, OLD),
        &cli.headless(r#"LAB:{"text":"on"}"#),
    );
    drop(Worker::start(&world, "resumed", &mut resumed).clean());
    assert_eq!(refreshed(&world, since), wanted);
}

#[test]
fn a_login_that_claude_refreshes_mid_run_stays_routeable_with_nobody_involved() {
    mid_run(Cli::Claude);
}

#[test]
fn a_login_that_codex_refreshes_mid_run_stays_routeable_with_nobody_involved() {
    mid_run(Cli::Codex);
}

/// Nobody worked since the evening; the first worker of the morning refreshes once, and only the CLI does.
fn overnight(cli: Cli) {
    // Long enough for a busy machine to prove it first.
    let mut world = World::new(&plan(8), &["project"]);
    world.add(cli, 1, 4);
    drop(world.run(["quota", "refresh"]).success());
    until("the end of the token", Duration::from_secs(30), || {
        let shown = world
            .run(["profile", "auth-status", &profile(cli, 1)])
            .success();
        if shown["auth_status"] == "refreshable" {
            Ok(())
        } else {
            Err(shown.to_string())
        }
    });
    // Its reading has aged too.
    world.set("AGENT_FLEET_TEST_NOW", "+36000");
    let since = now();
    let first = job(&world, cli, "first");
    let chosen = world.choose(&first).success();
    assert_eq!(
        (&chosen["degraded"], &chosen["degraded_reason"]),
        (&json!(true), &json!("token_expired")),
        "{chosen}"
    );
    assert_eq!(refreshed(&world, since), 0);
    world.set("AGENT_FLEET_TEST_NOW", "+0");
    let workers = ["first", "second", "third"].map(|task| {
        let work = job(&world, cli, task);
        drop(world.choose(&work).success());
        let prompt = cli.headless(r#"LAB:{"text":"hello"}"#);
        Worker::start(&world, task, &mut world.exec(&work, &prompt))
    });
    for worker in workers {
        drop(worker.clean());
    }
    assert_eq!(refreshed(&world, since), 1);
    world.set("AGENT_FLEET_TEST_NOW", "+600");
    let chosen = granted(&world, cli, 1);
    assert_eq!(chosen["degraded"], false, "{chosen}");
}

#[test]
fn a_claude_token_that_ran_out_overnight_stays_routeable_and_is_refreshed_once() {
    overnight(Cli::Claude);
}

#[test]
fn a_codex_token_that_ran_out_overnight_stays_routeable_and_is_refreshed_once() {
    overnight(Cli::Codex);
}

/// The command that is told logs in, and the next choose needs nothing more.
fn revoked(cli: Cli) {
    let mut world = world(
        cli,
        &Plan {
            accounts: 1,
            ..Plan::default()
        },
    );
    world.lab.set(&json!({"accounts": {"1": {"revoked": true, "refresh_error": "refresh_token_invalidated"}}}));
    world.set("AGENT_FLEET_TEST_NOW", "+3600");
    refused_everywhere(&world, cli, 1, "auth_broken");
    world.set("AGENT_FLEET_TEST_SECOND_PROOF", "200");
    let hint = format!("agent-fleet profile enroll {}", profile(cli, 1));
    assert_eq!(status(&world, cli, 1)["routeability"]["hint"], hint);
    // The server takes the account's tokens again, and these are lost: nothing is left to be kept.
    World::write(&credential(&world, cli, 1), "{}");
    world
        .lab
        .set(&json!({"device": {"account": 1, "pending_polls": 0, "interval": 0}}));
    match cli {
        Cli::Claude => drop(with_code(&world, &profile(cli, 1), 1).success()),
        Cli::Codex => drop(type_hint(&world, cli, 1, &[])),
    }
    let after = std::fs::read(credential(&world, cli, 1)).expect("a login");
    assert_ne!(after, b"{}", "the command did not log in");
    drop(granted(&world, cli, 1));
    assert_eq!(exec(&world, cli, "t", 1).status, 0);
    assert_eq!(status(&world, cli, 1)["routeability"]["eligible"], true);
}

#[test]
fn a_revoked_claude_login_is_broken_until_the_command_told_has_logged_in() {
    revoked(Cli::Claude);
}

#[test]
fn a_revoked_codex_login_is_broken_until_the_command_told_has_logged_in() {
    revoked(Cli::Codex);
}

/// Claude finds out by itself, and empties its credential.
#[test]
fn a_claude_worker_whose_refresh_is_refused_breaks_its_profile_alone() {
    let cli = Cli::Claude;
    let world = world(
        cli,
        &Plan {
            accounts: 2,
            expires_in: Some(400),
            ..Plan::default()
        },
    );
    world
        .lab
        .set(&json!({"accounts": {"1": {"revoked": true}}}));
    let mut moved = world;
    // Our clock says that the token is old; the CLI's own does not matter: the server takes it no longer.
    moved.set("AGENT_FLEET_TEST_NOW", "+10");
    drop(exec(&moved, cli, "t", 1));
    moved.set("AGENT_FLEET_TEST_NOW", "+3600");
    refused_everywhere(&moved, cli, 1, "auth_broken");
    let chosen = moved.choose(&job(&moved, cli, "u")).success();
    assert_eq!(chosen["profile"], profile(cli, 2).as_str());
}

/// Changed and run out: only `--probe` helps, it refreshes exactly once, and the model is not asked.
fn probed(cli: Cli) {
    let world = world(
        cli,
        &Plan {
            accounts: 2,
            ..Plan::default()
        },
    );
    let fresh = world.lab.path("fresh");
    world.lab.make_home(cli.name(), 1, &fresh, Some(-60));
    let name = credential(&world, cli, 1);
    let login = std::fs::read_to_string(fresh.join(name.file_name().expect("a name")));
    // The same account, by a login that nobody saw: for Claude that takes other tokens.
    let login = login.expect("a login").replace("-aaaa", "-bbbb");
    World::write(&name, &login);
    let id = profile(cli, 1);
    refused_everywhere(&world, cli, 1, "identity_unproven");
    drop(
        world
            .run(["profile", "verify", &id])
            .refused("identity_unproven"),
    );
    let held = choose(&world, cli, "elsewhere", 2).success();
    assert_eq!(held["profile"], profile(cli, 2).as_str());
    let since = now();
    let hint = type_hint(&world, cli, 1, &[]);
    assert_eq!(hint, format!("agent-fleet profile verify {id} --probe"));
    assert_eq!(refreshed(&world, since), 1);
    let log = world.lab.log(since);
    assert!(
        !log.iter().any(|request| cli.asks_model(request)),
        "the model was asked"
    );
    drop(granted(&world, cli, 1));
    assert_eq!(exec(&world, cli, "t", 1).status, 0);
    assert_eq!(refreshed(&world, since), 1);
}

#[test]
fn a_changed_claude_login_that_ran_out_is_proved_by_a_probe_with_one_refresh() {
    probed(Cli::Claude);
}

#[test]
fn a_changed_codex_login_that_ran_out_is_proved_by_a_probe_with_one_refresh() {
    probed(Cli::Codex);
}

/// Profile 1, to whose login nobody has worked yet.
fn idle(cli: Cli) -> World {
    let plan = Plan {
        accounts: 1,
        ..Plan::default()
    };
    let world = World::new(&plan, &["project"]);
    world.add(cli, 1, 4);
    world
}

/// A refresh that takes long is left alone: it ends by itself and the login is kept.
fn slow(cli: Cli) {
    let world = idle(cli);
    let fresh = world.lab.path("fresh");
    world.lab.make_home(cli.name(), 1, &fresh, Some(-60));
    let name = credential(&world, cli, 1);
    let login = std::fs::read_to_string(fresh.join(name.file_name().expect("a name")));
    World::write(&name, &login.expect("a login").replace("-aaaa", "-bbbb"));
    world
        .lab
        .set(&json!({"accounts": {"1": {"refresh_latency": 6}}}));
    let id = profile(cli, 1);
    let since = now();
    let line = ["profile", "verify", &id, "--probe", "--patience", "2"];
    drop(world.run(line).refused("probe_slow"));
    let lease = || -> Option<Value> {
        let list = world.run(["lease", "list"]).success();
        let leases = list["leases"].as_array().expect("a list").clone();
        leases
            .into_iter()
            .find(|lease| lease["task"] == format!("@probe/{id}"))
    };
    assert_eq!(lease().expect("the probe's lease")["verdict"], "orphaned");
    drop(world.run(line).refused("lease_active"));
    until("the end of the probe", TURN, || match lease() {
        Some(lease) if lease["verdict"] != "dead" => Err(lease.to_string()),
        Some(_) | None => Ok(()),
    });
    assert_eq!(refreshed(&world, since), 1);
    drop(granted(&world, cli, 1));
    assert_eq!(refreshed(&world, since), 1);
}

#[test]
fn a_slow_refresh_of_claude_is_never_cut_off() {
    slow(Cli::Claude);
}

#[test]
fn a_slow_refresh_of_codex_is_never_cut_off() {
    slow(Cli::Codex);
}

/// Another process is refreshing by Claude's own lock; one that was left behind is Claude's to take over.
#[test]
fn a_live_refresh_lock_of_claude_is_waited_for_and_a_stale_one_is_left_to_claude() {
    let cli = Cli::Claude;
    let world = idle(cli);
    let fresh = world.lab.path("fresh");
    world.lab.make_home(cli.name(), 1, &fresh, Some(-60));
    let name = credential(&world, cli, 1);
    let login = std::fs::read_to_string(fresh.join(".credentials.json")).expect("a login");
    World::write(&name, &login.replace("-aaaa", "-bbbb"));
    let lock = world.home(cli, 1).join(".oauth_refresh.lock");
    std::fs::create_dir(&lock).expect("a lock");
    let since = now();
    let id = profile(cli, 1);
    let line = ["profile", "verify", &id, "--probe", "--patience", "2"];
    let refused = world.run(line).refused("lock_timeout");
    assert_eq!(
        refused["details"]["path"],
        lock.to_str().expect("UTF-8"),
        "{refused}"
    );
    assert!(lock.is_dir(), "a live lock was taken");
    assert_eq!(refreshed(&world, since), 0);
    let old = crate::lab::tool("touch")
        .args(["-d", "2 days ago"])
        .arg(&lock)
        .status();
    assert!(old.expect("touch runs").success());
    drop(world.run(["profile", "verify", &id, "--probe"]).success());
    assert_eq!(refreshed(&world, since), 1);
    drop(granted(&world, cli, 1));
}
