//! Making and checking a Codex home.
//!
//! Ours in it: in `config.toml` the file credential store, no daemon, no update question, the notify
//! program and the trust of registered projects; our hooks in `hooks.json`; links for shared entries, and
//! `agent-fleet.json`. Comments and everything else stay as they are. `config.toml` is written only while
//! no worker runs in the home.
//!
//! Limit: a notify program of the person's own is left in place; then only our Stop hook tells a turn's end.

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::{Map, Value};
use toml_edit::{Array, DocumentMut, Item, Table, TableLike, value};

use super::hooks::{FILE, HOOKS, is_our_notify, notify};
use super::trust;
use crate::error::{Error, Result, code};
use crate::provider::home::aside::Aside;
use crate::provider::home::{hooks, inherit, link, load, not_ready, save, unusable};
use crate::provider::{HomePlan, NotReady};
use crate::registry::schema::{Anchor, Missing};
use crate::store::read;
use crate::store::replace::{Durability, replace};

/// The configuration file, below the home.
pub const CONFIG: &str = "config.toml";
/// The credential file, below the home.
const CREDENTIALS: &str = "auth.json";
/// Names the store of the login.
const STORE: &str = "cli_auth_credentials_store";
/// Keys that decide who is billed, what runs, or that are ours; never inherited, whatever the registry says.
const NEVER: [&str; 14] = [
    STORE,
    "chatgpt_base_url",
    "features",
    "forced_chatgpt_workspace_id",
    "forced_login_method",
    "hooks",
    "model_provider",
    "model_providers",
    "notify",
    "openai_base_url",
    "profile",
    "profiles",
    "projects",
    "sqlite_home",
];

/// Makes or repairs the home; returns what was changed.
pub fn provision(plan: &HomePlan<'_>) -> Result<Vec<String>> {
    let home = &plan.profile.home;
    let mut changes = Vec::new();
    link::ensure_home(home, &mut changes)?;
    link::refuse(home, &[CREDENTIALS, CONFIG, FILE])?;
    link::share(plan, &mut changes)?;
    let remembered = Aside::load(home)?;
    let mut aside = remembered.clone();
    config(plan, &mut aside, &mut changes)?;
    let path = home.join(FILE);
    let before = load(&path)?;
    let mut after = before.clone();
    hooks::install(&mut after, &HOOKS, plan.program).map_err(|reason| unusable(&path, &reason))?;
    save(&path, &before, &after, "hooks", &mut changes)?;
    aside.save(home, &remembered)?;
    trust::learn(plan.context, binary(plan)?.as_std_path(), plan.program)?;
    Ok(changes)
}

/// Makes Codex keep the login of an empty home in its credential file.
pub(super) fn stage(home: &Utf8Path) -> Result<()> {
    let text = format!("{STORE} = \"file\"\n");
    replace(home.join(CONFIG), text.as_bytes(), Durability::Volatile)
}

fn binary(plan: &HomePlan<'_>) -> Result<Utf8PathBuf> {
    let path = plan
        .settings
        .binary
        .as_ref()
        .ok_or(Missing::Provider(plan.settings.kind))?;
    path.canonicalize_utf8()
        .map_err(|error| Error::io("find", path, &error))
}

fn text(path: &Utf8Path) -> Result<String> {
    let bytes = read::optional(path)?.unwrap_or_default();
    String::from_utf8(bytes).map_err(|_| unusable(path, "it is not UTF-8"))
}

/// A TOML file in both forms: one to edit, one to compare.
fn parse(path: &Utf8Path) -> Result<(DocumentMut, Map<String, Value>)> {
    let text = text(path)?;
    let document = text
        .parse::<DocumentMut>()
        .map_err(|error| unusable(path, error.message()))?;
    let values = toml::from_str(&text).map_err(|error| unusable(path, error.message()))?;
    Ok((document, values))
}

