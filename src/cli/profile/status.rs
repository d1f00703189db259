//! `agent-fleet profile status [PROFILE]`.

use super::{App, Outcome};
use crate::clock::ROUTINE;
use crate::contract::profile::ProfileStatusList;
use crate::error::{Error, Result};
use crate::id::ProfileId;
use crate::report::profile::statuses;

#[derive(Debug, clap::Args)]
pub(super) struct StatusArguments {
    /// Which profile; all when left out
    #[arg(value_name = "PROFILE")]
    id: Option<ProfileId>,
}

pub(super) fn run(app: &App, arguments: &StatusArguments) -> Result<Outcome> {
    let context = &app.context;
    let registry = crate::snapshot::registry::load(context)?;
    let wanted = match &arguments.id {
        Some(id) => Some(registry.profile(id)?),
        None => None,
    };
    let kinds = registry.profiles.iter();
    let kinds = kinds.filter(|profile| wanted.is_none_or(|wanted| wanted.id == profile.id));
    app.recover(&kinds.map(|profile| profile.provider).collect())?;
    let deadline = context.clock.deadline(ROUTINE);
    let store = app.store()?;
    if let Some(profile) = wanted {
        let mut one = statuses(context, &store, &registry, &[profile], &deadline)?;
        return match one.pop() {
            Some(status) => app.view(&status),
            None => Err(Error::internal("a profile without a status")),
        };
    }
    let mut all: Vec<_> = registry.profiles.iter().collect();
    all.sort_by(|one, other| one.id.cmp(&other.id));
    let profiles = statuses(context, &store, &registry, &all, &deadline)?;
    app.view(&ProfileStatusList { profiles })
}
