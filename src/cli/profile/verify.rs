//! `agent-fleet profile verify`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{App, OneOrAll, Outcome};
use crate::clock::ROUTINE;
use crate::contract::identity::{Verification, VerificationList};
use crate::error::{Error, Result};
use crate::identity::verify::{Verdict, verify};
use crate::registry::schema::Profile;
use crate::snapshot;
use crate::worker::probe;

#[derive(Debug, clap::Args)]
pub(super) struct VerifyArguments {
    #[command(flatten)]
    which: OneOrAll,
    /// Let the provider's own CLI refresh a login that cannot be asked about because its token has expired;
    /// refused while the profile has a live lease
    #[arg(long)]
    probe: bool,
    /// How long the CLI is waited for; it is never killed
    #[arg(
        long,
        value_name = "SECONDS",
        requires = "probe",
        default_value_t = 60,
        value_parser = clap::value_parser!(u64).range(1..=600)
    )]
    patience: u64,
}

pub(super) fn run(app: &App, arguments: &VerifyArguments) -> Result<Outcome> {
    let context = &app.context;
    let registry = snapshot::registry::load(context)?;
    let profiles = arguments.which.of(&registry)?;
    let kinds: BTreeSet<_> = profiles.iter().map(|profile| profile.provider).collect();
    let fences: BTreeMap<_, _> = kinds
        .into_iter()
        .filter_map(|kind| Some((kind, app.fence(kind).err()?)))
        .collect();
    let (fenced, free): (Vec<_>, Vec<_>) = profiles
        .into_iter()
        .partition(|profile| fences.contains_key(&profile.provider));
    let mut verdicts = if arguments.probe {
        let patience = Duration::from_secs(arguments.patience);
        let store = app.store()?;
        probe::verify(context, &registry, &store, &free, patience, &|line| {
            app.note(line);
        })?
    } else {
        let deadline = context.clock.deadline(ROUTINE);
        verify(context, &registry, &free, &deadline)?
    };
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
        needs_refresh: false,
    }
}

/// The first refusal, with every row in its details.
fn with_rows(refusal: Error, list: &VerificationList) -> Error {
    match serde_json::to_value(&list.verified) {
        Ok(rows) => refusal.detail("verified", rows),
        Err(error) => Error::internal(format!("cannot serialise: {error}")),
    }
}
