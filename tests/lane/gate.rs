//! Workers that start together on an old login spend its refresh token once.

use serde_json::json;

use crate::cli::Cli;
use crate::lab::{Plan, Request, now};
use crate::worker::Worker;
use crate::world::{Job, World, profile};

/// What four starts at once did.
struct Race {
    statuses: Vec<i32>,
    /// The outcome of each refresh.
    refreshes: Vec<String>,
    /// When the model was asked.
    asked: Vec<f64>,
}

/// The login ends in seconds, was proved before, and each refresh takes 0.8 s; a second use of a refresh token
/// kills the account.
fn race(cli: Cli, faults: &str) -> Race {
    let mut world = World::new(
        &Plan {
            accounts: 1,
            scenario: json!({"accounts": {"1": {"refresh_latency": 0.8, "reuse_revokes": true}}}),
            expires_in: Some(30),
        },
        &["project"],
    );
    let project = world.project("project");
    world.add(cli, 1, 4);
    drop(world.run(["profile", "verify", &profile(cli, 1)]).success());
    world.set("AGENT_FLEET_TEST_FAULTS", faults);
    let jobs = ["a", "b", "c", "d"].map(|task| Job::new(task, cli.name(), &project));
    for job in &jobs {
        drop(world.choose(job).success());
    }
    let since = now();
    let workers = jobs.each_ref().map(|job| {
        let prompt = cli.headless(r#"LAB:{"text":"hello"}"#);
        Worker::start(&world, &job.task, &mut world.exec(job, &prompt))
    });
    let statuses = workers.map(|worker| worker.finish().status).to_vec();
    let log = world.lab.log(since);
    Race {
        statuses,
        refreshes: log
            .iter()
            .filter_map(|request| request.refresh.clone())
            .collect(),
        asked: log
            .iter()
            .filter(|request: &&Request| cli.asks_model(request))
            .map(|request| request.t)
            .collect(),
    }
}

fn refreshes_once(cli: Cli) {
    let race = race(cli, "");
    assert_eq!(race.refreshes, ["ok"], "refreshes");
    assert_eq!(race.statuses, [0, 0, 0, 0], "exit statuses");
    let (first, last) = (race.asked.first(), race.asked.last());
    let (Some(first), Some(last)) = (first, last) else {
        panic!("the model was not asked");
    };
    assert!(race.asked.len() >= 4, "{} requests", race.asked.len());
    assert!(
        last - first < 10.0,
        "the last start came {} s late",
        last - first
    );
}

#[test]
fn four_starts_of_claude_on_an_old_login_refresh_once() {
    refreshes_once(Cli::Claude);
}

#[test]
fn four_starts_of_codex_on_an_old_login_refresh_once() {
    refreshes_once(Cli::Codex);
}

#[test]
fn without_the_gate_codex_spends_its_refresh_token_again() {
    let race = race(Cli::Codex, "no-start-gate");
    assert!(
        race.refreshes.iter().any(|outcome| outcome == "reused"),
        "{:?}",
        race.refreshes
    );
}
