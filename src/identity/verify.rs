//! Proving accounts because a person asked: each is asked about anew, then held against every other.

use std::collections::{BTreeMap, BTreeSet};

use super::anchor;
use super::conflict::{self, Anchors, Conflict, Holder, Overlap};
use super::proof::{self, Standing, Unproven};
use super::refusal;
use crate::clock::Deadline;
use crate::contract::identity::Verification;
use crate::env::Context;
use crate::error::{Error, Result};
use crate::id::ProviderKind;
use crate::provider::Want;
use crate::quota::refresh::{Ask, Asker, Outcome, Outcomes, Target, refresh};
use crate::registry::schema::{Profile, Registry};
use crate::snapshot::durable::Damage;
use crate::snapshot::profile::ProfileState;
use crate::snapshot::provider::{self, Snapshot};

/// One profile, verified or refused.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// What callers are told.
    pub row: Verification,
    /// Why it is not verified.
    pub refusal: Option<Error>,
    /// Nobody could be asked, because the access token has expired: only the provider's CLI can renew it.
    pub needs_refresh: bool,
}

impl Verdict {
    /// Makes it a refusal for this reason.
    pub fn refuse(&mut self, error: Error) {
        self.row.verified = false;
        error.code.name.clone_into(&mut self.row.reason);
        self.refusal = Some(error);
    }
}

const IDENTITY: Want = Want {
    identity: true,
    usage: false,
};

/// The question about a base login, when it has to be asked before a profile can be told from it.
pub fn about_base<'a>(
    context: &Context,
    registry: &Registry,
    kind: ProviderKind,
) -> Result<Option<Ask<'a>>> {
    let known = provider::load(context, kind)?;
    let standing = anchor::look(context, registry.provider(kind)?, &known)?;
    Ok(standing.renew_base.then_some(Ask {
        target: Target::Base(kind),
        want: IDENTITY,
        asker: Asker::Program,
    }))
}

/// Proves these profiles anew, and the base logins that need it; reports in the order given.
pub fn verify(
    context: &Context,
    registry: &Registry,
    profiles: &[&Profile],
    deadline: &Deadline,
) -> Result<Vec<Verdict>> {
    let kinds: BTreeSet<ProviderKind> = profiles.iter().map(|profile| profile.provider).collect();
    let mut asks: Vec<Ask<'_>> = profiles
        .iter()
        .map(|profile| Ask {
            target: Target::Profile(profile),
            want: IDENTITY,
            asker: Asker::Person,
        })
        .collect();
    for kind in &kinds {
        asks.extend(about_base(context, registry, *kind)?);
    }
    let outcomes = refresh(context, registry, &asks, deadline)?;
    let mut conflicts = BTreeMap::new();
    let mut known = BTreeMap::new();
    for kind in kinds {
        let snapshot = provider::load(context, kind)?;
        let anchors = anchor::look(context, registry.provider(kind)?, &snapshot)?.anchors;
        conflicts.extend(overlaps(registry, kind, &snapshot, &anchors));
        known.insert(kind, snapshot);
    }
    profiles
        .iter()
        .map(|profile| {
            let conflict = conflicts
                .get(profile.id.as_str())
                .map(|overlap| Conflict::of(registry, profile, overlap.clone()));
            verdict(
                context,
                registry,
                profile,
                &known[&profile.provider],
                &outcomes,
                conflict,
            )
        })
        .collect()
}

/// Why a profile is not verified, by what is known of it.
pub(super) fn in_the_way(
    profile: &Profile,
    state: &ProfileState,
    damage: Option<&Damage>,
    standing: &Standing,
    conflict: Option<Conflict>,
) -> Option<Error> {
    match (damage, standing, conflict) {
        (Some(damage), _, _) => Some(damage.clone().into()),
        (None, Standing::Proven(_), Some(conflict)) => Some(conflict.into()),
        (None, Standing::Proven(_), None) => {
            state.auth_broken.as_ref().map(|_| refusal::broken(profile))
        }
        (None, Standing::Renew | Standing::Unproven(_) | Standing::Quarantined(_), _) => {
            standing.refusal(profile).map(Error::from)
        }
    }
}

/// Who shares whose account among the profiles of a provider, as proved last or else as pinned.
pub fn overlaps(
    registry: &Registry,
    kind: ProviderKind,
    snapshot: &Snapshot,
    anchors: &Anchors,
) -> BTreeMap<String, Overlap> {
    let accounts: Vec<_> = registry
        .of(kind)
        .filter_map(|profile| {
            let state = snapshot.states.get(profile.id.as_str())?;
            Some(Holder::of(profile, state.fingerprint()?))
        })
        .collect();
    conflict::find(&accounts, anchors)
}

fn verdict(
    context: &Context,
    registry: &Registry,
    profile: &Profile,
    snapshot: &Snapshot,
    outcomes: &Outcomes,
    conflict: Option<Conflict>,
) -> Result<Verdict> {
    let new = ProfileState::new(&profile.id);
    let state = snapshot.states.get(profile.id.as_str()).unwrap_or(&new);
    let standing = proof::check(
        context,
        profile,
        registry.provider(profile.provider)?,
        state,
    );
    let damage = snapshot.damaged.get(profile.id.as_str());
    let refusal = in_the_way(profile, state, damage, &standing, conflict);
    let key = Target::Profile(profile).key();
    let asked = match outcomes.get(&key) {
        Some(Outcome::Left(word) | Outcome::Failed(word)) => Some(*word),
        Some(Outcome::Known | Outcome::Changed) | None => None,
    };
    let reason = match (&refusal, &standing, asked) {
        (None, _, _) => "proven",
        (Some(_), Standing::Renew, Some(word)) => word,
        (Some(error), Standing::Proven(_), _) => error.code.name,
        (Some(_), _, _) => standing.word(),
    };
    let foreign = outcomes.get(&key) == Some(&Outcome::Changed);
    let refusal = refusal.map(|error| match (&standing, asked) {
        (Standing::Quarantined(_), _) if foreign => refusal::foreign(profile),
        (Standing::Renew, Some("unauthorized")) => refusal::broken(profile),
        (Standing::Renew, Some(word)) => Error {
            message: format!("{} ({word})", error.message),
            ..error
        },
        _ => error,
    });
    let proof = state.proof.as_ref();
    Ok(Verdict {
        row: Verification {
            profile: profile.id.clone(),
            provider: profile.provider,
            verified: refusal.is_none(),
            reason: reason.to_owned(),
            identity_fingerprint: proof.map(|proof| proof.fingerprint.whole.clone()),
            identity_source: proof.map(|proof| proof.source.clone()),
            verified_at: proof.map(|proof| proof.at),
        },
        needs_refresh: refusal.is_some() && asked == Some(Unproven::TokenExpired.word()),
        refusal,
    })
}
