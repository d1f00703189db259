//! `agent-fleet profile enable|disable PROFILE`.

use super::{App, Outcome, answer};
use crate::env::Context;
use crate::error::Result;
use crate::id::ProfileId;
use crate::registry::schema::{Profile, Registry};
use crate::registry::{binary, profiles};

pub(super) fn enable(app: &App, id: &ProfileId) -> Result<Outcome> {
    let context = &app.context;
    let check = |registry: &Registry, profile: &Profile| enable_checks(context, registry, profile);
    answer(app, &profiles::enable(context, id, check)?)
}

pub(super) fn disable(app: &App, id: &ProfileId) -> Result<Outcome> {
    answer(app, &profiles::disable(&app.context, id)?)
}

/// Everything a profile needs before it is routed, in the order in which a person would set it up. The
/// first thing that is missing is the error, with the command that provides it.
fn enable_checks(context: &Context, registry: &Registry, profile: &Profile) -> Result<()> {
    let settings = registry.provider(profile.provider)?;
    binary::resolve(context, settings)?;
    Ok(())
}
