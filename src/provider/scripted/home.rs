//! The scripted provider's home: `settings.json` with our hooks, the transcripts, and what would override
//! the login.
//!
//! Provisioning touches only our own entries and keeps everything else in the file; a file that cannot be
//! parsed is left alone and named. It never writes a login.

use std::path::PathBuf;

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::{Map, Value, json};

use super::login;
use crate::contract::profile::OverrideScope;
use crate::error::{Error, Result, code};
use crate::provider::home::hooks::{self, Hook};
use crate::provider::home::{link, load, not_ready, save, unusable};
use crate::provider::overrides::Override;
use crate::provider::{HomePlan, NotReady};
use crate::registry::schema::ProviderSettings;
use crate::store::directory;

/// How long the agent waits for a hook, in seconds.
pub(super) const HOOK_TIMEOUT: u64 = 10;

const fn hook(event: &'static str, verb: &'static str) -> Hook {
    Hook {
        event,
        verb,
        timeout: HOOK_TIMEOUT,
    }
}

/// The hooks we install: all that the agent has.
const HOOKS: [Hook; 6] = [
    hook("SessionStart", "session-start"),
    hook("UserPromptSubmit", "user-prompt-submit"),
    hook("Stop", "stop"),
    hook("StopFailure", "stop-failure"),
    hook("SessionEnd", "session-end"),
    hook("PermissionRequest", "permission-request"),
];

/// The settings file.
const SETTINGS: &str = "settings.json";
/// The directory of transcripts.
const TRANSCRIPTS: &str = "transcripts";

/// The variable that the agent takes its token from, in its environment or in `env` of a settings file,
/// before it looks at the login.
pub(super) const TOKEN_VARIABLE: &str = "SCRIPTED_TOKEN";
const REPLACES: &str = "sends this token instead of the login";
/// What of a caller's environment would replace the login, if workers saw it.
pub(super) const AMBIENT: &[(&str, &str)] = &[
    (super::HOME_VARIABLE, "moves the whole home"),
    (TOKEN_VARIABLE, REPLACES),
];

/// The settings file of a home.
pub(super) fn settings_file(home: &Utf8Path) -> Utf8PathBuf {
    home.join(SETTINGS)
}

/// The settings file of a project.
pub(super) fn project_settings_file(workspace: &Utf8Path) -> Utf8PathBuf {
    workspace.join(".scripted").join(SETTINGS)
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

fn service(settings: &ProviderSettings) -> Result<&Utf8Path> {
    settings.service.as_deref().ok_or_else(|| {
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
    let service = service(plan.settings)?;
    let mut changes = Vec::new();
    link::ensure_home(home, &mut changes)?;
    link::refuse(home, &[login::FILE, SETTINGS])?;
    directory::ensure(home.join(TRANSCRIPTS))?;
    let path = settings_file(home);
    let before = load(&path)?;
    let mut after = before.clone();
    after.insert("service".to_owned(), json!(service));
    hooks::install(&mut after, &HOOKS, plan.program).map_err(|reason| unusable(&path, &reason))?;
    save(
        &path,
        &before,
        &after,
        "the hooks and the service",
        &mut changes,
    )?;
    Ok(changes)
}

/// Names the service in a home that is to be logged in.
pub(super) fn stage(settings: &ProviderSettings, home: &Utf8Path) -> Result<()> {
    let mut after = Map::new();
    after.insert("service".to_owned(), json!(service(settings)?));
    save(
        &settings_file(home),
        &Map::new(),
        &after,
        "the service",
        &mut Vec::new(),
    )
}

/// Checks that what workers need of the home holds; everything else in it is other people's business.
pub(super) fn readiness(plan: &HomePlan<'_>) -> Result<(), NotReady> {
    let home = &plan.profile.home;
    let refused = |error: Error| not_ready(plan, error.message);
    link::refuse(home, &[login::FILE, SETTINGS]).map_err(refused)?;
    let service = service(plan.settings).map_err(refused)?;
    let path = settings_file(home);
    let settings = load(&path).map_err(refused)?;
    if service_of(&settings).as_deref() != Some(service) {
        let reason = format!("`{path}` does not name the service `{service}`");
        return Err(not_ready(plan, reason));
    }
    hooks::positions(&settings, &HOOKS, plan.program)
        .map_err(|reason| not_ready(plan, format!("in `{path}`, {reason}")))?;
    Ok(())
}

/// Settings files that give the agent a token of their own. A file that cannot be parsed gives none: the
/// agent ignores it too.
pub(super) fn overrides(home: &Utf8Path, workspaces: &[&Utf8Path]) -> Vec<Override> {
    let projects = workspaces
        .iter()
        .map(|workspace| (OverrideScope::Project, project_settings_file(workspace)));
    std::iter::once((OverrideScope::Home, settings_file(home)))
        .chain(projects)
        .filter(|(_, path)| load(path).is_ok_and(|settings| token_override(&settings).is_some()))
        .map(|(scope, path)| Override {
            scope,
            source: format!("{path}: env.{TOKEN_VARIABLE}"),
            file: Some(path),
            effect: REPLACES,
        })
        .collect()
}

/// Where a conversation's transcript is, whether or not it exists; `None` for an id that is no file name.
pub(super) fn transcript_path(home: &Utf8Path, session: &str) -> Option<PathBuf> {
    let plain = session
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    (plain && !session.is_empty() && session.len() <= 128).then(|| {
        home.join(TRANSCRIPTS)
            .join(format!("{session}.jsonl"))
            .into_std_path_buf()
    })
}

#[cfg(test)]
mod tests {
    use super::{HOOKS, commands, load, overrides, settings_file, transcript_path};
    use crate::env::{Context, Roots, Variables};
    use crate::id::ProviderKind;
    use crate::provider::scripted::Scripted;
    use crate::provider::{HomePlan, Provider as _};
    use crate::registry::schema::{
        Anchor, BinaryPolicy, Credential, Profile, ProviderSettings, QuotaReader, Registry,
        SafetyPolicy,
    };
    use crate::snapshot::evidence::Kind;
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
                    command: String::new(),
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
                occupied: None,
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
        let settings = load(&world.settings_path()).unwrap();
        assert_eq!(settings["theme"], "dark");
        let stop: Vec<_> = commands(&settings, "Stop").collect();
        assert_eq!(
            stop,
            [
                "notify-send 'turn hook stop'",
                r"'/new place/it'\''s/agent-fleet' hook stop"
            ]
        );
        for hook in HOOKS {
            assert!(commands(&settings, hook.event).all(|command| !command.contains("/old/")));
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
        assert_eq!(overrides(&world.profile.home, &[root]), vec![]);
        world.write(r#"{"env":{"SCRIPTED_TOKEN":"x"}}"#);
        let found = overrides(&world.profile.home, &[root]);
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
        assert_eq!(overrides(&world.profile.home, &[root]).len(), 2);
    }

    #[test]
    fn every_hook_says_a_word_that_our_verb_knows() {
        for hook in HOOKS {
            assert!(Kind::from_word(hook.verb).is_some(), "{}", hook.verb);
        }
    }

    #[test]
    fn a_session_id_cannot_leave_the_home() {
        for bad in ["", "../x", "a/b", ".", "a.b", &"x".repeat(129)] {
            assert_eq!(transcript_path(Utf8Path::new("/h"), bad), None, "{bad}");
        }
        assert!(transcript_path(Utf8Path::new("/h"), "0a-1").is_some());
    }
}
