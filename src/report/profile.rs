//! Everything about one profile, for `profile status`.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::choose::routeability::{self, Look, taken, with_slots};
use crate::clock::Deadline;
use crate::contract::lease::{Lease, Verdict};
use crate::contract::profile::{Note, Overage, Profile as Shown, ProfileStatus};
use crate::env::Context;
use crate::error::Result;
use crate::identity::auth;
use crate::lease::{LeaseStore, Occupancy};
use crate::provider::overrides;
use crate::quota::report::row;
use crate::registry::schema::{Profile, Registry};
use crate::report::log_in::AtWork;
use crate::snapshot::profile::ProfileState;

/// The status of some profiles, in their order.
pub fn statuses(
    context: &Context,
    store: &dyn LeaseStore,
    registry: &Registry,
    profiles: &[&Profile],
    deadline: &Deadline,
) -> Result<Vec<ProfileStatus>> {
    let occupancy = store.occupancy()?;
    let is_full = |profile: &&Profile| taken(profile, &occupancy) >= profile.max_concurrent;
    // Only reservations end at a known time, and only where no slot is left does it matter.
    let leases = if profiles.iter().any(is_full) {
        store.list()?.leases
    } else {
        Vec::new()
    };
    let slots = Slots {
        at_work: AtWork::of(registry, &occupancy),
        occupancy,
        leases,
        now: context.clock.now(),
    };
    let kinds: BTreeSet<_> = profiles.iter().map(|profile| profile.provider).collect();
    let mut looks = BTreeMap::new();
    for kind in kinds {
        looks.insert(kind, Look::take(context, registry, kind, deadline)?);
    }
    profiles
        .iter()
        .map(|profile| {
            status(
                context,
                registry,
                profile,
                &slots,
                &looks[&profile.provider],
            )
        })
        .collect()
}

/// Who holds which slot.
struct Slots {
    at_work: AtWork,
    occupancy: Occupancy,
    leases: Vec<Lease>,
    now: Timestamp,
}

impl Slots {
    /// When the first reservation on a profile expires, never in the past.
    fn expires_at(&self, profile: &Profile) -> Option<Timestamp> {
        self.leases
            .iter()
            .filter(|lease| lease.profile == profile.id && lease.verdict != Verdict::Dead)
            .filter_map(|lease| lease.expires_at)
            .min()
            .map(|at| at.max(self.now))
    }
}

fn status(
    context: &Context,
    registry: &Registry,
    profile: &Profile,
    slots: &Slots,
    look: &Look,
) -> Result<ProfileStatus> {
    let report = routeability::report_on(context, registry, profile, look)?;
    let state = &report.state;
    let taken = taken(profile, &slots.occupancy);
    let expires_at = slots.expires_at(profile);
    let mut routeability = with_slots(report.routeability, profile, taken, expires_at);
    let hint = routeability.hint.take();
    routeability.hint = hint.map(|hint| slots.at_work.beside(hint, profile));
    Ok(ProfileStatus {
        profile: Shown::from(profile),
        active_leases: slots.occupancy.live(&profile.id),
        auth_status: auth::brief(context, profile).to_owned(),
        cooldown: cooldown(context, state),
        drain: state.durable.drain.as_ref().map(|note| Note {
            reason: note.reason.clone(),
            at: note.at,
            until: None,
            guessed: false,
        }),
        provisioned: report.provision_problem.is_none(),
        provision_reason: report.provision_problem,
        quota: row(context, registry, profile, look.snapshot())?,
        overage: Overage {
            enabled: state
                .reading
                .as_ref()
                .and_then(|reading| reading.overage_enabled),
            allowed: profile.allow_overage,
        },
        routeability,
        auth_overrides: overrides::found(context, registry, profile, None)
            .into_iter()
            .map(Into::into)
            .collect(),
        login_expires_at: state.login_expires_at,
    })
}

/// The cooldown that ends last.
pub fn cooldown(context: &Context, state: &ProfileState) -> Option<Note> {
    let last = state.rest(context.clock.now())?;
    Some(Note {
        reason: last.reason.clone(),
        at: last.since,
        until: Some(last.until),
        guessed: last.guessed,
    })
}
