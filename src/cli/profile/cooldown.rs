//! `agent-fleet profile cooldown-clear PROFILE`.

use super::{App, Outcome};
use crate::clock::ROUTINE;
use crate::contract::profile::CooldownCleared;
use crate::error::Result;
use crate::id::ProfileId;
use crate::snapshot::{self, durable};

pub(super) fn clear(app: &App, id: &ProfileId) -> Result<Outcome> {
    let context = &app.context;
    let registry = snapshot::registry::load(context)?;
    let profile = registry.profile(id)?;
    let deadline = context.clock.deadline(ROUTINE);
    // What workers met up to now is cleared with the rest, and does not come back with the next command.
    snapshot::fold::settle(context, profile.provider, &deadline)?;
    let changed = durable::clear_limits(context, profile.provider, &profile.id, &deadline)?;
    app.view(&CooldownCleared {
        profile: profile.id.clone(),
        changed,
    })
}
