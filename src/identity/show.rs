//! Everything known of whose account a profile holds, for people: fingerprints, never a name or an id.

use super::anchor;
use super::conflict::{AnchorIdentity, Conflict, Overlap};
use super::fingerprint::Fingerprint;
use super::proof::{self, Standing};
use super::verify::{in_the_way, overlaps};
use crate::contract::identity as shown;
use crate::env::Context;
use crate::error::Result;
use crate::registry::schema::{Anchor, Profile, Registry};
use crate::snapshot::profile::{Binding, Pinned, ProfileState, Proof};
use crate::snapshot::provider;

/// Looks at local files alone; asks nobody and writes nothing.
pub fn show(
    context: &Context,
    registry: &Registry,
    profile: &Profile,
) -> Result<shown::ProfileIdentity> {
    let id = profile.id.as_str();
    let settings = registry.provider(profile.provider)?;
    let snapshot = provider::load(context, profile.provider)?;
    let new = ProfileState::new(&profile.id);
    let state = snapshot.states.get(id).unwrap_or(&new);
    let standing = proof::check(context, profile, settings, state);
    let anchors = anchor::look(context, settings, &snapshot)?.anchors;
    let overlap = overlaps(registry, profile.provider, &snapshot, &anchors).remove(id);
    let refusal = in_the_way(
        profile,
        state,
        snapshot.damaged.get(id),
        &standing,
        overlap
            .clone()
            .map(|overlap| Conflict::of(registry, profile, overlap)),
    );
    let reason = match (&refusal, &standing) {
        (None, _) => "proven",
        (Some(error), Standing::Proven(_)) => error.code.name,
        (Some(error), _) if snapshot.damaged.contains_key(id) => error.code.name,
        (Some(_), _) => standing.word(),
    };
    Ok(shown::ProfileIdentity {
        profile: profile.id.clone(),
        provider: profile.provider,
        verified: refusal.is_none(),
        reason: reason.to_owned(),
        pinned: state.durable.pinned.as_ref().map(pinned),
        proof: state.proof.as_ref().map(|proof| {
            let age = context.clock.now().duration_since(proof.at).as_secs();
            told(proof, &standing, u64::try_from(age).unwrap_or(0))
        }),
        quarantine: state
            .durable
            .quarantine
            .as_ref()
            .map(|note| shown::Quarantine {
                reason: note.reason.clone(),
                at: note.at,
            }),
        conflict: overlap.map(|overlap| shown::Conflict {
            code: overlap.code().name.to_owned(),
            with: with(overlap),
        }),
        base: told_anchor(&settings.base_home, &anchors.base),
        desktop: told_anchor(&settings.desktop_identity_file, &anchors.desktop),
        hint: refusal.and_then(|error| error.hint),
    })
}

fn pinned(pinned: &Pinned) -> shown::Pinned {
    shown::Pinned {
        fingerprint: pinned.fingerprint.whole.clone(),
        components: pinned.fingerprint.components(),
        source: pinned.source.clone(),
        at: pinned.at,
    }
}

fn told(proof: &Proof, standing: &Standing, age_seconds: u64) -> shown::Proof {
    shown::Proof {
        fingerprint: proof.fingerprint.whole.clone(),
        components: proof.fingerprint.components(),
        source: proof.source.clone(),
        at: proof.at,
        age_seconds,
        binding: match proof.binding {
            Binding::Tokens(_) => "tokens",
            Binding::NoCredential => "no_credential",
        }
        .to_owned(),
        holds: matches!(standing, Standing::Proven(_)),
    }
}

fn with(overlap: Overlap) -> Vec<String> {
    match overlap {
        Overlap::Duplicate(mut others) => {
            others.sort_unstable();
            others
        }
        Overlap::Base | Overlap::BaseUnverified(_) => vec!["base".to_owned()],
        Overlap::Desktop | Overlap::DesktopUnverified(_) => vec!["desktop".to_owned()],
    }
}

fn told_anchor(configured: &Anchor, anchor: &AnchorIdentity) -> shown::Anchor {
    let path = match configured {
        Anchor::Off => None,
        Anchor::At(path) => Some(path.clone()),
    };
    let (state, reason, fingerprint) = match anchor {
        AnchorIdentity::Nobody if path.is_none() => ("off", None, None),
        AnchorIdentity::Nobody => ("nobody", None, None),
        AnchorIdentity::Account(account) => ("account", None, Some(account)),
        AnchorIdentity::Unverified(reason) => ("unverified", Some(*reason), None),
    };
    shown::Anchor {
        state: state.to_owned(),
        reason: reason.map(str::to_owned),
        components: fingerprint.map(Fingerprint::components).unwrap_or_default(),
        fingerprint: fingerprint.map(|account| account.whole.clone()),
        path,
    }
}