fn config(plan: &HomePlan<'_>, aside: &mut Aside, changes: &mut Vec<String>) -> Result<()> {
    let path = plan.profile.home.join(CONFIG);
    let (mut document, mut values) = parse(&path)?;
    let before = document.to_string();
    if let Anchor::At(base) = &plan.settings.base_home {
        match parse(&base.join(CONFIG)) {
            Ok(base) => inherit_all(plan, (&mut document, &mut values), &base, aside, changes),
            Err(error) => changes.push(format!("inherited nothing: {}", error.message)),
        }
    }
    set(document.as_table_mut(), STORE, "file".into());
    // The question at start would wait for a person.
    set(
        document.as_table_mut(),
        "check_for_update_on_startup",
        false.into(),
    );
    ours(plan, &mut document, aside).map_err(|reason| unusable(&path, &reason))?;
    let after = document.to_string();
    if before == after {
        return Ok(());
    }
    if let Some(task) = plan.occupied {
        return Err(Error::new(
            code::LEASE_ACTIVE,
            format!(
                "`{path}` is written only between leases, and task `{task}` holds one of profile `{}`",
                plan.profile.id
            ),
        )
        .hint("agent-fleet lease list"));
    }
    replace(&path, after.as_bytes(), Durability::Durable)?;
    changes.push(format!(
        "set credential store, notify and trusted projects in `{path}`"
    ));
    Ok(())
}

fn inherit_all(
    plan: &HomePlan<'_>,
    (document, values): (&mut DocumentMut, &mut Map<String, Value>),
    (base, base_values): &(DocumentMut, Map<String, Value>),
    aside: &mut Aside,
    changes: &mut Vec<String>,
) {
    for key in &plan.settings.inherit_settings {
        if NEVER.contains(&key.as_str()) {
            changes.push(format!(
                "did not inherit `{key}`: it could replace the login"
            ));
            continue;
        }
        let before = values.get(key).cloned();
        inherit(values, key, base_values.get(key), &mut aside.inherited);
        if values.get(key) != before.as_ref() {
            match base.get(key) {
                Some(item) => document.insert(key, item.clone()),
                None => document.remove(key),
            };
        }
    }
}

/// Sets a key unless it has the value already, so that the file's own spelling stays.
fn set(table: &mut dyn TableLike, key: &str, wanted: toml_edit::Value) {
    let same = table
        .get(key)
        .and_then(Item::as_value)
        .is_some_and(|present| plain(present) == plain(&wanted));
    if !same {
        table.insert(key, Item::Value(wanted));
    }
}

fn plain(value: &toml_edit::Value) -> String {
    let mut value = value.clone();
    value.decor_mut().clear();
    match value.as_str() {
        Some(text) => format!("{text:?}"),
        None => value.to_string(),
    }
}

/// The table under `key`, made when it is missing.
fn table<'a>(parent: &'a mut dyn TableLike, key: &str) -> Result<&'a mut dyn TableLike, String> {
    if parent.get(key).is_none() {
        let mut made = Table::new();
        made.set_implicit(true);
        parent.insert(key, Item::Table(made));
    }
    parent
        .get_mut(key)
        .and_then(Item::as_table_like_mut)
        .ok_or_else(|| format!("`{key}` is not a table"))
}

fn ours(plan: &HomePlan<'_>, document: &mut DocumentMut, aside: &mut Aside) -> Result<(), String> {
    let root = document.as_table_mut();
    let words: Vec<&str> = root
        .get("notify")
        .and_then(Item::as_array)
        .into_iter()
        .flatten()
        .filter_map(toml_edit::Value::as_str)
        .collect();
    let wanted = notify(plan.program);
    if words != wanted && (root.get("notify").is_none() || is_our_notify(&words)) {
        root.insert("notify", value(Array::from_iter(wanted)));
    }
    // A daemon keeps the first login for ever and serves it to every later worker of the home.
    set(table(root, "features")?, "daemon_auto_start", false.into());
    let trusted = plan.registry.trusted(plan.settings.kind);
    let projects = table(root, "projects")?;
    for path in &aside.trusted {
        let known = trusted.iter().any(|project| project == path);
        if let Some(entry) = projects.get_mut(path).filter(|_| !known) {
            let left = entry.as_table_like_mut().map(|entry| {
                entry.remove("trust_level");
                entry.is_empty()
            });
            if left == Some(true) {
                projects.remove(path);
            }
        }
    }
    for path in &trusted {
        set(
            table(projects, path.as_str())?,
            "trust_level",
            "trusted".into(),
        );
    }
    aside.trusted = trusted.iter().map(ToString::to_string).collect();
    Ok(())
}

