//! Adding, changing and removing profiles. A login is never touched here.

use camino::Utf8PathBuf;

use super::edit::{self, Changed, Document, Maintenance};
use super::path::{canonical, resolved};
use super::schema::{Credential, Profile, Registry, SafetyPolicy};
use super::validate::{DEFAULT_RESERVE, default_slots};
use super::value::Value;
use crate::contract::registry::{Pool, PoolList};
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::id::{PoolId, ProfileId, ProviderKind};
use crate::sys::shell;

/// What a person wants of a profile; `None` leaves a thing as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wanted {
    /// Pools it joins, all of them.
    pub pools: Option<Vec<PoolId>>,
    /// Preference.
    pub weight: Option<u32>,
    /// Slots.
    pub max_concurrent: Option<u32>,
    /// Percent left untouched.
    pub reserve_percent: Option<f64>,
    /// Where its credential is.
    pub credential: Option<Credential>,
    /// What it may be used for.
    pub safety_policy: Option<SafetyPolicy>,
    /// Whether usage beyond the subscription may be paid for.
    pub allow_overage: Option<bool>,
}

/// What a new profile's home may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// Nothing: it is missing or empty.
    New,
    /// Perhaps a login, which stays where it is.
    InPlace,
}

/// A profile to add.
#[derive(Clone, Debug)]
pub struct Addition {
    /// Its id.
    pub id: ProfileId,
    /// Its provider.
    pub provider: ProviderKind,
    /// Its home; below the share root when `None`.
    pub home: Option<Utf8PathBuf>,
    /// What the home may hold.
    pub state: Home,
    /// The rest.
    pub wanted: Wanted,
}

/// Where the home of a profile is unless someone says otherwise.
pub fn default_home(context: &Context, provider: ProviderKind, id: &ProfileId) -> Utf8PathBuf {
    let share = resolved(&context.roots.share);
    share
        .join("accounts")
        .join(provider.name())
        .join(id.as_str())
}

/// The pools that a new profile joins: `<provider>-crew`, or `<provider>-manual` when it is not for workers.
pub fn default_pools(provider: ProviderKind, policy: SafetyPolicy) -> Vec<String> {
    vec![match policy {
        SafetyPolicy::Worker => format!("{provider}-crew"),
        SafetyPolicy::ManualOnly | SafetyPolicy::DesktopShared => format!("{provider}-manual"),
    }]
}

/// Adds a profile, disabled.
///
/// `forget` runs under maintenance, with no other lock held, before anything changes: a removal that was
/// ended half-way, or done in an editor, leaves records of an account that is not the new profile's.
///
/// Fails with `already_exists` for a known id or a home that holds something, with `usage` for a home that
/// overlaps, with `not_found` for a home to be taken in place that is not there, and the codes of
/// [`edit::change`].
pub fn add(
    context: &Context,
    addition: &Addition,
    forget: impl FnOnce() -> Result<()>,
) -> Result<Changed<Profile>> {
    let Addition {
        id,
        provider,
        wanted,
        ..
    } = addition;
    let maintenance = edit::maintain(context, &[*provider], "profile add")?;
    let home = match &addition.home {
        Some(home) => canonical(home),
        None => default_home(context, *provider, id),
    };
    if addition.state == Home::New && holds_something(&home) {
        let message = format!("the home `{home}` of a new profile is not empty");
        return Err(Error::new(code::ALREADY_EXISTS, message).hint(format!(
            "agent-fleet profile add {id} --provider {provider} --home {} --in-place",
            shell::quote(home.as_str())
        )));
    }
    if addition.state == Home::InPlace && !home.is_dir() {
        let message = format!("the home `{home}` is not a directory that could hold a login");
        return Err(Error::new(code::NOT_FOUND, message).hint(format!(
            "agent-fleet profile add {id} --provider {provider} --home {}",
            shell::quote(home.as_str())
        )));
    }
    if current(context)?.profile(id).is_err() {
        forget()?;
    }
    let changed = edit::change(context, &maintenance, |registry, document| {
        if registry.profile(id).is_ok() {
            return Err(Error::new(
                code::ALREADY_EXISTS,
                format!("there is a profile `{id}` already"),
            )
            .hint("agent-fleet profile list"));
        }
        let policy = wanted.safety_policy.unwrap_or(SafetyPolicy::Worker);
        let table = ["profiles", id.as_str()];
        let text = |text: &str| Value::Text(text.to_owned());
        document.set(&table, "provider", &text(provider.name()))?;
        document.set(&table, "home", &text(home.as_str()))?;
        if wanted.pools.is_none() {
            let pools = default_pools(*provider, policy);
            document.set(&table, "pools", &Value::List(pools))?;
        }
        document.set(&table, "enabled", &Value::Flag(false))?;
        let full = Wanted {
            max_concurrent: wanted.max_concurrent.or(Some(default_slots(*provider))),
            reserve_percent: wanted.reserve_percent.or(Some(DEFAULT_RESERVE)),
            ..wanted.clone()
        };
        write(document, id, &full)
    })?;
    of(changed, id)
}

