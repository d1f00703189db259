//! What a pool can take now, for `pool status`.
//!
//! It is what a choice would come to, without the network: a reading that has aged counts as it stood, because
//! choosing renews it by the way. `retry_at` is the earliest time at which any enabled profile may be back.

use super::profile::statuses;
use crate::choose::rank::adjusted_headroom;
use crate::clock::Deadline;
use crate::contract::pool::{PoolStatus, ProviderStatus};
use crate::contract::profile::ProfileStatus;
use crate::env::Context;
use crate::error::Result;
use crate::id::{PoolId, ProviderKind};
use crate::lease::LeaseStore;
use crate::reason;
use crate::registry::schema::{Missing, Profile, Registry, Settings};

/// The status of a pool: local files only. Fails with `not_found` when no profile is in it.
pub fn status(
    context: &Context,
    store: &dyn LeaseStore,
    registry: &Registry,
    pool: &PoolId,
    provider: Option<ProviderKind>,
    deadline: &Deadline,
) -> Result<PoolStatus> {
    let mut members: Vec<&Profile> = registry
        .profiles
        .iter()
        .filter(|profile| profile.pools.contains(pool))
        .filter(|profile| provider.is_none_or(|only| profile.provider == only))
        .collect();
    if members.is_empty() {
        return Err(Missing::Pool(pool.clone()).into());
    }
    members.sort_by(|one, other| one.id.cmp(&other.id));
    let all = statuses(context, store, registry, &members, deadline)?;
    let providers = ProviderKind::ALL
        .into_iter()
        .filter_map(|kind| {
            let profiles: Vec<ProfileStatus> = all
                .iter()
                .filter(|status| status.profile.provider == kind)
                .cloned()
                .collect();
            (!profiles.is_empty()).then(|| summary(kind, profiles, &registry.settings))
        })
        .collect();
    Ok(PoolStatus {
        schema: 1,
        pool: pool.clone(),
        providers,
    })
}

fn summary(
    provider: ProviderKind,
    profiles: Vec<ProfileStatus>,
    settings: &Settings,
) -> ProviderStatus {
    let eligible: Vec<&ProfileStatus> = profiles.iter().filter(|one| can_take(one)).collect();
    let available = !eligible.is_empty();
    let best = eligible
        .iter()
        .filter_map(|one| {
            let headroom = one.quota.headroom_percent?;
            Some(adjusted_headroom(
                headroom,
                one.profile.weight,
                one.active_leases,
                settings,
            ))
        })
        .max_by(f64::total_cmp);
    ProviderStatus {
        provider,
        available,
        selection_mode: if available { "quota" } else { "unavailable" },
        degraded: available
            && !eligible
                .iter()
                .any(|one| one.routeability.reason == reason::FRESH),
        eligible_profiles: u32::try_from(eligible.len()).unwrap_or(u32::MAX),
        best_adjusted_headroom_percent: best,
        active_leases: profiles.iter().map(|one| one.active_leases).sum(),
        retry_at: if available {
            None
        } else {
            profiles
                .iter()
                .filter(|one| one.profile.enabled)
                .filter_map(|one| one.routeability.retry_at)
                .min()
        },
        profiles,
    }
}

fn can_take(status: &ProfileStatus) -> bool {
    status.profile.enabled && status.routeability.eligible
}
