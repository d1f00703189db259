//! `agent-fleet profile list`.

use super::{App, Outcome};
use crate::contract::profile::{Profile, ProfileList};
use crate::error::Result;
use crate::snapshot;

pub(super) fn run(app: &App) -> Result<Outcome> {
    let registry = snapshot::registry::load(&app.context)?;
    let mut profiles: Vec<Profile> = registry.profiles.iter().map(Profile::from).collect();
    profiles.sort_by(|one, other| one.id.cmp(&other.id));
    app.view(&ProfileList { profiles })
}