fn holds_something(home: &Utf8PathBuf) -> bool {
    match std::fs::read_dir(home) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}

/// Changes what a profile may be used for, and how much.
pub fn policy(context: &Context, id: &ProfileId, wanted: &Wanted) -> Result<Changed<Profile>> {
    let (maintenance, provider) = maintain(context, id, "profile policy")?;
    let changed = edit::change(context, &maintenance, |registry, document| {
        still(registry, id, provider)?;
        write(document, id, wanted)
    })?;
    of(changed, id)
}

/// Takes a profile out of routing; work that runs goes on.
pub fn disable(context: &Context, id: &ProfileId) -> Result<Changed<Profile>> {
    let (maintenance, provider) = maintain(context, id, "profile disable")?;
    let changed = edit::change(context, &maintenance, |registry, document| {
        still(registry, id, provider)?;
        Ok(document.set(&["profiles", id.as_str()], "enabled", &Value::Flag(false))?)
    })?;
    of(changed, id)
}

/// Puts a profile into routing if `check` finds nothing in the way.
///
/// `check` runs before any lock is taken, since it may ask a server; a profile or provider that was changed
/// meanwhile is refused with `maintenance_busy`. Fails with what `check` says, and with `policy` for a
/// profile that is never routed.
pub fn enable(
    context: &Context,
    id: &ProfileId,
    check: impl FnOnce(&Registry, &Profile) -> Result<()>,
) -> Result<Changed<Profile>> {
    let before = current(context)?;
    let checked = before.profile(id)?;
    if checked.safety_policy != SafetyPolicy::Worker {
        let message = format!(
            "profile `{id}` is `{}` and is never routed to workers",
            checked.safety_policy.word()
        );
        return Err(Error::new(code::POLICY, message).hint(format!(
            "agent-fleet profile policy {id} --safety-policy worker"
        )));
    }
    check(&before, checked)?;
    let kind = checked.provider;
    let maintenance = edit::maintain(context, &[kind], "profile enable")?;
    let changed = edit::change(context, &maintenance, |registry, document| {
        if registry.profile(id)? != checked || registry.provider(kind)? != before.provider(kind)? {
            return Err(meanwhile(id));
        }
        Ok(document.set(&["profiles", id.as_str()], "enabled", &Value::Flag(true))?)
    })?;
    of(changed, id)
}

/// Takes a profile out of the registry and returns what it was; its home and login stay.
///
/// `check` runs under maintenance, with no other lock held, before anything changes; `forget` likewise once
/// the registry no longer names the profile.
pub fn remove(
    context: &Context,
    id: &ProfileId,
    check: impl FnOnce(&Profile) -> Result<()>,
    forget: impl FnOnce(&Profile) -> Result<()>,
) -> Result<Changed<Profile>> {
    let (maintenance, provider) = maintain(context, id, "profile remove")?;
    check(still(&current(context)?, id, provider)?)?;
    let changed = edit::change(context, &maintenance, |registry, document| {
        let profile = still(registry, id, provider)?;
        if !document.remove(&["profiles"], id.as_str()) {
            return Err(Error::internal(format!(
                "profile `{id}` is not in the text"
            )));
        }
        Ok(profile.clone())
    })?;
    forget(&changed.answer)?;
    Ok(changed)
}

