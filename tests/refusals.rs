//! Refused launches: told as the caller asked, by a command that can really be typed, and nothing kept.

use std::path::Path;
use std::process::Stdio;

use agent_fleet::store::lock::{Mode, try_flock};
use serde_json::Value;

use crate::support::mounts::may_mount;
use crate::support::sandbox::{Ran, Sandbox};
use crate::support::world::{Account, POOL, World};

const PROGRAM: &str = env!("CARGO_BIN_EXE_agent-fleet");

/// Types a hint as a person would.
fn typed(world: &World, hint: &str) -> Ran {
    let program = format!("{PROGRAM} ");
    Ran::of(&mut world.sandbox.shell(&hint.replace("agent-fleet ", &program)))
}

fn hint(refusal: &Value) -> &str {
    refusal["hint"].as_str().expect("a hint")
}

fn leases(world: &World) -> Vec<Value> {
    let list = world.command(&["lease", "list"]);
    list["leases"].as_array().expect("a list").clone()
}

fn with(mut line: Vec<String>, extras: &[&str]) -> Vec<String> {
    let at = line.iter().position(|word| word == "--").expect("a prompt");
    line.splice(at..at, extras.iter().map(|&word| word.to_owned()));
    line
}

#[test]
fn every_refusal_of_a_launch_leaves_its_receipt_and_the_exit_status_asked_for() {
    let world = World::with(1);
    let receipt = world.sandbox.path("receipt");
    let path = receipt.to_str().expect("UTF-8").to_owned();
    let joined = format!("--receipt={path}");
    let project = world.project.to_str().expect("UTF-8").to_owned();
    let told = ["--refusal-exit", "77", "--receipt", &path];
    let exec = |extras: &[&str]| {
        let line = with(world.exec_line("t", "say hi"), &told);
        with(line, extras)
    };
    let mut no_task = exec(&[]);
    no_task[2].clear();
    let mut odd_pool = exec(&[]);
    odd_pool[4] = "no such".to_owned();
    let words = |line: &[&str]| line.iter().map(|&word| word.to_owned()).collect();
    let lines: Vec<(&str, Vec<String>)> = vec![
        ("usage", exec(&["--label", "odd"])),
        ("usage", no_task),
        ("usage", odd_pool),
        ("usage", exec(&["--no-such-flag"])),
        ("usage", words(&["resume", "--refusal-exit=77", &joined])),
        ("not_found", exec(&["--profile", "none"])),
        (
            "not_found",
            words(&[
                "resume",
                "--task",
                "t",
                "--workspace",
                &project,
                told[0],
                told[1],
                &joined,
            ]),
        ),
        (
            "workspace_invalid",
            words(&["run", told[0], told[1], &joined]),
        ),
    ];
    for (code, line) in lines {
        drop(std::fs::remove_file(&receipt));
        let ran = world.sandbox.run(&line);
        assert_eq!(ran.status, 77, "{line:?}: {}", ran.stdout);
        let said: Value = serde_json::from_str(&ran.stdout).expect("JSON");
        assert_eq!(said["code"], code, "{line:?}: {said}");
        let left = std::fs::read(&receipt).unwrap_or_else(|_| panic!("no receipt of {line:?}"));
        let left: Value = serde_json::from_slice(&left).expect("JSON");
        assert_eq!(
            (&left["ok"], &left["code"]),
            (&Value::Bool(false), &said["code"]),
            "{line:?}"
        );
        assert_eq!(leases(&world), [Value::Null; 0], "{line:?}");
    }
    // Flags of the worker are the worker's.
    let ran = world
        .sandbox
        .run(with(world.exec_line("t", "exit 3"), &told));
    assert_eq!(ran.status, 3);
}

#[test]
fn a_file_that_could_never_be_written_is_refused_before_anything_is_leased() {
    let world = World::with(1);
    for flag in ["--receipt", "--turn-end"] {
        let file = world.sandbox.path(format!("it's missing{flag}/file"));
        let file = file.to_str().expect("UTF-8");
        let line = with(
            world.exec_line(flag.trim_start_matches('-'), "say hi"),
            &[flag, file],
        );
        let kept = leases(&world);
        let refusal = world.sandbox.run(&line).refused("usage");
        assert_eq!(leases(&world), kept);
        assert_eq!(typed(&world, hint(&refusal)).status, 0, "{refusal}");
        assert_eq!(
            world.sandbox.run(&line).status,
            0,
            "after {}",
            hint(&refusal)
        );
        assert!(Path::new(file).exists(), "{flag} was not written");
    }
    // What fails only when it is written gives the lease back.
    let line = with(
        world.exec_line("u", "say hi"),
        &["--receipt", "/proc/receipt"],
    );
    let refusal = world.sandbox.run(line).refused("io");
    assert_eq!(typed(&world, hint(&refusal)).status, 0, "{refusal}");
    let message = refusal["error"].as_str().expect("a sentence");
    assert!(!message.contains(".tmp-"), "{message}");
    assert!(leases(&world).iter().all(|lease| lease["task"] != "u"));
}

