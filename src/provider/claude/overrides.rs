//! What would replace a Claude home's login: settings of home, project and machine.
//!
//! The launch's own settings blank the same keys (see `overlay`), but managed settings win over those, and
//! a login that is silently not the leased one is worse than a refusal that names file and key. An empty
//! value replaces nothing. A project's `.env` is not read by the native binary (run with 2.1.332).

use std::fs;

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::{Map, Value};

use super::environment::MOVED;
use super::login::SETTINGS_FILE;
use super::overlay::{BLANK, BLANK_SETTINGS, CARRIED, profiles};
use crate::contract::profile::OverrideScope;
use crate::provider::home::found::{Found, Place};
use crate::provider::overrides::Override;
use crate::store::read;

/// A console login's API key in `.claude.json`.
const STORED_KEY: &str = "primaryApiKey";
/// Programs by which an administrator computes settings at the start.
const HELPERS: [&str; 2] = ["policyHelper", "policyHelpers"];
/// What an organisation's administrator prescribes, as the CLI keeps it in the home: it wins over the launch.
const REMOTE: &str = "remote-settings.json";

/// Where a session in Anthropic's cloud leaves its login for what it starts, and what each file does. Any other CLI on
/// the machine takes it too, in place of the home's login (run with 2.1.332; Linux alone).
const HANDED: &str = "/home/claude/.claude/remote";
const HANDED_FILES: [(&str, &str); 2] = [
    (".oauth_token", "is sent instead of the login"),
    (".api_key", "bills the key's account"),
];

/// Everything that would replace the login of `home` for a worker in one of `workspaces`.
pub fn overrides(home: &Utf8Path, workspaces: &[&Utf8Path]) -> Vec<Override> {
    let machine = if cfg!(target_os = "macos") {
        "/Library/Application Support/ClaudeCode"
    } else {
        "/etc/claude-code"
    };
    let mut all = search(home, workspaces, Utf8Path::new(machine));
    if cfg!(target_os = "linux") {
        all.extend(handed(Utf8Path::new(HANDED)));
    }
    all
}

/// The logins that were left on the machine. What cannot be read here cannot be read by the CLI either.
fn handed(folder: &Utf8Path) -> Vec<Override> {
    let mut all = Vec::new();
    for (name, effect) in HANDED_FILES {
        let path = folder.join(name);
        let bytes = read::optional(&path).ok().flatten().unwrap_or_default();
        if !bytes.trim_ascii().is_empty() {
            all.push(Override {
                scope: OverrideScope::Machine,
                source: path.to_string(),
                file: Some(path),
                effect,
            });
        }
    }
    all
}

fn search(home: &Utf8Path, workspaces: &[&Utf8Path], machine: &Utf8Path) -> Vec<Override> {
    let mut found = Found::default();
    let legacy = home.join(".config.json");
    if fs::symlink_metadata(&legacy).is_ok() {
        let effect = "says whose login this is in place of .claude.json";
        found.key(
            place(OverrideScope::Home, &legacy),
            "it replaces .claude.json",
            effect,
        );
    }
    let nowhere = profiles(home);
    if fs::symlink_metadata(&nowhere).is_ok() {
        let key = "a profile in it would outrank the login";
        found.key(
            place(OverrideScope::Home, &nowhere),
            key,
            "names another stored login",
        );
    }
    stored_key(
        &mut found,
        place(OverrideScope::Home, &home.join(SETTINGS_FILE)),
    );
    settings(
        &mut found,
        place(OverrideScope::Machine, &home.join(REMOTE)),
    );
    both(&mut found, OverrideScope::Home, home);
    for workspace in workspaces {
        both(
            &mut found,
            OverrideScope::Project,
            &workspace.join(".claude"),
        );
    }
    let managed = machine.join("managed-settings.json");
    settings(&mut found, place(OverrideScope::Machine, &managed));
    for file in fragments(&machine.join("managed-settings.d")) {
        settings(&mut found, place(OverrideScope::Machine, &file));
    }
    found.all()
}

fn place(scope: OverrideScope, path: &Utf8Path) -> Place<'_> {
    Place { scope, path }
}

/// The two settings files of a directory.
fn both(found: &mut Found, scope: OverrideScope, directory: &Utf8Path) {
    for file in ["settings.json", "settings.local.json"] {
        settings(found, place(scope, &directory.join(file)));
    }
}

