//! `profile provision`: homes are made, made again, repaired, and never at the cost of what is in them.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::sandbox::Sandbox;

/// A registered project and a profile of each provider, none provisioned.
fn world() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.run(["init", "--scripted", "1"]).success();
    for provider in ["claude", "codex"] {
        let setting = format!("providers.{provider}.binary");
        let fake = env!("CARGO_BIN_EXE_fake-provider");
        sandbox.run(["config", "set", &setting, fake]).success();
        let id = format!("{provider}-1");
        sandbox
            .run(["profile", "add", &id, "--provider", provider])
            .success();
    }
    let project = sandbox.git_project("my project");
    let path = project.to_str().expect("text");
    sandbox.run(["project", "register", path]).success();
    sandbox
}

fn home(sandbox: &Sandbox, provider: &str) -> PathBuf {
    sandbox.path(format!("share/accounts/{provider}/{provider}-1"))
}

fn json(path: &Path) -> Value {
    let text = std::fs::read(path).expect("a file");
    serde_json::from_slice(&text).expect("JSON")
}

#[test]
fn every_home_is_made_and_a_second_time_changes_nothing() {
    let sandbox = world();
    let first = sandbox.run(["profile", "provision", "--all"]).success();
    let changed = |answer: &Value| {
        let profiles = answer["profiles"].as_array().expect("a list").clone();
        let count = |one: &Value| one["changes"].as_array().expect("a list").len();
        profiles.iter().map(count).sum::<usize>()
    };
    assert!(changed(&first) >= 3, "{first}");
    let second = sandbox.run(["profile", "provision", "--all"]).success();
    assert_eq!(
        (
            changed(&second),
            second["profiles"][2]["provisioned"].clone()
        ),
        (0, json!(true))
    );
    let program = sandbox.path("share/bin/agent-fleet");
    assert!(
        Sandbox::tool(&program)
            .arg("version")
            .output()
            .expect("it runs")
            .status
            .success()
    );
    let claude = json(&home(&sandbox, "claude").join(".claude.json"));
    let project = sandbox.path("my project").display().to_string();
    assert_eq!(claude["projects"][&project]["hasTrustDialogAccepted"], true);
    for path in [
        home(&sandbox, "claude").join(".credentials.json"),
        home(&sandbox, "codex").join("auth.json"),
    ] {
        assert!(!path.exists(), "a credential was made: {}", path.display());
    }
    let left = std::fs::read_dir(sandbox.path("state")).expect("the state root");
    let litter: Vec<_> = left
        .flatten()
        .filter(|entry| {
            entry
                .file_name()
                .to_string_lossy()
                .starts_with("codex-hooks")
        })
        .collect();
    assert!(litter.is_empty(), "the throw-away home stayed: {litter:?}");
}

#[test]
fn one_broken_home_keeps_no_sibling_from_its_own() {
    let sandbox = world();
    sandbox.run(["profile", "provision", "--all"]).success();
    let broken = home(&sandbox, "codex").join("config.toml");
    sandbox.write(&broken, "model = ");
    std::fs::remove_file(home(&sandbox, "claude").join("settings.json")).expect("it was made");
    let error = sandbox
        .run(["profile", "provision", "--all"])
        .refused("not_provisioned");
    let text = error["error"].as_str().expect("text");
    assert!(
        text.contains("codex-1") && text.contains("config.toml"),
        "{text}"
    );
    assert_eq!(std::fs::read(&broken).expect("it stays"), b"model = ");
    assert!(home(&sandbox, "claude").join("settings.json").exists());
    sandbox
        .run(["profile", "provision", "no-such"])
        .refused("not_found");
}

#[test]
fn a_login_that_is_a_link_is_refused_with_the_link_named() {
    let sandbox = world();
    let login = sandbox.write("elsewhere/.credentials.json", "{}");
    let home = home(&sandbox, "claude");
    std::fs::create_dir_all(&home).expect("a home");
    std::os::unix::fs::symlink(&login, home.join(".credentials.json")).expect("a link");
    let error = sandbox
        .run(["profile", "provision", "claude-1"])
        .refused("not_provisioned");
    let text = error["error"].as_str().expect("text");
    assert!(text.contains(login.to_str().expect("text")), "{text}");
    assert!(!home.join("settings.json").exists());
}

#[test]
fn many_at_once_leave_one_whole_home() {
    let sandbox = world();
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..6)
            .map(|_| scope.spawn(|| sandbox.run(["profile", "provision", "codex-1"])))
            .collect();
        for run in runs {
            let ran = run.join().expect("a run");
            let answer: Value = serde_json::from_str(&ran.stdout).expect("JSON");
            assert!(
                ran.status == 0 || answer["code"] == "maintenance_busy",
                "{answer}"
            );
        }
    });
    let again = sandbox.run(["profile", "provision", "codex-1"]).success();
    assert_eq!(again["changes"], json!([]));
}
