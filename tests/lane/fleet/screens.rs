//! A stop of a worker that a person has taken over, while its screen asks something: nothing is answered, and so
//! nothing approved, trusted or logged in. Screens that are not reached through a lease are named here too.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::accounts::credential;
use crate::cli::Cli;
use crate::fleet::{Fleet, named, reports, rule, step};
use crate::lab::{Request, now, tool};
use crate::terminal::Terminal;
use crate::wait::until;
use crate::worker::TURN;
use crate::world::World;

/// A run whose worker has asked something, and waits.
fn asks(cli: Cli, more: impl FnOnce(&Path) -> Vec<Value>) -> Fleet {
    let fleet = Fleet::of(&[cli], 1, |project| {
        let steps = json!([{"shell": reports("one", "blocked")}, {"text": "finished"}]);
        let mut rules = vec![rule("one", &json!({}), &steps)];
        rules.extend(more(project));
        Value::Array(rules)
    });
    let status = fleet.run(&step("one", cli, "a.txt"));
    assert_eq!(status["state"], "blocked", "{status}");
    fleet
}

/// A person takes the worker over.
fn taken(fleet: &Fleet) -> Terminal {
    Terminal::start(&fleet.world, "take", &fleet.line(&["take", "one"]))
}

/// The same, and the CLI is held back right before it starts, when all that is checked was checked; meanwhile
/// something is changed.
fn taken_while(fleet: &Fleet, change: impl FnOnce()) -> Terminal {
    let before = named(&fleet.status(), "workers", "name", "one")["launch"].clone();
    let number = before.as_u64().expect("a number") + 1;
    let hold = fleet.world.lab.path("hold");
    World::write(&hold, "");
    let mut take = fleet.line(&["take", "one"]);
    take.env("AGENT_FLEET_TEST_HOLD_AT", "launch.checked")
        .env("AGENT_FLEET_TEST_HOLD", &hold);
    let screen = Terminal::start(&fleet.world, "take", &take);
    let receipt = fleet.launch("one", number, "receipt.json");
    until("the end of the checks", TURN, || {
        let found: Option<Value> = std::fs::read(&receipt)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok());
        match found {
            Some(receipt) if receipt["ok"] == true => Ok(()),
            _ => Err(screen.screen()),
        }
    });
    change();
    std::fs::remove_file(&hold).expect("it is held back");
    screen
}

/// Stops the worker as another terminal would, and sees its end; whatever the CLI does before it has ended is done
/// when this returns.
#[track_caller]
fn stopped(fleet: &Fleet, screen: &Terminal) {
    let stopped = fleet.command(&["stop", "one"]).success();
    assert_eq!(stopped["confirmed"], true, "{stopped}");
    until("the end of the command", TURN, || {
        if screen.ended() {
            Ok(())
        } else {
            Err(screen.screen())
        }
    });
    let status = fleet.until("the end of the worker", |status| status["active"] == 0);
    let step = named(&status, "steps", "id", "one");
    assert_eq!(step["reason"], "stopped", "{status}");
}

/// Requests since then that ask the model or are about a login.
fn telling(fleet: &Fleet, cli: Cli, since: f64) -> Vec<String> {
    let log = fleet.world.lab.log(since);
    let of_login = |request: &Request| {
        [
            "/oauth/token",
            "/oauth/revoke",
            "/oauth/authorize",
            "deviceauth",
        ]
        .iter()
        .any(|word| request.path.contains(word))
    };
    log.iter()
        .filter(|request| cli.asks_model(request) || of_login(request))
        .map(Request::line)
        .collect()
}

