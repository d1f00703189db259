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
use crate::secret::kept;
use crate::snapshot::durable;
use crate::transaction::pending;

#[derive(Debug, clap::Args)]
pub(super) struct RemoveArguments {
    /// Which profile
    #[arg(value_name = "PROFILE")]
    id: ProfileId,
    /// Delete its token or key as well, where it is kept outside of the home; a login in a home is never deleted
    #[arg(long)]
    delete_credential: bool,
}

pub(super) fn run(app: &App, arguments: &RemoveArguments) -> Result<Outcome> {
    let (context, id) = (&app.context, &arguments.id);
    let registry = crate::snapshot::registry::load(context)?;
    app.fence(registry.profile(id)?.provider)?;
    let forget = |profile: &Profile| {
        let deadline = context.clock.deadline(ROUTINE);
        durable::forget(context, profile.provider, &profile.id, &deadline)
    };
    let changed = profiles::remove(context, id, |profile| is_unused(context, profile), forget)?;
    app.notes(&changed.notes);
    if arguments.delete_credential {
        kept::delete(context, id)?;
    }
    app.view(&Removed {
        profile: changed.answer.id,
        removed: true,
        home_deleted: false,
        home: changed.answer.home,
        credentials: kept::of(context, id),
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
