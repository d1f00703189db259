//! What is left of an account, learned from its own workers' files without a request.

use std::time::Duration;

use serde_json::{Value, json};

use crate::cli::Cli;
use crate::lab::{Plan, Request, now};
use crate::terminal::Terminal;
use crate::wait::until;
use crate::world::{Job, World, profile, text};

const DONE: &str = r#"LAB:{"text":"\u0044ONE it"}"#;

/// The first account is measured when it is chosen; then somebody else uses it, as the next answer tells.
fn world(cli: Cli) -> (World, Job, f64) {
    let world = World::new(
        &Plan {
            accounts: 1,
            ..Plan::default()
        },
        &["project"],
    );
    world.add(cli, 1, 2);
    let job = Job::new("task", cli.name(), &world.project("project"));
    let chosen = world.choose(&job).success();
    assert_eq!(chosen["headroom_percent"], 80.0, "{chosen}");
    world
        .lab
        .scenario(&json!({"accounts": {"1": {"five_hour": 64, "seven_day": 33}}}));
    (world, job, now())
}

/// The account's reading, and the remaining percent of its two windows.
fn shown(world: &World, cli: Cli) -> (Value, Vec<f64>) {
    let answer = world.run(["quota", "show", &profile(cli, 1)]).success();
    let reading = answer["quota"][0].clone();
    let left = |kind: &str| {
        let windows = reading["windows"].as_array()?;
        let window = windows
            .iter()
            .find(|window| window["kind"] == kind && window["scope"].is_null())?;
        assert!(!window["resets_at"].is_null(), "{reading}");
        window["remaining_percent"].as_f64()
    };
    let left = ["session", "weekly"].into_iter().filter_map(left).collect();
    (reading, left)
}

/// What we ourselves asked since then: the CLIs ask on their own account, under their own name.
fn ours(world: &World, since: f64) -> Vec<String> {
    let log = world.lab.log(since);
    let by_us = |request: &&Request| {
        let agent = request
            .headers
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case("user-agent"));
        request.method == "GET"
            && request.log != "proxy"
            && agent.is_some_and(|(_, agent)| agent.contains("agent-fleet"))
    };
    log.iter().filter(by_us).map(Request::line).collect()
}

/// The windows of the server's last answer are there, by this source, and nobody of us asked for them.
#[track_caller]
fn told(world: &World, cli: Cli, since: f64, source: &str) {
    until("the windows of the answer", Duration::from_secs(20), || {
        let (reading, left) = shown(world, cli);
        if left == [36.0, 67.0] {
            assert_eq!(text(&reading, "source"), source, "{reading}");
            assert_eq!(text(&reading, "status"), "fresh", "{reading}");
            return Ok(());
        }
        Err(reading.to_string())
    });
    assert_eq!(ours(world, since), [""; 0]);
}

#[test]
fn headless_codex_tells_its_windows_without_a_request() {
    let (world, job, since) = world(Cli::Codex);
    drop(world.turn(Cli::Codex, &job, DONE));
    told(&world, Cli::Codex, since, "rollout");
}

fn on_screen(cli: Cli, source: &str) {
    let (world, job, since) = world(cli);
    let screen = Terminal::start(&world, "task", &world.exec(&job, &cli.terminal(DONE)));
    screen.wait_for("DONE it");
    told(&world, cli, since, source);
    screen.terminate();
    told(&world, cli, since, source);
}

#[test]
fn codex_on_its_screen_tells_its_windows_without_a_request() {
    on_screen(Cli::Codex, "rollout");
}

#[test]
fn claude_on_its_screen_tells_its_windows_without_a_request() {
    on_screen(Cli::Claude, "statusline");
}

#[test]
fn headless_claude_leaves_no_windows_and_costs_one_request() {
    let (mut world, job, since) = world(Cli::Claude);
    drop(world.turn(Cli::Claude, &job, DONE));
    let (_, left) = shown(&world, Cli::Claude);
    assert_eq!(left, [90.0, 80.0], "what was read before the turn");
    assert_eq!(ours(&world, since), [""; 0]);
    // The reading is worth nothing after five minutes in which the account was used.
    world.set("AGENT_FLEET_TEST_NOW", "+360");
    let next = Job {
        task: "next".to_owned(),
        ..job
    };
    let chosen = world.choose(&next).success();
    assert_eq!(chosen["headroom_percent"], 36.0, "{chosen}");
    let asked = ours(&world, since);
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(asked[0].contains("/api/oauth/usage"), "{asked:?}");
    let (reading, left) = shown(&world, Cli::Claude);
    assert_eq!(left, [36.0, 67.0], "{reading}");
}
