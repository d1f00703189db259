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
/// Where [`CONFIG`] says whose the login is.
const ACCOUNT: &str = "oauthAccount";
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
    settings(plan, &remembered, &mut aside, &mut changes)?;
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

fn settings(
    plan: &HomePlan<'_>,
    remembered: &Aside,
    aside: &mut Aside,
    changes: &mut Vec<String>,
) -> Result<()> {
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
    // What is put aside out of this very file is in it alone, until it is kept.
    let kept = Aside {
        status_line: own_status_line(before.get("statusLine"))
            .or_else(|| remembered.status_line.clone()),
        ..remembered.clone()
    };
    kept.save(home, remembered)?;
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

/// The person's own command of a status line.
fn own_status_line(line: Option<&Value>) -> Option<String> {
    let text = line?.get("command").and_then(Value::as_str)?;
    (!is_our_status_line(text)).then(|| text.to_owned())
}

/// Makes the status line ours and puts the person's command aside: the one found in this home, else the
/// base home's.
fn chain_status_line(
    document: &mut Map<String, Value>,
    base: Option<&Value>,
    plan: &HomePlan<'_>,
    aside: &mut Aside,
) {
    let present = document.get("statusLine").cloned();
    let of_base = own_status_line(base);
    let last = aside
        .inherited
        .get("statusLine")
        .and_then(Value::as_str)
        .map(str::to_owned);
    if let Some(own) = own_status_line(present.as_ref()) {
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

/// Brings what Claude noted about the account of a login from one home to another: a note about another account
/// than the login's would contradict the server.
pub(super) fn carry_account(context: &Context, from: &Utf8Path, to: &Utf8Path) -> Result<()> {
    let noted = load(&from.join(CONFIG))?;
    let Some(account) = noted.get(ACCOUNT) else {
        return Ok(());
    };
    let path = to.join(CONFIG);
    let clock = context.clock;
    let _lock = ConfigLock::take(to, &clock, &clock.deadline(LOCK_WAIT))?;
    let before = load(&path)?;
    let mut after = before.clone();
    after.insert(ACCOUNT.to_owned(), account.clone());
    save(&path, &before, &after, "the account", &mut Vec::new())
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
/// nothing in place of `.claude.json`, and no question of the first start or about a registered project left: a
/// person's Enter would answer it.
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
#[path = "home_tests.rs"]
mod tests;
