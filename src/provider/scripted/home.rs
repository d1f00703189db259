//! The scripted provider's home: `settings.json` with our hooks, the transcripts, and what would override
//! the login.
//!
//! Provisioning touches only our own entries and keeps everything else in the file; a file that cannot be
//! parsed is left alone and named. It never writes a login.

use std::path::PathBuf;

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::{Map, Value, json};

use crate::error::{Error, Result, code};
use crate::provider::{HomePlan, NotReady, Override};
use crate::store::replace::{Durability, replace};
use crate::store::{directory, read};
use crate::sys::shell;

/// The hooks we install: the agent's event, and our verb for it.
pub(super) const HOOKS: [(&str, &str); 5] = [
    ("SessionStart", "session-start"),
    ("UserPromptSubmit", "prompt-submit"),
    ("Stop", "stop"),
    ("StopFailure", "stop-failure"),
    ("SessionEnd", "session-end"),
];

/// How long the agent waits for a hook, in seconds.
pub(super) const HOOK_TIMEOUT: u64 = 10;

/// The variable that the agent takes its token from, in its environment or in `env` of a settings file,
/// before it looks at the login.
pub(super) const TOKEN_VARIABLE: &str = "SCRIPTED_TOKEN";

/// The settings file of a home.
pub(super) fn settings_file(home: &Utf8Path) -> Utf8PathBuf {
    home.join("settings.json")
}

/// The settings file of a project.
pub(super) fn project_settings_file(workspace: &Utf8Path) -> Utf8PathBuf {
    workspace.join(".scripted/settings.json")
}

/// A settings file; `None` when there is none. Anything but a JSON object is refused by name.
pub(super) fn load_settings(path: &Utf8Path) -> Result<Option<Map<String, Value>>> {
    let Some(bytes) = read::optional(path)? else {
        return Ok(None);
    };
    match serde_json::from_slice(&bytes) {
        Ok(Value::Object(settings)) => Ok(Some(settings)),
        Ok(_) => Err(unusable(path, "it is not a JSON object")),
        Err(error) => Err(unusable(path, &error.to_string())),
    }
}

fn unusable(path: &Utf8Path, reason: &str) -> Error {
    Error::new(
        code::NOT_PROVISIONED,
        format!("the settings file `{path}` cannot be used: {reason}"),
    )
    .hint(format!("cat '{path}'"))
    .detail("path", path.as_str())
}

/// The commands that a settings file has for a hook event.
pub(super) fn commands<'a>(
    settings: &'a Map<String, Value>,
    event: &str,
) -> impl Iterator<Item = &'a str> {
    settings
        .get("hooks")
        .and_then(|hooks| hooks.get(event))
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|group| group.get("hooks").and_then(Value::as_array))
        .flatten()
        .filter_map(|hook| hook.get("command").and_then(Value::as_str))
}

/// The token that a settings file puts in the agent's environment.
pub(super) fn token_override(settings: &Map<String, Value>) -> Option<&str> {
    settings
        .get("env")
        .and_then(|variables| variables.get(TOKEN_VARIABLE))
        .and_then(Value::as_str)
}

/// The service that a home's settings name.
pub(super) fn service_of(settings: &Map<String, Value>) -> Option<Utf8PathBuf> {
    settings
        .get("service")
        .and_then(Value::as_str)
        .map(Utf8PathBuf::from)
}

/// Replaces a settings file.
pub(super) fn save_settings(path: &Utf8Path, settings: &Map<String, Value>) -> Result<()> {
    let bytes = serde_json::to_vec_pretty(settings)
        .map_err(|error| Error::internal(format!("cannot serialise: {error}")))?;
    replace(path, &bytes, Durability::Durable)
}

fn our_command(program: &Utf8Path, verb: &str) -> String {
    format!("{} hook {verb}", shell::quote(program.as_str()))
}