#[test]
fn a_stop_at_a_permission_prompt_approves_nothing() {
    let fleet = asks(Cli::Claude, |project| {
        let outside = project.parent().expect("a parent").join("outside.txt");
        vec![json!({"match": "GO-OUTSIDE", "steps": [
            {"write": {"path": outside, "content": "no"}},
            {"text": "went"},
        ]})]
    });
    let screen = taken(&fleet);
    fleet.until("the worker on its screen", |status| {
        named(status, "workers", "name", "one")["state"] == "running"
    });
    screen.wait_for("finished");
    let since = now();
    screen.type_line("GO-OUTSIDE");
    screen.wait_for("Do you want");
    stopped(&fleet, &screen);
    let outside = fleet.world.lab.path("outside.txt");
    assert!(!outside.exists(), "it was approved");
    // The answer to the tool would be another request.
    let log = fleet.world.lab.log(since);
    let answered = log
        .iter()
        .filter(|request| Cli::Claude.asks_model(request))
        .filter(|request| request.body.to_string().contains("outside.txt"))
        .count();
    assert_eq!(answered, 0, "the tool was answered");
}

/// What Claude Code's home holds of a project's trust.
fn claude_trusts(fleet: &Fleet) -> Value {
    let bytes = std::fs::read(claude_config(fleet)).expect("its configuration");
    let config: Value = serde_json::from_slice(&bytes).expect("JSON");
    let project = fleet.project.to_str().expect("the lab's paths are UTF-8");
    config["projects"][project]["hasTrustDialogAccepted"].clone()
}

fn claude_config(fleet: &Fleet) -> PathBuf {
    fleet.world.home(Cli::Claude, 1).join(".claude.json")
}

/// Changes Claude Code's own file in the worker's home.
fn change_claude(fleet: &Fleet, change: impl FnOnce(&mut serde_json::Map<String, Value>)) {
    let path = claude_config(fleet);
    let bytes = std::fs::read(&path).expect("its configuration");
    let mut config: Value = serde_json::from_slice(&bytes).expect("JSON");
    change(config.as_object_mut().expect("an object"));
    World::write(&path, &config.to_string());
}

/// Takes the trust in every project out of Claude Code's home.
fn forget_trust(fleet: &Fleet) {
    change_claude(fleet, |config| {
        let projects = config["projects"].as_object_mut().expect("projects");
        for project in projects.values_mut() {
            let project = project.as_object_mut().expect("a project");
            drop(project.remove("hasTrustDialogAccepted"));
        }
    });
}

/// A home that does not trust the project is not started on; one that lost its trust since it was looked at asks.
#[test]
fn a_stop_at_claudes_trust_screen_trusts_nothing() {
    let fleet = asks(Cli::Claude, |_| Vec::new());
    forget_trust(&fleet);
    let before = std::fs::read(claude_config(&fleet)).expect("its configuration");
    let since = now();
    let screen = taken(&fleet);
    screen.wait_for("not_provisioned");
    until("the end of the command", TURN, || {
        screen.ended().then_some(()).ok_or_else(|| screen.screen())
    });
    assert!(
        !screen.screen().contains(CLAUDE_TRUST),
        "{}",
        screen.screen()
    );
    assert_eq!(
        std::fs::read(claude_config(&fleet)).expect("its configuration"),
        before
    );
    drop(screen);
    drop(
        fleet
            .world
            .run(["profile", "provision", "claude-1"])
            .success(),
    );
    assert_eq!(claude_trusts(&fleet), true);

    let screen = taken_while(&fleet, || forget_trust(&fleet));
    screen.wait_for(CLAUDE_TRUST);
    stopped(&fleet, &screen);
    assert_ne!(claude_trusts(&fleet), true, "the project was trusted");
    assert_eq!(telling(&fleet, Cli::Claude, since), [""; 0]);
}

const CLAUDE_TRUST: &str = "trust this folder";
const CODEX_TRUST: &str = "Trust this folder?";

