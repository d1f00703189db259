//! `agent-fleet profile status [PROFILE]`.

use super::{App, Outcome};
use crate::clock::ROUTINE;
use crate::contract::profile::ProfileStatusList;
use crate::error::{Error, Result};
use crate::id::ProfileId;
use crate::registry::schema::{Profile, Registry};
use crate::report::profile::statuses;
use crate::transaction::pending;

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
    recover(app, &registry, wanted)?;
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

/// Takes back what was cut short, so that the login in force is told of. What cannot be taken back is said, and
/// does not keep the rest from being told.
fn recover(app: &App, registry: &Registry, wanted: Option<&Profile>) -> Result<()> {
    for kind in pending::fenced(&app.context)? {
        let asked = match wanted {
            Some(profile) => profile.provider == kind,
            None => registry.of(kind).next().is_some(),
        };
        if let (true, Err(error)) = (asked, app.fence(kind)) {
            let next = error.hint.as_deref().unwrap_or("agent-fleet doctor");
            app.note(&format!("note: {}; next: {next}", error.message));
        }
    }
    Ok(())
}
