//! Several profiles one after another, and homes that hold a login of their own.

use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

use super::{enroll, left, world};
use crate::support::ran::Ran;
use crate::support::world::{Account, World, wait};

#[test]
fn ctrl_c_in_the_middle_keeps_what_was_done_and_begins_nothing_more() {
    let world = world(&["one", "two", "three"]);
    let mut child = world
        .sandbox
        .command(["profile", "enroll", "--all-missing"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(b"alpha\n").expect("it reads");
    wait("the second login", || {
        let staged = std::fs::read_dir(world.sandbox.path("state/staging")).ok()?;
        let is_second = |entry: std::fs::DirEntry| {
            let name = entry.file_name();
            name.to_string_lossy().starts_with("two.")
                && entry.path().join("home/settings.json").exists()
        };
        staged.flatten().any(is_second).then_some(())
    });
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    kill_process_group(pid.expect("a pid"), Signal::INT).expect("it lives");
    let ran = Ran::ended(&child.wait_with_output().expect("the program ends"));
    assert!(!ran.stderr.contains("(3 of 3)"), "{}", ran.stderr);
    let refused = ran.refused("login_failed");
    assert_eq!(refused["hint"], "agent-fleet profile enroll --all-missing");
    let rows = refused["details"]["enrollments"].as_array().expect("rows");
    let told: Vec<(&Value, &Value)> = rows
        .iter()
        .map(|row| (&row["profile"], &row["code"]))
        .collect();
    assert_eq!(
        told,
        [
            (&json!("one"), &Value::Null),
            (&json!("two"), &json!("login_failed")),
            (&json!("three"), &json!("login_failed")),
        ]
    );
    let last = rows[2]["error"].as_str().expect("a sentence");
    assert!(last.contains("was not begun"), "{last}");
    assert_eq!(left(&world), [""; 0]);
    world.command(&["profile", "enable", "one"]);
}

/// Adds the home of a person with a login of its own, as the person names it.
fn in_place(world: &World, id: &str, home: &str) -> Ran {
    let line = ["profile", "add", id, "--provider", "scripted", "--pool"];
    let pool = [crate::support::world::POOL, "--home", home, "--in-place"];
    Ran::of(world.sandbox.command(line).args(pool))
}

#[test]
fn a_home_with_a_login_of_its_own_stays_where_it_is_and_works_after_two_commands() {
    let world = world(&[]);
    let home = world.sandbox.path("home/.scripted-work");
    let text = home.to_str().expect("UTF-8");
    world.log_in(text, &Account::new("alpha"));
    let login = home.join("login.json");
    let before = std::fs::read(&login).expect("a login");
    // A link to it means the directory itself.
    let link = world.sandbox.path("home/link");
    symlink(&home, &link).expect("a link");
    let added = in_place(&world, "work", link.to_str().expect("UTF-8")).success();
    assert_eq!(added["home"], text);
    let adopted = world.command(&["profile", "enroll", "work", "--adopt"]);
    assert_eq!(adopted["outcome"], "adopted");
    assert_eq!(adopted["hint"], "agent-fleet profile enable work");
    world.command(&["profile", "enable", "work"]);
    assert_eq!(world.exec("task", "say hello").status, 0);
    assert_eq!(std::fs::read(&login).expect("a login"), before);
    // The same home once more, and a copy of its login in another.
    drop(in_place(&world, "again", text).refused("usage"));
    let copy = world.sandbox.path("home/.scripted-copy");
    world.sandbox.write(copy.join("login.json"), &before);
    in_place(&world, "copy", copy.to_str().expect("UTF-8")).success();
    let refused = world.sandbox.run(["profile", "enroll", "copy", "--adopt"]);
    drop(refused.refused("duplicate_provider_identity"));
    // It gets a login of its own by the command that is told.
    let enrolled = enroll(&world, &["copy"], "beta\n").success();
    assert_eq!(enrolled["outcome"], "promoted");
    assert_eq!(std::fs::read(&login).expect("a login"), before);
}
