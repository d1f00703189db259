//! What tests of accounts ask for, and what they are told, through every way to a worker.

use std::path::PathBuf;

use serde_json::Value;

use crate::cli::Cli;
use crate::lab::{Plan, now};
use crate::ran::Ran;
use crate::worker::Worker;
use crate::world::{Job, World, profile};

/// The task that profile 1 worked on before anything went wrong.
pub(crate) const OLD: &str = "old";

/// Profiles 1 to N of one provider, and a finished turn of [`OLD`] on profile 1.
pub(crate) fn world(cli: Cli, plan: &Plan) -> World {
    let world = World::new(plan, &["project"]);
    world.add(cli, 1, 4);
    let job = Job::new(OLD, cli.name(), &world.project("project"));
    drop(world.turn(cli, &job, r#"LAB:{"text":"hello"}"#));
    for account in 2..=plan.accounts {
        world.add(cli, account, 4);
    }
    world
}

/// A task of this world.
pub(crate) fn job(world: &World, cli: Cli, task: &str) -> Job {
    Job::new(task, cli.name(), &world.project("project"))
}

fn asked(world: &World, cli: Cli, words: &[&str], task: &str, account: u32) -> Ran {
    let mut command = world.command(words);
    let id = profile(cli, account);
    command.args(["--task", task, "--pool", cli.name(), "--profile", &id]);
    Ran::of(command.arg("--workspace").arg(world.project("project")))
}

/// `lease choose` of this account's profile.
pub(crate) fn choose(world: &World, cli: Cli, task: &str, account: u32) -> Ran {
    asked(world, cli, &["lease", "choose"], task, account)
}

/// `exec` on this account's profile of one headless turn, to its end.
pub(crate) fn exec(world: &World, cli: Cli, task: &str, account: u32) -> Ran {
    let mut command = world.command(["exec", "--task", task, "--pool", cli.name()]);
    command.args(["--profile", &profile(cli, account)]);
    command.arg("--workspace").arg(world.project("project"));
    command
        .arg("--")
        .args(cli.headless(r#"LAB:{"text":"hello"}"#));
    Worker::start(world, task, &mut command).finish()
}

/// `profile status`.
pub(crate) fn status(world: &World, cli: Cli, account: u32) -> Value {
    world
        .run(["profile", "status", &profile(cli, account)])
        .success()
}

/// This account's row in the state of the whole fleet.
fn fleet_row(world: &World, cli: Cli, account: u32) -> Value {
    let rows = world.run(["status"]).success()["profiles"].clone();
    let rows = rows.as_array().expect("rows");
    let id = profile(cli, account);
    let found = rows.iter().find(|row| row["profile"] == id.as_str());
    found
        .unwrap_or_else(|| panic!("no {id} in {rows:#?}"))
        .clone()
}

/// The credential of an account's profile.
pub(crate) fn credential(world: &World, cli: Cli, account: u32) -> PathBuf {
    let file = match cli {
        Cli::Claude => ".credentials.json",
        Cli::Codex => "auth.json",
    };
    world.home(cli, account).join(file)
}

/// Every way to a worker refuses this account's profile with this code; the model hears of none.
#[track_caller]
pub(crate) fn refused_everywhere(world: &World, cli: Cli, account: u32, code: &str) {
    let since = now();
    let looked = asked(
        world,
        cli,
        &["choose", "--dry-run", "--explain"],
        "looking",
        account,
    );
    drop(looked.refused(code));
    drop(choose(world, cli, "new", account).refused(code));
    drop(exec(world, cli, "new", account).refused(code));
    if account == 1 {
        let words = cli.headless(r#"LAB:{"text":"on"}"#);
        let mut command = world.resume(&job(world, cli, OLD), &words);
        drop(
            Worker::start(world, "resumed", &mut command)
                .finish()
                .refused(code),
        );
    }
    let told = status(world, cli, account)["routeability"].clone();
    assert_eq!(
        (&told["eligible"], &told["reason"]),
        (&false.into(), &code.into()),
        "{told}"
    );
    assert!(told["hint"].is_string(), "{told}");
    let row = fleet_row(world, cli, account);
    assert_eq!(
        (&row["state"], &row["reason"], &row["hint"]),
        (&"blocked".into(), &code.into(), &told["hint"]),
        "status: {row}"
    );
    let asked = world.lab.log(since);
    assert!(
        !asked.iter().any(|request| cli.asks_model(request)),
        "the model was asked"
    );
}

/// A lease on this account's profile is granted, and given back.
#[track_caller]
pub(crate) fn granted(world: &World, cli: Cli, account: u32) -> Value {
    let chosen = choose(world, cli, "granted", account).success();
    drop(
        world
            .run(["lease", "release", "--task", "granted"])
            .success(),
    );
    let row = fleet_row(world, cli, account);
    assert_eq!(
        (&row["state"], &row["profile"]),
        (&"free".into(), &chosen["profile"]),
        "status: {row}"
    );
    chosen
}

/// Types the command that the profile's status ends with, as a person would.
#[track_caller]
pub(crate) fn type_hint(world: &World, cli: Cli, account: u32, more: &[(&str, &str)]) -> String {
    let told = status(world, cli, account)["routeability"]["hint"].clone();
    let hint = told.as_str().expect("a hint").to_owned();
    let line = hint.replace(
        "agent-fleet ",
        &format!("{} ", env!("CARGO_BIN_EXE_agent-fleet")),
    );
    let mut command = crate::lab::tool("sh");
    command
        .args(["-c", &line])
        .env_clear()
        .envs(world.variables())
        .envs(more.iter().copied())
        .current_dir(world.lab.path("home"))
        .stdin(std::process::Stdio::null());
    // It may be the provider's CLI, which prints the person's address: that is between the two of them.
    let ran = command.output().expect("sh runs");
    assert!(ran.status.success(), "{hint}: {ran:?}");
    hint
}
