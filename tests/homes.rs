//! Which home, user and login a worker gets, however its profile was written down and whoever starts it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::sandbox::{Ran, Sandbox};
use crate::support::world::{Account, POOL, World};

fn text(path: &Path) -> &str {
    path.to_str().expect("sandbox paths are text")
}

fn home(world: &World, id: &str) -> PathBuf {
    let status = world.command(&["profile", "status", id]);
    PathBuf::from(status["home"].as_str().expect("a home"))
}

/// What a worker sees of its environment.
fn seen(world: &World, task: &str, names: &str) -> Value {
    let ran = world.exec(task, &format!("env {names}"));
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
    serde_json::from_str(&ran.stdout).expect("the agent answers in JSON")
}

#[test]
fn a_login_that_is_a_link_or_has_a_second_name_starts_no_worker_and_its_path_is_told() {
    let world = World::with(2);
    let (login, kept) = (
        home(&world, "one").join("login.json"),
        world.sandbox.path("kept"),
    );
    world.command(&["profile", "disable", "two"]);
    std::fs::hard_link(&login, &kept).expect("a second name");
    let refused = |how: &str| {
        for ran in [
            world.exec("t", "say hi"),
            world.sandbox.run(["profile", "verify", "one"]),
        ] {
            let error = ran.refused("identity_unproven");
            let hint = error["hint"].as_str().expect("a hint");
            assert_eq!(hint, format!("ls -li {}", text(&login)), "{how}: {error}");
            assert!(
                error["error"]
                    .as_str()
                    .is_some_and(|told| told.contains("is a link")),
                "{error}"
            );
        }
        let provision = world
            .sandbox
            .run(["profile", "provision", "one"])
            .refused("not_provisioned");
        assert!(
            provision["error"]
                .as_str()
                .is_some_and(|told| told.contains(how)),
            "{provision}"
        );
    };
    refused("2 hard links");
    std::fs::remove_file(&login).expect("a login");
    std::os::unix::fs::symlink(&kept, &login).expect("a link");
    refused("a symbolic link");
    assert_eq!(world.requests("turn"), [""; 0], "a worker ran");
    assert_eq!(world.lease("t"), None);
    std::fs::remove_file(&login).expect("a link");
    Sandbox::copy_program(&kept, &login);
    assert_eq!(
        world.exec("t", "say hi").stdout,
        "hi\n",
        "the login is whole again"
    );
}

#[test]
fn a_home_in_any_spelling_is_kept_in_one_and_reaches_every_worker_byte_for_byte() {
    let world = World::with(0);
    let sandbox = &world.sandbox;
    std::fs::create_dir_all(sandbox.path("home/a/b")).expect("directories");
    std::os::unix::fs::symlink(sandbox.path("home/a"), sandbox.path("home/link")).expect("a link");
    let at = |name: &str| sandbox.path("home").join(name).display().to_string();
    let one = at("a/café");
    for spelling in [
        "~/a/caf\u{65}\u{301}",
        "~/a/café/",
        "a/café",
        "./a//café",
        "a/./café",
        "a/b/../café",
        "link/café",
        &at("a/café/"),
        &at("link/caf\u{65}\u{301}"),
    ] {
        let line = [
            "profile",
            "add",
            "p",
            "--provider",
            "scripted",
            "--home",
            spelling,
        ];
        assert_eq!(world.command(&line)["home"], one.as_str(), "{spelling}");
        world.command(&["profile", "remove", "p"]);
    }
    for spelling in ["a/nowhere/../h", "~nobody/h", "~~/h"] {
        let line = [
            "profile",
            "add",
            "p",
            "--provider",
            "scripted",
            "--home",
            spelling,
        ];
        drop(sandbox.run(line).refused("usage"));
    }
    let add = [
        "profile",
        "add",
        "p",
        "--provider",
        "scripted",
        "--pool",
        POOL,
    ];
    world.command(&[&add[..], &["--home", "link/./caf\u{65}\u{301}/"]].concat());
    world.log_in(&one, &Account::new("p"));
    world.command(&["profile", "provision", "p"]);
    world.command(&["profile", "enable", "p"]);
    for task in ["t", "u"] {
        assert_eq!(
            seen(&world, task, "SCRIPTED_HOME")["SCRIPTED_HOME"],
            one.as_str()
        );
    }
}

#[test]
fn a_worker_has_the_machines_name_of_the_user_and_the_callers_home_directory() {
    let mut world = World::with(1);
    let machine = Ran::of(Sandbox::tool("id").arg("-un")).stdout;
    world.sandbox.set("USER", "someone@example.invalid");
    world.sandbox.set("LOGNAME", "someone@example.invalid");
    let seen = seen(&world, "t", "USER LOGNAME HOME");
    assert_eq!(
        (&seen["USER"], &seen["LOGNAME"]),
        (&machine.trim().into(), &machine.trim().into())
    );
    assert_eq!(seen["HOME"], text(&world.sandbox.path("home")));
}