#[test]
fn the_next_command_can_be_typed_whatever_the_task_is_called() {
    let world = World::with(2);
    for task in ["it's \"q\" $(x) `b` \\ 🎈", "-x", "--force", "a;b&c|d"] {
        let named = format!("--task={task}");
        let acquire = |profile| {
            let project = world.project.to_str().expect("UTF-8");
            let line = [
                "lease",
                "acquire",
                &named,
                "--profile",
                profile,
                "--pool",
                POOL,
            ];
            world
                .sandbox
                .run([&line[..], &["--workspace", project]].concat())
        };
        acquire("one").success();
        let refusal = acquire("two").refused("task_conflict");
        typed(&world, hint(&refusal)).success();
        acquire("two").success();
        typed(&world, hint(&refusal)).success();

        let mut line = world.exec_line("", "say hi");
        line.splice(1..3, [named.clone()]);
        assert_eq!(world.sandbox.run(&line).status, 0);
        let other = world.sandbox.git_project("other");
        let other = other.to_str().expect("UTF-8");
        let refusal = world
            .sandbox
            .run(["resume", &named, "--workspace", other])
            .refused("session_mismatch");
        let resumed = typed(&world, &format!("{} -- -p 'say again'", hint(&refusal)));
        assert_eq!(resumed.stdout, "again\n", "{}", hint(&refusal));
    }
}

#[test]
fn a_profile_that_vanished_from_the_registry_leaves_no_lease_behind() {
    let world = World::with(2);
    let project = world.project.to_str().expect("UTF-8");
    let line = [
        "lease",
        "acquire",
        "--task",
        "t",
        "--profile",
        "one",
        "--workspace",
        project,
    ];
    world.command(&[&line[..], &["--pool", POOL]].concat());
    let path = world.sandbox.path("config/accounts.toml");
    let text = std::fs::read_to_string(&path).expect("the registry");
    let (head, rest) = text.split_once("[profiles.one]").expect("the profile");
    let (_, two) = rest
        .split_once("[profiles.two]")
        .expect("the other profile");
    world
        .sandbox
        .write("config/accounts.toml", format!("{head}[profiles.two]{two}"));
    world.exec("t", "say hi").refused("not_found");
    assert_eq!(leases(&world), [Value::Null; 0]);
    assert_eq!(
        world.exec("t", "say hi").stdout,
        "hi\n",
        "the task is not free"
    );
}

#[test]
fn without_descriptors_a_launch_works_or_says_so_and_keeps_nothing() {
    let world = World::new(&[Account::new("one").slots(1)]);
    let mut launched = 0;
    for limit in 4..=24 {
        let task = format!("t{limit}");
        let line = world.exec_line(&task, "say hi");
        let quoted: Vec<String> = line.iter().map(|word| format!("'{word}'")).collect();
        let line = format!("ulimit -n {limit}; exec {PROGRAM} {}", quoted.join(" "));
        let ran = Ran::of(&mut world.sandbox.shell(&line));
        if ran.status == 2 {
            let refusal = ran.refused("io");
            assert_eq!(hint(&refusal), "ulimit -n 4096", "at {limit}: {refusal}");
        } else {
            launched += 1;
        }
        let kept = leases(&world);
        let live = kept.iter().filter(|lease| lease["verdict"] != "dead");
        assert_eq!(live.count(), 0, "at {limit}: {kept:?}");
    }
    assert!(launched > 10, "only {launched} launches");
}

#[test]
fn a_read_only_state_root_can_be_looked_at_and_says_so_where_it_must_be_written() {
    if !may_mount() {
        return;
    }
    let world = World::with(1);
    assert_eq!(world.exec("t", "say hi").status, 0);
    let frozen = |arguments: &str| {
        let line = format!(
            "mount --make-rprivate / && mount --bind ../state ../state && mount -o remount,bind,ro ../state && exec {PROGRAM} {arguments}"
        );
        let inner = world.sandbox.shell(&line);
        let mut outer = Sandbox::tool("unshare");
        outer
            .arg("-m")
            .arg(inner.get_program())
            .args(inner.get_args())
            .env_clear();
        outer.envs(
            inner
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        outer
            .current_dir(world.sandbox.path("home"))
            .stdin(Stdio::null());
        Ran::of(&mut outer)
    };
    // Nothing is folded yet: the list is old, and says so.
    let ran = frozen("session list");
    assert!(ran.stderr.contains("not shown"), "{}", ran.stderr);
    ran.success();
    world.command(&["session", "list"]);
    for look in [
        "session list",
        "session status --task t",
        "lease list",
        "pool status --pool crew",
    ] {
        let ran = frozen(look);
        assert_eq!(ran.stderr, "", "{look}");
        ran.success();
    }
    let project = world.project.to_str().expect("UTF-8");
    for change in [
        format!("lease choose --task u --pool {POOL} --workspace '{project}'"),
        "lease release --task t".to_owned(),
        "profile drain one --reason x".to_owned(),
        "profile remove one".to_owned(),
        format!("resume --task t --workspace '{project}' -- -p 'say more'"),
    ] {
        let refusal = frozen(&change).refused("read_only");
        assert_eq!(
            typed(&world, hint(&refusal)).status,
            0,
            "{change}: {refusal}"
        );
    }
    assert_eq!(world.exec("t", "say again").stdout, "again\n");
}

#[test]
fn a_lock_that_stays_held_names_its_holder() {
    let world = World::with(1);
    assert_eq!(world.exec("t", "say hi").status, 0);
    let lock = world.sandbox.path("state/locks/leases.lock");
    let file = std::fs::File::open(lock).expect("a lock");
    assert!(
        try_flock(&file, Mode::Exclusive).expect("a lock"),
        "held already"
    );
    let refusal = world.exec("t", "say hi").refused("lock_timeout");
    let message = refusal["error"].as_str().expect("a sentence");
    let own = format!("by process {}", std::process::id());
    assert!(message.ends_with(&own), "{message}");
    assert_eq!(typed(&world, hint(&refusal)).status, 0, "{refusal}");
}
