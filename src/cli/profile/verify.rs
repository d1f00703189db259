//! `agent-fleet profile verify`.

use std::collections::{BTreeMap, BTreeSet};

use super::{App, OneOrAll, Outcome};
use crate::clock::ROUTINE;
use crate::contract::identity::{Verification, VerificationList};
use crate::error::{Error, Result};
use crate::identity::verify::{Verdict, verify};
use crate::registry::schema::Profile;
use crate::snapshot;

pub(super) fn run(app: &App, which: &OneOrAll) -> Result<Outcome> {
    let context = &app.context;
    let registry = snapshot::registry::load(context)?;
    let profiles = which.of(&registry)?;
    let kinds: BTreeSet<_> = profiles.iter().map(|profile| profile.provider).collect();
    let fences: BTreeMap<_, _> = kinds
        .into_iter()
        .filter_map(|kind| Some((kind, app.fence(kind).err()?)))
        .collect();
    let (fenced, free): (Vec<_>, Vec<_>) = profiles
        .into_iter()
        .partition(|profile| fences.contains_key(&profile.provider));
    let deadline = context.clock.deadline(ROUTINE);
    let mut verdicts = verify(context, &registry, &free, &deadline)?;
    verdicts.extend(fenced.into_iter().filter_map(|profile| {
        let fence = fences.get(&profile.provider)?;
        Some(unasked(profile, fence))
    }));
    verdicts.sort_by(|one, other| one.row.profile.cmp(&other.row.profile));
    let refusal = verdicts.iter().find_map(|verdict| verdict.refusal.clone());
    let list = VerificationList {
        verified: verdicts.into_iter().map(|verdict| verdict.row).collect(),
    };
    match refusal {
        None => app.view(&list),
        Some(refusal) => Err(with_rows(refusal, &list)),
    }
}

/// A profile that was not asked about: a change of a login of its provider is pending.
fn unasked(profile: &Profile, fence: &Error) -> Verdict {
    Verdict {
        row: Verification {
            profile: profile.id.clone(),
            provider: profile.provider,
            verified: false,
            reason: fence.code.name.to_owned(),
            identity_fingerprint: None,
            identity_source: None,
            verified_at: None,
        },
        refusal: Some(fence.clone()),
    }
}

/// The first refusal, with every row in its details.
fn with_rows(refusal: Error, list: &VerificationList) -> Error {
    match serde_json::to_value(&list.verified) {
        Ok(rows) => refusal.detail("verified", rows),
        Err(error) => Error::internal(format!("cannot serialise: {error}")),
    }
}
