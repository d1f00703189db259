//! What provisioning makes of a Claude home, and what it leaves alone.

use super::{provision, readiness};
use crate::error::code;
use crate::id::ProviderKind::Claude;
use crate::provider::home::aside::Aside;
use crate::provider::home::tests::{Parts, World};
use serde_json::{Value, json};

const INHERITED: [&str; 5] = ["permissions", "model", "mcpServers", "statusLine", "hooks"];

fn world() -> (World, Parts) {
    let world = World::new();
    world.write("person/.claude/CLAUDE.md", "rules");
    world.write("person/.claude/.credentials.json", "{}");
    world.write(
        "person/.claude/settings.json",
        &json!({
            "model": "opus",
            "env": {"ANTHROPIC_API_KEY": "planted"},
            "statusLine": {"type": "command", "command": "my-line --x", "padding": 1},
            "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "ding"}]}]},
        })
        .to_string(),
    );
    world.write(
        "person/.claude.json",
        &json!({"mcpServers": {"s": {"command": "x"}}}).to_string(),
    );
    let parts = world.parts(Claude, &["CLAUDE.md", "skills"], &INHERITED);
    (world, parts)
}

fn read(world: &World, file: &str) -> Value {
    serde_json::from_str(&world.read(file)).unwrap()
}

#[test]
fn a_home_is_made_once_and_again_without_a_change() {
    let (world, parts) = world();
    assert!(readiness(&parts.plan()).is_err());
    assert!(!provision(&parts.plan()).unwrap().is_empty());
    readiness(&parts.plan()).unwrap();
    let settings = read(&world, "home/settings.json");
    assert_eq!(settings["model"], "opus");
    assert_eq!(settings["env"], Value::Null, "an override was inherited");
    assert_eq!(settings["hooks"]["Stop"][0]["hooks"][0]["command"], "ding");
    assert_eq!(settings["statusLine"]["padding"], 1);
    let config = read(&world, "home/.claude.json");
    assert_eq!(
        config["projects"]["/project one"]["hasTrustDialogAccepted"],
        true
    );
    assert_eq!(config["mcpServers"]["s"]["command"], "x");
    assert_eq!(world.read("home/CLAUDE.md"), "rules");
    assert!(!world.path("home/.credentials.json").exists());
    assert_eq!(
        Aside::load(&world.path("home"))
            .unwrap()
            .status_line
            .as_deref(),
        Some("my-line --x")
    );
    assert_eq!(provision(&parts.plan()).unwrap(), [""; 0]);
}

#[test]
fn what_claude_and_the_person_write_later_is_kept() {
    let (world, mut parts) = world();
    provision(&parts.plan()).unwrap();
    let mut settings = read(&world, "home/settings.json");
    settings["model"] = json!("sonnet");
    settings["theme"] = json!("light");
    settings["hooks"]["Stop"] = json!([]);
    world.write("home/settings.json", &settings.to_string());
    let mut config = read(&world, "home/.claude.json");
    config["numStartups"] = json!(7);
    config["projects"]["/project one"]["allowedTools"] = json!(["x"]);
    world.write("home/.claude.json", &config.to_string());
    assert!(
        readiness(&parts.plan())
            .unwrap_err()
            .reason
            .contains("hooks.Stop")
    );
    let known = std::mem::take(&mut parts.registry.projects);
    provision(&parts.plan()).unwrap();
    readiness(&parts.plan()).unwrap();
    parts.registry.projects = known;
    let reason = readiness(&parts.plan()).unwrap_err().reason;
    assert!(reason.contains("does not trust `/project"), "{reason}");
    parts.registry.projects.clear();
    readiness(&parts.plan()).unwrap();
    let settings = read(&world, "home/settings.json");
    assert_eq!(
        (&settings["model"], &settings["theme"]),
        (&json!("sonnet"), &json!("light"))
    );
    let config = read(&world, "home/.claude.json");
    assert_eq!(config["numStartups"], 7);
    assert_eq!(
        config["projects"]["/project one"],
        json!({"allowedTools": ["x"]})
    );
}

#[test]
fn the_person_s_status_line_is_chained_wherever_it_was_set_last() {
    let (world, parts) = world();
    provision(&parts.plan()).unwrap();
    let home = world.path("home");
    let base = json!({"statusLine": {"type": "command", "command": "newer-line"}});
    world.write("person/.claude/settings.json", &base.to_string());
    provision(&parts.plan()).unwrap();
    assert_eq!(
        Aside::load(&home).unwrap().status_line.as_deref(),
        Some("newer-line")
    );
    let mut settings = read(&world, "home/settings.json");
    settings["statusLine"]["command"] = json!("own-line");
    world.write("home/settings.json", &settings.to_string());
    provision(&parts.plan()).unwrap();
    provision(&parts.plan()).unwrap();
    assert_eq!(
        Aside::load(&home).unwrap().status_line.as_deref(),
        Some("own-line")
    );
    let command = read(&world, "home/settings.json")["statusLine"]["command"].to_string();
    assert!(
        command.contains("agent-fleet statusline --home"),
        "{command}"
    );
}

#[test]
fn shared_logins_and_unreadable_files_are_refused_and_left_alone() {
    let (world, parts) = world();
    let home = world.path("home");
    std::fs::create_dir(&home).unwrap();
    let login = world.path("person/.claude/.credentials.json");
    std::os::unix::fs::symlink(&login, home.join(".credentials.json")).unwrap();
    let error = provision(&parts.plan()).unwrap_err();
    assert!(error.message.contains(login.as_str()), "{}", error.message);
    assert!(
        readiness(&parts.plan())
            .unwrap_err()
            .reason
            .contains(".credentials.json")
    );
    std::fs::remove_file(home.join(".credentials.json")).unwrap();
    std::fs::hard_link(&login, home.join(".credentials.json")).unwrap();
    assert!(
        provision(&parts.plan())
            .unwrap_err()
            .message
            .contains("2 hard links")
    );
    std::fs::remove_file(home.join(".credentials.json")).unwrap();
    for file in [".claude.json", "settings.json"] {
        world.write(&format!("home/{file}"), "{\"a\":");
        let error = provision(&parts.plan()).unwrap_err();
        assert_eq!(error.code, code::NOT_PROVISIONED);
        assert!(error.message.contains(file), "{}", error.message);
        assert_eq!(world.read(&format!("home/{file}")), "{\"a\":");
        std::fs::remove_file(home.join(file)).unwrap();
    }
    world.write("home/.config.json", "{}");
    assert!(provision(&parts.plan()).is_err());
    assert!(
        !home.join(".claude.json.lock").exists(),
        "a lock was left behind"
    );
}

#[test]
fn links_follow_the_base_and_never_replace_what_the_home_has() {
    let (world, parts) = world();
    world.write("home/CLAUDE.md", "own");
    world.write("person/.claude/skills/s.md", "skill");
    provision(&parts.plan()).unwrap();
    assert_eq!(world.read("home/CLAUDE.md"), "own");
    assert_eq!(world.read("home/skills/s.md"), "skill");
    std::fs::remove_dir_all(world.path("person/.claude/skills")).unwrap();
    provision(&parts.plan()).unwrap();
    assert!(std::fs::symlink_metadata(world.path("home/skills")).is_err());
    for name in [".credentials.json", "projects", "../x", "a/b"] {
        let parts = world.parts(Claude, &[name], &[]);
        assert_eq!(
            provision(&parts.plan()).unwrap_err().code,
            code::CONFIG_INVALID,
            "{name}"
        );
    }
}
