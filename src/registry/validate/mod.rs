//! The text of `accounts.toml` → a [`Registry`], or everything that is wrong with it at once.
//!
//! Every problem has its line and column. Keys that this version does not know survive edits, so they make
//! nothing invalid: they come back as notes, with the name that was probably meant. Homes are compared
//! after resolving links, as far as they exist at that moment; a link made later is not seen here.

mod conflict;
pub(crate) mod table;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use self::table::{Fields, Unknown, Walker};
use super::key;
use super::schema::{
    Anchor, BinaryPolicy, Credential, Profile, Project, ProviderSettings, QuotaReader, Registry,
    SafetyPolicy, Settings, StaleReadings, Strategy, Unmeasured, VERSION, WorkerEnvironment,
};
use super::shape::Place;
use super::value::Value;
use crate::env::Roots;
use crate::id::{ProfileId, ProviderKind};
use crate::provider::{self, conveyance::Conveyance};

/// One thing wrong, or worth a look, in the file.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Diagnostic {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What it is.
    pub message: String,
}

/// A valid registry.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The registry, defaults filled in.
    pub registry: Registry,
    /// Keys that this version does not know.
    pub notes: Vec<Diagnostic>,
}

/// Why there is no registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// The file has a format that only a newer program knows.
    Newer(i64),
    /// What is wrong, in the order of the file; never empty.
    Problems(Vec<Diagnostic>),
}

/// Reads and checks a registry.
pub fn parse(text: &str, roots: &Roots) -> Result<Parsed, Invalid> {
    let (document, errors) = DeTable::parse_recoverable(text);
    let mut walker = Walker::new(text, &roots.home, !errors.is_empty(), Unknown::Kept);
    for error in errors {
        let at = error.span().map_or(0, |span| span.start);
        walker.problem(at, error.message().replace('\n', "; "));
    }
    let top = walker.fields(&document, "", key::TOP, None, &TABLES);
    match top.value("version") {
        Some(Value::Whole(newer)) if *newer > i64::from(VERSION) => {
            return Err(Invalid::Newer(*newer));
        }
        Some(_) => {}
        None => walker.missing(0, "`version = 1` is missing"),
    }
    let mut builder = Builder {
        walker,
        roots,
        spans: Vec::new(),
    };
    let mut registry = Registry {
        install_id: top.text("install_id"),
        ..Registry::default()
    };
    for (name, value) in document.get_ref() {
        let Some(table) = builder.walker.table(name.get_ref(), value, &TABLES) else {
            continue;
        };
        match name.get_ref().as_ref() {
            "settings" => registry.settings = builder.settings(&table),
            "providers" => registry.providers = builder.providers(&table),
            "projects" => registry.projects = builder.projects(&table),
            "profiles" => registry.profiles = builder.profiles(&table),
            _ => {}
        }
    }
    for profile in &registry.profiles {
        let kind = profile.provider;
        if !registry.providers.iter().any(|other| other.kind == kind) {
            registry.providers.push(defaults(kind, roots));
        }
    }
    registry.providers.sort_by_key(|settings| settings.kind);
    conflict::check(&mut builder.walker, &registry, &builder.spans, roots);
    match builder.walker.finish() {
        Ok(notes) => Ok(Parsed { registry, notes }),
        Err(problems) => Err(Invalid::Problems(problems)),
    }
}

const TABLES: [&str; 4] = ["settings", "providers", "projects", "profiles"];

/// The settings of a provider whose table says nothing.
pub fn defaults(kind: ProviderKind, roots: &Roots) -> ProviderSettings {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let (base_home, shared, inherited): (Anchor, &[&str], &[&str]) = match kind {
        ProviderKind::Claude => (
            Anchor::At(roots.home.join(".claude")),
            &["CLAUDE.md", "skills", "agents", "commands"],
            &["permissions", "model", "mcpServers", "statusLine", "hooks"],
        ),
        ProviderKind::Codex => (
            Anchor::At(roots.home.join(".codex")),
            &["AGENTS.md", "skills", "rules", "prompts"],
            &[
                "model",
                "model_reasoning_effort",
                "approval_policy",
                "sandbox_mode",
                "mcp_servers",
            ],
        ),
        ProviderKind::Scripted => (Anchor::Off, &[], &[]),
    };
    ProviderSettings {
        kind,
        binary: None,
        binary_policy: BinaryPolicy::Follow,
        base_home,
        desktop_identity_file: desktop(kind, roots),
        shared_entries: names(shared),
        inherit_settings: names(inherited),
        quota_reader: QuotaReader::Builtin,
        worker_options: Vec::new(),
        service: (kind == ProviderKind::Scripted).then(|| roots.share.join("scripted")),
    }
}

