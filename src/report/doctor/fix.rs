//! What `doctor --fix` does: only what is safe and provably ours, each thing looked at again just before.
//!
//! An empty refresh lock older than a minute in a home that nobody lives in; our own entries in homes without a
//! live lease; reservations whose time has passed; the stable path of this program; temporary files of killed
//! commands; changes of a login that were cut short, and what is proved left over by them. Never a login in force,
//! never a process, never a lease of a process that may live.

use std::fs;
use std::time::Duration;

use camino::Utf8Path;

use super::leftover::{self, Leftover};
use super::look;
use super::profile::ProfileFacts;
use super::profile_of;
use crate::contract::doctor::Fixed;
use crate::contract::lease::{State, Verdict};
use crate::enroll::stage;
use crate::env::Context;
use crate::error::Result;
use crate::home::{self, program};
use crate::id::ProfileId;
use crate::lease::{Force, LeaseStore as _, TableStore};
use crate::provider;
use crate::provider::inhabitant::Host;
use crate::report::inhabitants;
use crate::report::refresh_lock::{self, Standing};
use crate::store::directory;
use crate::sys::process;
use crate::transaction::pending;

/// How long all waiting for locks may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Mends what can be; one entry for each thing that was done or had to be left.
pub(super) fn mend<'a>(
    context: &Context,
    profiles: impl Iterator<Item = &'a ProfileFacts>,
) -> Vec<Fixed> {
    let mut fixed = Vec::new();
    let mut tell = |check: &str, profile: Option<&ProfileId>, outcome: Result<Option<String>>| {
        let (done, what) = match outcome {
            Ok(None) => return,
            Ok(Some(what)) => (true, what),
            Err(error) => (false, error.message),
        };
        fixed.push(Fixed {
            check: check.to_owned(),
            profile: profile.cloned(),
            done,
            what,
        });
    };
    tell("program", None, stable_path(context));
    for outcome in reservations(context) {
        tell("lease_table", None, outcome);
    }
    for outcome in transactions(context) {
        tell("transactions", None, outcome);
    }
    for facts in profiles {
        let id = Some(&facts.profile.id);
        for outcome in leftovers(context, facts) {
            tell("leftovers", id, outcome);
        }
        for lock in &facts.locks.0 {
            tell("refresh_lock", id, unlock(context, facts, &lock.path));
        }
        tell("provisioned", id, provision(context, facts));
    }
    for (path, _) in look::litter(context) {
        tell("litter", None, sweep(context, &path));
    }
    fixed
}

/// Makes the stable path of this program lead here, where homes call it.
fn stable_path(context: &Context) -> Result<Option<String>> {
    let path = program::path(context);
    if fs::symlink_metadata(&path).is_err() {
        // The first provisioning makes it.
        return Ok(None);
    }
    Ok(program::ensure(context)?.then(|| format!("linked `{path}` to this program")))
}

/// Ends reservations whose time has passed.
fn reservations(context: &Context) -> Vec<Result<Option<String>>> {
    let open = || TableStore::open(context, context.clock.deadline(PATIENCE));
    let ended = || -> Result<Vec<_>> {
        let store = open()?;
        let listing = store.list()?;
        let leases = listing.leases.into_iter();
        Ok(leases
            .filter(|lease| lease.state == State::Reserved && lease.verdict == Verdict::Dead)
            .collect())
    };
    let ended = match ended() {
        Ok(ended) => ended,
        Err(error) => return vec![Err(error)],
    };
    ended
        .into_iter()
        .filter_map(|lease| lease.task)
        .map(|task| {
            open()?.release(&task.parse()?, Force::No)?;
            Ok(Some(format!(
                "ended the expired reservation of task `{task}`"
            )))
        })
        .collect()
}

/// Takes back changes of a login that were cut short.
fn transactions(context: &Context) -> Vec<Result<Option<String>>> {
    let fenced = match pending::fenced(context) {
        Ok(fenced) => fenced,
        Err(error) => return vec![Err(error)],
    };
    let outcomes = fenced
        .into_iter()
        .flat_map(|kind| match pending::fence(context, kind) {
            Ok(recovered) => recovered.iter().map(|one| Ok(Some(one.told()))).collect(),
            Err(error) => vec![Err(error)],
        });
    outcomes.collect()
}

/// Removes what a change of the login left and is proved ours.
fn leftovers(context: &Context, facts: &ProfileFacts) -> Vec<Result<Option<String>>> {
    let none = |left: &Vec<Leftover>| {
        left.iter()
            .all(|one| one.standing != leftover::Standing::Ours)
    };
    if facts.leftovers.as_ref().map_or(true, none) {
        return Vec::new();
    }
    match leftover::remove(context, &facts.profile) {
        Ok(removed) => {
            let told = removed
                .iter()
                .map(|path| Ok(Some(format!("removed `{path}`"))));
            told.collect()
        }
        Err(error) => vec![Err(error)],
    }
}

/// Removes an empty refresh lock that nobody can hold.
fn unlock(context: &Context, facts: &ProfileFacts, path: &Utf8Path) -> Result<Option<String>> {
    let (registry, profile) = profile_of(context, facts)?;
    let leases = look::leases(context)?.leases;
    let home = inhabitants::home(&registry, &profile, &leases, &Host::look());
    let leased = leases
        .iter()
        .any(|lease| lease.profile == profile.id && lease.verdict != Verdict::Dead);
    // A CLI that has just begun refreshes before it publishes itself; its environment names the home.
    let variable = provider::of(profile.provider).home_variable();
    let beginning = process::carrying(variable, profile.home.as_str());
    let empty = home.empty && !leased && beginning.is_ok_and(|found| found.is_empty());
    let lock = refresh_lock::find(&profile, context.clock)
        .into_iter()
        .find(|lock| lock.path == path);
    match lock.map(|lock| lock.standing(empty)) {
        Some(Standing::Left) => {}
        Some(Standing::Held | Standing::Doubtful | Standing::Odd) | None => return Ok(None),
    }
    // It removes nothing that is not empty, whatever happened since.
    directory::remove_empty(path)?;
    Ok(Some(format!("removed the left-behind `{path}`")))
}

/// Makes our own entries in a home good again, unless a worker may read them.
fn provision(context: &Context, facts: &ProfileFacts) -> Result<Option<String>> {
    if facts.not_ready.is_none() || !facts.profile.home.is_dir() {
        return Ok(None);
    }
    let (registry, profile) = profile_of(context, facts)?;
    let leases = look::leases(context)?.leases;
    let home = inhabitants::home(&registry, &profile, &leases, &Host::look());
    let leased = leases
        .iter()
        .any(|lease| lease.profile == profile.id && lease.verdict != Verdict::Dead);
    if leased || !home.empty {
        return Ok(None);
    }
    let changes = home::provision(context, &registry, &profile)?;
    Ok((!changes.is_empty()).then(|| format!("{}: {}", profile.id, changes.join("; "))))
}

fn sweep(context: &Context, path: &Utf8Path) -> Result<Option<String>> {
    if stage::is_within(context, path) {
        if !stage::sweep(path, &context.clock)? {
            return Ok(None);
        }
    } else if path.is_dir() {
        directory::remove_all(path)?;
    } else {
        directory::remove_file(path)?;
    }
    Ok(Some(format!("removed `{path}`")))
}
