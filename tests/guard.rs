//! Nothing of a caller reaches a worker's login, on no path to it; nothing of one home reaches another; no
//! money is spent that a profile does not allow.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::support::sandbox::Ran;
use crate::support::world::{Account, POOL, World};

/// What decides whose login a worker uses, with something that must arrive as the person set it.
const NAMES: &str = "SCRIPTED_HOME SCRIPTED_TOKEN ANTHROPIC_API_KEY ANTHROPIC_AUTH_TOKEN CLAUDE_CONFIG_DIR \
     CODEX_HOME CODEX_API_KEY OPENAI_API_KEY AGENT_FLEET_PROFILE AGENT_FLEET_PROVIDER AGENT_FLEET_POOL \
     AGENT_FLEET_WORKSPACE AGENT_FLEET_CONFIG AGENT_FLEET_STATE_DIR PERSONS_OWN HOME PWD";

/// What a worker's tools see, without what names the one lease, when its caller is full of other logins, other
/// ones each time.
fn poisoned(world: &World, line: &[String], how: &str) -> BTreeMap<String, String> {
    let mut command = world.sandbox.command(line);
    command.current_dir(&world.project);
    for name in NAMES
        .split_whitespace()
        .filter(|name| !name.starts_with("AGENT_FLEET_") && !["PERSONS_OWN", "HOME"].contains(name))
    {
        command.env(name, format!("/elsewhere/{how}"));
    }
    command
        .env("AGENT_FLEET_PROFILE", how)
        .env("PERSONS_OWN", "kept");
    let ran = Ran::of(&mut command);
    assert_eq!(ran.status, 0, "{how}: {}", ran.stderr);
    let pairs = ran.stdout.lines().filter_map(|line| line.split_once('='));
    pairs
        .filter(|(name, _)| !["AGENT_FLEET_GENERATION", "AGENT_FLEET_TASK_ID"].contains(name))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

#[test]
fn every_path_to_a_worker_gives_it_the_same_environment() {
    let world = World::with(1);
    let script = "spawn env";
    let project = world.project.to_str().expect("UTF-8").to_owned();
    let words = |line: &[&str]| -> Vec<String> { line.iter().map(|&word| word.into()).collect() };
    let terms = ["--task", "t", "--workspace", &project];
    let resume = words(&[&["resume"], &terms[..], &["--", "-p", script]].concat());
    let first = poisoned(&world, &world.exec_line("t", script), "first");
    let home = world.sandbox.path("share/accounts/scripted/one");
    assert_eq!(first["SCRIPTED_HOME"], home.to_str().expect("UTF-8"));
    assert_eq!(first["PERSONS_OWN"], "kept");
    for name in [
        "SCRIPTED_TOKEN",
        "ANTHROPIC_API_KEY",
        "CLAUDE_CONFIG_DIR",
        "CODEX_HOME",
    ] {
        assert_eq!(first.get(name), None, "{name}");
    }
    let again = poisoned(&world, &world.exec_line("t", script), "again");
    let resumed = poisoned(&world, &resume, "resumed");
    drop(world.command(&[&["lease", "recover"], &terms[..]].concat()));
    let recovered = poisoned(&world, &resume, "recovered");
    drop(world.command(&[&["lease", "choose", "--pool", POOL], &terms[..]].concat()));
    let chosen = poisoned(&world, &world.exec_line("t", script), "chosen");
    let run = words(&["run", POOL, "--", "-p", script]);
    let run = poisoned(&world, &run, "run");
    for (how, seen) in [
        ("again", again),
        ("resumed", resumed),
        ("recovered", recovered),
        ("chosen", chosen),
        ("run", run),
    ] {
        assert_eq!(seen, first, "{how}");
    }
}

/// Every file below a directory, with its bytes, its time and what it is.
fn contents(directory: &Path) -> BTreeMap<PathBuf, (Vec<u8>, String)> {
    let mut all = BTreeMap::new();
    let mut folders = vec![directory.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            let metadata = std::fs::symlink_metadata(&path).expect("it is there");
            let bytes = if metadata.is_file() {
                std::fs::read(&path).expect("a file")
            } else {
                Vec::new()
            };
            if metadata.is_dir() {
                folders.push(path.clone());
            }
            let told = format!("{:?} {:?}", metadata.file_type(), metadata.modified());
            all.insert(path, (bytes, told));
        }
    }
    all
}

#[test]
fn no_command_about_one_profile_changes_another_home_by_a_byte() {
    let world = World::with(2);
    let other = world.sandbox.path("share/accounts/scripted/two");
    // Whoever provisioned it along with the first would make it anew.
    std::fs::remove_file(other.join("settings.json")).expect("it was provisioned");
    let before = contents(&other);
    assert!(before.contains_key(&other.join("login.json")));
    let project = world.project.to_str().expect("UTF-8").to_owned();
    for line in [
        vec!["profile", "policy", "one", "--weight", "2"],
        vec!["profile", "provision", "one"],
        vec!["profile", "drain", "one", "--reason", "x"],
        vec!["profile", "undrain", "one"],
        vec!["profile", "disable", "one"],
        vec!["profile", "enable", "one"],
        vec!["profile", "cooldown-clear", "one"],
        vec!["profile", "verify", "one"],
        vec!["quota", "refresh", "one"],
        vec![
            "lease",
            "acquire",
            "--profile",
            "one",
            "--task",
            "t",
            "--workspace",
            &project,
        ],
        vec!["lease", "release", "--task", "t"],
        vec!["profile", "remove", "one"],
    ] {
        let ran = world.sandbox.run(&line);
        assert_eq!(ran.status, 0, "{line:?}: {}{}", ran.stdout, ran.stderr);
        assert_eq!(contents(&other), before, "{line:?}");
    }
    drop(world.command(&["profile", "provision", "two"]));
    let ran = world.exec("u", "say hello");
    assert_eq!(ran.status, 0, "{}", ran.stderr);
}

#[test]
fn an_account_with_paid_overage_stops_at_its_end_unless_its_profile_allows_it() {
    let world = World::new(&[]);
    let line = [
        "profile",
        "add",
        "one",
        "--provider",
        "scripted",
        "--pool",
        POOL,
    ];
    let home = world.command(&line)["home"].clone();
    let account = Account::new("one").used(100.0);
    world.log_in(home.as_str().expect("a home"), &account);
    world.change("one", |account| account["overage_enabled"] = json!(true));
    drop(world.command(&["profile", "provision", "one"]));
    drop(world.command(&["profile", "enable", "one"]));
    drop(world.exec("t", "say hello").refused("quota_reserve"));
    let status = world.command(&["profile", "status", "one"]);
    assert_eq!(
        status["overage"],
        json!({"enabled": true, "allowed": false})
    );
    drop(world.command(&["profile", "policy", "one", "--allow-overage"]));
    let project = world.project.to_str().expect("UTF-8").to_owned();
    let line = [
        "lease",
        "choose",
        "--task",
        "t",
        "--pool",
        POOL,
        "--workspace",
        &project,
    ];
    let chosen = world.command(&line);
    assert_eq!(
        (&chosen["degraded"], &chosen["degraded_reason"]),
        (&json!(true), &json!("overage"))
    );
    let status = world.command(&["profile", "status", "one"]);
    assert_eq!(status["routeability"]["reason"], "overage");
}
