//! A world for the tests of homes, and the tests of what all homes share.

use camino::{Utf8Path, Utf8PathBuf};

use crate::clock::Clock;
use crate::env::{Context, Faults, Roots, Variables};
use crate::id::ProviderKind;
use crate::provider::HomePlan;
use crate::registry::schema::{
    Anchor, BinaryPolicy, Credential, Profile, Project, ProviderSettings, QuotaReader, Registry,
    SafetyPolicy,
};

/// A directory with a person's home in it.
pub(crate) struct World {
    directory: tempfile::TempDir,
}

/// Everything that a plan borrows.
pub(crate) struct Parts {
    pub(crate) context: Context,
    pub(crate) registry: Registry,
    pub(crate) settings: ProviderSettings,
    pub(crate) profile: Profile,
    pub(crate) program: Utf8PathBuf,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self, relative: &str) -> Utf8PathBuf {
        Utf8Path::from_path(self.directory.path())
            .unwrap()
            .canonicalize_utf8()
            .unwrap()
            .join(relative)
    }

    pub(crate) fn write(&self, relative: &str, text: &str) -> Utf8PathBuf {
        let path = self.path(relative);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        #[expect(clippy::disallowed_methods, reason = "test data")]
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn read(&self, relative: &str) -> String {
        std::fs::read_to_string(self.path(relative)).unwrap()
    }

    pub(crate) fn context(&self) -> Context {
        Context {
            roots: Roots {
                home: self.path("person"),
                config: self.path("accounts.toml"),
                state: self.path("state"),
                share: self.path("share"),
            },
            clock: Clock::real(),
            variables: Variables::default(),
            directory: None,
            executable: None,
            faults: Faults::default(),
            command: String::new(),
        }
    }

    /// A profile of `kind` whose home is `home`, with `/project one` registered.
    pub(crate) fn parts(&self, kind: ProviderKind, shared: &[&str], inherited: &[&str]) -> Parts {
        let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        Parts {
            context: self.context(),
            registry: Registry {
                projects: vec![Project {
                    path: "/project one".into(),
                    provider: None,
                }],
                ..Registry::default()
            },
            settings: ProviderSettings {
                kind,
                binary: None,
                binary_policy: BinaryPolicy::Follow,
                base_home: Anchor::At(self.path(&format!("person/.{kind}"))),
                desktop_identity_file: Anchor::Off,
                shared_entries: owned(shared),
                inherit_settings: owned(inherited),
                quota_reader: QuotaReader::None,
                worker_options: Vec::new(),
                service: None,
            },
            profile: Profile {
                id: format!("{kind}-1").parse().unwrap(),
                provider: kind,
                home: self.path("home"),
                pools: Vec::new(),
                enabled: true,
                credential: Credential::Home,
                max_concurrent: 2,
                reserve_percent: 15.0,
                weight: 1,
                safety_policy: SafetyPolicy::Worker,
                allow_overage: false,
            },
            program: self.path("share/bin/agent-fleet"),
        }
    }
}

impl Parts {
    pub(crate) fn plan(&self) -> HomePlan<'_> {
        HomePlan {
            context: &self.context,
            registry: &self.registry,
            settings: &self.settings,
            profile: &self.profile,
            program: &self.program,
            occupied: None,
        }
    }
}

mod inheritance {
    use crate::provider::home::inherit;
    use serde_json::{Map, Value, json};

    fn object(value: Value) -> Map<String, Value> {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn an_inherited_setting_follows_the_base_until_it_is_changed_here() {
        let mut document = object(json!({"other": 1}));
        let mut inherited = Map::new();
        inherit(&mut document, "model", Some(&json!("a")), &mut inherited);
        inherit(&mut document, "model", Some(&json!("b")), &mut inherited);
        assert_eq!(document, object(json!({"other": 1, "model": "b"})));
        document.insert("model".to_owned(), json!("mine"));
        inherit(&mut document, "model", Some(&json!("c")), &mut inherited);
        assert_eq!(document["model"], "mine");
        document.insert("x".to_owned(), json!("own"));
        inherit(&mut document, "x", None, &mut inherited);
        assert_eq!(
            document["x"], "own",
            "what was never inherited is not removed"
        );
    }

    #[test]
    fn a_setting_that_the_base_dropped_goes() {
        let mut document = Map::new();
        let mut inherited = Map::new();
        inherit(&mut document, "model", Some(&json!("a")), &mut inherited);
        inherit(&mut document, "model", None, &mut inherited);
        assert_eq!((document, inherited), (Map::new(), Map::new()));
    }
}
