//! A caller's environment that points to other accounts and other hosts moves no worker.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::cli::Cli;
use crate::lab::{Plan, now, tool};
use crate::terminal::Terminal;
use crate::worker::Worker;
use crate::world::{Job, World};

/// Account 2's tokens, in the lab's synthetic form.
const CLAUDE_TOKEN: &str =
    "sk-ant-oat01-LAB0002-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-AA";
const CLAUDE_KEY: &str = "sk-ant-api03-LAB0002-kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk";
const OPENAI_KEY: &str = "sk-LAB0002-kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk";

/// A variable, and whether a run with it alone is made besides the run with all of them: for those that moved
/// a bare CLI by themselves.
type Planted = (&'static str, String, bool);

fn planted(cli: Cli, world: &World) -> Vec<Planted> {
    let foreign = world.lab.value("LAB_FOREIGN_URL").to_owned();
    let other = world.home(cli, 2).display().to_string();
    let nowhere = world.lab.path("nowhere").display().to_string();
    let own = |text: &str| text.to_owned();
    match cli {
        Cli::Claude => vec![
            ("ANTHROPIC_API_KEY", own(CLAUDE_KEY), true),
            ("ANTHROPIC_AUTH_TOKEN", own(CLAUDE_TOKEN), true),
            ("CLAUDE_CODE_OAUTH_TOKEN", own(CLAUDE_TOKEN), true),
            ("ANTHROPIC_BASE_URL", foreign.clone(), true),
            (
                "ANTHROPIC_CUSTOM_HEADERS",
                format!("Authorization: Bearer {CLAUDE_TOKEN}"),
                true,
            ),
            ("CLAUDE_SECURESTORAGE_CONFIG_DIR", other.clone(), true),
            ("CLAUDE_CONFIG_DIR", other.clone(), true),
            ("CLAUDE_CODE_USE_BEDROCK", own("1"), true),
            ("CLAUDE_CODE_USE_VERTEX", own("1"), false),
            ("CLAUDE_CODE_USE_FOUNDRY", own("1"), false),
            ("CLAUDE_CODE_USE_MANTLE", own("1"), false),
            ("CLAUDE_CODE_USE_GATEWAY", own("1"), false),
            ("CLAUDE_CODE_USE_ANTHROPIC_AWS", own("1"), false),
            ("CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD", own("1"), false),
            ("CLAUDE_CODE_SIMPLE", own("1"), true),
            ("ANTHROPIC_UNIX_SOCKET", nowhere.clone(), true),
            ("CLAUDE_CODE_SESSION_ACCESS_TOKEN", own(CLAUDE_TOKEN), false),
            ("CLAUDE_CODE_API_BASE_URL", foreign.clone(), false),
            ("CLAUDE_CODE_CUSTOM_OAUTH_URL", foreign.clone(), false),
            ("CLAUDE_CODE_OAUTH_REFRESH_TOKEN", own(CLAUDE_TOKEN), false),
            ("CLAUDE_CODE_HOST_CREDS_FILE", nowhere.clone(), false),
            ("CLAUDE_CODE_ACCOUNT_UUID", own("another"), false),
            ("CLAUDE_CODE_USER_EMAIL", own("other@lab.invalid"), false),
            ("CLAUDE_CODE_ORGANIZATION_UUID", own("another"), false),
            ("ANTHROPIC_CONFIG_DIR", other, false),
            ("ANTHROPIC_PROFILE", own("another"), false),
            ("ANTHROPIC_FOUNDRY_API_KEY", own(CLAUDE_KEY), false),
            ("ANTHROPIC_FOUNDRY_BASE_URL", foreign.clone(), false),
            ("ANTHROPIC_BEDROCK_BASE_URL", foreign, false),
            ("NODE_OPTIONS", own("--no-warnings"), false),
            // What a caller that is itself a Claude worker carries.
            ("CLAUDE_PID", own("1"), false),
            (
                "CLAUDE_CODE_SESSION_ID",
                own("11111111-1111-4111-8111-111111111111"),
                false,
            ),
            ("CLAUDE_PROJECT_DIR", nowhere.clone(), false),
            ("CLAUDE_ENV_FILE", nowhere, false),
        ],
        Cli::Codex => vec![
            ("CODEX_API_KEY", own(OPENAI_KEY), true),
            ("CODEX_ACCESS_TOKEN", own(OPENAI_KEY), true),
            ("CODEX_HOME", other.clone(), true),
            ("CODEX_SQLITE_HOME", other, true),
            ("OPENAI_API_KEY", own(OPENAI_KEY), false),
            ("OPENAI_BASE_URL", foreign.clone(), false),
            ("OPENAI_ORGANIZATION", own("another"), false),
            ("OPENAI_PROJECT", own("another"), false),
            ("OPENAI_IDENTITY_TOKEN_FILE", nowhere.clone(), false),
            ("OPENAI_IDENTITY_TOKEN_SOURCE", nowhere.clone(), false),
            ("OPENAI_FEDERATION_RULE_ID", own("another"), false),
            ("CODEX_THREAD_ID", own("another"), false),
            ("CODEX_SESSION_ID", own("another"), false),
            ("CODEX_APP_SERVER_LOGIN_ISSUER", foreign.clone(), false),
            ("CODEX_REFRESH_TOKEN_URL_OVERRIDE", foreign.clone(), false),
            ("CODEX_REVOKE_TOKEN_URL_OVERRIDE", foreign.clone(), false),
            ("CODEX_OSS_BASE_URL", foreign.clone(), false),
            ("CODEX_OSS_PORT", own("9"), false),
            ("CODEX_EXEC_SERVER_URL", foreign, false),
            ("CODEX_GUARDIAN_DECISIONS_API_KEY", own(OPENAI_KEY), false),
            ("CODEX_GITHUB_PERSONAL_ACCESS_TOKEN", own(OPENAI_KEY), false),
        ],
    }
}

/// A pool whose only member is account 1; account 2 is there to be gone to by mistake.
fn world(cli: Cli) -> World {
    let world = World::new(&Plan::default(), &["project"]);
    world.add(cli, 1, 8);
    world
}

/// The environment as the worker's tool saw it holds none of the planted values.
#[track_caller]
fn gone(dump: &Path, planted: &[Planted]) {
    let seen = std::fs::read_to_string(dump).expect("the worker's tool wrote its environment");
    for (name, value, _) in planted {
        assert!(
            !seen.lines().any(|line| line == format!("{name}={value}")),
            "{name} reached the worker's tools"
        );
    }
}

fn moves_nothing(cli: Cli) {
    let world = world(cli);
    let project = world.project("project");
    let table = planted(cli, &world);

    let dump = world.lab.path("all.env");
    let prompt = format!(
        r#"LAB:[{{"shell":"env > {}"}},{{"text":"\u0046INISHED"}}]"#,
        dump.display()
    );
    let job = Job::new("all", cli.name(), &project);
    let since = now();
    drop(world.choose(&job).success());
    let mut command = world.exec(&job, &cli.headless(&prompt));
    command.envs(table.iter().map(|(name, value, _)| (name, value)));
    let output = Worker::start(&world, "all", &mut command).clean();
    assert!(output.contains("FINISHED"), "{output}");
    gone(&dump, &table);

    let screen_dump = world.lab.path("screen.env");
    let job = Job::new("screen", cli.name(), &project);
    drop(world.choose(&job).success());
    let prompt = prompt.replace("all.env", "screen.env");
    let mut command = world.exec(&job, &cli.terminal(&prompt));
    command.envs(table.iter().map(|(name, value, _)| (name, value)));
    let screen = Terminal::start(&world, "screen", &command);
    screen.wait_for("FINISHED");
    gone(&screen_dump, &table);
    screen.terminate();

    // Alone, so that no variable is masked by a stronger one; two at a time.
    let alone: Vec<&Planted> = table.iter().filter(|(_, _, alone)| *alone).collect();
    for pair in alone.chunks(2) {
        let workers: Vec<Worker> = pair
            .iter()
            .map(|(name, value, _)| {
                let job = Job::new(&format!("alone-{name}"), cli.name(), &project);
                drop(world.choose(&job).success());
                let mut command = world.exec(&job, &cli.headless(r#"LAB:{"text":"hello"}"#));
                command.env(name, value);
                Worker::start(&world, &job.task, &mut command)
            })
            .collect();
        for worker in workers {
            drop(worker.clean());
        }
    }
    let asked = world.only(cli, 1, since);
    assert!(asked.len() >= alone.len() + 4, "{} requests", asked.len());
    let elsewhere: Vec<_> = ["sqlite", "db"]
        .iter()
        .flat_map(|ending| files(&world.home(cli, 2), ending))
        .collect();
    assert!(
        elsewhere.is_empty(),
        "session files in another home: {elsewhere:?}"
    );
}

fn files(folder: &Path, ending: &str) -> Vec<std::path::PathBuf> {
    std::fs::read_dir(folder)
        .expect("the lab's home is there")
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|found| found == ending))
        .collect()
}

#[test]
fn no_variable_of_the_caller_moves_claude() {
    moves_nothing(Cli::Claude);
}

/// A profile of Anthropic's own tools that exchanges an identity outranks the home's login in a bare CLI.
#[test]
fn no_profile_of_other_tools_moves_claude() {
    let mut world = world(Cli::Claude);
    let token = world.lab.path("identity-token");
    World::write(&token, CLAUDE_TOKEN);
    let configuration = serde_json::json!({
        "version": "1.0",
        "organization_id": "another",
        "workspace_id": "another",
        "authentication": {
            "type": "oidc_federation",
            "federation_rule_id": "another",
            "identity_token": {"source": "file", "path": token},
        },
    });
    let credentials = serde_json::json!({
        "version": "1.0",
        "type": "oauth_token",
        "access_token": CLAUDE_TOKEN,
        "expires_at": 4_000_000_000_u64,
        "refresh_token": "synthetic",
    });
    for folder in ["home/.config/anthropic", "xdg/anthropic"] {
        let folder = world.lab.path(folder);
        World::write(&folder.join("active_config"), "default");
        World::write(
            &folder.join("configs/default.json"),
            &configuration.to_string(),
        );
        let stored = folder.join("credentials/default.json");
        World::write(&stored, &credentials.to_string());
        // The CLI takes no credential that others may read.
        std::fs::set_permissions(&stored, Permissions::from_mode(0o600))
            .expect("a file in the lab's folder");
    }
    let project = world.project("project");
    let prompt = r#"LAB:{"text":"hello"}"#;

    let since = now();
    let mut bare = tool(world.lab.value("CLAUDE_BIN"));
    bare.args(Cli::Claude.headless(prompt))
        .env_clear()
        .envs(world.variables())
        .env("CLAUDE_CONFIG_DIR", world.home(Cli::Claude, 1))
        .current_dir(&project)
        .stdin(std::process::Stdio::null());
    drop(Worker::start(&world, "bare", &mut bare).clean());
    let control = world.lab.log(since);
    let asked = control
        .iter()
        .find(|request| Cli::Claude.asks_model(request));
    assert_eq!(
        asked.and_then(|request| request.account),
        Some(2),
        "the control"
    );

    let since = now();
    drop(world.turn(Cli::Claude, &Job::new("home", "claude", &project), prompt));
    world.set("XDG_CONFIG_HOME", world.lab.path("xdg"));
    drop(world.turn(Cli::Claude, &Job::new("xdg", "claude", &project), prompt));
    assert!(world.only(Cli::Claude, 1, since).len() >= 2);
}

#[test]
fn no_variable_of_the_caller_moves_codex() {
    moves_nothing(Cli::Codex);
}