fn current(context: &Context) -> Result<Registry> {
    let source = super::file::read(context)?;
    Ok(super::file::parse(context, &source.text)?.registry)
}

/// Maintenance of the provider that a profile belongs to, as far as is known before the locks are taken.
fn maintain(
    context: &Context,
    id: &ProfileId,
    purpose: &str,
) -> Result<(Maintenance, ProviderKind)> {
    let provider = current(context)?.profile(id)?.provider;
    Ok((edit::maintain(context, &[provider], purpose)?, provider))
}

/// The profile once the locks are held: it may have gone, or come back under another provider.
fn still<'a>(
    registry: &'a Registry,
    id: &ProfileId,
    provider: ProviderKind,
) -> Result<&'a Profile> {
    let profile = registry.profile(id)?;
    if profile.provider == provider {
        return Ok(profile);
    }
    Err(meanwhile(id))
}

fn meanwhile(id: &ProfileId) -> Error {
    let message = format!("profile `{id}` was changed by someone else at the same moment");
    Error::new(code::MAINTENANCE_BUSY, message).hint("agent-fleet profile list")
}

fn of<T>(changed: Changed<T>, id: &ProfileId) -> Result<Changed<Profile>> {
    Ok(Changed {
        answer: changed.registry.profile(id)?.clone(),
        registry: changed.registry,
        notes: changed.notes,
    })
}

fn write(document: &mut Document, id: &ProfileId, wanted: &Wanted) -> Result<()> {
    let Wanted {
        pools,
        weight,
        max_concurrent,
        reserve_percent,
        credential,
        safety_policy,
        allow_overage,
    } = wanted;
    let table = ["profiles", id.as_str()];
    let pools = pools
        .as_ref()
        .map(|pools| Value::List(pools.iter().map(ToString::to_string).collect()));
    let whole = |number: &Option<u32>| number.map(|number| Value::Whole(number.into()));
    // People write `15`, not `15.0`.
    let percent = |number: f64| {
        format!("{number}")
            .parse()
            .map_or(Value::Number(number), Value::Whole)
    };
    for (key, value) in [
        ("pools", pools),
        ("max_concurrent", whole(max_concurrent)),
        ("reserve_percent", reserve_percent.map(percent)),
        ("weight", whole(weight)),
        (
            "credential",
            credential.map(|kind| Value::Text(kind.word().to_owned())),
        ),
        (
            "safety_policy",
            safety_policy.map(|policy| Value::Text(policy.word().to_owned())),
        ),
        ("allow_overage", allow_overage.map(Value::Flag)),
    ] {
        if let Some(value) = value {
            document.set(&table, key, &value)?;
        }
    }
    Ok(())
}

/// The pools that profiles join, sorted.
pub fn pools(registry: &Registry) -> PoolList {
    let mut pools: Vec<Pool> = Vec::new();
    let mut ids: Vec<&PoolId> = registry
        .profiles
        .iter()
        .flat_map(|profile| &profile.pools)
        .collect();
    ids.sort_unstable();
    ids.dedup();
    for id in ids {
        let members: Vec<&Profile> = registry
            .profiles
            .iter()
            .filter(|profile| profile.pools.contains(id))
            .collect();
        let enabled = members.iter().filter(|profile| profile.enabled);
        let mut profiles: Vec<ProfileId> =
            members.iter().map(|profile| profile.id.clone()).collect();
        profiles.sort_unstable();
        let mut providers: Vec<ProviderKind> =
            members.iter().map(|profile| profile.provider).collect();
        providers.sort_unstable();
        providers.dedup();
        pools.push(Pool {
            pool: id.clone(),
            profiles,
            slots: enabled.clone().map(|profile| profile.max_concurrent).sum(),
            enabled: u32::try_from(enabled.count()).unwrap_or(u32::MAX),
            providers,
        });
    }
    PoolList { pools }
}
