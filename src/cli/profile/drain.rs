//! `agent-fleet profile drain|undrain PROFILE`.

use super::{App, Outcome};
use crate::clock::ROUTINE;
use crate::contract::profile::{Drained, Note};
use crate::error::{Error, Result, code};
use crate::id::ProfileId;
use crate::snapshot::{self, durable, hold};
use crate::withheld::withhold;

#[derive(Debug, clap::Args)]
pub(super) struct DrainArguments {
    /// Which profile
    #[arg(value_name = "PROFILE")]
    id: ProfileId,
    /// Why, for people: 1 to 128 printable characters
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

pub(super) fn drain(app: &App, arguments: &DrainArguments) -> Result<Outcome> {
    // It is kept, and shown to everybody who asks.
    let reason = &*withhold(arguments.reason.trim());
    if !(1..=128).contains(&reason.chars().count()) || reason.chars().any(char::is_control) {
        return Err(
            Error::new(code::USAGE, "a reason has 1 to 128 printable characters").hint(format!(
                "agent-fleet profile drain {} --reason …",
                arguments.id
            )),
        );
    }
    let context = &app.context;
    let registry = snapshot::registry::load(context)?;
    let profile = registry.profile(&arguments.id)?;
    let deadline = context.clock.deadline(ROUTINE);
    hold::drain(context, profile.provider, &profile.id, reason, &deadline)?;
    let drain = durable::load(context, &profile.id)?.drain;
    app.view(&Drained {
        profile: profile.id.clone(),
        drain: drain.map(|note| Note {
            reason: note.reason,
            at: note.at,
            until: None,
            guessed: false,
        }),
        changed: true,
    })
}

pub(super) fn undrain(app: &App, id: &ProfileId) -> Result<Outcome> {
    let context = &app.context;
    let registry = snapshot::registry::load(context)?;
    let profile = registry.profile(id)?;
    let deadline = context.clock.deadline(ROUTINE);
    let changed = hold::undrain(context, profile.provider, &profile.id, &deadline)?;
    app.view(&Drained {
        profile: profile.id.clone(),
        drain: None,
        changed,
    })
}
