//! Everything about one profile, for `profile status`.

use std::collections::{BTreeMap, BTreeSet};

use crate::choose::routeability::{self, Look};
use crate::clock::Deadline;
use crate::contract::profile::{Note, Overage, Profile as Shown, ProfileStatus};
use crate::env::Context;
use crate::error::Result;
use crate::identity::credential::{self, Seen};
use crate::lease::{LeaseStore, Occupancy};
use crate::provider::{LoginKind, overrides};
use crate::quota::report::row;
use crate::registry::schema::{Profile, Registry};
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
                &occupancy,
                &looks[&profile.provider],
            )
        })
        .collect()
}

fn status(
    context: &Context,
    registry: &Registry,
    profile: &Profile,
    occupancy: &Occupancy,
    look: &Look,
) -> Result<ProfileStatus> {
    let report = routeability::report_on(context, registry, profile, look)?;
    let state = &report.state;
    Ok(ProfileStatus {
        profile: Shown::from(profile),
        active_leases: occupancy.live(&profile.id),
        auth_status: auth_status(context, profile).to_owned(),
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
        routeability: report.routeability,
        auth_overrides: overrides::found(context, registry, profile, None)
            .into_iter()
            .map(Into::into)
            .collect(),
        login_expires_at: state.login_expires_at,
    })
}

/// What the credential file alone says.
fn auth_status(context: &Context, profile: &Profile) -> &'static str {
    match credential::look(profile.provider, &profile.home, None, context.clock) {
        Seen::Read(look) => match look.login.kind {
            LoginKind::ApiKey => "api_key",
            LoginKind::Blank => "logged_out",
            LoginKind::Subscription => {
                let expired = look
                    .login
                    .access_expires_at
                    .is_some_and(|at| at <= context.clock.now());
                match (expired, look.login.refreshable) {
                    (false, _) => "logged_in",
                    (true, true) => "refreshable",
                    (true, false) => "logged_out",
                }
            }
        },
        Seen::Missing => "logged_out",
        Seen::Linked | Seen::Unreadable | Seen::Unparsable | Seen::Unchanged => "unknown",
    }
}

/// The cooldown that ends last.
fn cooldown(context: &Context, state: &ProfileState) -> Option<Note> {
    let now = context.clock.now();
    let both = [&state.cooldown, &state.durable.cooldown];
    let last = both
        .into_iter()
        .flatten()
        .filter(|cooldown| cooldown.until > now)
        .max_by_key(|cooldown| cooldown.until)?;
    Some(Note {
        reason: last.reason.clone(),
        at: last.since,
        until: Some(last.until),
        guessed: last.guessed,
    })
}