/// Checks what workers need of the home: our hooks exact and their hashes known, the login in a file that
/// is not shared. Trust of projects travels with each launch and is not checked.
pub fn readiness(plan: &HomePlan<'_>) -> Result<(), NotReady> {
    let home = &plan.profile.home;
    let refuse = |reason: String| not_ready(plan, reason);
    link::refuse(home, &[CREDENTIALS, CONFIG]).map_err(|error| refuse(error.message))?;
    let config = home.join(CONFIG);
    let text = text(&config).map_err(|error| refuse(error.message))?;
    let values: toml::Table = toml::from_str(&text)
        .map_err(|error| refuse(format!("`{config}`: {}", error.message())))?;
    if values.get(STORE).and_then(toml::Value::as_str) != Some("file") {
        return Err(refuse(format!("`{config}`: {STORE} is not `file`")));
    }
    let path = home.join(FILE);
    let document = load(&path).map_err(|error| refuse(error.message))?;
    hooks::positions(&document, &HOOKS, plan.program)
        .map_err(|reason| refuse(format!("`{path}`: {reason}")))?;
    if trust::stored(plan.context, plan.program).is_none() {
        return Err(refuse(format!(
            "`{}` does not hold the hashes of our hooks",
            trust::path(plan.context)
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{provision, readiness};
    use crate::error::code;
    use crate::id::ProviderKind::Codex;
    use crate::provider::codex::{hooks::HOOKS, trust};
    use crate::provider::home::tests::{Parts, World};
    use serde_json::json;

    /// A Codex that knows one answer: the hashes of our hooks.
    fn world(config: &str) -> (World, Parts) {
        use std::os::unix::fs::PermissionsExt as _;
        let world = World::new();
        let mut parts = world.parts(
            Codex,
            &["AGENTS.md"],
            &["model", "mcp_servers", "openai_base_url"],
        );
        let listed: Vec<_> = HOOKS
            .iter()
            .map(|hook| json!({"command": hook.command(&parts.program), "currentHash": format!("sha256:{}", hook.verb)}))
            .collect();
        let answer = json!({"id": 1, "result": {"data": [{"hooks": listed}]}});
        world.write("answer", &format!("{answer}\n"));
        let script = format!(
            "#!/bin/sh\necho >> {0}\ncat {1}\ncat > /dev/null\n",
            world.path("asked"),
            world.path("answer")
        );
        let binary = world.write("codex", &script);
        std::fs::set_permissions(&binary, std::fs::Permissions::from_mode(0o755)).unwrap();
        parts.settings.binary = Some(binary);
        world.write("person/.codex/AGENTS.md", "rules");
        world.write(
            "person/.codex/config.toml",
            "model = \"gpt-base\"\nopenai_base_url = \"https://elsewhere.invalid\"\n[mcp_servers.s]\ncommand = \"x\"\n",
        );
        world.write("home/config.toml", config);
        (world, parts)
    }

    #[test]
    fn a_home_keeps_its_comments_and_provisioning_again_changes_nothing() {
        let (world, parts) =
            world("# mine\nmodel_verbosity = \"low\" # quiet\n\n[tui]\nanimations = false\n");
        assert!(readiness(&parts.plan()).is_err());
        provision(&parts.plan()).unwrap();
        readiness(&parts.plan()).unwrap();
        let text = world.read("home/config.toml");
        assert!(
            text.starts_with("# mine\nmodel_verbosity = \"low\" # quiet\n"),
            "{text}"
        );
        let config: toml::Table = toml::from_str(&text).unwrap();
        assert_eq!(config["cli_auth_credentials_store"].as_str(), Some("file"));
        assert_eq!(
            config["features"]["daemon_auto_start"].as_bool(),
            Some(false)
        );
        assert_eq!(
            config["projects"]["/project one"]["trust_level"].as_str(),
            Some("trusted")
        );
        assert_eq!(config["notify"][1].as_str(), Some("hook"));
        assert_eq!(config["model"].as_str(), Some("gpt-base"));
        assert_eq!(config["mcp_servers"]["s"]["command"].as_str(), Some("x"));
        assert_eq!(config["tui"]["animations"].as_bool(), Some(false));
        assert!(
            !config.contains_key("openai_base_url"),
            "an override was inherited"
        );
        assert_eq!(world.read("home/AGENTS.md"), "rules");
        let changes = provision(&parts.plan()).unwrap();
        assert!(
            changes
                .iter()
                .all(|line| line.starts_with("did not inherit")),
            "{changes:?}"
        );
        assert_eq!(world.read("home/config.toml"), text);
        assert_eq!(
            world.read("asked").lines().count(),
            1,
            "the binary was asked again"
        );
    }

    #[test]
    fn a_launch_gets_the_key_and_hash_of_each_hook_and_a_new_binary_is_asked_again() {
        let (world, parts) = world("");
        let theirs =
            json!({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "ding"}]}]}});
        world.write("home/hooks.json", &theirs.to_string());
        provision(&parts.plan()).unwrap();
        let binary = parts.settings.binary.clone().unwrap();
        let home = world.path("home");
        let entries =
            || trust::entries(&parts.context, binary.as_std_path(), &parts.program, &home);
        let found = entries().unwrap();
        assert_eq!(found.len(), HOOKS.len());
        let stop = (
            format!("{home}/hooks.json:stop:1:0"),
            "sha256:stop".to_owned(),
        );
        assert!(found.contains(&stop), "{found:?}");
        let start = format!("{home}/hooks.json:session_start:0:0");
        assert!(found.iter().any(|(key, _)| *key == start), "{found:?}");
        assert_eq!(world.read("asked").lines().count(), 1);
        world.write("codex", &(world.read("codex") + "# updated\n"));
        entries().unwrap();
        entries().unwrap();
        assert_eq!(world.read("asked").lines().count(), 2);
        world.write("home/hooks.json", "{}");
        assert_eq!(entries().unwrap_err().code, code::NOT_PROVISIONED);
    }

    #[test]
    fn a_live_lease_keeps_config_toml_as_it_is() {
        let (world, parts) = world("model = \"x\"\n");
        let mut plan = parts.plan();
        plan.occupied = Some("a task");
        let error = provision(&plan).unwrap_err();
        assert_eq!(error.code, code::LEASE_ACTIVE);
        assert!(error.message.contains("a task"), "{}", error.message);
        assert_eq!(world.read("home/config.toml"), "model = \"x\"\n");
        provision(&parts.plan()).unwrap();
        let mut plan = parts.plan();
        plan.occupied = Some("a task");
        provision(&plan).unwrap();
    }

    #[test]
    fn trust_goes_with_the_registration_and_the_person_s_notify_stays() {
        let (world, mut parts) = world(
            "notify = [\"ding\"]\ncli_auth_credentials_store = \"keyring\"\n[projects.\"/other\"]\ntrust_level = \"trusted\"\n",
        );
        provision(&parts.plan()).unwrap();
        parts.registry.projects.clear();
        provision(&parts.plan()).unwrap();
        let config: toml::Table = toml::from_str(&world.read("home/config.toml")).unwrap();
        assert_eq!(config["notify"][0].as_str(), Some("ding"));
        assert_eq!(config["cli_auth_credentials_store"].as_str(), Some("file"));
        let projects = config["projects"].as_table().unwrap();
        assert_eq!(projects.keys().collect::<Vec<_>>(), ["/other"]);
    }

    #[test]
    fn an_unreadable_file_is_left_alone_and_a_silent_binary_is_named() {
        let (world, parts) = world("model = ");
        let error = provision(&parts.plan()).unwrap_err();
        assert_eq!(error.code, code::NOT_PROVISIONED);
        assert_eq!(world.read("home/config.toml"), "model = ");
        world.write("home/config.toml", "");
        world.write("answer", "{\"id\":1,\"error\":{}}\n");
        let error = provision(&parts.plan()).unwrap_err();
        assert_eq!(error.code, code::PROVIDER_FAILED);
        assert!(readiness(&parts.plan()).is_err());
    }
}
