//! Neither the caller's environment nor what the machine's administrator prescribes moves a worker.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use agent_fleet::id::ProviderKind;
use agent_fleet::provider;
use serde_json::json;

use crate::cli::{BOTH, Cli};
use crate::guard_files::{KEY, TOKEN, codex_lines};
use crate::lab::{Plan, now, tool};
use crate::ran::Ran;
use crate::terminal::Terminal;
use crate::worker::Worker;
use crate::world::{Job, World};

fn kind(cli: Cli) -> ProviderKind {
    match cli {
        Cli::Claude => ProviderKind::Claude,
        Cli::Codex => ProviderKind::Codex,
    }
}

/// Every variable that would replace a login of either CLI, set to another account, host or provider.
fn poisoned(world: &mut World) -> Vec<&'static str> {
    let foreign = world.lab.value("LAB_FOREIGN_URL").to_owned();
    let mut names = Vec::new();
    for cli in BOTH {
        let other = world.home(cli, 2).display().to_string();
        for (name, _) in provider::of(kind(cli)).ambient() {
            let value = if name.ends_with("TOKEN") {
                TOKEN
            } else if name.ends_with("API_KEY") {
                KEY
            } else if name.contains("URL") {
                &foreign
            } else if name.ends_with("HOME") || name.ends_with("CONFIG_DIR") {
                &other
            } else {
                "1"
            };
            world.set(name, value);
            names.push(name);
        }
    }
    names
}