fn is_ours(command: &str, verb: &str) -> bool {
    command
        .strip_suffix(verb)
        .and_then(|rest| rest.strip_suffix(" hook "))
        .is_some_and(|program| program.trim_end_matches('\'').ends_with("agent-fleet"))
}

fn service<'a>(plan: &'a HomePlan<'_>) -> Result<&'a Utf8Path> {
    plan.settings.service.as_deref().ok_or_else(|| {
        Error::new(
            code::CONFIG_INVALID,
            "the provider `scripted` has no directory that plays its server",
        )
        .hint("agent-fleet config set providers.scripted.service /absolute/directory")
    })
}

/// Makes or repairs a home.
pub(super) fn provision(plan: &HomePlan<'_>) -> Result<Vec<String>> {
    let home = &plan.profile.home;
    let service = service(plan)?;
    let mut changes = Vec::new();
    for path in [home.clone(), home.join("transcripts")] {
        if !path.is_dir() {
            directory::ensure(&path)?;
            changes.push(format!("made `{path}`"));
        }
    }
    let path = settings_file(home);
    let mut settings = load_settings(&path)?.unwrap_or_default();
    let before = settings.clone();
    settings.insert("service".to_owned(), json!(service));
    for (event, verb) in HOOKS {
        set_hook(&mut settings, event, verb, plan.program)
            .map_err(|reason| unusable(&path, &reason))?;
    }
    if settings != before {
        save_settings(&path, &settings)?;
        changes.push(format!("set the hooks and the service in `{path}`"));
    }
    Ok(changes)
}

/// Leaves exactly one entry of ours for an event, behind those of other people.
fn set_hook(
    settings: &mut Map<String, Value>,
    event: &str,
    verb: &str,
    program: &Utf8Path,
) -> Result<(), String> {
    let wanted = our_command(program, verb);
    let ours: Vec<&str> = commands(settings, event)
        .filter(|command| is_ours(command, verb))
        .collect();
    if ours == [wanted.as_str()] {
        return Ok(());
    }
    let groups = settings
        .entry("hooks")
        .or_insert_with(|| json!({}))
        .as_object_mut()
        .ok_or("`hooks` is not an object")?
        .entry(event)
        .or_insert_with(|| json!([]))
        .as_array_mut()
        .ok_or_else(|| format!("`hooks.{event}` is not a list"))?;
    for group in groups.iter_mut() {
        if let Some(hooks) = group.get_mut("hooks").and_then(Value::as_array_mut) {
            hooks.retain(|hook| {
                !hook
                    .get("command")
                    .and_then(Value::as_str)
                    .is_some_and(|command| is_ours(command, verb))
            });
        }
    }
    groups.retain(|group| {
        group
            .get("hooks")
            .and_then(Value::as_array)
            .is_none_or(|hooks| !hooks.is_empty())
    });
    groups.push(json!({
        "hooks": [{"type": "command", "command": wanted, "timeout": HOOK_TIMEOUT}],
    }));
    Ok(())
}

/// Checks that what workers need of the home holds; everything else in it is other people's business.
pub(super) fn readiness(plan: &HomePlan<'_>) -> Result<(), NotReady> {
    let home = &plan.profile.home;
    let not_ready = |reason: String| NotReady {
        profile: plan.profile.id.clone(),
        reason,
    };
    let service = service(plan).map_err(|error| not_ready(error.message))?;
    let path = settings_file(home);
    let settings = load_settings(&path)
        .map_err(|error| not_ready(error.message))?
        .ok_or_else(|| not_ready(format!("there is no `{path}`")))?;
    if service_of(&settings).as_deref() != Some(service) {
        return Err(not_ready(format!(
            "`{path}` names another service than `{service}`"
        )));
    }
    for (event, verb) in HOOKS {
        let wanted = our_command(plan.program, verb);
        let mut ours = commands(&settings, event).filter(|command| is_ours(command, verb));
        if ours.next() != Some(wanted.as_str()) || ours.next().is_some() {
            return Err(not_ready(format!(
                "`{path}` does not have our hook for {event} exactly once"
            )));
        }
    }
    if !home.join("transcripts").is_dir() {
        return Err(not_ready(format!(
            "there is no directory `{home}/transcripts`"
        )));
    }
    Ok(())
}

