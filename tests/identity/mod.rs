//! Whose account a worker works on: proved before each lease, caught when it changes, never guessed.

mod again;
mod lost;
mod matrix;
mod probe;
mod quarantine;
mod shown;
mod untouched;

use std::path::PathBuf;

use serde_json::Value;

use crate::support::sandbox::Ran;
use crate::support::world::{Account, POOL, World};

/// The task that `one` worked on before anything went wrong.
const OLD: &str = "old";

/// Profiles `one` and `two`, each proved, and a finished conversation of [`OLD`] on `one`.
fn world() -> World {
    let world = World::new(&[Account::new("one"), Account::new("two").used(50.0)]);
    assert_eq!(world.exec(OLD, "say hello").status, 0);
    world.command(&["quota", "refresh"]);
    world
}

fn home(world: &World, profile: &str) -> PathBuf {
    world
        .sandbox
        .path(format!("share/accounts/scripted/{profile}"))
}

/// The credential of a profile.
fn credential(world: &World, profile: &str) -> PathBuf {
    home(world, profile).join("login.json")
}

fn read(world: &World, profile: &str) -> Vec<u8> {
    std::fs::read(credential(world, profile)).expect("a login")
}

/// Puts one profile's login into another's home, as a person does who mixes them up; returns what was there.
fn swap(world: &World, from: &str, to: &str) -> Vec<u8> {
    let before = read(world, to);
    world
        .sandbox
        .write(credential(world, to), read(world, from));
    before
}

fn asked(world: &World, words: &[&str], task: &str, profile: Option<&str>) -> Ran {
    let project = world.project.to_str().expect("UTF-8");
    let mut line = words.to_vec();
    line.extend(["--task", task, "--pool", POOL, "--workspace", project]);
    if let Some(profile) = profile {
        line.extend(["--profile", profile]);
    }
    world.sandbox.run(line)
}

fn choose(world: &World, task: &str) -> Ran {
    asked(world, &["lease", "choose"], task, None)
}

fn exec(world: &World, task: &str, profile: &str) -> Ran {
    let mut line = world.exec_line(task, "say hi");
    let at = line.iter().position(|word| word == "--").expect("a prompt");
    line.splice(at..at, ["--profile".to_owned(), profile.to_owned()]);
    world.sandbox.run(line)
}

fn resume(world: &World, task: &str) -> Ran {
    let project = world.project.to_str().expect("UTF-8");
    let line = [
        "resume",
        "--task",
        task,
        "--workspace",
        project,
        "--",
        "-p",
        "say on",
    ];
    world.sandbox.run(line)
}

fn status(world: &World, profile: &str) -> Value {
    world.command(&["profile", "status", profile])["routeability"].clone()
}

/// The row of a profile in the state of the whole fleet.
fn fleet_row(world: &World, profile: &str) -> Value {
    let rows = world.command(&["status"])["profiles"].clone();
    let rows = rows.as_array().expect("rows");
    let found = rows.iter().find(|row| row["profile"] == profile);
    found
        .unwrap_or_else(|| panic!("no {profile} in {rows:#?}"))
        .clone()
}

/// The reason word of a profile's row when nothing but the account decides.
fn row(world: &World, profile: &str) -> Value {
    let words = ["choose", "--dry-run", "--explain"];
    let ran = asked(world, &words, "looking", Some(profile));
    let answer: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let rows = answer.get("explain").filter(|rows| rows.is_array());
    rows.unwrap_or(&answer["details"]["explain"])[0]["reason"].clone()
}

/// Every way to a worker refuses `one` with this code, and whoever asks about it is told the same.
#[track_caller]
fn refused_everywhere(world: &World, code: &str) {
    assert_eq!(row(world, "one"), code, "choose --dry-run");
    drop(asked(world, &["lease", "choose"], "new", Some("one")).refused(code));
    drop(exec(world, "new", "one").refused(code));
    drop(resume(world, OLD).refused(code));
    let told = status(world, "one");
    assert_eq!(
        (&told["eligible"], &told["reason"]),
        (&false.into(), &code.into())
    );
    assert!(told["hint"].is_string(), "{told}");
    let row = fleet_row(world, "one");
    assert_eq!(
        (&row["state"], &row["reason"], &row["hint"]),
        (&"blocked".into(), &code.into(), &told["hint"]),
        "status: {row}"
    );
    assert!(row["why"].is_string(), "{row}");
    let left: Vec<Value> = world.command(&["lease", "list"])["leases"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(|lease| lease["profile"] == "one" && lease["verdict"] != "dead")
        .cloned()
        .collect();
    assert!(left.is_empty(), "a refusal left a lease behind: {left:?}");
}

/// A task that does not care goes to the sibling, and the sibling works.
#[track_caller]
fn sibling_goes_on(world: &World, task: &str) {
    let chosen = choose(world, task).success();
    assert_eq!(chosen["profile"], "two");
    let ran = world.exec(task, "say hi");
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "hi\n"),
        "{}",
        ran.stderr
    );
    let row = fleet_row(world, "two");
    assert_eq!(row["state"], "free", "status: {row}");
}

/// `one` takes work again, new and old.
#[track_caller]
fn one_works(world: &World, task: &str) {
    let chosen = asked(world, &["lease", "choose"], task, Some("one")).success();
    assert_eq!(chosen["profile"], "one");
    let ran = exec(world, task, "one");
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "hi\n"),
        "{}{}",
        ran.stdout,
        ran.stderr
    );
    let ran = resume(world, OLD);
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "on\n"),
        "{}{}",
        ran.stdout,
        ran.stderr
    );
}
