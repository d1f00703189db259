//! `agent-fleet profile remove PROFILE`.

use std::time::Duration;

use super::{App, Outcome};
use crate::contract::profile::Removed;
use crate::error::Result;
use crate::id::ProfileId;
use crate::registry::profiles;
use crate::registry::schema::Profile;
use crate::snapshot::durable;

pub(super) fn run(app: &App, id: &ProfileId) -> Result<Outcome> {
    let context = &app.context;
    let forget = |profile: &Profile| {
        let deadline = context.clock.deadline(Duration::from_secs(8));
        durable::forget(context, profile.provider, &profile.id, &deadline)
    };
    let changed = profiles::remove(context, id, removal_checks, forget)?;
    app.notes(&changed.notes);
    app.view(&Removed {
        profile: changed.answer.id,
        removed: true,
        home_deleted: false,
        home: changed.answer.home,
    })
}

/// What must not be pulled out from under a profile.
fn removal_checks(_: &Profile) -> Result<()> {
    Ok(())
}
