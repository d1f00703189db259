//! The state of the whole fleet, for `status`: local files only.
//!
//! Starts no process, makes no network call, and answers also when parts are broken: what cannot be read is a
//! row or a warning with its next command, and the rest is told as it is. New evidence of workers is taken in
//! on the way; where it cannot be, what was known before is shown.

mod next;
mod row;
mod warning;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::{inhabitants, refresh_lock, transaction};
use crate::choose::queue;
use crate::choose::routeability::{Look, Report, report_on};
use crate::contract::lease::{DamagedLease, Lease, Verdict, Waiting};
use crate::contract::status::{RowState, Status, StatusRow, Summary, Warning};
use crate::contract::unleased::Unleased;
use crate::env::Context;
use crate::error::{Error, Result};
use crate::id::{PoolId, ProviderKind};
use crate::lease::{LeaseStore as _, Listing, Occupancy, TableStore};
use crate::provider::inhabitant::Host;
use crate::quota::headroom;
use crate::registry::schema::{Missing, Profile, Registry};
use crate::report::log_in::AtWork;
use crate::snapshot::{self, fold};
use row::{Known, row};
use warning::Seen;

/// How long all waiting for locks may take: a person waits for the answer.
const PATIENCE: Duration = Duration::from_millis(500);

/// What was seen of the lease table.
#[derive(Debug, Default)]
struct Held {
    listing: Listing,
    occupancy: Occupancy,
}

/// Everything of the answer but what follows from it.
#[derive(Debug, Default)]
struct Parts {
    profiles: Vec<StatusRow>,
    leases: Vec<Lease>,
    waiting: Vec<Waiting>,
    damaged: Vec<DamagedLease>,
    unleased: Vec<Unleased>,
    warnings: Vec<Warning>,
}

/// The state of the fleet, or of one pool. Fails only when no profile is in that pool.
pub fn status(context: &Context, pool: Option<&PoolId>) -> Result<Status> {
    let mut parts = Parts::default();
    let registry = snapshot::registry::load(context)
        .inspect_err(|error| parts.warnings.push(warning::of_error(None, error)));
    let held = held(context).unwrap_or_else(|error| {
        parts.warnings.push(warning::of_error(None, &error));
        Held::default()
    });
    parts.waiting = queue::list(context).unwrap_or_else(|error| {
        parts.warnings.push(warning::of_error(None, &error));
        Vec::new()
    });
    let mut transactions = transaction::all(context).unwrap_or_else(|error| {
        parts.warnings.push(warning::of_error(None, &error));
        Vec::new()
    });
    parts.damaged = held.listing.damaged;
    parts.leases = held.listing.leases;
    let (mut locks, mut members) = (Vec::new(), Vec::new());
    if let Ok(registry) = &registry {
        members = asked(registry, pool)?;
        let warnings = &mut parts.warnings;
        parts.profiles = rows(context, registry, &members, &held.occupancy, warnings);
        let host = Host::look();
        for profile in &members {
            let home = inhabitants::home(registry, profile, &parts.leases, &host);
            let leased = |lease: &Lease| lease.profile == profile.id && is_live(lease);
            let empty = home.empty && !parts.leases.iter().any(leased);
            let found = refresh_lock::find(profile, context.clock);
            locks.extend(found.into_iter().map(|lock| (*profile, lock, empty)));
            parts.unleased.extend(home.unleased);
        }
    }
    let is_asked = |lease: &Lease| members.iter().any(|profile| profile.id == lease.profile);
    parts
        .leases
        .retain(|lease| pool.is_none() || is_asked(lease));
    parts
        .waiting
        .retain(|one| pool.is_none_or(|pool| one.pool == *pool));
    let concerns = |kind| members.iter().any(|profile| profile.provider == kind);
    transactions.retain(|one| pool.is_none() || one.provider.is_some_and(concerns));
    let now = context.clock.now();
    let seen = Seen {
        rows: &parts.profiles,
        leases: &parts.leases,
        damaged: &parts.damaged,
        unleased: &parts.unleased,
        locks: &locks,
        transactions: &transactions,
        now,
    };
    let warnings = warning::all(&seen);
    parts.warnings.extend(warnings);
    Ok(put_together(now, pool, parts))
}

