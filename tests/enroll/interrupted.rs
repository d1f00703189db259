//! Enrollments that are ended on the way: by the person, and by a kill that leaves no time to tidy up.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Stdio};

use agent_fleet::clock::Clock;
use agent_fleet::id::ProviderKind;
use agent_fleet::store::lock::Locks;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::json;

use super::{credential, enroll, kept, left, world};
use crate::support::change::names;
use crate::support::ran::Ran;
use crate::support::sandbox::Sandbox;
use crate::support::world::{World, wait};

/// An enrollment whose provider waits for an answer, in a process group of its own.
pub(super) fn waiting(world: &World, id: &str) -> Child {
    let child = world
        .sandbox
        .command(["profile", "enroll", id])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("the program starts");
    // The home exists once the provider is about to be started in it; its settings are written just before.
    wait("the staged home", || {
        let staged = std::fs::read_dir(world.sandbox.path("state/staging")).ok()?;
        staged
            .flatten()
            .any(|entry| entry.path().join("home/settings.json").exists())
            .then_some(())
    });
    child
}

fn pid(child: &Child) -> Pid {
    let raw = i32::try_from(child.id()).expect("a pid");
    Pid::from_raw(raw).expect("a pid")
}

#[test]
fn ctrl_c_leaves_everything_as_it_was() {
    let world = world(&["one"]);
    enroll(&world, &["one"], "alpha\n").success();
    let before = kept(&world, "one");
    // Once as a terminal does it, to everybody; once to us alone, who then ask the provider's CLI to end.
    for everybody in [true, false] {
        let child = waiting(&world, "one");
        let sent = if everybody {
            kill_process_group(pid(&child), Signal::INT)
        } else {
            kill_process(pid(&child), Signal::TERM)
        };
        sent.expect("it lives");
        let ran = Ran::ended(&child.wait_with_output().expect("the program ends"));
        let refused = ran.refused("login_failed");
        assert_eq!(refused["details"]["reason"], "interrupted");
        assert_eq!(kept(&world, "one"), before);
        assert_eq!(left(&world), [""; 0]);
    }
}

#[test]
fn what_a_killed_enrollment_left_is_found_and_removed_only_when_it_is_ours() {
    let world = world(&["one"]);
    let mut child = waiting(&world, "one");
    let living = world.command(&["doctor", "--fix"]);
    assert_eq!(left(&world).len(), 1, "its process lives: {living}");
    kill_process_group(pid(&child), Signal::KILL).expect("it lives");
    child.wait().expect("the program ends");
    let staging = world.sandbox.path("state/staging");
    let ours = staging.join(&names(&staging)[0]);
    // What a person made of it, and whatever else lies there.
    let aside = staging.join("one.aside");
    let copied = Sandbox::tool("cp").arg("-a").args([&ours, &aside]).status();
    assert!(copied.expect("cp runs").success());
    std::os::unix::fs::symlink(&aside, staging.join("one.link")).expect("a link");
    let linked = ours.file_name().expect("a name").to_string_lossy();
    let linked = staging.join(linked.replace(|letter: char| letter.is_ascii_digit(), "0"));
    std::os::unix::fs::symlink(&aside, linked).expect("a link");
    world
        .sandbox
        .write("state/staging/notes/keep", "a person's");
    let mut others = names(&staging);
    others.retain(|name| staging.join(name) != ours);
    assert_eq!(others.len(), 4);
    let litter = |doctor: &serde_json::Value| {
        let checks = doctor["machine"].as_array().expect("checks").iter();
        let found = checks.filter(|check| check["id"] == "litter");
        found
            .map(|check| check["level"].clone())
            .collect::<Vec<_>>()
    };
    let doctor = world.command(&["doctor"]);
    assert_eq!(litter(&doctor), [json!("warn")], "{doctor}");
    world.command(&["doctor", "--fix"]);
    assert_eq!(names(&staging), others);
    assert!(aside.join("home/settings.json").exists());
    enroll(&world, &["one"], "alpha\n").success();
}

#[test]
fn what_is_changed_meanwhile_costs_a_login_only_if_it_is_not_meant_for_this_any_more() {
    let world = world(&["one"]);
    for (changed, code) in [
        ("profile policy one --weight 3", None),
        ("profile disable one", None),
        (
            "profile policy one --safety-policy manual_only",
            Some("maintenance_busy"),
        ),
    ] {
        let mut child = waiting(&world, "one");
        world.sandbox.run(changed.split(' ')).success();
        let mut answer = child.stdin.take().expect("a pipe");
        answer.write_all(b"alpha\n").expect("it waits");
        drop(answer);
        let ran = Ran::ended(&child.wait_with_output().expect("the program ends"));
        match code {
            None => drop(ran.success()),
            Some(code) => drop(ran.refused(code)),
        }
        assert_eq!(left(&world), [""; 0], "{changed}");
    }
}

#[test]
fn a_login_that_was_made_waits_for_another_command_and_is_not_thrown_away() {
    let world = world(&["one"]);
    let state = world.sandbox.path("state");
    let state = camino::Utf8Path::from_path(&state).expect("UTF-8");
    let locks = Locks::new(state, Clock::real());
    for is_interrupted in [true, false] {
        let mut child = waiting(&world, "one");
        let other = locks
            .maintenance(ProviderKind::Scripted, "profile policy")
            .expect("nobody has it");
        let mut answer = child.stdin.take().expect("a pipe");
        answer.write_all(b"alpha\n").expect("it waits");
        drop(answer);
        let mut told = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        assert!(
            told.any(|line| line.expect("text").ends_with("waiting for it")),
            "it did not wait"
        );
        if is_interrupted {
            kill_process(pid(&child), Signal::TERM).expect("it lives");
        } else {
            drop(other);
        }
        told.for_each(drop);
        let ran = Ran::ended(&child.wait_with_output().expect("the program ends"));
        if is_interrupted {
            let refused = ran.refused("login_failed");
            assert_eq!(refused["details"]["reason"], "interrupted");
            assert!(!credential(&world, "one").exists());
        } else {
            assert_eq!(ran.success()["outcome"], "promoted");
        }
        assert_eq!(left(&world), [""; 0]);
    }
}