#[test]
fn a_provider_that_a_worker_starts_by_hand_is_on_the_workers_account() {
    let mut world = World::new(&[Account::new("one"), Account::new("two").pools(&["other"])]);
    world
        .sandbox
        .set("SCRIPTED_HOME", home(&world, "two").into_os_string());
    let program = env!("CARGO_BIN_EXE_agent-fleet");
    let ran = world.exec(
        "t",
        &format!("spawn {program} scripted-agent -- -p 'say nested'"),
    );
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "nested\n"),
        "{}",
        ran.stderr
    );
    assert_eq!(world.requests("turn"), ["one ok", "one ok"]);
}

/// The whole environment that a worker's tools see, without what names the one lease.
fn environment(ran: &Ran) -> BTreeMap<String, String> {
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
    let pairs = ran.stdout.lines().filter_map(|line| line.split_once('='));
    pairs
        .filter(|(name, _)| !["AGENT_FLEET_GENERATION", "AGENT_FLEET_TASK_ID"].contains(name))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

#[test]
fn every_way_to_start_a_worker_gives_it_the_same_environment() {
    let mut world = World::with(1);
    for name in [
        "SCRIPTED_HOME",
        "SCRIPTED_TOKEN",
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
    ] {
        world.sandbox.set(name, "synthetic");
    }
    world.sandbox.set("TOOLCHAIN_OF_MINE", "kept");
    let project = text(&world.project).to_owned();
    let at = ["--task", "t", "--workspace", &project];
    let resume = [&["resume"], &at[..], &["--", "-p", "spawn env"]].concat();
    let first = environment(&world.exec("t", "spawn env"));
    assert_eq!(first["SCRIPTED_HOME"], text(&home(&world, "one")));
    assert_eq!(first["TOOLCHAIN_OF_MINE"], "kept");
    assert!(
        !first.values().any(|value| value == "synthetic"),
        "{first:?}"
    );
    let again = environment(&world.exec("t", "spawn env"));
    assert_eq!(again, first, "a second start");
    let resumed = environment(&world.sandbox.run(&resume));
    assert_eq!(resumed, first, "a resume");
    world.command(&[&["lease", "recover"], &at[..]].concat());
    let recovered = environment(&world.sandbox.run(&resume));
    assert_eq!(recovered, first, "a resume of a recovered lease");
    world.command(&[&["lease", "choose", "--pool", POOL], &at[..]].concat());
    let chosen = environment(&world.exec("t", "spawn env"));
    assert_eq!(chosen, first, "a lease that was chosen before");
    let mut run = world
        .sandbox
        .command(["run", POOL, "--", "-p", "spawn env"]);
    let run = environment(&Ran::of(run.current_dir(&world.project)));
    assert_eq!(run, first, "at a terminal");
}

/// Every file of a home with its bytes.
fn files(directory: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in std::fs::read_dir(directory).expect("a home") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.insert(path.clone(), std::fs::read(&path).expect("a file"));
        }
    }
}

#[test]
fn no_command_about_one_profile_changes_anything_in_anothers_home() {
    let world = World::with(2);
    let project = text(&world.project).to_owned();
    let two = home(&world, "two");
    // Whoever provisioned it along with the other would make it anew.
    std::fs::remove_file(two.join("settings.json")).expect("it was provisioned");
    let look = || {
        let mut found = BTreeMap::new();
        files(&two, &mut found);
        found
    };
    let before = look();
    assert!(before.keys().any(|path| path.ends_with("login.json")));
    let terms = ["--task", "t", "--workspace", &project, "--pool", POOL];
    let lines: [&[&str]; 13] = [
        &["profile", "provision", "one"],
        &["profile", "verify", "one"],
        &["quota", "refresh", "one"],
        &["profile", "policy", "one", "--weight", "2"],
        &["profile", "drain", "one", "--reason", "x"],
        &["profile", "undrain", "one"],
        &["profile", "cooldown-clear", "one"],
        &[&["lease", "choose", "--profile", "one"], &terms[..]].concat(),
        &[
            &["exec", "--profile", "one"],
            &terms[..],
            &["--", "-p", "limit quota 60"],
        ]
        .concat(),
        &["profile", "disable", "one"],
        &["profile", "enable", "one"],
        &["lease", "release", "--task", "t"],
        &["profile", "remove", "one"],
    ];
    for line in lines {
        let ran = world.sandbox.run(line);
        let wanted = i32::from(line.first() == Some(&"exec"));
        assert_eq!(ran.status, wanted, "{line:?}: {}", ran.stdout);
        let after = look();
        assert!(
            after.keys().eq(before.keys()),
            "{line:?}: {:?}",
            after.keys()
        );
        let changed = |(path, bytes): &(&PathBuf, &Vec<u8>)| before.get(*path) != Some(*bytes);
        let changed: Vec<_> = after.iter().filter(changed).map(|(path, _)| path).collect();
        assert!(changed.is_empty(), "{line:?} wrote {changed:?}");
    }
    world.command(&["profile", "provision", "two"]);
    let list = world.command(&["profile", "list"]);
    assert_eq!(list["profiles"].as_array().map(Vec::len), Some(1), "{list}");
    assert_eq!(world.exec("u", "say on").stdout, "on\n");
}
