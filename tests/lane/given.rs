//! Workers of the real CLIs on a long-lived token and on an API key: out of sight of everything that they start.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::cli::Cli;
use crate::enroll::world;
use crate::lab::{Request, now};
use crate::ran::Ran;
use crate::terminal::Terminal;
use crate::wait::until;
use crate::worker::Worker;
use crate::world::{Job, World};

/// Account 1's long-lived token, as the lab knows it.
const TOKEN: &str =
    "sk-ant-oat01-LAB0001-setup-ssssssssssssssssssssssssssssssssssssssssssssssssssssssss-AA";
/// Keys that no other test shows to anybody.
const CLAUDE_KEY: &str = "sk-ant-api03-LAB0037-kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk";
const CODEX_KEY: &str = "sk-LAB0038-kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk";

/// Runs a command line with something on its standard input.
fn give(world: &World, line: &[&str], input: &str) -> Ran {
    Ran::answered(&mut world.command(line), input)
}

fn add(world: &World, cli: Cli, id: &str, credential: &str) {
    let provider = cli.name();
    let line = format!(
        "profile add {id} --provider {provider} --pool {provider} --credential {credential}"
    );
    drop(world.run(line.split(' ')).success());
}

/// A turn in which a tool writes down what it sees: its environment, how often `pattern` stands in the environment
/// or the arguments of any process, and the descriptors of its parent.
fn nosy(world: &World, pattern: &str) -> (String, PathBuf) {
    let seen = world.lab.path("seen");
    let script = world.lab.path("nosy");
    World::write(
        &script,
        &format!(
            "env\ncat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -c '{pattern}'\n\
             for d in /proc/$PPID/fd/*; do readlink $d; done\ntrue\n"
        ),
    );
    let shell = format!("sh {} > {} 2>&1", script.display(), seen.display());
    let steps = json!([{"shell": shell}, {"text": "done"}]);
    (format!("LAB:{steps}"), seen)
}

/// Nothing of the secret was seen by a tool: not its text, not the variable that names its descriptor.
#[track_caller]
fn saw_nothing(seen: &Path, secret: &str) {
    let seen = std::fs::read_to_string(seen).expect("the tool ran");
    assert!(!seen.contains(secret), "{seen}");
    assert!(!seen.contains("_FILE_DESCRIPTOR"), "{seen}");
    assert!(
        seen.lines().any(|line| line == "0"),
        "some process shows it: {seen}"
    );
}

/// `claude-1` is proved and idle, and `token` has a token of the same account.
fn with_token() -> World {
    let world = world();
    drop(world.add_unproved(Cli::Claude, 1));
    drop(world.run(["profile", "verify", "claude-1"]).success());
    add(&world, Cli::Claude, "token", "setup-token");
    let line = "profile enroll token --setup-token --same-account-as claude-1";
    let line: Vec<&str> = line.split(' ').collect();
    let enrolled = give(&world, &line, TOKEN).success();
    assert_eq!(enrolled["identity_source"], "asserted", "{enrolled}");
    world.configure("settings.unmeasured", "allow");
    drop(world.run(["profile", "enable", "token"]).success());
    world
}

#[test]
fn a_claude_worker_has_its_token_to_itself() {
    let world = with_token();
    let (prompt, seen) = nosy(&world, "LAB0001-set[u]p");
    let since = now();
    let job = Job::new("first", "claude", &world.project("project"));
    let (profile, said) = world.turn(Cli::Claude, &job, &prompt);
    assert_eq!(profile, "token");
    assert!(!said.contains(TOKEN));
    let asked = world.only(Cli::Claude, 1, since);
    let shown = asked
        .iter()
        .map(|request| &request.headers["authorization"]);
    let shown: Vec<_> = shown.collect();
    assert!(
        shown.iter().all(|shown| shown.contains("-setup-")),
        "{shown:?}"
    );
    saw_nothing(&seen, TOKEN);
    let home = world.lab.path("share/accounts/claude/token");
    assert!(!home.join(".credentials.json").exists());
    // Its conversation goes on, with the token again.
    let since = now();
    let more = Cli::Claude.headless(r#"LAB:{"text":"and on"}"#);
    drop(Worker::start(&world, "first", &mut world.resume(&job, &more)).clean());
    assert_eq!(world.only(Cli::Claude, 1, since).len(), 1);
}

#[test]
fn a_claude_screen_takes_its_token_and_measures_what_the_token_may_not_ask() {
    let world = with_token();
    let job = Job::new("task", "claude", &world.project("project"));
    let prompt = r#"LAB:{"text":"\u0044ONE it"}"#;
    let line = world.exec(&job, &Cli::Claude.terminal(prompt));
    let screen = Terminal::start(&world, "task", &line);
    screen.wait_for("DONE it");
    until("the windows of the answer", Duration::from_secs(20), || {
        let answer = world.run(["quota", "show", "token"]).success();
        let reading = &answer["quota"][0];
        if reading["source"] == "statusline" && reading["headroom_percent"] == 80.0 {
            return Ok(());
        }
        Err(reading.to_string())
    });
    screen.terminate();
    // So it needs no permission for what is not measured any more.
    world.configure("settings.unmeasured", "refuse");
    let next = Job::new("next", "claude", &world.project("project"));
    assert_eq!(world.choose(&next).success()["profile"], "token");
}

#[test]
fn a_token_that_is_refused_breaks_its_profile_and_the_next_command_renews_it() {
    let world = with_token();
    world
        .lab
        .set(&json!({"accounts": {"1": {"revoked": true}}}));
    let job = Job::new("first", "claude", &world.project("project"));
    let (_, worker) = world.start(Cli::Claude, &job, r#"LAB:{"text":"hello"}"#);
    assert_ne!(worker.finish().status, 0);
    drop(world.run(["lease", "list"]).success());
    let status = world.run(["profile", "status", "token"]).success();
    let routing: &Value = &status["routeability"];
    assert_eq!(routing["reason"], "auth_broken", "{status}");
    assert_eq!(
        routing["hint"],
        "agent-fleet profile enroll token --setup-token"
    );
}

/// A turn on a profile with a key, which is refused as long as nobody allowed it to be paid for.
#[track_caller]
fn on_a_key(cli: Cli, key: &str, pattern: &str) {
    let world = world();
    add(&world, cli, "key", "api-key");
    let line = ["profile", "enroll", "key", "--api-key-stdin"];
    let enrolled = give(&world, &line, key).success();
    assert_eq!(enrolled["reason"], "money_guard", "{enrolled}");
    let allow = ["profile", "policy", "key", "--allow-overage"];
    drop(world.run(allow).success());
    drop(world.run(["profile", "enable", "key"]).success());
    let (prompt, seen) = nosy(&world, pattern);
    let since = now();
    let job = Job::new("first", cli.name(), &world.project("project"));
    drop(world.turn(cli, &job, &prompt));
    let asked = world.lab.log(since);
    let told: Vec<String> = asked
        .iter()
        .filter(|request| cli.asks_model(request))
        .map(Request::line)
        .collect();
    assert!(!told.is_empty(), "the model was not asked");
    assert!(
        told.iter().all(|line| line.contains("by api_key")),
        "{told:#?}"
    );
    saw_nothing(&seen, key);
}

#[test]
fn a_claude_worker_has_its_key_to_itself_and_only_where_it_may_be_paid_for() {
    on_a_key(Cli::Claude, CLAUDE_KEY, "api03-LAB003[7]");
}

#[test]
fn a_codex_worker_takes_its_key_from_its_home_and_shows_it_to_no_tool() {
    on_a_key(Cli::Codex, CODEX_KEY, "sk-LAB003[8]");
}
