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

use super::{inhabitants, refresh_lock};
use crate::choose::routeability::{Look, Report, report_on};
use crate::contract::lease::{DamagedLease, Lease, Verdict};
use crate::contract::status::{RowState, Status, StatusRow, Summary, Warning};
use crate::contract::unleased::Unleased;
use crate::env::Context;
use crate::error::{Error, Result};
use crate::id::{PoolId, ProviderKind};
use crate::lease::{LeaseStore as _, Occupancy, TableStore};
use crate::provider::inhabitant::Host;
use crate::quota::headroom;
use crate::registry::schema::{Missing, Profile, Registry};
use crate::snapshot::{self, fold};
use row::{Known, row};
use warning::Seen;

/// How long all waiting for locks may take: a person waits for the answer.
const PATIENCE: Duration = Duration::from_millis(500);

/// What was seen of the lease table.
#[derive(Debug, Default)]
struct Leases {
    leases: Vec<Lease>,
    damaged: Vec<DamagedLease>,
    occupancy: Occupancy,
}

/// The state of the fleet, or of one pool. Fails only when no profile is in that pool.
pub fn status(context: &Context, pool: Option<&PoolId>) -> Result<Status> {
    let now = context.clock.now();
    let mut warnings = Vec::new();
    let mut keep = |outcome: Result<_>| match outcome {
        Ok(found) => Some(found),
        Err(error) => {
            warnings.push(warning::of_error(None, &error));
            None
        }
    };
    let registry = keep(snapshot::registry::load(context).map(Box::new)).map(|found| *found);
    let leases = leases(context).unwrap_or_else(|error| {
        warnings.push(warning::of_error(None, &error));
        Leases::default()
    });
    let Some(registry) = registry else {
        let Leases {
            leases, damaged, ..
        } = leases;
        warnings.extend(warning::all(&Seen {
            rows: &[],
            leases: &leases,
            damaged: &damaged,
            unleased: &[],
            locks: &[],
            now,
        }));
        return Ok(put_together(
            now,
            pool,
            Vec::new(),
            (leases, damaged),
            Vec::new(),
            warnings,
        ));
    };
    let members = members(&registry, pool)?;
    let rows = rows(
        context,
        &registry,
        &members,
        &leases.occupancy,
        &mut warnings,
    );
    let host = Host::look();
    let (mut unleased, mut locks) = (Vec::new(), Vec::new());
    for profile in &members {
        let home = inhabitants::home(&registry, profile, &leases.leases, &host);
        let leased = |lease: &Lease| lease.profile == profile.id && is_live(lease);
        let empty = home.empty && !leases.leases.iter().any(leased);
        let found = refresh_lock::find(profile, context.clock);
        locks.extend(found.into_iter().map(|lock| (*profile, lock, empty)));
        unleased.extend(home.unleased);
    }
    let wanted =
        |lease: &Lease| pool.is_none() || members.iter().any(|profile| profile.id == lease.profile);
    let Leases {
        leases, damaged, ..
    } = leases;
    let leases: Vec<Lease> = leases.into_iter().filter(wanted).collect();
    warnings.extend(warning::all(&Seen {
        rows: &rows,
        leases: &leases,
        damaged: &damaged,
        unleased: &unleased,
        locks: &locks,
        now,
    }));
    Ok(put_together(
        now,
        pool,
        rows,
        (leases, damaged),
        unleased,
        warnings,
    ))
}

fn put_together(
    now: Timestamp,
    pool: Option<&PoolId>,
    profiles: Vec<StatusRow>,
    (leases, damaged): (Vec<Lease>, Vec<DamagedLease>),
    unleased: Vec<Unleased>,
    warnings: Vec<Warning>,
) -> Status {
    let of = |state: RowState| count(profiles.iter().filter(|row| row.state == state).count());
    Status {
        schema: 1,
        generated_at: now,
        pool: pool.cloned(),
        summary: Summary {
            free: of(RowState::Free),
            full: of(RowState::Full),
            blocked: of(RowState::Blocked),
            disabled: of(RowState::Disabled),
            live_leases: count(leases.iter().filter(|lease| is_live(lease)).count()),
            unleased: count(unleased.len()),
            warnings: count(warnings.len()),
        },
        next: next::next(&profiles, &warnings),
        profiles,
        leases,
        damaged,
        unleased,
        warnings,
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn is_live(lease: &Lease) -> bool {
    lease.verdict != Verdict::Dead
}

fn leases(context: &Context) -> Result<Leases> {
    let store = TableStore::open(context, context.clock.deadline(PATIENCE))?;
    let listing = store.list()?;
    Ok(Leases {
        leases: listing.leases,
        damaged: listing.damaged,
        occupancy: store.occupancy()?,
    })
}

/// The profiles that are asked about, sorted by id.
fn members<'a>(registry: &'a Registry, pool: Option<&PoolId>) -> Result<Vec<&'a Profile>> {
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
    members
        .iter()
        .map(|profile| {
            let reported = match &looks[&profile.provider] {
                Ok(look) => report_on(context, registry, profile, look),
                Err(error) => Err(error.clone()),
            };
            profile_row(context, profile, reported.as_ref(), occupancy)
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
    row(known, now)
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
