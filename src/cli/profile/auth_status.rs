//! `agent-fleet profile auth-status [PROFILE]`.

use super::{App, Outcome};
use crate::contract::identity::AuthStatusList;
use crate::error::Result;
use crate::id::ProfileId;
use crate::identity::auth::status;
use crate::snapshot;

#[derive(Debug, clap::Args)]
pub(super) struct AuthStatusArguments {
    /// Which profile
    #[arg(value_name = "PROFILE", conflicts_with = "all")]
    id: Option<ProfileId>,
    /// Every profile; the same as naming none
    #[arg(long)]
    all: bool,
}

pub(super) fn run(app: &App, arguments: &AuthStatusArguments) -> Result<Outcome> {
    let context = &app.context;
    let registry = snapshot::registry::load(context)?;
    if let Some(id) = &arguments.id {
        return app.view(&status(context, &registry, registry.profile(id)?));
    }
    let mut profiles: Vec<_> = registry
        .profiles
        .iter()
        .map(|profile| status(context, &registry, profile))
        .collect();
    profiles.sort_by(|one, other| one.profile.cmp(&other.profile));
    app.view(&AuthStatusList { profiles })
}
