//! `agent-fleet profile enable|disable PROFILE`.

use super::{App, Outcome, name, told};
use crate::choose::routeability;
use crate::clock::ROUTINE;
use crate::error::Result;
use crate::id::ProfileId;
use crate::identity::verify::about_base;
use crate::provider::Want;
use crate::quota::refresh::{Ask, Asker, Target, refresh};
use crate::registry::{binary, profiles};
use crate::render::page::Page;

/// Proves the account once, so that what is in the way is said now and not at the first choose.
pub(super) fn enable(app: &App, id: &ProfileId) -> Result<Outcome> {
    let context = &app.context;
    let deadline = context.clock.deadline(ROUTINE);
    let registry = crate::snapshot::registry::load(context)?;
    let profile = registry.profile(id)?;
    app.fence(profile.provider)?;
    let settings = registry.provider(profile.provider)?;
    binary::resolve(context, settings)?;
    let want = Want {
        identity: true,
        usage: true,
    };
    let mut asks = vec![Ask {
        target: Target::Profile(profile),
        want,
        asker: Asker::Program,
    }];
    asks.extend(about_base(context, &registry, profile.provider)?);
    refresh(context, &registry, &asks, &deadline)?;
    if let Some(obstacle) =
        routeability::report(context, &registry, profile, &deadline)?.obstacle(profile)
    {
        return Err(obstacle);
    }
    let check = |registry: &_, profile: &_| still_startable(context, registry, profile);
    let changed = profiles::enable(context, id, check)?;
    let mut page = Page::new().line(format!("{} takes work from now on", name(id)));
    if let Some(pool) = changed.answer.pools.first() {
        page = page.next(&format!("agent-fleet pool status --pool {pool}"));
    }
    told(app, &changed, page)
}

pub(super) fn disable(app: &App, id: &ProfileId) -> Result<Outcome> {
    let changed = profiles::disable(&app.context, id)?;
    let page = Page::new().line(format!(
        "{} takes no new work; what runs on it goes on",
        name(id)
    ));
    told(app, &changed, page)
}

fn still_startable(
    context: &crate::env::Context,
    registry: &crate::registry::schema::Registry,
    profile: &crate::registry::schema::Profile,
) -> Result<()> {
    binary::resolve(context, registry.provider(profile.provider)?)?;
    Ok(())
}
