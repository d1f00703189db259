//! Making and checking a Claude home.
//!
//! Ours in it: our hooks and the status line in `settings.json`, the onboarding mark and the trust of
//! registered projects in `.claude.json`, links for shared entries, and `agent-fleet.json`. Everything else
//! belongs to the person and to Claude Code, which rewrites these files all the time.
//!
//! `.claude.json` is edited only under Claude's own lock. `settings.json` has no lock: a setting that Claude
//! writes in the same millisecond may be lost, as between two Claudes.

use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::{Map, Value, json};

use super::config_lock::ConfigLock;
use super::hooks::{HOOKS, is_our_status_line, status_line};
use crate::env::Context;
use crate::error::Result;
use crate::provider::home::aside::Aside;
use crate::provider::home::{hooks, inherit, link, load, not_ready, save, unusable};
use crate::provider::{HomePlan, NotReady};
use crate::registry::schema::Anchor;

/// The settings file of a home.
const SETTINGS: &str = "settings.json";
/// Claude's own state file.
const CONFIG: &str = ".claude.json";
/// The credential file.
const CREDENTIALS: &str = ".credentials.json";
/// Replaces [`CONFIG`] whole when it exists.
const LEGACY_CONFIG: &str = ".config.json";
/// Marks a project of [`CONFIG`] as one that needs no question.
const TRUST: &str = "hasTrustDialogAccepted";
/// How long a live lock of Claude's is waited for.
const LOCK_WAIT: Duration = Duration::from_secs(5);
/// Settings that decide who is billed or what runs as whom; never inherited, whatever the registry says.
const NEVER: [&str; 8] = [
    "apiKeyHelper",
    "awsAuthRefresh",
    "awsCredentialExport",
    "disableAllHooks",
    "env",
    "forceLoginMethod",
    "forceLoginOrgUUID",
    "gcpAuthRefresh",
];

/// Makes or repairs the home; returns what was changed.
pub fn provision(plan: &HomePlan<'_>) -> Result<Vec<String>> {
    let home = &plan.profile.home;
    let mut changes = Vec::new();
    link::ensure_home(home, &mut changes)?;
    link::refuse(home, &[CREDENTIALS, CONFIG, SETTINGS])?;
    let legacy = home.join(LEGACY_CONFIG);
    if legacy.exists() {
        return Err(unusable(
            &legacy,
            "Claude Code reads it instead of `.claude.json`",
        ));
    }
    link::share(plan, &mut changes)?;
    let remembered = Aside::load(home)?;
    let mut aside = remembered.clone();
    settings(plan, &mut aside, &mut changes)?;
    config(plan, &mut aside, &mut changes)?;
    aside.save(home, &remembered)?;
    Ok(changes)
}

/// The base home's `settings.json` and state file. One that cannot be parsed gives nothing, and says so.
fn base(
    plan: &HomePlan<'_>,
    changes: &mut Vec<String>,
) -> (Map<String, Value>, Map<String, Value>) {
    let Anchor::At(base) = &plan.settings.base_home else {
        return (Map::new(), Map::new());
    };
    let mut read = |path: Utf8PathBuf| {
        load(&path).unwrap_or_else(|error| {
            changes.push(format!("inherited nothing: {}", error.message));
            Map::new()
        })
    };
    let settings = read(base.join(SETTINGS));
    (settings, read(base_config(plan.context, base)))
}

/// The default home keeps its state file beside it, every other one inside.
fn base_config(context: &Context, base: &Utf8Path) -> Utf8PathBuf {
    if *base == context.roots.home.join(".claude") {
        context.roots.home.join(CONFIG)
    } else {
        base.join(CONFIG)
    }
}

fn settings(plan: &HomePlan<'_>, aside: &mut Aside, changes: &mut Vec<String>) -> Result<()> {
    let home = &plan.profile.home;
    let path = home.join(SETTINGS);
    let before = load(&path)?;
    let mut after = before.clone();
    let (base, _) = base(plan, changes);
    for key in &plan.settings.inherit_settings {
        match key.as_str() {
            "hooks" => inherit_hooks(
                &mut after,
                hooks::others(&base).as_ref(),
                &mut aside.inherited,
            ),
            // Servers of the user scope stand in `.claude.json`; the status line is chained below.
            "mcpServers" | "statusLine" => {}
            key if NEVER.contains(&key) => {
                changes.push(format!(
                    "did not inherit `{key}`: it could replace the login"
                ));
            }
            key => inherit(&mut after, key, base.get(key), &mut aside.inherited),
        }
    }
    hooks::install(&mut after, &HOOKS, plan.program).map_err(|reason| unusable(&path, &reason))?;
    let inherited = plan
        .settings
        .inherit_settings
        .iter()
        .any(|key| key == "statusLine");
    let of_base = base.get("statusLine").filter(|_| inherited);
    chain_status_line(&mut after, of_base, plan, aside);
    save(
        &path,
        &before,
        &after,
        "hooks, status line and inherited settings",
        changes,
    )
}

/// Inherits the person's hooks as one setting, ours taken out on both sides.
fn inherit_hooks(
    document: &mut Map<String, Value>,
    base: Option<&Value>,
    inherited: &mut Map<String, Value>,
) {
    let mut theirs = Map::new();
    if let Some(present) = hooks::others(document) {
        theirs.insert("hooks".to_owned(), present);
    }
    let before = theirs.clone();
    inherit(&mut theirs, "hooks", base, inherited);
    if theirs != before {
        // Ours are installed again right after.
        match theirs.shift_remove("hooks") {
            Some(hooks) => document.insert("hooks".to_owned(), hooks),
            None => document.shift_remove("hooks"),
        };
    }
}