/// The environment of a live process.
fn environment(pid: u32) -> BTreeMap<String, String> {
    let bytes = std::fs::read(format!("/proc/{pid}/environ")).expect("the process lives");
    String::from_utf8_lossy(&bytes)
        .split('\0')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// None of the names, but for those that point into the leased home.
#[track_caller]
fn assert_clean(environment: &BTreeMap<String, String>, names: &[&str], home: &Path) {
    for name in names {
        let value = environment.get(*name);
        assert!(
            value.is_none_or(|value| Path::new(value).starts_with(home)),
            "{name} reached the worker"
        );
    }
}

/// What a worker leaves in its project.
fn left(project: &Path) -> String {
    let output = tool("git")
        .args(["status", "--porcelain", "--ignored"])
        .current_dir(project)
        .output()
        .expect("git runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A command line by which a worker's own tool starts the CLI once more.
fn child(cli: Cli) -> &'static str {
    match cli {
        Cli::Claude => "claude -p 'the child'",
        Cli::Codex => "codex exec --skip-git-repo-check 'the child'",
    }
}

#[test]
fn a_caller_and_a_tmux_server_full_of_other_logins_move_no_worker_and_no_child_of_it() {
    let projects = [
        "claude-headless",
        "claude-screen",
        "codex-headless",
        "codex-screen",
    ];
    let mut world = World::new(&Plan::default(), &projects);
    for cli in BOTH {
        world.add(cli, 1, 4);
    }
    let names = poisoned(&mut world);
    world.set("PERSONS_OWN", "kept");
    let status = world.run(["profile", "status", "claude-1"]).success();
    for name in ["ANTHROPIC_API_KEY", "CLAUDE_CONFIG_DIR"] {
        let source = json!(format!("environment: {name}"));
        let found = status["auth_overrides"].as_array().expect("a list");
        let found = found.iter().find(|found| found["source"] == source);
        assert_eq!(found.expect(name)["refuses"], false);
    }
    for cli in BOTH {
        let home = world.home(cli, 1);
        let passed = world.lab.path(format!("{}.passed", cli.name()));
        let go = world.lab.path(format!("{}.go", cli.name()));
        let project = world.project(&format!("{}-headless", cli.name()));
        let prompt = format!(
            "LAB:{}",
            json!([
                { "shell": format!("{} < /dev/null > /dev/null 2>&1; echo $PERSONS_OWN > {}; until test -e {}; do sleep 0.05; done", child(cli), passed.display(), go.display()) },
                { "text": "done" },
            ])
        );
        let since = now();
        let job = Job::new(cli.name(), cli.name(), &project);
        let (_, worker) = world.start(cli, &job, &prompt);
        crate::wait::until("the tool", crate::worker::TURN, || {
            std::fs::read_to_string(&passed)
                .ok()
                .filter(|text| text.ends_with('\n'))
                .map(drop)
                .ok_or_else(|| worker.stdout())
        });
        assert_clean(&environment(worker.pid()), &names, &home);
        World::write(&go, "");
        drop(worker.clean());
        let asked = world.only(cli, 1, since);
        let of_child = asked
            .iter()
            .filter(|request| request.body.to_string().contains("the child"));
        assert!(of_child.count() >= 1, "the child asked nothing");
        let text = std::fs::read_to_string(&passed).expect("the tool wrote it");
        assert_eq!(text, "kept\n");
        assert_eq!(left(&project), "");

        let project = world.project(&format!("{}-screen", cli.name()));
        let job = Job::new(&format!("{}-screen", cli.name()), cli.name(), &project);
        let since = now();
        let command = world.exec(&job, &cli.terminal(r#"LAB:{"text":"the \u0065nd"}"#));
        let screen = Terminal::start(&world, &job.task, &command);
        screen.wait_for("the end");
        let pid = u32::try_from(screen.pid()).expect("a process id");
        assert_clean(&environment(pid), &names, &home);
        screen.terminate();
        world.only(cli, 1, since);
        assert_eq!(left(&project), "");
    }
}

/// The command on a machine whose `/etc` holds these files as well; no other process sees them.
fn administered(world: &World, files: &[(&str, &str)], command: &Command) -> Command {
    let mount = "cp -an /etc/. \"$0\" 2>/dev/null; mount --bind \"$0\" /etc";
    with_files(&world.lab.path("etc"), files, mount, command)
}

/// The command on a machine where a session in Anthropic's cloud left these files for a user `claude`.
fn handed(world: &World, files: &[(&str, &str)], command: &Command) -> Command {
    drop(std::fs::create_dir(world.lab.path("cloud")));
    let mount = "cd \"$0\" && mkdir -p ../work && \
        mount -t overlay overlay -o lowerdir=/home,upperdir=.,workdir=../work /home && cd - > /dev/null";
    with_files(&world.lab.path("cloud/upper"), files, mount, command)
}

/// The command in a mount namespace that `mount` makes, `$0` being a directory with these files.
fn with_files(directory: &Path, files: &[(&str, &str)], mount: &str, command: &Command) -> Command {
    drop(std::fs::remove_dir_all(directory));
    for (file, text) in files {
        World::write(&directory.join(file), text);
    }
    let mut wrapped = tool("unshare");
    wrapped.arg("--mount");
    if !rustix::process::geteuid().is_root() {
        wrapped.arg("--map-root-user");
    }
    wrapped
        .args(["sh", "-c"])
        .arg(format!("{mount} && exec \"$@\""))
        .arg(directory)
        .arg(command.get_program())
        .args(command.get_args())
        .env_clear()
        .stdin(std::process::Stdio::null())
        .current_dir(command.get_current_dir().unwrap_or(directory));
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            wrapped.env(name, value);
        }
    }
    wrapped
}

#[test]
fn what_the_machine_prescribes_is_refused_by_file_and_key() {
    let world = World::new(&Plan::default(), &["project"]);
    for cli in BOTH {
        world.add(cli, 1, 1);
    }
    let foreign = world.lab.value("LAB_FOREIGN_URL").to_owned();
    let token = json!({ "env": { "ANTHROPIC_AUTH_TOKEN": TOKEN } }).to_string();
    let helper = json!({ "apiKeyHelper": format!("echo {KEY}") }).to_string();
    // Each file once; which keys count in them is a matter of unit tests.
    let (line, key) = codex_lines(&foreign).swap_remove(0);
    let mut cases = vec![
        (
            Cli::Claude,
            "claude-code/managed-settings.json",
            helper,
            "apiKeyHelper",
        ),
        (
            Cli::Claude,
            "claude-code/managed-settings.d/10.json",
            token,
            "env.ANTHROPIC_AUTH_TOKEN",
        ),
    ];
    for file in [
        "codex/config.toml",
        "codex/managed_config.toml",
        "codex/requirements.toml",
    ] {
        cases.push((Cli::Codex, file, line.clone(), key));
    }
    let since = now();
    for (cli, file, text, key) in &cases {
        let job = Job::new("task", cli.name(), &world.project("project"));
        let exec = world.exec(&job, &cli.headless("hello"));
        let ran = Ran::of(&mut administered(&world, &[(file, text)], &exec));
        let refused = ran.refused("auth_override").to_string();
        let source = format!("/etc/{file}: {key}");
        assert!(refused.contains(&source), "{source}: {refused}");
    }
    assert!(
        world
            .lab
            .log(since)
            .iter()
            .all(|request| request.log != "foreign")
    );
}

/// The control: what the machine prescribes wins over everything that a launch can say.
#[test]
fn the_same_prescriptions_move_a_bare_cli() {
    let world = World::bare(&Plan::default());
    let project = world.worktree("project");
    let foreign = world.lab.value("LAB_FOREIGN_URL");
    let token = json!({ "env": { "ANTHROPIC_AUTH_TOKEN": TOKEN } }).to_string();
    let blank = json!({ "env": { "ANTHROPIC_AUTH_TOKEN": "" } }).to_string();
    let requirements = format!(
        "model_provider = \"other\"\n[model_providers.other]\nname = \"other\"\nbase_url = \"{foreign}\"\n\
         request_max_retries = 0\nstream_max_retries = 0\n"
    );
    let since = now();
    for (cli, file, text) in [
        (Cli::Claude, "claude-code/managed-settings.json", &token),
        (Cli::Codex, "codex/requirements.toml", &requirements),
    ] {
        let mut bare = tool(world.lab.value(cli.binary_variable()));
        bare.args(cli.headless(r#"LAB:{"text":"hello"}"#));
        if cli == Cli::Claude {
            bare.args(["--settings", &blank]);
        }
        bare.envs(world.variables())
            .env("CLAUDE_CONFIG_DIR", world.home(Cli::Claude, 1))
            .env("CODEX_HOME", world.home(Cli::Codex, 1))
            .current_dir(&project);
        let mut command = administered(&world, &[(file, text)], &bare);
        drop(Worker::start(&world, cli.name(), &mut command).finish());
    }
    let log = world.lab.log(since);
    let claude = log.iter().find(|request| Cli::Claude.asks_model(request));
    assert_eq!(claude.expect("Claude asked").account, Some(2));
    assert!(log.iter().any(|request| request.log == "foreign"));
}

#[test]
fn a_login_that_a_cloud_session_left_on_the_machine_is_refused_and_moves_a_bare_claude() {
    let world = World::new(&Plan::default(), &["project"]);
    world.add(Cli::Claude, 1, 1);
    let token = ("claude/.claude/remote/.oauth_token", TOKEN);
    let key = ("claude/.claude/remote/.api_key", KEY);
    let since = now();
    // The control.
    let mut bare = tool(world.lab.value(Cli::Claude.binary_variable()));
    bare.args(Cli::Claude.headless(r#"LAB:{"text":"hello"}"#))
        .envs(world.variables())
        .env("CLAUDE_CONFIG_DIR", world.home(Cli::Claude, 1))
        .current_dir(world.project("project"));
    let mut command = handed(&world, &[token], &bare);
    drop(Worker::start(&world, "claude", &mut command).finish());
    let log = world.lab.log(since);
    let asked = log.iter().find(|request| Cli::Claude.asks_model(request));
    assert_eq!(asked.expect("Claude asked").account, Some(2));
    let since = now();
    for file in [token, key] {
        let job = Job::new("task", "claude", &world.project("project"));
        let exec = world.exec(&job, &Cli::Claude.headless("hello"));
        let ran = Ran::of(&mut handed(&world, &[file], &exec));
        let refused = ran.refused("auth_override").to_string();
        let source = format!("/home/{}", file.0);
        assert!(refused.contains(&source), "{source}: {refused}");
    }
    let log = world.lab.log(since);
    assert!(!log.iter().any(|request| Cli::Claude.asks_model(request)));
}
