//! `doctor`: what is wrong, with evidence and a command that can be typed, and what it mends by itself.

use std::path::Path;

use serde_json::Value;

use crate::support::living::Living;
use crate::support::sandbox::Sandbox;
use crate::support::world::{POOL, World};

/// Id, level and fix of what is not as it should be, of a group of checks.
fn findings(checks: &Value) -> Vec<(String, String, String)> {
    let text = |check: &Value, key: &str| check[key].as_str().unwrap_or_default().to_owned();
    let checks = checks.as_array().expect("checks");
    checks
        .iter()
        .filter(|check| check["level"] != "ok")
        .map(|check| (text(check, "id"), text(check, "level"), text(check, "fix")))
        .collect()
}

/// The checks of a profile.
#[track_caller]
fn of(doctor: &Value, profile: &str) -> Value {
    let profiles = doctor["profiles"].as_array().expect("profiles");
    let found = profiles.iter().find(|one| one["profile"] == profile);
    found.unwrap_or_else(|| panic!("no {profile} in {doctor}"))["checks"].clone()
}

/// The finding of one check of a profile.
#[track_caller]
fn finding(doctor: &Value, profile: &str, id: &str) -> (String, String) {
    let all = findings(&of(doctor, profile));
    let found = all.iter().find(|(check, ..)| check == id);
    let (_, level, fix) = found.unwrap_or_else(|| panic!("no {id} in {all:#?}"));
    (level.clone(), fix.clone())
}

fn home(world: &World, profile: &str) -> String {
    let status = world.command(&["profile", "status", profile]);
    status["home"].as_str().expect("a home").to_owned()
}

/// Makes a file or a directory look as if it had been written two days ago.
fn age(path: &Path) {
    let done = Sandbox::tool("touch")
        .args(["-d", "2 days ago"])
        .arg(path)
        .status();
    assert!(done.expect("touch runs").success());
}

/// A Claude profile in a home of its own, without a login.
fn claude() -> Sandbox {
    let sandbox = Sandbox::new();
    let home = sandbox.path("homes/claude");
    std::fs::create_dir_all(&home).expect("a home");
    sandbox.write(
        "config/accounts.toml",
        format!(
            "version = 1\n[providers.claude]\nbinary = \"{}\"\nbase_home = false\n[profiles.\"claude-1\"]\nprovider = \"claude\"\nhome = \"{}\"\npools = [\"{POOL}\"]\nenabled = true\n",
            env!("CARGO_BIN_EXE_fake-provider"),
            home.display()
        ),
    );
    sandbox
}

#[test]
fn a_fleet_that_works_is_healthy_and_the_page_says_so() {
    let world = World::with(2);
    let doctor = world.command(&["doctor"]);
    assert_eq!(findings(&doctor["machine"]), []);
    for profile in ["one", "two"] {
        assert_eq!(findings(&of(&doctor, profile)), []);
    }
    assert_eq!(
        (&doctor["healthy"], &doctor["next"]),
        (&true.into(), &Value::Null)
    );
    let page = world.sandbox.run(["--format", "human", "doctor"]);
    assert_eq!(page.status, 0);
    assert!(page.stdout.starts_with("healthy: "), "{}", page.stdout);
    assert!(
        page.stdout.contains("\none 22 of 22 ok\n"),
        "{}",
        page.stdout
    );
}

#[test]
fn findings_are_a_report_and_no_refusal() {
    let world = World::with(1);
    let login = format!("{}/login.json", home(&world, "one"));
    std::os::unix::fs::symlink(&login, world.sandbox.path("other")).expect("a link");
    std::fs::hard_link(&login, world.sandbox.path("second")).expect("a second name");
    world.sandbox.knows("second");
    let ran = world.sandbox.run(["--format", "human", "doctor"]);
    assert_eq!(ran.status, 0, "a finding is no refusal: {}", ran.stderr);
    assert!(ran.stdout.starts_with("not healthy: "), "{}", ran.stdout);
    assert!(
        ran.stdout.contains("a file with 2 hard links"),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout.contains(&format!("next: ls -li {login}")),
        "{}",
        ran.stdout
    );
    let doctor = world.command(&["doctor"]);
    assert_eq!(finding(&doctor, "one", "credential").0, "fail");
    assert!(doctor["next"].is_string());
}

