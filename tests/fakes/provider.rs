//! A stand-in for both provider CLIs: says what it sees, and follows a one-word prompt.
//!
//! `login` and `auth login` write the credential that `FAKE_LOGIN` holds, or are denied without one.
//! `record-session` fires the home's own `SessionStart` hook; `hold-worker FILE` stays until FILE exists;
//! `launch STARTED END` starts a child that inherits every descriptor, writes STARTED, and stays like its child until
//! END exists; anything else only prints argv, working directory and the variables that decide identity.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test program outside the house"
)]

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const SESSION: &str = "0190aaaa-bbbb-7ccc-8ddd-eeeeffff0001";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if words.starts_with(&["auth", "status"]) || words.starts_with(&["login", "status"]) {
        println!("{}", json!({"loggedIn": true}));
        return ExitCode::SUCCESS;
    }
    if words.first() == Some(&"login") || words.starts_with(&["auth", "login"]) {
        return log_in();
    }
    if words == ["--version"] {
        println!("0.0.0 (fake)");
        return ExitCode::SUCCESS;
    }
    if words.contains(&"app-server") {
        return app_server();
    }
    let directory = std::env::current_dir()
        .map(|path| path.display().to_string())
        .unwrap_or_default();
    let variables: serde_json::Map<String, Value> = std::env::vars()
        .filter(|(name, _)| {
            [
                "CLAUDE",
                "CODEX",
                "ANTHROPIC",
                "OPENAI",
                "AGENT_FLEET",
                "DISABLE",
            ]
            .iter()
            .any(|prefix| name.starts_with(prefix))
        })
        .map(|(name, value)| (name, Value::String(value)))
        .collect();
    println!(
        "{}",
        json!({"argv": arguments, "cwd": directory, "variables": variables, "handed_backwards": handed_backwards(), "pid": std::process::id()})
    );
    let prompt = arguments.last().cloned().unwrap_or_default();
    if prompt == "record-session" {
        fire_session_start(&arguments, &directory);
    } else if let Some(file) = prompt.strip_prefix("hold-worker ") {
        stay_until(Path::new(file));
    } else if let Some((started, end)) = prompt
        .strip_prefix("launch ")
        .and_then(|words| words.split_once(' '))
    {
        return launch(Path::new(started), end);
    }
    ExitCode::SUCCESS
}

/// What a descriptor holds that a variable names, as the real CLI reads it; backwards, since no secret may be printed.
fn handed_backwards() -> Option<String> {
    let number = std::env::vars()
        .find(|(name, _)| name.ends_with("_FILE_DESCRIPTOR"))?
        .1;
    let text = std::fs::read_to_string(format!("/proc/self/fd/{number}")).ok()?;
    Some(text.chars().rev().collect())
}