/// Makes the status line ours and puts the person's command aside: the one found in this home, else the
/// base home's.
fn chain_status_line(
    document: &mut Map<String, Value>,
    base: Option<&Value>,
    plan: &HomePlan<'_>,
    aside: &mut Aside,
) {
    let command = |line: &Value| {
        let text = line.get("command").and_then(Value::as_str)?;
        (!is_our_status_line(text)).then(|| text.to_owned())
    };
    let present = document.get("statusLine").cloned();
    let of_base = base.and_then(command);
    let last = aside
        .inherited
        .get("statusLine")
        .and_then(Value::as_str)
        .map(str::to_owned);
    if let Some(own) = present.as_ref().and_then(command) {
        aside.status_line = Some(own);
    } else if aside.status_line.is_none() || aside.status_line == last {
        aside.status_line.clone_from(&of_base);
        match of_base {
            Some(text) => aside.inherited.insert("statusLine".to_owned(), json!(text)),
            None => aside.inherited.shift_remove("statusLine"),
        };
    }
    let mut line = Map::new();
    line.insert("type".to_owned(), json!("command"));
    line.insert(
        "command".to_owned(),
        json!(status_line(plan.program, &plan.profile.home)),
    );
    let padding = [present.as_ref(), base]
        .into_iter()
        .flatten()
        .find_map(|line| line.get("padding"));
    if let Some(padding) = padding {
        line.insert("padding".to_owned(), padding.clone());
    }
    document.insert("statusLine".to_owned(), Value::Object(line));
}

fn config(plan: &HomePlan<'_>, aside: &mut Aside, changes: &mut Vec<String>) -> Result<()> {
    let home = &plan.profile.home;
    let path = home.join(CONFIG);
    let clock = plan.context.clock;
    let trusted: Vec<&Utf8Path> = plan.registry.trusted(plan.settings.kind);
    let mut quiet = Vec::new();
    let (_, base) = base(plan, &mut quiet);
    let _lock = ConfigLock::take(home, &clock, &clock.deadline(LOCK_WAIT))?;
    let before = load(&path)?;
    let mut after = before.clone();
    after.insert("hasCompletedOnboarding".to_owned(), json!(true));
    if plan
        .settings
        .inherit_settings
        .iter()
        .any(|key| key == "mcpServers")
    {
        inherit(
            &mut after,
            "mcpServers",
            base.get("mcpServers"),
            &mut aside.inherited,
        );
    }
    trust(&mut after, &trusted, aside).map_err(|reason| unusable(&path, &reason))?;
    save(
        &path,
        &before,
        &after,
        "onboarding and trusted projects",
        changes,
    )
}

/// Marks the registered projects as trusted, and takes back the trust that we gave to those that are
/// registered no more.
fn trust(
    document: &mut Map<String, Value>,
    trusted: &[&Utf8Path],
    aside: &mut Aside,
) -> Result<(), String> {
    let projects = document
        .entry("projects")
        .or_insert_with(|| json!({}))
        .as_object_mut()
        .ok_or("`projects` is not an object")?;
    for path in &aside.trusted {
        if trusted.iter().all(|root| root != path)
            && let Some(project) = projects.get_mut(path).and_then(Value::as_object_mut)
        {
            project.shift_remove(TRUST);
        }
    }
    for root in trusted {
        projects
            .entry(root.as_str())
            .or_insert_with(|| json!({}))
            .as_object_mut()
            .ok_or_else(|| format!("`projects.{root}` is not an object"))?
            .insert(TRUST.to_owned(), json!(true));
    }
    aside.trusted = trusted.iter().map(ToString::to_string).collect();
    Ok(())
}

/// Checks what workers need of the home: our hooks exact and not switched off, the login file not shared,
/// nothing in place of `.claude.json`. Trust and onboarding are not checked: they cost a dialog, no safety.
pub fn readiness(plan: &HomePlan<'_>) -> Result<(), NotReady> {
    let home = &plan.profile.home;
    let path = home.join(SETTINGS);
    let refuse = |reason: String| not_ready(plan, reason);
    link::refuse(home, &[CREDENTIALS, CONFIG]).map_err(|error| refuse(error.message))?;
    if home.join(LEGACY_CONFIG).exists() {
        return Err(refuse(format!(
            "`{}` replaces `.claude.json`",
            home.join(LEGACY_CONFIG)
        )));
    }
    let settings = load(&path).map_err(|error| refuse(error.message))?;
    hooks::positions(&settings, &HOOKS, plan.program)
        .map_err(|reason| refuse(format!("`{path}`: {reason}")))?;
    if settings.get("disableAllHooks") == Some(&json!(true)) {
        return Err(refuse(format!("`{path}`: disableAllHooks is on")));
    }
    let path = home.join(CONFIG);
    let config = load(&path).map_err(|error| refuse(error.message))?;
    if config.get("hasCompletedOnboarding") != Some(&json!(true)) {
        return Err(refuse(format!("`{path}`: its first start is not over")));
    }
    // Without it the CLI's own screen asks about the folder, and the answer it proposes ends the worker.
    let untrusted = plan
        .registry
        .trusted(plan.settings.kind)
        .into_iter()
        .find(|root| !trusts(&config, root));
    match untrusted {
        Some(root) => Err(refuse(format!("`{path}` does not trust `{root}` yet"))),
        None => Ok(()),
    }
}

fn trusts(config: &Map<String, Value>, root: &Utf8Path) -> bool {
    config
        .get("projects")
        .and_then(|projects| projects.get(root.as_str()))
        .and_then(|project| project.get(TRUST))
        == Some(&json!(true))
}

#[cfg(test)]
mod tests {
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
}
