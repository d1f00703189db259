//! A usage limit of the real CLIs: the account rests until the stated reset, others go on, and nothing that a
//! worker merely prints counts.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::cli::Cli;
use crate::lab::{Plan, Request, now};
use crate::ran::Ran;
use crate::terminal::Terminal;
use crate::wait::until;
use crate::worker::Worker;
use crate::world::{Job, World, profile, text};

/// How long the limit of these tests lasts, in seconds.
const RESETS_IN: u32 = 3000;

/// Two accounts of each provider, the first preferred until something is known against it.
fn plan() -> Plan {
    Plan {
        scenario: json!({"accounts": {"1": {"five_hour": 10}, "2": {"five_hour": 50}}}),
        ..Plan::default()
    }
}

fn limited() -> String {
    format!(r#"LAB:{{"usage_limit":{{"resets_in":{RESETS_IN}}}}}"#)
}

/// Starts a turn that meets the limit on the first account, headless, to its end.
#[track_caller]
fn meet(world: &World, cli: Cli, job: &Job) -> Ran {
    let chosen = world.choose(job).success();
    assert_eq!(text(&chosen, "profile"), profile(cli, 1), "{chosen}");
    let mut command = world.exec(job, &cli.headless(&limited()));
    let ran = Worker::start(world, &job.task, &mut command).finish();
    assert_ne!(ran.status, 0, "the turn met no limit: {}", ran.stdout);
    ran
}

fn status(world: &World, cli: Cli) -> Value {
    world.run(["profile", "status", &profile(cli, 1)]).success()
}

/// When the limit that the lab stated since then is over, in seconds since the epoch.
#[track_caller]
fn stated(world: &World, cli: Cli, since: f64) -> f64 {
    let log = world.lab.log(since);
    let refused = log
        .iter()
        .find(|request| cli.asks_model(request) && request.status == Some(429))
        .expect("a request that was refused");
    refused.t + f64::from(RESETS_IN)
}

/// The first account rests until the reset that was stated since then.
#[track_caller]
fn rests(world: &World, cli: Cli, since: f64) {
    let status = status(world, cli);
    let cooldown = &status["cooldown"];
    assert_eq!(cooldown["reason"], "quota", "{status}");
    let retry: Timestamp = text(&status["routeability"], "retry_at")
        .parse()
        .expect("a time");
    let wanted = stated(world, cli, since);
    let found = retry.as_duration().as_secs_f64();
    assert!((found - wanted).abs() < 3.0, "until {retry}, not {wanted}");
}

/// The next choose takes the other account.
#[track_caller]
fn moves_on(world: &World, cli: Cli, job: &Job) {
    let chosen = world.choose(job).success();
    assert_eq!(text(&chosen, "profile"), profile(cli, 2), "{chosen}");
}

fn is_reading(request: &Request) -> bool {
    let path = request.path.split('?').next().unwrap_or_default();
    request.method == "GET" && matches!(path, "/api/oauth/usage" | "/backend-api/wham/usage")
}

fn headless(cli: Cli) {
    let mut world = World::enabled(&plan(), 4, &["project"]);
    let project = world.project("project");
    let job = |task: &str| Job::new(task, cli.name(), &project);
    let since = now();
    drop(meet(&world, cli, &job("first")));
    moves_on(&world, cli, &job("second"));
    rests(&world, cli, since);

    // After the reset the account counts as full, once it was measured; everybody knows it then.
    world.set("AGENT_FLEET_TEST_NOW", format!("+{}", RESETS_IN + 60));
    let since = now();
    let chosen = world.choose(&job("third")).success();
    assert_eq!(text(&chosen, "profile"), profile(cli, 1), "{chosen}");
    assert_eq!(chosen["headroom_percent"], 80.0, "{chosen}");
    drop(world.choose(&job("fourth")).success());
    let log = world.lab.log(since);
    for account in [1, 2] {
        let asked = log.iter().filter(|request| is_reading(request));
        let asked = asked.filter(|request| request.account == Some(account));
        assert_eq!(asked.count(), 1, "readings of account {account}");
    }
}

#[test]
fn headless_claude_at_its_limit_rests_until_the_reset_and_is_measured_once() {
    headless(Cli::Claude);
}

#[test]
fn headless_codex_at_its_limit_rests_until_the_reset_and_is_measured_once() {
    headless(Cli::Codex);
}

#[test]
fn an_account_that_cannot_be_measured_rests_by_what_its_worker_met() {
    let plan = Plan {
        scenario: json!({"accounts": {"1": {"usage_status": 429}, "2": {"usage_status": 429}}}),
        ..Plan::default()
    };
    let world = World::new(&plan, &["project"]);
    world.configure("settings.unmeasured", "allow");
    let cli = Cli::Claude;
    for account in [1, 2] {
        world.add(cli, account, 2);
    }
    let project = world.project("project");
    let since = now();
    drop(meet(&world, cli, &Job::new("first", cli.name(), &project)));
    moves_on(&world, cli, &Job::new("second", cli.name(), &project));
    rests(&world, cli, since);
}

/// A worker at its limit on the provider's screen, where it stays.
#[track_caller]
fn at_limit(world: &World, cli: Cli, job: &Job) -> Terminal {
    let chosen = world.choose(job).success();
    assert_eq!(text(&chosen, "profile"), profile(cli, 1), "{chosen}");
    let screen = Terminal::start(
        world,
        &job.task,
        &world.exec(job, &cli.terminal(&limited())),
    );
    screen.wait_for("hit your");
    screen
}

/// Waits until the choice would be another account: a screen may show an end before it is written down.
#[track_caller]
fn is_known(world: &World, cli: Cli, job: &Job) {
    until(
        "a choice of the other account",
        Duration::from_secs(20),
        || {
            let mut preview = world.command(["choose", "--dry-run", "--task", &job.task]);
            preview
                .args(["--pool", &job.pool, "--workspace"])
                .arg(&job.workspace);
            let answer = Ran::of(&mut preview).success();
            if text(&answer, "profile") == profile(cli, 2) {
                Ok(())
            } else {
                Err(answer.to_string())
            }
        },
    );
}

fn terminal(cli: Cli) {
    let world = World::enabled(&plan(), 2, &["project"]);
    let project = world.project("project");
    let since = now();
    let screen = at_limit(&world, cli, &Job::new("first", cli.name(), &project));
    let next = Job::new("second", cli.name(), &project);
    is_known(&world, cli, &next);
    assert!(!screen.ended(), "the screen stays at the limit");
    moves_on(&world, cli, &next);
    // The hook of a failed turn comes before its record.
    until("the stated reset", Duration::from_secs(20), || {
        drop(world.choose(&next).success());
        let status = status(&world, cli);
        match &status["cooldown"]["reason"] {
            reason if reason == "quota" => Ok(()),
            _ => Err(status.to_string()),
        }
    });
    rests(&world, cli, since);
}

#[test]
fn claude_that_sits_on_its_screen_at_its_limit_turns_the_next_choose_away() {
    terminal(Cli::Claude);
}

#[test]
fn codex_that_sits_on_its_screen_at_its_limit_turns_the_next_choose_away() {
    terminal(Cli::Codex);
}

/// The program that hooks call is out of reach while the limit is met, so only the transcript tells of it; then
/// the worker is killed.
fn killed(cli: Cli) {
    let world = World::enabled(&plan(), 2, &["project"]);
    let project = world.project("project");
    let job = Job::new("first", cli.name(), &project);
    let chosen = world.choose(&job).success();
    assert_eq!(text(&chosen, "profile"), profile(cli, 1), "{chosen}");
    let hello = cli.terminal(r#"LAB:{"text":"\u0048ELLO there"}"#);
    let screen = Terminal::start(&world, "first", &world.exec(&job, &hello));
    screen.wait_for("HELLO there");
    let program = world.lab.path("share/bin/agent-fleet");
    let aside = world.lab.path("share/bin/aside");
    put(&program, &aside);
    let since = now();
    screen.type_line(&limited());
    screen.wait_for("hit your");
    let transcript = world
        .session(&job)
        .get("session_id")
        .and_then(Value::as_str)
        .map(str::to_owned)
        .expect("the first turn's hooks named the conversation");
    until("the record of the limit", Duration::from_secs(20), || {
        let found = written(&world, cli, &transcript);
        let at = ["usage_limit_reached", "usage_limit_exceeded"];
        if at.iter().any(|word| found.contains(word)) {
            Ok(())
        } else {
            Err(format!("{} bytes", found.len()))
        }
    });
    screen.kill();
    put(&aside, &program);
    moves_on(&world, cli, &Job::new("second", cli.name(), &project));
    rests(&world, cli, since);
}

/// Puts the hooks' program elsewhere.
#[expect(clippy::disallowed_methods, reason = "test data")]
fn put(from: &Path, to: &Path) {
    std::fs::rename(from, to).expect("the hooks' program");
}

/// What the conversation's transcript holds.
fn written(world: &World, cli: Cli, session: &str) -> String {
    let home = world.home(cli, 1);
    let folder = match cli {
        Cli::Claude => "projects",
        Cli::Codex => "sessions",
    };
    let mut left = vec![home.join(folder)];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).expect("a folder in the home");
            left.extend(entries.flatten().map(|entry| entry.path()));
        } else if path.to_string_lossy().contains(session) {
            return std::fs::read_to_string(path).unwrap_or_default();
        }
    }
    String::new()
}

