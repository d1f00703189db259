//! What people and programs are told of quota: one row per profile, refreshed first where it has aged.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::headroom::{self, Question, Status, Worth};
use super::poll;
use super::refresh::{Ask, Asker, Target, refresh};
use crate::clock::Deadline;
use crate::contract::quota::{Quota, Spend, Window};
use crate::env::Context;
use crate::error::{Refusal as _, Result, code};
use crate::id::ProviderKind;
use crate::identity::proof::{self, Standing};
use crate::provider::Want;
use crate::registry::schema::{Profile, QuotaReader, Registry};
use crate::snapshot::fold;
use crate::snapshot::profile::ProfileState;
use crate::snapshot::provider::Snapshot;
use crate::transaction::pending;

/// What is asked about before the rows are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// Nothing: what is known is shown.
    None,
    /// Proofs that do not hold and readings that are not fresh.
    Aged,
    /// Everything that the poll budget allows.
    Everything,
}

/// The quota of some profiles, in their order.
///
/// While a change of a login is pending that somebody has to take back first, nothing of its provider is asked about: the
/// login in force may be one that nobody will have had.
pub fn rows(
    context: &Context,
    registry: &Registry,
    profiles: &[&Profile],
    renewal: Renewal,
    deadline: &Deadline,
) -> Result<Vec<Quota>> {
    let known = snapshots(context, profiles, deadline)?;
    let now = context.clock.now();
    let mut asks = Vec::new();
    let mut fenced = BTreeSet::new();
    if renewal != Renewal::None {
        fenced = pending::fenced(context)?;
        for profile in profiles {
            if fenced.contains(&profile.provider) {
                continue;
            }
            let state = state(&known, profile);
            let standing = proof::check(
                context,
                profile,
                registry.provider(profile.provider)?,
                &state,
            );
            let aged = !matches!(standing, Standing::Proven(_))
                || worth(registry, profile, &state, now).status != Status::Fresh;
            let hopeless = matches!(standing, Standing::Quarantined(_));
            if renewal == Renewal::Everything || (aged && !hopeless) {
                asks.push(Ask {
                    target: Target::Profile(profile),
                    want: Want {
                        identity: standing == Standing::Renew,
                        usage: true,
                    },
                    asker: match renewal {
                        Renewal::Everything => Asker::Person,
                        Renewal::Aged | Renewal::None => Asker::Program,
                    },
                });
            }
        }
    }
    let known = if asks.is_empty() {
        known
    } else {
        refresh(context, registry, &asks, deadline)?;
        snapshots(context, profiles, deadline)?
    };
    let rows = profiles.iter().map(|profile| {
        let mut row = row(context, registry, profile, &known[&profile.provider])?;
        if fenced.contains(&profile.provider) {
            row.reason = Some(code::TRANSACTION_PENDING.name.to_owned());
        }
        Ok(row)
    });
    rows.collect()
}

fn snapshots(
    context: &Context,
    profiles: &[&Profile],
    deadline: &Deadline,
) -> Result<BTreeMap<ProviderKind, Snapshot>> {
    let kinds: BTreeSet<_> = profiles.iter().map(|profile| profile.provider).collect();
    kinds
        .into_iter()
        .map(|kind| Ok((kind, fold::load(context, kind, deadline)?)))
        .collect()
}

fn state(known: &BTreeMap<ProviderKind, Snapshot>, profile: &Profile) -> ProfileState {
    known
        .get(&profile.provider)
        .and_then(|snapshot| snapshot.states.get(profile.id.as_str()))
        .cloned()
        .unwrap_or_else(|| ProfileState::new(&profile.id))
}

fn worth(registry: &Registry, profile: &Profile, state: &ProfileState, now: Timestamp) -> Worth {
    let readable = registry
        .provider(profile.provider)
        .is_ok_and(|settings| settings.quota_reader != QuotaReader::None);
    let question = Question {
        model: None,
        fresh_seconds: registry.settings.quota_fresh_seconds,
        last_used: state.last_used,
        readable,
        now,
    };
    headroom::worth(state, &question)
}

/// The quota of one profile by what is known of it now.
pub fn row(
    context: &Context,
    registry: &Registry,
    profile: &Profile,
    snapshot: &Snapshot,
) -> Result<Quota> {
    let now = context.clock.now();
    let new = ProfileState::new(&profile.id);
    let state = snapshot.states.get(profile.id.as_str()).unwrap_or(&new);
    let damage = snapshot.damaged.get(profile.id.as_str());
    let standing = proof::check(
        context,
        profile,
        registry.provider(profile.provider)?,
        state,
    );
    let proof = state.proof.as_ref();
    let worth = worth(registry, profile, state, now);
    let reading = headroom::reading(state);
    let in_the_way = match (&standing, damage) {
        (_, Some(damage)) => Some(damage.code().name),
        // Another login took the place of the one that was refused, and has only to be proved.
        (Standing::Renew, None) if proof.is_some() => None,
        (Standing::Proven(_) | Standing::Renew, None) => {
            state.auth_broken.as_ref().map(|_| code::AUTH_BROKEN.name)
        }
        (Standing::Unproven(_) | Standing::Quarantined(_), None) => Some(standing.word()),
    };
    let reason = in_the_way
        .map(str::to_owned)
        .or_else(|| worth.reason.clone())
        // A part of a fresh answer made no sense, and counts as used up.
        .or_else(|| {
            state
                .poll
                .reason
                .clone()
                .filter(|word| word == poll::MISREAD)
        });
    let polled = state.poll.last_at.map(|_| "fresh".to_owned());
    Ok(Quota {
        schema: 1,
        profile: profile.id.clone(),
        provider: profile.provider,
        status: worth.status.name().to_owned(),
        fresh: worth.status == Status::Fresh,
        age_seconds: worth.age_seconds,
        reported_status: state
            .poll
            .reason
            .clone()
            .or(polled)
            .unwrap_or_else(|| Status::Unmeasured.name().to_owned()),
        reason,
        headroom_percent: worth.headroom,
        identity_fingerprint: proof.map(|proof| proof.fingerprint.whole.clone()),
        identity_source: proof.map(|proof| proof.source.clone()),
        verified_at: proof.map(|proof| proof.at),
        verified_recent: damage.is_none() && matches!(standing, Standing::Proven(_)),
        verification_age_seconds: proof.map(|proof| headroom::age_seconds(proof.at, now)),
        refreshed_at: reading.map(|reading| reading.at),
        source: reading.map(|reading| reading.source.clone()),
        next_poll_at: poll::next_at(&state.poll, now),
        overage_enabled: reading.and_then(|reading| reading.overage_enabled),
        overage_spend: reading
            .and_then(|reading| reading.spend)
            .map(|spend| Spend {
                used: spend.used,
                limit: spend.limit,
                balance: spend.balance,
            }),
        windows: reading
            .into_iter()
            .flat_map(|reading| &reading.windows)
            .map(|window| Window {
                id: window.id.clone(),
                kind: window.kind.name().to_owned(),
                scope: window.scope.clone(),
                remaining_percent: headroom::remaining(window, now),
                resets_at: window.resets_at,
                presumed: headroom::has_reset(window, now),
            })
            .collect(),
    })
}