/// The API key that a console login leaves in `.claude.json`: the CLI turns to it, without a word, when the
/// login cannot answer (run with 2.1.332). It takes what no strict reader does: bytes that are no UTF-8 (run with
/// 2.1.332), half a surrogate pair. So a file that cannot be read here but names the key counts as having one; any
/// other is left to the CLI, which may be writing it.
fn stored_key(found: &mut Found, place: Place<'_>) {
    let Some(bytes) = found.read(place) else {
        return;
    };
    let text = String::from_utf8_lossy(&bytes);
    let has_key = match serde_json::from_str::<Value>(&text) {
        Ok(settings) => says_something(settings.get(STORED_KEY)),
        Err(_) => text.contains(STORED_KEY),
    };
    if has_key {
        found.key(place, STORED_KEY, "bills the key's account");
    }
}

fn fragments(directory: &Utf8Path) -> Vec<Utf8PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut files: Vec<Utf8PathBuf> = entries
        .flatten()
        .filter_map(|entry| Utf8PathBuf::from_path_buf(entry.path()).ok())
        .filter(|path| {
            // The CLI reads no hidden one (run with 2.1.332).
            path.extension() == Some("json")
                && path.file_name().is_some_and(|name| !name.starts_with('.'))
        })
        .collect();
    files.sort_unstable();
    files
}

fn settings(found: &mut Found, place: Place<'_>) {
    let Some(settings) = found.json(place) else {
        return;
    };
    for (key, effect) in BLANK_SETTINGS {
        if says_something(settings.get(*key)) {
            found.key(place, key, effect);
        }
    }
    if place.scope == OverrideScope::Machine {
        for key in HELPERS {
            if says_something(settings.get(key)) {
                found.key(place, key, "computes settings that cannot be checked");
            }
        }
    }
    match settings.get("env") {
        Some(Value::Object(variables)) => environment(found, place, variables),
        Some(other) if says_something(Some(other)) => {
            found.key(place, "env is not an object", "cannot be checked");
        }
        _ => {}
    }
}

fn environment(found: &mut Found, place: Place<'_>, variables: &Map<String, Value>) {
    // The machine's administrator may well prescribe a proxy; home and project have no say over the route.
    let carried = match place.scope {
        OverrideScope::Machine => &[],
        OverrideScope::Home | OverrideScope::Project | OverrideScope::Environment => CARRIED,
    };
    for (key, value) in variables {
        let listed = BLANK.iter().chain(MOVED).chain(carried);
        let effect = listed
            .clone()
            .find_map(|(name, effect)| (name == key).then_some(*effect));
        if let Some(effect) = effect
            && says_something(Some(value))
        {
            found.key(place, &format!("env.{key}"), effect);
        }
    }
}

fn says_something(value: Option<&Value>) -> bool {
    !matches!(value, None | Some(Value::Null)) && value.and_then(Value::as_str) != Some("")
}

#[cfg(test)]
mod tests {
    use super::{BLANK, handed, search};
    use crate::provider::home::tests::World;
    use serde_json::json;

    fn sources(world: &World) -> Vec<String> {
        search(
            &world.path("home"),
            &[&world.path("work")],
            &world.path("etc"),
        )
        .into_iter()
        .map(|found| found.source)
        .collect()
    }

    #[test]
    fn every_listed_key_is_found_in_every_file_and_no_value_is_shown() {
        let world = World::new();
        assert_eq!(sources(&world), [""; 0]);
        let files = [
            "home/settings.json",
            "home/settings.local.json",
            "home/remote-settings.json",
            "work/.claude/settings.json",
            "work/.claude/settings.local.json",
            "etc/managed-settings.json",
            "etc/managed-settings.d/10-x.json",
        ];
        for file in files {
            for (key, _) in BLANK {
                let path = world.write(file, &json!({"env": {*key: "planted"}}).to_string());
                assert_eq!(sources(&world), [format!("{path}: env.{key}")]);
            }
            let path = world.write(file, &json!({"apiKeyHelper": "planted"}).to_string());
            assert_eq!(sources(&world), [format!("{path}: apiKeyHelper")]);
            world.write(file, "{}");
        }
    }