/// Codex is told with each launch that the project is trusted, so whatever its home says, it does not ask.
#[test]
fn a_codex_that_is_taken_over_is_never_at_its_trust_screen_and_writes_no_trust() {
    let cli = Cli::Codex;
    let fleet = asks(cli, |_| Vec::new());
    let config = fleet.world.home(cli, 1).join("config.toml");
    let trusts = || {
        let text = std::fs::read_to_string(&config).expect("its configuration");
        text.contains("trust_level")
    };
    let text = std::fs::read_to_string(&config).expect("its configuration");
    let (kept, _) = text.split_once("[projects").expect("trust");
    World::write(&config, kept);
    assert!(!trusts());

    let since = now();
    let mut bare = tool(fleet.world.lab.value(cli.binary_variable()));
    bare.args(["--disable", "daemon_auto_start"])
        .env("CODEX_HOME", fleet.world.home(cli, 1))
        .current_dir(&fleet.project);
    let control = Terminal::start(&fleet.world, "bare", &bare);
    control.wait_for(CODEX_TRUST);
    drop(control);

    let screen = taken(&fleet);
    screen.wait_for("finished");
    assert!(
        !screen.screen().contains(CODEX_TRUST),
        "{}",
        screen.screen()
    );
    stopped(&fleet, &screen);
    assert!(!trusts(), "the project was trusted");
    assert_eq!(telling(&fleet, cli, since), [""; 0]);
}

/// A run whose worker asks, in a world where a browser that is opened leaves a trace.
struct LoggedOut {
    fleet: Fleet,
    cli: Cli,
    since: f64,
    opened: PathBuf,
    login: PathBuf,
    kept: PathBuf,
}

impl LoggedOut {
    fn new(cli: Cli) -> Self {
        let mut fleet = asks(cli, |_| Vec::new());
        let opened = fleet.world.lab.path("browser.opened");
        let browser = fleet.world.lab.path("browser");
        let script = format!("#!/bin/sh\necho \"$1\" > {}\n", opened.display());
        World::write(&browser, &script);
        let made = tool("chmod").arg("+x").arg(&browser).status();
        assert!(made.expect("chmod runs").success());
        fleet.world.set("BROWSER", browser);
        Self {
            login: credential(&fleet.world, cli, 1),
            kept: fleet.world.lab.path("login.kept"),
            fleet,
            cli,
            since: now(),
            opened,
        }
    }

    /// The login is gone.
    #[expect(clippy::disallowed_methods, reason = "test data")]
    fn lose(&self) {
        std::fs::rename(&self.login, &self.kept).expect("a login");
    }

    #[expect(clippy::disallowed_methods, reason = "test data")]
    fn give_back(&self) {
        std::fs::rename(&self.kept, &self.login).expect("a login");
    }

    /// Stops the worker at what its screen shows; nobody was logged in.
    #[track_caller]
    fn stopped(&self, screen: &Terminal) {
        stopped(&self.fleet, screen);
        assert!(!self.login.exists(), "a login was written");
        assert!(!self.opened.exists(), "a browser was opened");
        assert_eq!(telling(&self.fleet, self.cli, self.since), [""; 0]);
    }
}

/// Without a login nothing is started; one that goes between the last check and the CLI's start is asked for.
#[test]
fn a_stop_at_codexs_login_screen_logs_in_nobody() {
    let lost = LoggedOut::new(Cli::Codex);
    lost.lose();
    let screen = taken(&lost.fleet);
    screen.wait_for("identity_unproven");
    drop(screen);
    lost.give_back();
    let screen = taken_while(&lost.fleet, || lost.lose());
    screen.wait_for("Sign in with ChatGPT");
    lost.stopped(&screen);
}

/// A worker's Claude Code has no command that logs in, so only the questions of a first start lead to its login
/// screen, and those were answered when its home was made ready.
#[test]
fn a_stop_at_claudes_login_screen_logs_in_nobody() {
    let mut lost = LoggedOut::new(Cli::Claude);
    let screen = taken(&lost.fleet);
    screen.wait_for("finished");
    screen.type_text("/login");
    screen.wait_for("/plugin");
    let commands = screen.screen();
    let offered = commands.lines().any(|line| {
        let row = line.trim_start_matches(|letter: char| letter == '❯' || letter.is_whitespace());
        row.starts_with("/login ")
    });
    assert!(!offered, "{commands}");
    stopped(&lost.fleet, &screen);
    drop(screen);

    lost.since = now();
    let screen = taken_while(&lost.fleet, || {
        lost.lose();
        change_claude(&lost.fleet, |config| {
            drop(config.remove("hasCompletedOnboarding"));
        });
    });
    screen.wait_for("Choose the text style");
    screen.press("Enter");
    screen.wait_for("Select login method");
    lost.stopped(&screen);
}
