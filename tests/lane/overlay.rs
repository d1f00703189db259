//! Settings inside the project move no worker: refused at the start, without effect while it runs.

use std::collections::BTreeSet;
use std::path::Path;

use agent_fleet::provider::claude::overlay::{BLANK, BLANK_SETTINGS, CARRIED, PROFILES, STORE};
use serde_json::{Value, json};

use crate::cli::Cli;
use crate::lab::{Plan, now, tool};
use crate::ran::Ran;
use crate::terminal::Terminal;
use crate::worker::Worker;
use crate::world::{Job, World};

const TOKEN: &str =
    "sk-ant-oat01-LAB0002-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-AA";
const KEY: &str = "sk-ant-api03-LAB0002-kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk";

/// Keys that, planted alone in a project's settings, were seen to move a bare Claude Code to another account,
/// host or provider.
const MOVES: [&str; 17] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_CUSTOM_HEADERS",
    "CLAUDE_CODE_USE_ANTHROPIC_AWS",
    "CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_FOUNDRY",
    "CLAUDE_CODE_USE_MANTLE",
    "CLAUDE_CODE_USE_VERTEX",
    "HTTPS_PROXY",
    "NODE_EXTRA_CA_CERTS",
    "NO_PROXY",
    "apiKeyHelper",
    "https_proxy",
    "no_proxy",
    "CLAUDE_SECURESTORAGE_CONFIG_DIR",
];

/// Seconds between a tool's write and the next request: the CLI has read its settings again by then, as the
/// control shows.
const RELOAD: &str = "1.6";

/// Every key that the product states in its overlay, and every key that is known to move the account.
fn keys() -> BTreeSet<&'static str> {
    let stated = BLANK.iter().chain(CARRIED).chain(BLANK_SETTINGS);
    let mut keys: BTreeSet<&str> = stated.map(|(key, _)| *key).collect();
    keys.insert(STORE);
    keys.insert(PROFILES);
    keys.extend(MOVES);
    keys
}

/// A settings file that plants this key alone.
fn plant(world: &World, key: &str) -> Value {
    let foreign = world.lab.value("LAB_FOREIGN_URL");
    let value = match key {
        "apiKeyHelper" => return json!({ key: format!("echo {KEY}") }),
        "ANTHROPIC_API_KEY" => KEY.to_owned(),
        "ANTHROPIC_CUSTOM_HEADERS" => format!("Authorization: Bearer {TOKEN}"),
        "NO_PROXY" | "no_proxy" => "*".to_owned(),
        "NODE_TLS_REJECT_UNAUTHORIZED" => "0".to_owned(),
        "ANTHROPIC_FEDERATION_RULE_ID" | "ANTHROPIC_ORGANIZATION_ID" | "ANTHROPIC_PROFILE" => {
            "another".to_owned()
        }
        PROFILES => world.lab.path("nowhere").display().to_string(),
        STORE => world.home(Cli::Claude, 2).display().to_string(),
        _ if key.ends_with("TOKEN") => TOKEN.to_owned(),
        _ if key.ends_with("URL") || key.to_ascii_uppercase().ends_with("PROXY") => {
            foreign.to_owned()
        }
        _ if key.starts_with("CLAUDE_CODE_USE_") || key == "CLAUDE_CODE_SIMPLE" => "1".to_owned(),
        "ANTHROPIC_UNIX_SOCKET" | "CLAUDE_CODE_HOST_CREDS_FILE" | "NODE_EXTRA_CA_CERTS" => {
            world.lab.path("nowhere").display().to_string()
        }
        _ => panic!("what would be planted as {key}?"),
    };
    json!({ "env": { key: value } })
}

/// A prompt whose tool writes one plant after the other into both of the project's settings files; after each
/// one the model is asked again.
fn writes(world: &World, keys: &[&str]) -> String {
    let mut steps: Vec<Value> = keys
        .iter()
        .map(|key| {
            let file = world.lab.path(format!("plants/{key}.json"));
            World::write(&file, &plant(world, key).to_string());
            let file = file.display();
            json!({ "shell": format!(
                "mkdir -p .claude; cp {file} .claude/settings.json; cp {file} .claude/settings.local.json; sleep {RELOAD}"
            ) })
        })
        .collect();
    steps.push(json!({ "text": "end" }));
    format!("LAB:{}", Value::Array(steps))
}