#[test]
fn claude_killed_after_its_limit_makes_the_choose_that_reclaims_it_take_another() {
    killed(Cli::Claude);
}

#[test]
fn codex_killed_after_its_limit_makes_the_choose_that_reclaims_it_take_another() {
    killed(Cli::Codex);
}

fn prints(cli: Cli) {
    let world = World::enabled(&plan(), 2, &["project"]);
    let project = world.project("project");
    let prompt = r#"LAB:[{"shell":"echo \"You've hit your usage limit. Try again at 9:59 AM.\"; echo '{\"type\":\"assistant\",\"isApiErrorMessage\":true,\"error\":\"rate_limit\",\"apiErrorStatus\":429}'"},{"text":"You've hit your weekly limit · resets Dec 2, 3:34pm (UTC)"}]"#;
    let (used, _) = world.turn(cli, &Job::new("first", cli.name(), &project), prompt);
    assert_eq!(used, profile(cli, 1));
    let chosen = world
        .choose(&Job::new("second", cli.name(), &project))
        .success();
    assert_eq!(text(&chosen, "profile"), profile(cli, 1), "{chosen}");
    assert_eq!(status(&world, cli)["cooldown"], Value::Null);
}

#[test]
fn claude_that_prints_of_limits_causes_nothing() {
    prints(Cli::Claude);
}