/// Settings files that give the agent a token of their own. A file that cannot be parsed gives none: the
/// agent ignores it too.
pub(super) fn overrides(home: &Utf8Path, workspace: &Utf8Path) -> Vec<Override> {
    [settings_file(home), project_settings_file(workspace)]
        .into_iter()
        .filter(|path| {
            load_settings(path)
                .ok()
                .flatten()
                .is_some_and(|settings| token_override(&settings).is_some())
        })
        .map(|path| Override {
            source: format!("{path}: env.{TOKEN_VARIABLE}"),
        })
        .collect()
}

/// Where a conversation's transcript is, whether or not it exists; `None` for an id that is no file name.
pub(super) fn transcript_path(home: &Utf8Path, session: &str) -> Option<PathBuf> {
    let plain = session
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    (plain && !session.is_empty() && session.len() <= 128).then(|| {
        home.join("transcripts")
            .join(format!("{session}.jsonl"))
            .into_std_path_buf()
    })
}

#[cfg(test)]
mod tests {
    use super::{HOOKS, commands, load_settings, overrides, settings_file, transcript_path};
    use crate::env::{Context, Roots, Variables};
    use crate::id::ProviderKind;
    use crate::provider::scripted::Scripted;
    use crate::provider::{HomePlan, Provider as _};
    use crate::registry::schema::{
        Anchor, BinaryPolicy, Credential, Profile, ProviderSettings, QuotaReader, Registry,
        SafetyPolicy,
    };
    use crate::store::replace::{Durability, replace};
    use camino::{Utf8Path, Utf8PathBuf};

    struct World {
        directory: tempfile::TempDir,
        context: Context,
        registry: Registry,
        settings: ProviderSettings,
        profile: Profile,
    }

    impl World {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let root = Utf8Path::from_path(directory.path()).unwrap();
            let variables: Variables = [("HOME", root.as_str())].into_iter().collect();
            Self {
                context: Context {
                    roots: Roots::find(&variables, None).unwrap(),
                    clock: crate::clock::Clock::real(),
                    variables,
                    directory: None,
                    executable: None,
                    faults: crate::env::Faults::default(),
                },
                registry: Registry::default(),
                settings: ProviderSettings {
                    kind: ProviderKind::Scripted,
                    binary: None,
                    binary_policy: BinaryPolicy::Follow,
                    base_home: Anchor::Off,
                    desktop_identity_file: Anchor::Off,
                    shared_entries: Vec::new(),
                    inherit_settings: Vec::new(),
                    quota_reader: QuotaReader::Builtin,
                    worker_options: Vec::new(),
                    service: Some(root.join("service")),
                },
                profile: Profile {
                    id: "one".parse().unwrap(),
                    provider: ProviderKind::Scripted,
                    home: root.join("home of one"),
                    pools: Vec::new(),
                    enabled: true,
                    credential: Credential::Home,
                    max_concurrent: 2,
                    reserve_percent: 15.0,
                    weight: 1,
                    safety_policy: SafetyPolicy::Worker,
                    allow_overage: false,
                },
                directory,
            }
        }

        fn plan<'a>(&'a self, program: &'a str) -> HomePlan<'a> {
            HomePlan {
                context: &self.context,
                registry: &self.registry,
                settings: &self.settings,
                profile: &self.profile,
                program: Utf8Path::new(program),
            }
        }

        fn settings_path(&self) -> Utf8PathBuf {
            settings_file(&self.profile.home)
        }