#[test]
fn without_a_registry_the_machine_is_checked_all_the_same() {
    let sandbox = Sandbox::new();
    let doctor = sandbox.run(["doctor"]).success();
    let found = findings(&doctor["machine"]);
    assert_eq!(
        found,
        [("registry".into(), "fail".into(), "agent-fleet init".into())]
    );
    assert_eq!(doctor["next"], "agent-fleet init");
}

#[test]
fn a_file_system_without_locks_is_named_before_anything_is_locked() {
    let mut world = World::with(1);
    world.sandbox.set("AGENT_FLEET_TEST_FILESYSTEM", "NFS");
    let doctor = world.command(&["doctor"]);
    let found = findings(&doctor["machine"]);
    let named = found.iter().any(|(id, level, fix)| {
        id == "file_system" && level == "fail" && fix.starts_with("export AGENT_FLEET_STATE_DIR=")
    });
    assert!(named, "{found:#?}");
    assert_eq!(
        doctor["next"],
        "export AGENT_FLEET_STATE_DIR=/a/local/directory"
    );
    world.sandbox.set("AGENT_FLEET_TEST_FILESYSTEM", "overlay");
    assert_eq!(
        world.command(&["doctor"])["healthy"],
        true,
        "locks hold on an overlay"
    );
}

#[test]
fn an_old_refresh_lock_goes_only_while_nobody_lives_in_the_home() {
    let sandbox = claude();
    let home = sandbox.path("homes/claude");
    let lock = home.join(".oauth_refresh.lock");
    std::fs::create_dir(&lock).expect("a lock");
    let doctor = || sandbox.run(["doctor"]).success();
    let fix = || sandbox.run(["doctor", "--fix"]).success();
    let young = findings(&of(&doctor(), "claude-1"));
    assert!(
        !young.iter().any(|(id, ..)| id == "refresh_lock"),
        "{young:#?}"
    );
    drop(fix());
    assert!(lock.is_dir(), "a refresh may be at work");

    age(&lock);
    let session = Living::start();
    session.publish_session(&sandbox, &home);
    let (level, command) = finding(&doctor(), "claude-1", "refresh_lock");
    assert_eq!(
        (level.as_str(), command),
        ("warn", format!("ls -la {}", lock.display()))
    );
    drop(fix());
    assert!(lock.is_dir(), "somebody lives in the home");
    drop(session);

    let beginning = Sandbox::tool("sleep")
        .arg("600")
        .env("CLAUDE_CONFIG_DIR", &home)
        .spawn();
    let mut beginning = beginning.expect("sleep starts");
    drop(fix());
    let stayed = lock.is_dir();
    beginning.kill().expect("a child of ours");
    beginning.wait().expect("a child of ours");
    assert!(
        stayed,
        "a CLI that has just begun has not published itself yet"
    );

    let (level, command) = finding(&doctor(), "claude-1", "refresh_lock");
    assert_eq!(
        (level.as_str(), command),
        ("fail", format!("rmdir {}", lock.display()))
    );
    let answer = fix();
    assert!(!lock.exists(), "{answer}");
    assert_eq!(answer["fixed"][0]["check"], "refresh_lock");
    assert_eq!(
        (&answer["fixed"][0]["done"], &answer["fixed"][0]["profile"]),
        (&true.into(), &"claude-1".into())
    );

    std::fs::create_dir_all(lock.join("not ours")).expect("a filled lock");
    age(&lock);
    drop(fix());
    assert!(
        lock.join("not ours").is_dir(),
        "only what is empty is removed"
    );
}

