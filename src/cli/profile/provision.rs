//! `agent-fleet profile provision PROFILE|--all`.

use super::{App, Outcome};
use crate::contract::profile::{Provisioned, ProvisionedList};
use crate::error::{Error, Result, code};
use crate::home;
use crate::id::ProfileId;
use crate::registry::schema::{Profile, Registry};
use crate::snapshot;

#[derive(Debug, clap::Args)]
pub(super) struct ProvisionArguments {
    /// Which profile
    #[arg(
        value_name = "PROFILE",
        required_unless_present = "all",
        conflicts_with = "all"
    )]
    id: Option<ProfileId>,
    /// Every profile of the registry
    #[arg(long)]
    all: bool,
}

pub(super) fn run(app: &App, arguments: &ProvisionArguments) -> Result<Outcome> {
    let registry = snapshot::registry::load(&app.context)?;
    if let Some(id) = &arguments.id {
        return app.view(&one(app, &registry, registry.profile(id)?)?);
    }
    // One broken home never keeps its siblings from theirs.
    let (mut profiles, mut failed) = (Vec::new(), Vec::new());
    for profile in &registry.profiles {
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
    })
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
