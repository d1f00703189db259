//! One profile's row of `status`. Pure.

use jiff::Timestamp;

use crate::contract::profile::Routeability;
use crate::contract::status::{RowState, StatusRow};
use crate::error::Error;
use crate::quota::headroom::age_seconds;
use crate::registry::schema::{Profile, SafetyPolicy};
use crate::snapshot::profile::ProfileState;

/// What a row is made of.
#[derive(Debug)]
pub(super) struct Known<'a> {
    /// The registry's entry.
    pub(super) profile: &'a Profile,
    /// Live leases on it.
    pub(super) active: u32,
    /// What the snapshot holds, what choosing would say, and its sentence; or why neither can be told.
    pub(super) said: Result<(&'a ProfileState, &'a Routeability, Option<Error>), &'a Error>,
    /// Least remaining percent of the last reading, windows that have reset counted as full.
    pub(super) headroom: Option<f64>,
}

/// The row of a profile.
pub(super) fn row(known: &Known<'_>, now: Timestamp) -> StatusRow {
    let profile = known.profile;
    let routed = profile.enabled && profile.safety_policy == SafetyPolicy::Worker;
    let (state, reason, refusal) = match &known.said {
        Err(error) => (None, error.code.name.to_owned(), Some((*error).clone())),
        Ok((state, routeability, refusal)) => {
            (Some(*state), routeability.reason.clone(), refusal.clone())
        }
    };
    let eligible = matches!(&known.said, Ok((_, routeability, _)) if routeability.eligible);
    let full = known.active >= profile.max_concurrent;
    let row_state = match (routed, eligible) {
        (false, _) => RowState::Disabled,
        (true, true) if full => RowState::Full,
        (true, true) => RowState::Free,
        (true, false) => RowState::Blocked,
    };
    let reason = match row_state {
        RowState::Full => "capacity".to_owned(),
        RowState::Disabled if eligible => "profile_disabled".to_owned(),
        RowState::Free | RowState::Blocked | RowState::Disabled => reason,
    };
    let until = match &known.said {
        Ok((_, routeability, _)) => routeability.retry_at.filter(|at| *at > now),
        Err(error) => error.retry_at,
    };
    let hint = match &known.said {
        Ok((_, routeability, _)) => routeability.hint.clone(),
        Err(error) => error.hint.clone(),
    };
    StatusRow {
        profile: profile.id.clone(),
        provider: profile.provider,
        pools: profile.pools.clone(),
        state: row_state,
        why: refusal.map(|error| error.message),
        since: state.and_then(|state| since(state, &reason, now)),
        until,
        headroom_percent: known.headroom,
        reading_age_seconds: state
            .and_then(|state| state.reading.as_ref())
            .map(|reading| age_seconds(reading.at, now)),
        active_leases: known.active,
        max_concurrent: profile.max_concurrent,
        login_expires_at: state.and_then(|state| state.login_expires_at),
        reason,
        hint,
    }
}

/// Since when a reason holds, where the state says so.
fn since(state: &ProfileState, reason: &str, now: Timestamp) -> Option<Timestamp> {
    let durable = &state.durable;
    let note = match reason {
        "cooldown" => return state.rest(now).map(|cooldown| cooldown.since),
        "draining" => &durable.drain,
        "identity_changed" => &durable.quarantine,
        "money_guard" => &durable.billing_block,
        "auth_broken" => &state.auth_broken,
        "login_expired" => return state.login_expires_at,
        _ => return None,
    };
    note.as_ref().map(|note| note.at)
}