fn put_together(now: Timestamp, pool: Option<&PoolId>, parts: Parts) -> Status {
    let of = |state: RowState| {
        let rows = parts.profiles.iter();
        count(rows.filter(|row| row.state == state).count())
    };
    let live = parts.leases.iter().filter(|lease| is_live(lease));
    Status {
        schema: 1,
        generated_at: now,
        pool: pool.cloned(),
        summary: Summary {
            free: of(RowState::Free),
            full: of(RowState::Full),
            blocked: of(RowState::Blocked),
            disabled: of(RowState::Disabled),
            live_leases: count(live.count()),
            waiting: count(parts.waiting.len()),
            unleased: count(parts.unleased.len()),
            warnings: count(parts.warnings.len()),
        },
        next: next::next(&parts.profiles, &parts.warnings),
        profiles: parts.profiles,
        leases: parts.leases,
        waiting: parts.waiting,
        damaged: parts.damaged,
        unleased: parts.unleased,
        warnings: parts.warnings,
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn is_live(lease: &Lease) -> bool {
    lease.verdict != Verdict::Dead
}

fn held(context: &Context) -> Result<Held> {
    let store = TableStore::open(context, context.clock.deadline(PATIENCE))?;
    Ok(Held {
        listing: store.list()?,
        occupancy: store.occupancy()?,
    })
}

/// The profiles that are asked about, sorted by id.
fn asked<'a>(registry: &'a Registry, pool: Option<&PoolId>) -> Result<Vec<&'a Profile>> {
    let mut members: Vec<&Profile> = registry
        .profiles
        .iter()
        .filter(|profile| pool.is_none_or(|pool| profile.pools.contains(pool)))
        .collect();
    if let (true, Some(pool)) = (members.is_empty(), pool) {
        return Err(Missing::Pool(pool.clone()).into());
    }
    members.sort_by(|one, other| one.id.cmp(&other.id));
    Ok(members)
}

fn rows(
    context: &Context,
    registry: &Registry,
    members: &[&Profile],
    occupancy: &Occupancy,
    warnings: &mut Vec<Warning>,
) -> Vec<StatusRow> {
    let kinds: BTreeSet<ProviderKind> = members.iter().map(|profile| profile.provider).collect();
    let looks: BTreeMap<ProviderKind, Result<Look>> = kinds
        .into_iter()
        .map(|kind| (kind, look(context, registry, kind, warnings)))
        .collect();
    let at_work = AtWork::of(registry, occupancy);
    members
        .iter()
        .map(|profile| {
            let reported = match &looks[&profile.provider] {
                Ok(look) => report_on(context, registry, profile, look),
                Err(error) => Err(error.clone()),
            };
            let mut row = profile_row(context, profile, reported.as_ref(), occupancy);
            row.hint = row.hint.map(|hint| at_work.beside(hint, profile));
            row
        })
        .collect()
}

fn profile_row(
    context: &Context,
    profile: &Profile,
    reported: Result<&Report, &Error>,
    occupancy: &Occupancy,
) -> StatusRow {
    let now = context.clock.now();
    let headroom = reported.ok().and_then(|report| headroom(report, now));
    let said =
        reported.map(|report| (&report.state, &report.routeability, report.refusal(profile)));
    let known = Known {
        profile,
        active: occupancy.live(&profile.id),
        said,
        headroom,
    };
    row(&known, now)
}

/// The least share left over all windows of the last reading.
fn headroom(report: &Report, now: Timestamp) -> Option<f64> {
    let reading = headroom::reading(&report.state)?;
    let left = reading
        .windows
        .iter()
        .map(|window| headroom::remaining(window, now));
    left.min_by(f64::total_cmp)
}

/// Looks at a provider's accounts; new evidence that cannot be taken in is a warning, since what was known
/// before still holds.
fn look(
    context: &Context,
    registry: &Registry,
    kind: ProviderKind,
    warnings: &mut Vec<Warning>,
) -> Result<Look> {
    let deadline = context.clock.deadline(PATIENCE);
    let snapshot = match fold::load(context, kind, &deadline) {
        Ok(snapshot) => snapshot,
        Err(error) => {
            let known = snapshot::provider::load(context, kind)?;
            warnings.push(warning::of_error(None, &error));
            known
        }
    };
    Look::of_snapshot(context, registry, kind, snapshot)
}
