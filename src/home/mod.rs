//! Making homes ready for workers, and telling whether they are.

pub mod program;

use std::time::Duration;

use camino::Utf8Path;
use rustix::fs::{Access, access};
use rustix::io::Errno;

use crate::contract::lease::Verdict;
use crate::env::Context;
use crate::error::{Error, Result};
use crate::id::{ProfileId, ProviderKind};
use crate::lease::{LeaseStore as _, TableStore};
use crate::provider::{self, HomePlan, codex};
use crate::registry::binary;
use crate::registry::schema::{Profile, Registry};
use crate::store::lock::Locks;
use crate::store::owner::{self, Exposed};
use crate::transaction::pending;
use crate::transaction::recover::Recovered;

/// Makes or repairs the home of a profile; returns what was changed, one line each.
///
/// Holds the provider's maintenance locks while files change, so that no lease is granted meanwhile; a file
/// that a running worker reads is refused with `lease_active`.
pub fn provision(context: &Context, registry: &Registry, profile: &Profile) -> Result<Vec<String>> {
    is_own(profile)?;
    let mut changes = Vec::new();
    if program::ensure(context)? {
        changes.push(format!("linked `{}`", program::path(context)));
    }
    let program = program::path(context);
    let settings = registry.provider(profile.provider)?;
    if profile.provider == ProviderKind::Codex {
        // Asks Codex, which takes a while, before any lock is held; what it says is kept.
        codex::trust::learn(
            context,
            binary::resolve(context, settings)?.as_std_path(),
            &program,
        )?;
    }
    let locks = Locks::of(context);
    let (_turnstile, guard) = locks.maintenance(profile.provider, "profile provision")?;
    let recovered = pending::settle(context, profile.provider, &guard)?;
    changes.extend(recovered.iter().map(Recovered::told));
    let occupied = occupied(context, &profile.id)?;
    let mut plan = plan(context, registry, profile, &program)?;
    plan.occupied = occupied.as_deref();
    changes.extend(provider::of(profile.provider).provision(&plan)?);
    Ok(changes)
}

/// Refuses a home that somebody else could change, or that a link stands for: what is in it decides whose login a
/// worker uses and which programs run.
pub fn is_own(profile: &Profile) -> Result<(), Exposed> {
    owner::check_in_place(
        &format!("the home of profile `{}`,", profile.id),
        &profile.home,
    )
}

/// Refuses a home that cannot be written: the provider's CLI would end there without saying why, or lose the login that
/// it renews.
fn is_writable(profile: &Profile) -> Result<()> {
    match access(profile.home.as_std_path(), Access::WRITE_OK) {
        // One that is not there is not set up yet, which is said with the command that does it.
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(Error::io("write to the home", &profile.home, &error.into())),
    }
}

/// Whether the home of a profile can take workers; starts nothing and writes nothing.
pub fn readiness(context: &Context, registry: &Registry, profile: &Profile) -> Result<()> {
    is_own(profile)?;
    is_writable(profile)?;
    let program = program::path(context);
    let plan = plan(context, registry, profile, &program)?;
    Ok(provider::of(profile.provider).readiness(&plan)?)
}

fn plan<'a>(
    context: &'a Context,
    registry: &'a Registry,
    profile: &'a Profile,
    program: &'a Utf8Path,
) -> Result<HomePlan<'a>> {
    Ok(HomePlan {
        context,
        registry,
        settings: registry.provider(profile.provider)?,
        profile,
        program,
        occupied: None,
    })
}

/// A task whose lease of the profile may have a process.
fn occupied(context: &Context, profile: &ProfileId) -> Result<Option<String>> {
    let deadline = context.clock.deadline(Duration::from_secs(2));
    let listing = TableStore::open(context, deadline)?.list()?;
    let lease = listing
        .leases
        .into_iter()
        .find(|lease| lease.profile == *profile && lease.verdict != Verdict::Dead);
    Ok(lease.map(|lease| lease.task.unwrap_or_else(|| "details lost".to_owned())))
}