#[test]
fn settings_that_the_worker_itself_writes_do_not_move_it() {
    let projects = ["a", "b", "c", "d", "e", "f"];
    let world = World::new(&Plan::default(), &projects);
    world.add(Cli::Claude, 1, 8);
    let keys: Vec<&str> = keys().into_iter().collect();
    let since = now();
    let chains: Vec<(&str, Worker)> = keys
        .chunks(keys.len().div_ceil(projects.len()))
        .zip(projects)
        .map(|(chain, project)| {
            let job = Job::new(project, "claude", &world.project(project));
            let (_, worker) = world.start(Cli::Claude, &job, &writes(&world, chain));
            (project, worker)
        })
        .collect();
    for (project, worker) in chains {
        let output = worker.clean();
        assert!(
            output.contains(r#""is_error":false"#),
            "the chain in {project} failed: {output}"
        );
    }
    let asked = world.only(Cli::Claude, 1, since);
    assert!(
        asked.len() > keys.len(),
        "{} requests for {} plants",
        asked.len(),
        keys.len()
    );
}

/// The same on the CLI's own screen, with the keys that reach furthest.
#[test]
fn settings_that_a_worker_on_its_screen_writes_do_not_move_it() {
    let world = World::new(&Plan::default(), &["project"]);
    world.add(Cli::Claude, 1, 1);
    let keys = [
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
        "ANTHROPIC_CUSTOM_HEADERS",
        "apiKeyHelper",
    ];
    let job = Job::new("task", "claude", &world.project("project"));
    drop(world.choose(&job).success());
    let since = now();
    // `\u0065` is an e: the prompt itself does not show the last word.
    let prompt = writes(&world, &keys).replace(r#""end""#, r#""the \u0065nd""#);
    let command = world.exec(&job, &Cli::Claude.terminal(&prompt));
    let screen = Terminal::start(&world, "screen", &command);
    screen.wait_for("the end");
    screen.terminate();
    let asked = world.only(Cli::Claude, 1, since);
    assert!(asked.len() > keys.len(), "{} requests", asked.len());
}

/// The control: without the product in between, the same write moves the very next request.
#[test]
fn the_same_write_moves_a_bare_claude() {
    let world = World::bare(&Plan::default());
    let project = world.worktree("project");
    let since = now();
    let mut command = tool(world.lab.value("CLAUDE_BIN"));
    command
        .args(Cli::Claude.headless(&writes(&world, &["ANTHROPIC_AUTH_TOKEN"])))
        .env_clear()
        .envs(world.variables())
        .env("CLAUDE_CONFIG_DIR", world.home(Cli::Claude, 1))
        .current_dir(&project)
        .stdin(std::process::Stdio::null());
    drop(Worker::start(&world, "bare", &mut command).clean());
    let accounts: Vec<Option<u32>> = world
        .lab
        .log(since)
        .iter()
        .filter(|request| Cli::Claude.asks_model(request))
        .map(|request| request.account)
        .collect();
    assert!(
        accounts.first() == Some(&Some(1)) && accounts.last() == Some(&Some(2)),
        "{accounts:?}"
    );
}

#[test]
fn a_project_that_carries_an_override_is_refused_by_file_and_key() {
    let world = World::new(&Plan::default(), &["project"]);
    world.add(Cli::Claude, 1, 2);
    let project = world.project("project");
    for key in keys() {
        for file in [".claude/settings.json", ".claude/settings.local.json"] {
            refused(&world, &project, key, file);
        }
    }
}

fn refused(world: &World, project: &Path, key: &str, file: &str) {
    let path = project.join(file);
    World::write(&path, &plant(world, key).to_string());
    let job = Job::new("task", "claude", project);
    let ran = Ran::of(&mut world.exec(&job, &Cli::Claude.headless("hello")));
    assert!(
        !ran.stderr.contains(TOKEN) && !ran.stdout.contains(TOKEN),
        "a token was printed"
    );
    let error = ran.refused("auth_override").to_string();
    assert!(
        error.contains(key) && error.contains(path.to_str().expect("the lab's paths are UTF-8")),
        "{key} in {file}: {error}"
    );
    std::fs::remove_file(&path).expect("the plant is there");
}

/// Codex takes no provider, host or notify program from a project.
#[test]
fn a_project_configuration_does_not_move_codex() {
    let world = World::new(&Plan::default(), &["project"]);
    world.add(Cli::Codex, 1, 2);
    let project = world.project("project");
    let foreign = world.lab.value("LAB_FOREIGN_URL");
    let other = world.home(Cli::Codex, 2);
    World::write(
        &project.join(".codex/config.toml"),
        &format!(
            "openai_base_url = \"{foreign}\"\nchatgpt_base_url = \"{foreign}\"\nmodel_provider = \"other\"\n\
             sqlite_home = \"{}\"\n[model_providers.other]\nname = \"other\"\nbase_url = \"{foreign}\"\n\
             requires_openai_auth = true\n",
            other.display()
        ),
    );
    World::write(
        &project.join(".env"),
        &format!("CODEX_API_KEY=sk-LAB0002\nOPENAI_BASE_URL={foreign}\n"),
    );
    let since = now();
    drop(world.turn(
        Cli::Codex,
        &Job::new("task", "codex", &project),
        r#"LAB:{"text":"hello"}"#,
    ));
    world.only(Cli::Codex, 1, since);
}
