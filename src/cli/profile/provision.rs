//! `agent-fleet profile provision PROFILE|--all`.

use super::{App, OneOrAll, Outcome};
use crate::contract::profile::{Provisioned, ProvisionedList};
use crate::error::{Error, Result, code};
use crate::home;
use crate::id::ProfileId;
use crate::identity::{auth, refusal};
use crate::registry::schema::{Profile, Registry, SafetyPolicy};
use crate::snapshot;

pub(super) fn run(app: &App, which: &OneOrAll) -> Result<Outcome> {
    let registry = snapshot::registry::load(&app.context)?;
    let wanted = which.of(&registry)?;
    if let (Some(_), [profile]) = (&which.id, &wanted[..]) {
        return app.view(&one(app, &registry, profile)?);
    }
    // One broken home never keeps its siblings from theirs.
    let (mut profiles, mut failed) = (Vec::new(), Vec::new());
    for profile in wanted {
        match one(app, &registry, profile) {
            Ok(provisioned) => profiles.push(provisioned),
            Err(error) => failed.push((profile.id.clone(), error)),
        }
    }
    if failed.is_empty() {
        return app.view(&ProvisionedList { profiles });
    }
    Err(refusal(&profiles, failed))
}

fn one(app: &App, registry: &Registry, profile: &Profile) -> Result<Provisioned> {
    Ok(Provisioned {
        profile: profile.id.clone(),
        provisioned: true,
        home: profile.home.clone(),
        changes: home::provision(&app.context, registry, profile)?,
        hint: next(app, profile),
    })
}

/// A home is made before anyone logs in to it, and repaired afterwards.
fn next(app: &App, profile: &Profile) -> Option<String> {
    let is_worker = profile.safety_policy == SafetyPolicy::Worker;
    match auth::brief(&app.context, profile) {
        "logged_in" | "refreshable" if profile.enabled || !is_worker => None,
        "logged_in" | "refreshable" => Some(format!("agent-fleet profile enable {}", profile.id)),
        _ => Some(refusal::log_in(profile)),
    }
}

/// The first refusal, with every one in its details.
fn refusal(done: &[Provisioned], failed: Vec<(ProfileId, Error)>) -> Error {
    let done: Vec<&str> = done.iter().map(|one| one.profile.as_str()).collect();
    let every: serde_json::Map<String, serde_json::Value> = failed
        .iter()
        .map(|(id, error)| (id.to_string(), error.message.clone().into()))
        .collect();
    let count = failed.len();
    let Some((id, first)) = failed.into_iter().next() else {
        return Error::internal("nothing failed");
    };
    let message = if count == 1 {
        format!("profile `{id}` was not provisioned: {}", first.message)
    } else {
        format!(
            "{count} profiles were not provisioned, `{id}` first: {}",
            first.message
        )
    };
    let hint = first
        .hint
        .unwrap_or_else(|| format!("agent-fleet profile provision {id}"));
    Error::new(code::NOT_PROVISIONED, message)
        .hint(hint)
        .detail("provisioned", done)
        .detail("failed", every)
}
