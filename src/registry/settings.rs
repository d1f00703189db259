//! Settings by their dotted names: read with their defaults, changed with their ranges.

use serde_json::Value as Json;

use super::binary;
use super::edit::{self, Changed};
use super::install;
use super::key::{self, Key};
use super::schema::{Anchor, ProviderSettings, QuotaReader, Registry, Settings};
use super::shape::{Place, Shape};
use super::validate::defaults;
use super::value::Value;
use crate::clock::ROUTINE;
use crate::contract::registry::Setting;
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::id::ProviderKind;
use crate::snapshot::durable;

/// A dotted name that was understood.
#[derive(Clone, Copy, Debug)]
pub enum Name {
    /// `install_id`.
    Install,
    /// `settings.<key>`.
    Global(&'static Key),
    /// `providers.<provider>.<key>`.
    Provider(ProviderKind, &'static Key),
}

impl Name {
    /// Reads a dotted name. Fails with `usage`, naming the one that was probably meant.
    pub fn parse(text: &str) -> Result<Self> {
        let parts: Vec<&str> = text.split('.').collect();
        let found = match parts.as_slice() {
            ["install_id"] => Some(Self::Install),
            ["settings", name] => key::find(key::SETTINGS, name).map(Self::Global),
            ["providers", provider, name] => provider.parse().ok().and_then(|provider| {
                key::find(key::PROVIDER, name).map(|key| Self::Provider(provider, key))
            }),
            _ => None,
        };
        found.ok_or_else(|| {
            let names = Self::all(&ProviderKind::ALL).map(Self::text);
            let names: Vec<String> = names.collect();
            let ends = |name: &&String| name.rsplit('.').next() == Some(text);
            let meant = names
                .iter()
                .find(ends)
                .map(String::as_str)
                .or_else(|| key::nearest(names.iter().map(String::as_str), text));
            let more = meant.map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
            let shown: String = text.chars().take(120).collect();
            Error::new(code::USAGE, format!("there is no setting `{shown}`{more}"))
                .hint("agent-fleet config list")
        })
    }

    /// Every name, in the order of the documentation.
    pub fn all(providers: &[ProviderKind]) -> impl Iterator<Item = Self> {
        let of = |provider: ProviderKind| {
            key::PROVIDER
                .iter()
                .filter(move |key| applies(provider, key))
                .map(move |key| Self::Provider(provider, key))
        };
        key::SETTINGS
            .iter()
            .map(Self::Global)
            .chain(providers.iter().copied().flat_map(of))
    }

    /// The dotted name.
    pub fn text(self) -> String {
        match self {
            Self::Install => "install_id".to_owned(),
            Self::Global(key) => format!("settings.{}", key.name),
            Self::Provider(provider, key) => format!("providers.{provider}.{}", key.name),
        }
    }
}

/// Whether a key of a provider's table means anything for that provider.
fn applies(provider: ProviderKind, key: &Key) -> bool {
    let scripted = provider == ProviderKind::Scripted;
    match key.name {
        "service" => scripted,
        "binary"
        | "binary_policy"
        | "base_home"
        | "desktop_identity_file"
        | "shared_entries"
        | "inherit_settings" => !scripted,
        _ => true,
    }
}

/// The setting in force.
pub fn setting(context: &Context, registry: &Registry, name: Name) -> Setting {
    let (value, default, meaning) = match name {
        Name::Install => (
            registry.install_id.clone().map_or(Json::Null, Json::from),
            Json::Null,
            "ties the registry to its state root",
        ),
        Name::Global(key) => (
            global(&registry.settings, key.name),
            global(&Settings::default(), key.name),
            key.meaning,
        ),
        Name::Provider(kind, key) => {
            let default = defaults(kind, &context.roots);
            let settings = registry.provider(kind).unwrap_or(&default);
            (
                provider(settings, key.name),
                provider(&default, key.name),
                key.meaning,
            )
        }
    };
    Setting {
        key: name.text(),
        value,
        default,
        meaning: meaning.to_owned(),
    }
}

fn global(settings: &Settings, name: &str) -> Json {
    match name {
        "lease_ttl_seconds" => settings.lease_ttl_seconds.into(),
        "quota_fresh_seconds" => settings.quota_fresh_seconds.into(),
        "stale_readings" => settings.stale_readings.word().into(),
        "unmeasured" => settings.unmeasured.word().into(),
        "active_lease_penalty" => settings.active_lease_penalty.into(),
        "strategy" => settings.strategy.word().into(),
        "worker_env" => settings.worker_env.word().into(),
        _ => Json::Null,
    }
}

fn provider(settings: &ProviderSettings, name: &str) -> Json {
    let path = |path: &Option<camino::Utf8PathBuf>| {
        path.as_ref()
            .map_or(Json::Null, |path| path.as_str().into())
    };
    let anchor = |anchor: &Anchor| match anchor {
        Anchor::Off => Json::Bool(false),
        Anchor::At(path) => path.as_str().into(),
    };
    match name {
        "binary" => path(&settings.binary),
        "binary_policy" => settings.binary_policy.word().into(),
        "base_home" => anchor(&settings.base_home),
        "desktop_identity_file" => anchor(&settings.desktop_identity_file),
        "shared_entries" => settings.shared_entries.clone().into(),
        "inherit_settings" => settings.inherit_settings.clone().into(),
        "quota_reader" => match &settings.quota_reader {
            QuotaReader::Builtin => "builtin".into(),
            QuotaReader::None => "none".into(),
            QuotaReader::External(path) => path.as_str().into(),
        },
        "worker_options" => settings.worker_options.clone().into(),
        "service" => path(&settings.service),
        _ => Json::Null,
    }
}

/// Changes a setting.
///
/// Fails with `usage` when the value is out of range, `provider_missing` for a binary that could not be
/// launched, and the codes of [`edit::change`].
pub fn set(context: &Context, name: Name, word: &str) -> Result<Changed<Setting>> {
    let (of, key): (&[ProviderKind], _) = match &name {
        Name::Install => return adopt(context, word),
        Name::Global(key) => (&[], *key),
        Name::Provider(provider, key) => (std::slice::from_ref(provider), *key),
    };
    let provider = of.first().copied();
    let value = key.shape.read(word);
    let place = Place {
        home: &context.roots.home,
        provider,
    };
    if let Err(problem) = key.shape.accept(&value, place) {
        return Err(
            Error::new(code::USAGE, format!("`{}` {problem}", name.text()))
                .hint(format!("agent-fleet config get {}", name.text())),
        );
    }
    let maintenance = edit::maintain(context, of, "config set")?;
    let changed = edit::change(context, &maintenance, |registry, document| {
        if let (Some(provider), Shape::Path, "binary") = (provider, key.shape, key.name) {
            launchable(context, registry, provider, &value)?;
        }
        match provider {
            Some(provider) => {
                document.set(&["providers", provider.name()], key.name, &value)?;
            }
            None => document.set(&["settings"], key.name, &value)?,
        }
        Ok(())
    })?;
    Ok(Changed {
        answer: setting(context, &changed.registry, name),
        registry: changed.registry,
        notes: changed.notes,
    })
}

fn launchable(
    context: &Context,
    registry: &Registry,
    provider: ProviderKind,
    value: &Value,
) -> Result<()> {
    let mut settings = registry
        .provider(provider)
        .cloned()
        .unwrap_or_else(|_| defaults(provider, &context.roots));
    let place = Place {
        home: &context.roots.home,
        provider: Some(provider),
    };
    if let Ok(Value::Text(path)) = Shape::Path.accept(value, place) {
        settings.binary = Some(path.into());
    }
    binary::resolve(context, &settings).map(drop)
}

/// Ties the registry to the state root in force. Where the install of that was lost, its key was lost as well, and
/// with it whose each profile is.
fn adopt(context: &Context, word: &str) -> Result<Changed<Setting>> {
    if word != "adopt" {
        let message = "`install_id` can only be set to `adopt`, which ties the registry to the state root in force";
        return Err(Error::new(code::USAGE, message).hint("agent-fleet config get install_id"));
    }
    let maintenance = edit::maintain(context, &ProviderKind::ALL, "config set")?;
    if install::id(context)?.is_none() {
        let deadline = context.clock.deadline(ROUTINE);
        for kind in ProviderKind::ALL {
            durable::forget_accounts(context, kind, &deadline)?;
        }
    }
    let changed = edit::adopt(context, &maintenance)?;
    Ok(Changed {
        answer: setting(context, &changed.registry, Name::Install),
        registry: changed.registry,
        notes: changed.notes,
    })
}
