//! What `status` and `doctor` tell of real CLIs that no lease accounts for, and that telling costs nothing.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::cli::{BOTH, Cli};
use crate::lab::{Plan, tool};
use crate::ran::Ran;
use crate::terminal::Terminal;
use crate::wait::until;
use crate::worker::Worker;
use crate::world::{Job, World};

/// How long a CLI may take to publish itself, machine load included.
const PUBLISHED: Duration = Duration::from_mins(1);

fn seconds() -> f64 {
    #[expect(clippy::disallowed_methods, reason = "the lab's log is in wall time")]
    let now = SystemTime::now();
    now.duration_since(UNIX_EPOCH)
        .expect("after 1970")
        .as_secs_f64()
}

/// A CLI started by hand in a home, as a person would.
fn by_hand(world: &World, cli: Cli, home: &Path) -> Command {
    let variable = match cli {
        Cli::Claude => "CLAUDE_CONFIG_DIR",
        Cli::Codex => "CODEX_HOME",
    };
    let mut command = tool(world.lab.value(cli.binary_variable()));
    command
        .env_clear()
        .envs(world.variables())
        .env(variable, home)
        .current_dir(world.project("repo"))
        .stdin(Stdio::null());
    command
}

/// The processes of this role that are told to be without a lease.
fn unleased(world: &World, role: &str) -> Vec<Value> {
    let status = world.run(["status"]).success();
    let all = status["unleased"].as_array().expect("a list").clone();
    all.into_iter().filter(|one| one["role"] == role).collect()
}

#[track_caller]
fn wait_for(world: &World, role: &str) -> Value {
    until(&format!("a {role} that is told"), PUBLISHED, || {
        let found = unleased(world, role).pop();
        found.ok_or_else(|| world.run(["status"]).stdout)
    })
}

/// The level of a check of a profile.
#[track_caller]
fn level(world: &World, profile: &str, check: &str) -> String {
    let doctor = world.run(["doctor"]).success();
    let profiles = doctor["profiles"].as_array().expect("profiles");
    let found = profiles.iter().find(|one| one["profile"] == profile);
    let checks = found.expect("the profile")["checks"]
        .as_array()
        .expect("checks")
        .clone();
    let found = checks.iter().find(|one| one["id"] == check);
    found.expect("the check")["level"]
        .as_str()
        .expect("a level")
        .to_owned()
}

#[test]
fn a_session_without_a_lease_is_told_from_a_worker_in_the_same_home() {
    let plan = Plan {
        accounts: 1,
        ..Plan::default()
    };
    let world = World::enabled(&plan, 2, &["repo"]);
    let end = world.lab.path("end");
    let slow = format!("LAB:{}", json!({"text": "hello", "after": end}));
    let job = Job::new("leased", "claude", &world.project("repo"));
    let (_, worker) = world.start(Cli::Claude, &job, &slow);
    let codex = Job::new("leased-too", "codex", &world.project("repo"));
    let (_, codex_worker) = world.start(Cli::Codex, &codex, &slow);
    let mut commands: Vec<Worker> = Vec::new();
    for cli in BOTH {
        let mut command = by_hand(&world, cli, &world.home(cli, 1));
        command.args(cli.headless(&slow));
        commands.push(Worker::start(
            &world,
            &format!("{}-by-hand", cli.name()),
            &mut command,
        ));
    }
    let sessions = until("both sessions without a lease", PUBLISHED, || {
        let found = unleased(&world, "session");
        if found.len() == 2 {
            Ok(found)
        } else {
            Err(format!("{found:#?}"))
        }
    });
    for (cli, (session, by_hand)) in BOTH.into_iter().zip(sessions.iter().zip(&commands)) {
        assert_eq!(
            session["pid"].as_u64(),
            Some(by_hand.pid().into()),
            "{session}"
        );
        assert_eq!(session["profile"], format!("{}-1", cli.name()));
        assert_eq!(
            level(&world, &format!("{}-1", cli.name()), "unleased_sessions"),
            "warn"
        );
    }
    let conversation = sessions[0]["session_id"]
        .as_str()
        .expect("Claude names its conversation");
    World::write(&end, "");
    for worker in commands {
        let said = worker.clean();
        if said.contains("session_id") {
            assert_eq!(Cli::Claude.session(&said), conversation);
        }
    }
    worker.clean();
    codex_worker.clean();
    assert_eq!(unleased(&world, "session"), [Value::Null; 0], "they ended");
}

