//! A provisioned home is one that the real CLIs take without a question, and whose hooks they run.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use crate::cli::Cli;
use crate::lab::{Plan, now, tool};
use crate::terminal::Terminal;
use crate::wait::until;
use crate::worker::Worker;
use crate::world::{Job, World, profile, text};

/// On the screen, in a linked worktree of the registered project, twice: the second time in a home that the CLI
/// itself has rewritten.
fn asks_nothing(cli: Cli) {
    let world = World::new(&Plan::default(), &["project"]);
    world.add(cli, 1, 1);
    let project = world.project("project");
    let linked = world.lab.path("linked worktree");
    for words in [
        &[
            "-c",
            "user.name=lab",
            "-c",
            "user.email=lab@lab.invalid",
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            "first",
        ][..],
        &[
            "worktree",
            "add",
            "-q",
            "-b",
            "linked",
            linked.to_str().expect("the lab's paths are UTF-8"),
        ],
    ] {
        let done = tool("git").arg("-C").arg(&project).args(words).status();
        assert!(done.expect("git runs").success(), "git {words:?} failed");
    }
    let since = now();
    for task in ["first", "second"] {
        let job = Job::new(task, cli.name(), &linked);
        drop(world.choose(&job).success());
        let prompt = cli.terminal(&format!(
            r#"LAB:[{{"shell":"true"}},{{"text":"\u0046INISHED {task}"}}]"#
        ));
        let screen = Terminal::start(&world, task, &world.exec(&job, &prompt));
        screen.wait_for(&format!("FINISHED {task}"));
        if cli == Cli::Claude {
            // The status line that provisioning put there names the lease.
            screen.wait_for(&profile(cli, 1));
        }
        fired(&world, cli, task);
        screen.type_line(r#"LAB:{"text":"\u0046INISHED again"}"#);
        screen.wait_for("FINISHED again");
        screen.terminate();
        assert!(!text(&world.session(&job), "session_id").is_empty());
        drop(
            world
                .run(["profile", "provision", &profile(cli, 1)])
                .success(),
        );
    }
    world.only(cli, 1, since);
}

/// The hooks of one turn have left their evidence, and it counts for the task.
fn fired(world: &World, cli: Cli, task: &str) {
    let file = world
        .lab
        .path(format!("state/evidence/{}.jsonl", cli.name()));
    for event in ["session-start", "user-prompt-submit", "stop"] {
        until(
            &format!("{event} in the evidence"),
            Duration::from_secs(15),
            || {
                let lines = std::fs::read_to_string(&file).unwrap_or_default();
                let seen = lines
                    .lines()
                    .filter_map(|line| serde_json::from_str::<Value>(line).ok())
                    .any(|line| {
                        line["event"] == event
                            && line["task"] == task
                            && line["foreign"] != json!(true)
                    });
                if seen { Ok(()) } else { Err(lines) }
            },
        );
    }
}

#[test]
fn claude_asks_nothing_in_a_provisioned_home_and_runs_its_hooks() {
    asks_nothing(Cli::Claude);
}

#[test]
fn codex_asks_nothing_in_a_provisioned_home_and_runs_its_hooks() {
    asks_nothing(Cli::Codex);
}

/// Hash by `event:group:index`, as a worker's arguments carry them.
fn trusted(pid: u32) -> BTreeMap<String, String> {
    let argv = std::fs::read(format!("/proc/{pid}/cmdline")).expect("the worker lives");
    let argv = String::from_utf8_lossy(&argv).into_owned();
    let state = argv
        .split('\0')
        .find_map(|word| word.strip_prefix("hooks.state="))
        .unwrap_or_else(|| panic!("no hook trust in {argv:?}"));
    let state: toml::Table = toml::from_str(&format!("state = {state}")).expect("an inline table");
    state["state"]
        .as_table()
        .expect("a table")
        .iter()
        .map(|(key, entry)| {
            let hash = entry["trusted_hash"].as_str().expect("a hash").to_owned();
            (place(key), hash)
        })
        .collect()
}

/// A hook's key without the path of its file.
fn place(key: &str) -> String {
    let parts: Vec<&str> = key.rsplitn(4, ':').collect();
    format!("{}:{}:{}", parts[2], parts[1], parts[0])
}

/// Hash by `event:group:index`, as the CLI itself names them for a copy of the hooks in an empty home.
fn named_by_codex(world: &World) -> BTreeMap<String, String> {
    let home = world.lab.path("throwaway");
    let hooks = std::fs::read_to_string(world.home(Cli::Codex, 1).join("hooks.json"))
        .expect("provisioning wrote the hooks");
    World::write(&home.join("hooks.json"), &hooks);
    let mut command = tool(world.lab.value("CODEX_BIN"));
    command
        .arg("app-server")
        .env_clear()
        .envs(world.variables())
        .env("CODEX_HOME", &home)
        .current_dir(&home)
        .stdin(Stdio::piped());
    let mut server = Worker::start(world, "app-server", &mut command);
    for request in [
        json!({"id": 0, "method": "initialize", "params": {"clientInfo": {"name": "lane", "title": "lane", "version": "0"}}}),
        json!({"method": "initialized"}),
        json!({"id": 1, "method": "hooks/list", "params": {"cwds": [home]}}),
    ] {
        server.send(&format!("{request}\n"));
    }
    let answer = until("the list of hooks", Duration::from_secs(20), || {
        let output = server.stdout();
        output
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .find(|line| line["id"] == 1)
            .ok_or(output)
    });
    answer["result"]["data"][0]["hooks"]
        .as_array()
        .unwrap_or_else(|| panic!("no hooks in {answer}"))
        .iter()
        .map(|hook| (place(&text(hook, "key")), text(hook, "currentHash")))
        .collect()
}

#[test]
fn the_hook_hashes_that_workers_carry_are_the_ones_codex_names() {
    let world = World::new(&Plan::default(), &["project"]);
    world.add(Cli::Codex, 1, 1);
    let project = world.project("project");
    let since = now();
    let (_, worker) = world.start(
        Cli::Codex,
        &Job::new("task", "codex", &project),
        r#"LAB:{"text":"open","hang":120}"#,
    );
    until("a request of the worker", Duration::from_secs(30), || {
        let log = world.lab.log(since);
        if log.iter().any(|request| Cli::Codex.asks_model(request)) {
            Ok(())
        } else {
            Err(worker.stdout())
        }
    });
    let carried = trusted(worker.pid());
    assert!(carried.len() >= 4, "{carried:?}");
    assert_eq!(carried, named_by_codex(&world));
}

/// Claude's own screen would ask about the folder, and the answer it proposes ends the worker.
#[test]
fn a_project_registered_later_is_not_started_in_before_its_home_knows_it() {
    let world = World::new(&Plan::default(), &[]);
    let id = world.add(Cli::Claude, 1, 1);
    world.register("later");
    let job = Job::new("task", "claude", &world.project("later"));
    let error = world.choose(&job).refused("not_provisioned");
    assert!(
        error["hint"]
            .as_str()
            .is_some_and(|hint| hint.contains("profile provision")),
        "{error}"
    );
    drop(world.run(["profile", "provision", &id]).success());
    drop(world.choose(&job).success());
}