    #[test]
    fn a_login_that_was_left_on_the_machine_is_found_unless_it_is_empty() {
        let world = World::new();
        let folder = world.path("remote");
        assert_eq!(handed(&folder), []);
        for name in [".oauth_token", ".api_key"] {
            let path = world.write(&format!("remote/{name}"), " \n");
            assert_eq!(handed(&folder), []);
            world.write(&format!("remote/{name}"), "synthetic");
            let found = handed(&folder);
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!(found[0].source, path.as_str());
            assert!(found[0].refuses() && found[0].cure().unwrap().starts_with("mv -n "));
            world.write(&format!("remote/{name}"), "");
        }
    }

    #[test]
    fn settings_that_a_program_of_the_administrator_computes_are_refused() {
        let world = World::new();
        world.write("etc/managed-settings.d/.hidden.json", "{");
        world.write("home/settings.json", r#"{"policyHelper":{"path":"/x"}}"#);
        assert_eq!(sources(&world), [""; 0]);
        let text = r#"{"policyHelper":{"path":"/opt/helper"}}"#;
        let path = world.write("etc/managed-settings.json", text);
        assert_eq!(sources(&world), [format!("{path}: policyHelper")]);
    }

    #[test]
    fn a_stored_api_key_and_a_profile_that_outranks_the_login_are_found() {
        let world = World::new();
        let path = world.write("home/.claude.json", r#"{"primaryApiKey":"planted"}"#);
        assert_eq!(sources(&world), [format!("{path}: primaryApiKey")]);
        for odd in [
            &b"{\"x\":\"\xff\",\"primaryApiKey\":\"planted\"}"[..],
            br#"{"x":"\ud83d","primaryApiKey":"planted"}"#,
        ] {
            std::fs::remove_file(&path).unwrap();
            crate::store::replace::create(path.as_std_path(), odd).unwrap();
            assert_eq!(sources(&world), [format!("{path}: primaryApiKey")]);
        }
        for harmless in [r#"{"primaryApiKey":""}"#, r#"{"primaryApiKey":null}"#, "{"] {
            world.write("home/.claude.json", harmless);
            assert_eq!(sources(&world), [""; 0], "{harmless}");
        }
        world.write("home/no-anthropic-profiles/configs/default.json", "{}");
        let path = world.path("home/no-anthropic-profiles");
        let found = format!("{path}: a profile in it would outrank the login");
        assert_eq!(sources(&world), [found]);
    }

    #[test]
    fn routes_are_refused_from_workers_and_left_to_the_machine() {
        let world = World::new();
        let text = json!({"env": {"HTTPS_PROXY": "x", "NODE_EXTRA_CA_CERTS": "y", "FOO": "z"}});
        world.write("etc/managed-settings.json", &text.to_string());
        assert_eq!(sources(&world), [""; 0]);
        world.write("work/.claude/settings.json", &text.to_string());
        assert_eq!(sources(&world).len(), 2);
    }

    #[test]
    fn a_file_that_says_nothing_replaces_nothing_and_a_byte_order_mark_hides_nothing() {
        let world = World::new();
        for nothing in ["", " \n", "\u{feff}", "\u{feff}{}"] {
            world.write("home/settings.json", nothing);
            assert_eq!(sources(&world), [""; 0], "{nothing:?}");
        }
        let path = world.write(
            "home/.claude.json",
            "\u{feff}{\"primaryApiKey\":\"planted\"}",
        );
        assert_eq!(sources(&world), [format!("{path}: primaryApiKey")]);
        world.write("home/.claude.json", "{}");
        let path = world.write(
            "work/.claude/settings.json",
            "\u{feff}{\"apiKeyHelper\":\"planted\"}",
        );
        assert_eq!(sources(&world), [format!("{path}: apiKeyHelper")]);
    }

    #[test]
    fn empty_values_replace_nothing_and_unreadable_files_fail_closed() {
        let world = World::new();
        let blank = json!({"apiKeyHelper": "", "env": {"ANTHROPIC_API_KEY": ""}, "model": "x"});
        world.write("home/settings.json", &blank.to_string());
        assert_eq!(sources(&world), [""; 0]);
        let path = world.write("work/.claude/settings.json", "{\"env\":{\"SECRET\":");
        assert_eq!(
            sources(&world),
            [format!("{path}: it is not a JSON object")]
        );
        world.write("work/.claude/settings.json", "{\"env\":\"x\"}");
        assert_eq!(sources(&world), [format!("{path}: env is not an object")]);
        std::fs::remove_file(&path).unwrap();
        let legacy = world.write("home/.config.json", "{}");
        assert_eq!(
            sources(&world),
            [format!("{legacy}: it replaces .claude.json")]
        );
    }
}
