//! A task's conversation: known by the provider's own id, continued by its owner, and by nobody twice.

use std::time::Duration;

use crate::cli::Cli;
use crate::lab::{Plan, now};
use crate::ran::Ran;
use crate::wait::until;
use crate::worker::Worker;
use crate::world::{Job, World, account, profile, text};

const HELLO: &str = r#"LAB:{"text":"hello"}"#;
/// A turn that begins to answer and then stays open.
const OPEN: &str = r#"LAB:{"text":"open","hang":120}"#;

/// Waits until the model has been asked since then, i.e. the worker is in its turn.
fn in_turn(world: &World, cli: Cli, since: f64) {
    until("a request of the worker", Duration::from_secs(30), || {
        let log = world.lab.log(since);
        if log.iter().any(|request| cli.asks_model(request)) {
            Ok(())
        } else {
            Err(format!("{} other requests", log.len()))
        }
    });
}

fn resumes(cli: Cli) {
    let world = World::enabled(&Plan::default(), 1, &["project", "elsewhere"]);
    let project = world.project("project");
    let elsewhere = world.project("elsewhere");
    let job = Job::new("task", cli.name(), &project);
    let (owner, output) = world.turn(cli, &job, HELLO);
    let id = cli.session(&output);
    let session = world.session(&job);
    assert_eq!(text(&session, "session_id"), id, "{session}");
    assert_eq!(text(&session, "profile"), owner, "{session}");

    // The owner's slot is the only place where the task can go on, whatever else is free.
    let since = now();
    let mut resume = world.resume(&job, &cli.headless(OPEN));
    let mut live = Worker::start(&world, "live", &mut resume);
    in_turn(&world, cli, since);
    world.only(cli, account(&owner), since);
    let second = Ran::of(&mut world.resume(&job, &cli.headless(HELLO)));
    let error = second.refused("task_owned");
    assert!(
        error["error"]
            .as_str()
            .is_some_and(|sentence| sentence.contains(&format!(
                "task lease is already owned by live process {}",
                live.pid()
            ))),
        "{error}"
    );
    live.kill();

    let moved = Job {
        workspace: elsewhere,
        ..job.clone()
    };
    drop(Ran::of(&mut world.resume(&moved, &cli.headless(HELLO))).refused("session_mismatch"));
    let other = profile(cli, 3 - account(&owner));
    let mut command = world.command(["resume", "--task", "task", "--profile", &other]);
    command
        .arg("--workspace")
        .arg(&job.workspace)
        .arg("--")
        .args(cli.headless(HELLO));
    drop(Ran::of(&mut command).refused("session_mismatch"));

    let since = now();
    let mut resume = world.resume(&job, &cli.headless(HELLO));
    let output = Worker::start(&world, "again", &mut resume).clean();
    assert_eq!(
        cli.session(&output),
        id,
        "another conversation was continued"
    );
    world.only(cli, account(&owner), since);
    assert_eq!(text(&world.session(&job), "session_id"), id);
}

#[test]
fn claude_resumes_its_own_conversation_on_its_own_account_once() {
    resumes(Cli::Claude);
}

#[test]
fn codex_resumes_its_own_conversation_on_its_own_account_once() {
    resumes(Cli::Codex);
}

#[test]
fn a_claude_that_a_tool_starts_is_not_the_tasks_conversation() {
    let world = World::new(&Plan::default(), &["project"]);
    world.add(Cli::Claude, 1, 1);
    let project = world.project("project");
    let job = Job::new("task", "claude", &project);
    let inner = world.lab.path("inner.json");
    let prompt = format!(
        r#"LAB:[{{"shell":"{} -p --output-format json hello > {}"}},{{"text":"done"}}]"#,
        world.lab.value("CLAUDE_BIN"),
        inner.display()
    );
    let (_, output) = world.turn(Cli::Claude, &job, &prompt);
    let nested = std::fs::read_to_string(&inner).expect("the tool ran");
    let (id, nested) = (Cli::Claude.session(&output), Cli::Claude.session(&nested));
    assert_ne!(
        id, nested,
        "the tool's own conversation has an id of its own"
    );
    assert_eq!(text(&world.session(&job), "session_id"), id);
}

fn reclaims(cli: Cli) {
    let world = World::new(&Plan::default(), &["project"]);
    world.add(cli, 1, 1);
    let project = world.project("project");
    let since = now();
    let (_, mut worker) = world.start(cli, &Job::new("first", cli.name(), &project), OPEN);
    in_turn(&world, cli, since);
    let next = Job::new("next", cli.name(), &project);
    drop(world.choose(&next).refused("capacity"));
    worker.kill();
    let chosen = world.choose(&next).success();
    assert_eq!(text(&chosen, "profile"), profile(cli, 1), "{chosen}");
}

#[test]
fn the_choose_after_a_killed_claude_gets_its_slot() {
    reclaims(Cli::Claude);
}

#[test]
fn the_choose_after_a_killed_codex_gets_its_slot() {
    reclaims(Cli::Codex);
}