#[test]
fn what_is_ours_is_mended_and_a_home_with_a_worker_is_left_alone() {
    let world = World::with(2);
    let settings = |profile: &str| format!("{}/settings.json", home(&world, profile));
    let worker = world.start("t", "sleep 60");
    let busy = world.lease("t").expect("a lease")["profile"].clone();
    let busy = busy.as_str().expect("a profile");
    let idle = if busy == "one" { "two" } else { "one" };
    let login = std::fs::read(format!("{}/login.json", home(&world, idle))).expect("a login");
    for profile in [busy, idle] {
        std::fs::remove_file(settings(profile)).expect("settings to lose");
    }
    let litter = world.sandbox.write("state/profiles/.tmp-killed", "half");
    let young = world.sandbox.write("state/profiles/.tmp-young", "half");
    age(&litter);
    let before = world.command(&["doctor"]);
    for profile in [busy, idle] {
        let (level, command) = finding(&before, profile, "provisioned");
        assert_eq!(
            (level, command),
            (
                "fail".into(),
                format!("agent-fleet profile provision {profile}")
            )
        );
    }
    let found = findings(&before["machine"]);
    assert_eq!(
        found,
        [(
            "litter".into(),
            "warn".into(),
            "agent-fleet doctor --fix".into()
        )]
    );

    let after = world.command(&["doctor", "--fix"]);
    assert!(!litter.exists() && young.exists());
    assert_eq!(findings(&after["machine"]), []);
    assert_eq!(findings(&of(&after, idle)), []);
    assert_eq!(
        finding(&after, busy, "provisioned").0,
        "fail",
        "a worker reads these files"
    );
    let kept = std::fs::read(format!("{}/login.json", home(&world, idle))).expect("a login");
    assert_eq!(kept, login, "a login is never touched");
    worker.kill();
    drop(world.command(&["doctor", "--fix"]));
    assert_eq!(world.command(&["doctor"])["healthy"], true);
}

#[test]
fn an_expired_reservation_is_ended_and_a_live_one_kept() {
    let world = World::with(2);
    let project = world.project.to_str().expect("UTF-8");
    let choose = |task: &str| {
        world.command(&[
            "lease",
            "choose",
            "--task",
            task,
            "--pool",
            POOL,
            "--workspace",
            project,
        ]);
    };
    world.command(&["config", "set", "settings.lease_ttl_seconds", "1"]);
    choose("gone");
    crate::support::world::wait("the reservation's end", || {
        let lease = world
            .lease("gone")
            .expect("it is listed until it is reclaimed");
        (lease["verdict"] == "dead").then_some(())
    });
    let answer = world.command(&["doctor", "--fix"]);
    assert_eq!(
        answer["fixed"][0]["what"],
        "ended the expired reservation of task `gone`"
    );
    assert_eq!(world.lease("gone"), None);
    world.command(&["config", "set", "settings.lease_ttl_seconds", "600"]);
    choose("waits");
    drop(world.command(&["doctor", "--fix"]));
    assert!(world.lease("waits").is_some());
}

#[test]
fn a_linked_database_and_a_linked_home_are_named() {
    let sandbox = claude();
    let home = sandbox.path("homes/claude");
    let database = home.join("state_5.sqlite");
    std::os::unix::fs::symlink("/elsewhere", &database).expect("a link");
    let doctor = sandbox.run(["doctor"]).success();
    let (level, command) = finding(&doctor, "claude-1", "databases");
    assert_eq!(
        (level.as_str(), command),
        ("fail", format!("rm {}", database.display()))
    );
    std::fs::remove_dir_all(&home).expect("the home");
    let real = sandbox.path("homes/real");
    std::fs::create_dir(&real).expect("a directory");
    std::os::unix::fs::symlink(&real, &home).expect("a link");
    let doctor = sandbox.run(["doctor"]).success();
    let (level, command) = finding(&doctor, "claude-1", "home");
    assert_eq!(
        (level.as_str(), command),
        ("fail", format!("ls -ld {}", home.display()))
    );
}