/// Claude's Desktop app keeps its account in a file that is known on macOS; Linux has no such app.
fn desktop(kind: ProviderKind, roots: &Roots) -> Anchor {
    if cfg!(target_os = "macos") && kind == ProviderKind::Claude {
        Anchor::At(
            roots
                .home
                .join("Library/Application Support/Claude/config.json"),
        )
    } else {
        Anchor::Off
    }
}

/// Slots of a profile that does not say.
pub const fn default_slots(provider: ProviderKind) -> u32 {
    match provider {
        ProviderKind::Claude => 2,
        ProviderKind::Codex | ProviderKind::Scripted => 3,
    }
}

/// Percent left untouched by a profile that does not say.
pub const DEFAULT_RESERVE: f64 = 15.0;

/// Where a checked profile stands in the text, for problems found later.
#[derive(Debug)]
struct ProfileSpans {
    home: usize,
    pools: usize,
}

struct Builder<'a> {
    walker: Walker<'a>,
    roots: &'a Roots,
    spans: Vec<ProfileSpans>,
}

type Table<'t, 'i> = &'t Spanned<DeTable<'i>>;

impl Builder<'_> {
    fn settings(&mut self, table: Table<'_, '_>) -> Settings {
        let fields = self
            .walker
            .fields(table, "settings", key::SETTINGS, None, &[]);
        let base = Settings::default();
        let seconds = |name: &str, default: u64| {
            fields
                .whole(name)
                .and_then(|number| u64::try_from(number).ok())
                .unwrap_or(default)
        };
        Settings {
            lease_ttl_seconds: seconds("lease_ttl_seconds", base.lease_ttl_seconds),
            quota_fresh_seconds: seconds("quota_fresh_seconds", base.quota_fresh_seconds),
            stale_readings: fields.word(
                "stale_readings",
                StaleReadings::from_word,
                base.stale_readings,
            ),
            unmeasured: fields.word("unmeasured", Unmeasured::from_word, base.unmeasured),
            active_lease_penalty: fields
                .number("active_lease_penalty")
                .unwrap_or(base.active_lease_penalty),
            strategy: fields.word("strategy", Strategy::from_word, base.strategy),
            worker_env: fields.word("worker_env", WorkerEnvironment::from_word, base.worker_env),
        }
    }

    /// A subtable per provider; other names are left to a newer version.
    fn by_provider<'i>(
        &mut self,
        table: Table<'_, 'i>,
        path: &str,
        beside: &'static [key::Key],
    ) -> Vec<(ProviderKind, Spanned<DeTable<'i>>)> {
        let names = ProviderKind::ALL.map(ProviderKind::name);
        let mut found = Vec::new();
        for (name, value) in table.get_ref() {
            if key::find(beside, name.get_ref()).is_some() {
                continue;
            }
            let full = format!("{path}.{}", name.get_ref());
            match name.get_ref().parse::<ProviderKind>() {
                Ok(kind) => {
                    if let Some(table) = self.walker.table(&full, value, &[&full]) {
                        found.push((kind, table));
                    }
                }
                Err(_) => self
                    .walker
                    .unknown(name.span().start, &full, name.get_ref(), &names),
            }
        }
        found
    }

    fn providers(&mut self, table: Table<'_, '_>) -> Vec<ProviderSettings> {
        self.by_provider(table, "providers", &[])
            .iter()
            .map(|(kind, table)| self.provider(*kind, table))
            .collect()
    }

    fn provider(&mut self, kind: ProviderKind, table: Table<'_, '_>) -> ProviderSettings {
        let name = format!("providers.{kind}");
        let fields = self
            .walker
            .fields(table, &name, key::PROVIDER, Some(kind), &[]);
        let base = defaults(kind, self.roots);
        let anchor = |name: &str, default: Anchor| match fields.value(name) {
            Some(Value::Text(path)) => Anchor::At(path.into()),
            Some(_) => Anchor::Off,
            None => default,
        };
        if kind == ProviderKind::Scripted {
            for real in ["binary", "base_home", "desktop_identity_file"] {
                if fields.path(real).is_some() {
                    let message = format!("`{real}` has no meaning for the scripted provider");
                    self.walker.problem(fields.at(real), message);
                }
            }
        } else if fields.path("service").is_some() {
            let message = "`service` belongs to the scripted provider alone".to_owned();
            self.walker.problem(fields.at("service"), message);
        }
        ProviderSettings {
            kind,
            binary: fields.path("binary"),
            binary_policy: fields.word(
                "binary_policy",
                BinaryPolicy::from_word,
                base.binary_policy,
            ),
            base_home: anchor("base_home", base.base_home),
            desktop_identity_file: anchor("desktop_identity_file", base.desktop_identity_file),
            shared_entries: fields.list("shared_entries").unwrap_or(base.shared_entries),
            inherit_settings: fields
                .list("inherit_settings")
                .unwrap_or(base.inherit_settings),
            quota_reader: match fields.text("quota_reader").as_deref() {
                None | Some("builtin") => QuotaReader::Builtin,
                Some("none") => QuotaReader::None,
                Some(path) => QuotaReader::External(path.into()),
            },
            worker_options: fields.list("worker_options").unwrap_or_default(),
            service: fields.path("service").or(base.service),
        }
    }

    fn projects(&mut self, table: Table<'_, '_>) -> Vec<Project> {
        let names = ProviderKind::ALL.map(ProviderKind::name);
        let mut projects = Vec::new();
        let mut collect = |fields: &Fields, provider: Option<ProviderKind>| {
            for path in fields.list("trusted").unwrap_or_default() {
                let project = Project {
                    path: path.into(),
                    provider,
                };
                if !projects.contains(&project) {
                    projects.push(project);
                }
            }
        };
        let all = self
            .walker
            .fields(table, "projects", key::PROJECTS, None, &names);
        collect(&all, None);
        for (kind, table) in self.by_provider(table, "projects", key::PROJECTS) {
            let name = format!("projects.{kind}");
            let fields = self
                .walker
                .fields(&table, &name, key::PROJECTS, Some(kind), &[]);
            collect(&fields, Some(kind));
        }
        projects
    }

    fn profiles(&mut self, table: Table<'_, '_>) -> Vec<Profile> {
        let mut profiles = Vec::new();
        for (name, value) in table.get_ref() {
            let id = match name.get_ref().parse::<ProfileId>() {
                Ok(id) => id,
                Err(error) => {
                    self.walker.problem(name.span().start, error.to_string());
                    continue;
                }
            };
            let full = format!("profiles.\"{id}\"");
            if let Some(table) = self.walker.table(&full, value, &[&full])
                && let Some(profile) = self.profile(id, name.span().start, &full, &table)
            {
                profiles.push(profile);
            }
        }
        profiles
    }

    fn profile(
        &mut self,
        id: ProfileId,
        header: usize,
        path: &str,
        table: Table<'_, '_>,
    ) -> Option<Profile> {
        let fields = self.walker.fields(table, path, key::PROFILE, None, &[]);
        for name in ["provider", "home"] {
            if !fields.written(name) {
                let message = format!("profile `{id}` has no `{name}`");
                self.walker.missing(header, &message);
            }
        }
        let credential = fields.word("credential", Credential::from_word, Credential::Home);
        let provider: ProviderKind = fields.text("provider")?.parse().ok()?;
        if let Conveyance::Never(why) = provider::of(provider).conveys(credential) {
            let message = format!(
                "profile `{id}`: `credential = \"{}\"` cannot be: {why}",
                credential.word()
            );
            self.walker.problem(fields.at("credential"), message);
        }
        let home = fields.path("home")?;
        let pools = fields.list("pools").unwrap_or_default();
        let mut unique = Vec::new();
        for pool in pools {
            match pool.parse() {
                Ok(pool) if !unique.contains(&pool) => unique.push(pool),
                _ => {}
            }
        }
        let count = |name: &str, default: u32| {
            fields
                .whole(name)
                .and_then(|number| u32::try_from(number).ok())
                .unwrap_or(default)
        };
        self.spans.push(ProfileSpans {
            home: fields.at("home"),
            pools: fields.at("pools"),
        });
        Some(Profile {
            id,
            provider,
            home,
            pools: unique,
            enabled: fields.value("enabled") == Some(&Value::Flag(true)),
            credential,
            max_concurrent: count("max_concurrent", default_slots(provider)),
            reserve_percent: fields.number("reserve_percent").unwrap_or(DEFAULT_RESERVE),
            weight: count("weight", 1),
            safety_policy: fields.word(
                "safety_policy",
                SafetyPolicy::from_word,
                SafetyPolicy::Worker,
            ),
            allow_overage: fields.value("allow_overage") == Some(&Value::Flag(true)),
        })
    }
}

/// The plain form of a TOML value; `None` for what no key takes.
pub(crate) fn plain(value: &DeValue<'_>) -> Option<Value> {
    Some(match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => {
            Value::Whole(i64::from_str_radix(number.as_str(), number.radix()).ok()?)
        }
        DeValue::Float(number) => Value::Number(number.as_str().parse().ok()?),
        DeValue::Boolean(flag) => Value::Flag(*flag),
        DeValue::Array(items) => Value::List(
            items
                .iter()
                .map(|item| item.get_ref().as_str().map(str::to_owned))
                .collect::<Option<_>>()?,
        ),
        DeValue::Datetime(_) | DeValue::Table(_) => return None,
    })
}

fn place(home: &camino::Utf8Path, provider: Option<ProviderKind>) -> Place<'_> {
    Place { home, provider }
}

#[cfg(test)]
mod tests;