/// Logs in: notes it in the file that `FAKE_LOGINS` names, and writes what `FAKE_LOGIN` holds as the credential.
fn log_in() -> ExitCode {
    if let Ok(path) = std::env::var("FAKE_LOGINS") {
        let file = OpenOptions::new().create(true).append(true).open(path);
        drop(file.and_then(|mut file| writeln!(file, "login")));
    }
    let home = |name| std::env::var(name).map(PathBuf::from);
    let target = home("CODEX_HOME")
        .map(|home| home.join("auth.json"))
        .or_else(|_| home("CLAUDE_CONFIG_DIR").map(|home| home.join(".credentials.json")));
    let (Ok(target), Ok(text)) = (target, std::env::var("FAKE_LOGIN")) else {
        return ExitCode::FAILURE;
    };
    match std::fs::write(target, text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn stay_until(file: &Path) {
    let end = Instant::now() + Duration::from_mins(1);
    while !file.exists() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Starts itself again as a plain child that stays, as a launcher script of the real CLI would.
fn launch(started: &Path, end: &str) -> ExitCode {
    let child = std::env::current_exe().and_then(|program| {
        Command::new(program)
            .arg(format!("hold-worker {end}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
    });
    let Ok(mut child) = child else {
        return ExitCode::FAILURE;
    };
    if std::fs::write(started, "").is_err() {
        return ExitCode::FAILURE;
    }
    drop(child.wait());
    ExitCode::SUCCESS
}

/// Runs the hook that the home names, the way the real CLIs do; Codex only when argv trusts it.
fn fire_session_start(arguments: &[String], directory: &str) {
    let claude =
        std::env::var("CLAUDE_CONFIG_DIR").map(|home| PathBuf::from(home).join("settings.json"));
    let codex = std::env::var("CODEX_HOME").map(|home| PathBuf::from(home).join("hooks.json"));
    let (file, is_claude) = match (claude, codex) {
        (Ok(file), _) => (file, true),
        (_, Ok(file)) => (file, false),
        _ => return,
    };
    let trusted = arguments.iter().any(|argument| {
        argument.starts_with("hooks.state=") && argument.contains(":session_start:")
    });
    if !is_claude && !trusted {
        return;
    }
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let hooks: Value = serde_json::from_str(&text).unwrap_or_default();
    let Some(command) = hooks["hooks"]["SessionStart"][0]["hooks"][0]["command"].as_str() else {
        return;
    };
    let mut child = Command::new("/bin/sh");
    child.arg("-c").arg(command).stdin(Stdio::piped());
    if is_claude {
        child.env("CLAUDE_PID", std::process::id().to_string());
    }
    let Ok(mut child) = child.spawn() else { return };
    let payload = json!({"session_id": SESSION, "transcript_path": "/nowhere.jsonl", "cwd": directory,
        "hook_event_name": "SessionStart", "source": "startup"});
    if let Some(mut stdin) = child.stdin.take() {
        drop(stdin.write_all(payload.to_string().as_bytes()));
    }
    drop(child.wait());
}

/// Answers `hooks/list` for a throw-away home, with a hash per configured hook.
fn app_server() -> ExitCode {
    let mut line = String::new();
    while std::io::stdin()
        .read_line(&mut line)
        .is_ok_and(|count| count > 0)
    {
        let request: Value = serde_json::from_str(&line).unwrap_or_default();
        line.clear();
        let answer = match request["method"].as_str() {
            Some("initialize") => json!({"id": request["id"], "result": {"userAgent": "fake"}}),
            Some("hooks/list") => {
                json!({"id": request["id"], "result": {"data": [{"cwd": request["params"]["cwds"][0],
                "hooks": hooks(), "warnings": [], "errors": []}]}})
            }
            _ => continue,
        };
        println!("{answer}");
    }
    ExitCode::SUCCESS
}

/// The hooks of this home in Codex 0.171's own listing: keys by event and place, hashes of their definition.
fn hooks() -> Vec<Value> {
    use sha2::{Digest as _, Sha256};
    let file = PathBuf::from(std::env::var("CODEX_HOME").unwrap_or_default()).join("hooks.json");
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let configured: Value = serde_json::from_str(&text).unwrap_or_default();
    let mut listed = Vec::new();
    for (event, groups) in configured["hooks"].as_object().into_iter().flatten() {
        let mut snake = String::new();
        for letter in event.chars() {
            if letter.is_ascii_uppercase() && !snake.is_empty() {
                snake.push('_');
            }
            snake.push(letter.to_ascii_lowercase());
        }
        for (group, entry) in groups.as_array().into_iter().flatten().enumerate() {
            for (index, hook) in entry["hooks"].as_array().into_iter().flatten().enumerate() {
                let timeout = hook["timeout"].as_u64().unwrap_or(600);
                let timeout = if event == "SessionEnd" {
                    timeout.min(3)
                } else {
                    timeout
                };
                let canonical = format!(
                    "{{\"event_name\":\"{snake}\",\"hooks\":[{{\"async\":false,\"command\":{},\"timeout\":{timeout},\"type\":\"command\"}}]}}",
                    hook["command"]
                );
                let hash = agent_fleet::id::hex(&Sha256::digest(canonical.as_bytes()));
                listed.push(json!({"key": format!("{}:{snake}:{group}:{index}", file.display()), "eventName": event,
                    "handlerType": "command", "command": hook["command"], "currentHash": format!("sha256:{hash}"),
                    "trustStatus": "untrusted", "sourcePath": file}));
            }
        }
    }
    listed
}