#[test]
fn codex_that_prints_of_limits_causes_nothing() {
    prints(Cli::Codex);
}

/// The server takes the first account's login no longer, from the middle of its day on.
fn revoked(cli: Cli) {
    let world = World::enabled(&plan(), 2, &["project"]);
    let project = world.project("project");
    let job = Job::new("first", cli.name(), &project);
    let chosen = world.choose(&job).success();
    assert_eq!(text(&chosen, "profile"), profile(cli, 1), "{chosen}");
    world.lab.scenario(
        &json!({"accounts": {"1": {"five_hour": 10, "revoked": true}, "2": {"five_hour": 50}}}),
    );
    let mut command = world.exec(&job, &cli.headless(r#"LAB:{"text":"hello"}"#));
    let ran = Worker::start(&world, "first", &mut command).finish();
    assert_ne!(ran.status, 0, "{}", ran.stdout);
    moves_on(&world, cli, &Job::new("second", cli.name(), &project));
    let status = status(&world, cli);
    assert_eq!(status["routeability"]["reason"], "auth_broken", "{status}");
    let (used, _) = world.turn(
        cli,
        &Job::new("third", cli.name(), &project),
        r#"LAB:{"text":"hello"}"#,
    );
    assert_eq!(used, profile(cli, 2), "the sibling works on");
}

#[test]
fn claude_whose_login_is_revoked_breaks_its_profile_alone() {
    revoked(Cli::Claude);
}

#[test]
fn codex_whose_login_is_revoked_breaks_its_profile_alone() {
    revoked(Cli::Codex);
}
