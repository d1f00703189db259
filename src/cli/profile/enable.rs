//! `agent-fleet profile enable|disable PROFILE`.

use super::{App, Outcome, answer};
use crate::choose::routeability;
use crate::clock::ROUTINE;
use crate::error::Result;
use crate::id::ProfileId;
use crate::provider::Want;
use crate::quota::refresh::{Ask, Asker, Target, refresh};
use crate::registry::{binary, profiles};

/// Proves the account once, so that what is in the way is said now and not at the first choose.
pub(super) fn enable(app: &App, id: &ProfileId) -> Result<Outcome> {
    let context = &app.context;
    let deadline = context.clock.deadline(ROUTINE);
    let registry = crate::snapshot::registry::load(context)?;
    let profile = registry.profile(id)?;
    let settings = registry.provider(profile.provider)?;
    binary::resolve(context, settings)?;
    let want = Want {
        identity: true,
        usage: true,
    };
    refresh(
        context,
        &registry,
        &[Ask {
            target: Target::Profile(profile),
            want,
            asker: Asker::Program,
        }],
        &deadline,
    )?;
    if let Some(obstacle) =
        routeability::report(context, &registry, profile, &deadline)?.obstacle(profile)
    {
        return Err(obstacle);
    }
    let check = |registry: &_, profile: &_| still_startable(context, registry, profile);
    answer(app, &profiles::enable(context, id, check)?)
}

pub(super) fn disable(app: &App, id: &ProfileId) -> Result<Outcome> {
    answer(app, &profiles::disable(&app.context, id)?)
}

fn still_startable(
    context: &crate::env::Context,
    registry: &crate::registry::schema::Registry,
    profile: &crate::registry::schema::Profile,
) -> Result<()> {
    binary::resolve(context, registry.provider(profile.provider)?)?;
    Ok(())
}
