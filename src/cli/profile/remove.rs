//! `agent-fleet profile remove PROFILE`.

use super::{App, Outcome};
use crate::clock::ROUTINE;
use crate::contract::profile::Removed;
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::id::ProfileId;
use crate::lease::{LeaseStore as _, TableStore};
use crate::registry::profiles;
use crate::registry::schema::Profile;
use crate::render::words;
use crate::snapshot::durable;
use crate::transaction::pending;

pub(super) fn run(app: &App, id: &ProfileId) -> Result<Outcome> {
    let context = &app.context;
    let registry = crate::snapshot::registry::load(context)?;
    app.fence(registry.profile(id)?.provider)?;
    let forget = |profile: &Profile| {
        let deadline = context.clock.deadline(ROUTINE);
        durable::forget(context, profile.provider, &profile.id, &deadline)
    };
    let changed = profiles::remove(context, id, |profile| is_unused(context, profile), forget)?;
    app.notes(&changed.notes);
    app.view(&Removed {
        profile: changed.answer.id,
        removed: true,
        home_deleted: false,
        home: changed.answer.home,
    })
}

/// A live worker keeps its profile.
fn is_unused(context: &Context, profile: &Profile) -> Result<()> {
    // Under maintenance now: one that was begun since the look before has its say.
    if let Some(pending) = pending::of(context, profile.provider)?.first() {
        return Err(pending.refusal(None));
    }
    let deadline = context.clock.deadline(ROUTINE);
    let occupancy = TableStore::open(context, deadline)?.occupancy()?;
    let live = occupancy.live(&profile.id);
    if live == 0 && !occupancy.probed.contains(&profile.id) {
        return Ok(());
    }
    let leases = words::count(live.max(1), "live lease");
    let message = format!("profile `{}` has {leases}", profile.id);
    Err(Error::new(code::LEASE_ACTIVE, message).hint("agent-fleet lease list"))
}