#[test]
fn a_codex_daemon_is_told_and_the_command_that_is_told_ends_it() {
    let plan = Plan {
        accounts: 1,
        ..Plan::default()
    };
    let world = World::enabled(&plan, 1, &["repo"]);
    let home = world.home(Cli::Codex, 1);
    let mut command = by_hand(&world, Cli::Codex, &home);
    command.args([
        "--enable",
        "daemon_auto_start",
        "-s",
        "danger-full-access",
        "-a",
        "never",
    ]);
    let screen = Terminal::start(&world, "codex-by-hand", &command);
    let daemon = wait_for(&world, "daemon");
    assert_eq!(daemon["profile"], "codex-1");
    drop(wait_for(&world, "updater"));
    assert_ne!(level(&world, "codex-1", "daemons"), "ok");
    drop(screen);
    let stop = wait_for(&world, "daemon")["hint"]
        .as_str()
        .expect("a command")
        .to_owned();
    let mut shell = tool("sh");
    shell
        .args(["-c", &stop])
        .env_clear()
        .envs(world.variables());
    let typed = Ran::of(&mut shell);
    assert_eq!(
        typed.status, 0,
        "{stop}\n{}\n{}",
        typed.stdout, typed.stderr
    );
    until("the daemon's end", PUBLISHED, || {
        let left = world.run(["status"]).success()["unleased"].clone();
        if left == Value::Array(Vec::new()) {
            Ok(())
        } else {
            Err(left.to_string())
        }
    });
    assert_eq!(level(&world, "codex-1", "daemons"), "ok");
}

/// Every file below a directory with its time: a provider's CLI that is started leaves its traces.
fn traces(home: &Path) -> Vec<(std::path::PathBuf, Option<SystemTime>)> {
    let mut found = Vec::new();
    let mut folders = vec![home.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
            let metadata = entry.metadata().expect("an entry");
            if metadata.is_dir() {
                folders.push(entry.path());
            }
            found.push((entry.path(), metadata.modified().ok()));
        }
    }
    found.sort();
    found
}

#[test]
fn telling_starts_no_provider_and_refreshes_no_login() {
    // Any CLI that starts on these homes refreshes them first.
    let plan = Plan {
        accounts: 1,
        expires_in: Some(240),
        ..Plan::default()
    };
    let world = World::enabled(&plan, 1, &["repo"]);
    let homes = BOTH.map(|cli| world.home(cli, 1));
    let before = homes.clone().map(|home| traces(&home));
    let since = seconds();
    let repo = world.project("repo");
    let repo = repo.to_str().expect("UTF-8");
    for line in [
        &["status"][..],
        &["doctor"],
        &["pool", "status", "--pool", "claude"],
        &["pool", "status", "--pool", "codex"],
        &["profile", "status"],
        &["lease", "list"],
        &["quota", "show", "--all"],
    ] {
        drop(world.run(line).success());
    }
    let heard: Vec<String> = world
        .lab
        .log(since)
        .iter()
        .map(super::lab::Request::line)
        .collect();
    assert_eq!(heard, [""; 0], "the server was asked");
    for pool in ["claude", "codex"] {
        let line = [
            "choose",
            "--dry-run",
            "--task",
            "t",
            "--pool",
            pool,
            "--workspace",
            repo,
        ];
        drop(world.run(line).success());
    }
    let refreshed: Vec<String> = world
        .lab
        .log(since)
        .iter()
        .filter(|request| request.refresh.is_some())
        .map(super::lab::Request::line)
        .collect();
    assert_eq!(refreshed, [""; 0], "a login was refreshed");
    assert_eq!(
        homes.clone().map(|home| traces(&home)),
        before,
        "a provider's CLI was in the home"
    );

    // The same instruments do notice a CLI: even one that only asks for the status refreshes.
    let mut command = by_hand(&world, Cli::Claude, &homes[0]);
    // It prints the person's address, so nobody looks at what it says.
    let status = command.args(["auth", "status"]).output();
    assert!(status.expect("the CLI starts").status.success());
    assert_ne!(traces(&homes[0]), before[0]);
    let log = world.lab.log(since);
    assert!(log.iter().any(|request| request.refresh.is_some()));
}
