//! Which home, user and login a worker gets, however its profile was written down and whoever starts it.

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
    world.sandbox.knows(&kept);
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
    let caller = "someone@example.invalid";
    // Without a name in the user database the caller's is all there is.
    let machine = Ran::of(Sandbox::tool("id").arg("-un"));
    let expected = match machine.status {
        0 => machine.stdout.trim(),
        _ => caller,
    };
    world.sandbox.set("USER", caller);
    world.sandbox.set("LOGNAME", caller);
    let seen = seen(&world, "t", "USER LOGNAME HOME");
    assert_eq!(
        (&seen["USER"], &seen["LOGNAME"]),
        (&expected.into(), &expected.into())
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