        fn write(&self, text: &str) {
            replace(self.settings_path(), text.as_bytes(), Durability::Volatile).unwrap();
        }
    }

    #[test]
    fn provisioning_is_idempotent_and_follows_the_program_without_touching_other_hooks() {
        let world = World::new();
        assert!(Scripted.readiness(&world.plan("/old/agent-fleet")).is_err());
        assert!(
            !Scripted
                .provision(&world.plan("/old/agent-fleet"))
                .unwrap()
                .is_empty()
        );
        let foreign = r#"{"hooks":[{"command":"notify-send 'turn hook stop'"}]}"#;
        let text = std::fs::read_to_string(world.settings_path()).unwrap();
        let mut settings: serde_json::Value = serde_json::from_str(&text).unwrap();
        settings["theme"] = "dark".into();
        settings["hooks"]["Stop"]
            .as_array_mut()
            .unwrap()
            .insert(0, serde_json::from_str(foreign).unwrap());
        world.write(&settings.to_string());
        let moved = world.plan("/new place/it's/agent-fleet");
        assert!(
            Scripted.readiness(&moved).is_err(),
            "hooks call the old program"
        );
        assert!(!Scripted.provision(&moved).unwrap().is_empty());
        assert!(
            Scripted.provision(&moved).unwrap().is_empty(),
            "nothing left to change"
        );
        assert_eq!(Scripted.readiness(&moved), Ok(()));
        let settings = load_settings(&world.settings_path()).unwrap().unwrap();
        assert_eq!(settings["theme"], "dark");
        let stop: Vec<_> = commands(&settings, "Stop").collect();
        assert_eq!(
            stop,
            [
                "notify-send 'turn hook stop'",
                r"'/new place/it'\''s/agent-fleet' hook stop"
            ]
        );
        for (event, _) in HOOKS {
            assert!(commands(&settings, event).all(|command| !command.contains("/old/")));
        }
    }

    #[test]
    fn settings_that_cannot_be_parsed_are_named_and_left_as_they_are() {
        let world = World::new();
        std::fs::create_dir(&world.profile.home).unwrap();
        for broken in ["{", "[]", r#"{"hooks":[]}"#, r#"{"hooks":{"Stop":{}}}"#] {
            world.write(broken);
            let plan = world.plan("/p/agent-fleet");
            let error = Scripted.provision(&plan).unwrap_err();
            assert!(
                error.message.contains(world.settings_path().as_str()),
                "{error}"
            );
            assert!(Scripted.readiness(&plan).is_err());
            assert_eq!(
                std::fs::read_to_string(world.settings_path()).unwrap(),
                broken
            );
        }
    }

    #[test]
    fn tokens_in_home_and_project_settings_are_found() {
        let world = World::new();
        let root = Utf8Path::from_path(world.directory.path()).unwrap();
        std::fs::create_dir(&world.profile.home).unwrap();
        world.write(r#"{"env":{"OTHER":"x"}}"#);
        assert_eq!(overrides(&world.profile.home, root), vec![]);
        world.write(r#"{"env":{"SCRIPTED_TOKEN":"x"}}"#);
        let found = overrides(&world.profile.home, root);
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].source,
            format!("{}: env.SCRIPTED_TOKEN", world.settings_path())
        );
        std::fs::create_dir(root.join(".scripted")).unwrap();
        let project = super::project_settings_file(root);
        replace(
            project,
            br#"{"env":{"SCRIPTED_TOKEN":"y"}}"#,
            Durability::Volatile,
        )
        .unwrap();
        assert_eq!(overrides(&world.profile.home, root).len(), 2);
    }

    #[test]
    fn a_session_id_cannot_leave_the_home() {
        for bad in ["", "../x", "a/b", ".", "a.b", &"x".repeat(129)] {
            assert_eq!(transcript_path(Utf8Path::new("/h"), bad), None, "{bad}");
        }
        assert!(transcript_path(Utf8Path::new("/h"), "0a-1").is_some());
    }
}
