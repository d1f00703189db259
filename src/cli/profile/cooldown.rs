//! `agent-fleet profile cooldown|cooldown-clear PROFILE`.

use jiff::SignedDuration;

use super::{App, Outcome};
use crate::audit;
use crate::clock::ROUTINE;
use crate::contract::profile::{CooldownCleared, CooldownSet};
use crate::error::{Error, Result, code};
use crate::id::ProfileId;
use crate::report;
use crate::snapshot::{self, hold};

/// Longest rest that a person may set.
const LONGEST: SignedDuration = SignedDuration::from_hours(31 * 24);

#[derive(Debug, clap::Args)]
pub(super) struct CooldownArguments {
    /// Which profile
    #[arg(value_name = "PROFILE")]
    id: ProfileId,
    /// How long, as in `90m` or `2h 30m`; at most 31 days
    #[arg(long = "for", value_name = "TIME", required_unless_present = "seconds")]
    span: Option<SignedDuration>,
    /// How long, in seconds
    #[arg(long, value_name = "N", conflicts_with = "span")]
    seconds: Option<u32>,
    /// Why, for people: `audit` tells it
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Lets a profile rest.
pub(super) fn set(app: &App, arguments: &CooldownArguments) -> Result<Outcome> {
    let context = &app.context;
    let seconds = arguments.seconds.unwrap_or_default();
    let span = arguments
        .span
        .unwrap_or(SignedDuration::from_secs(seconds.into()));
    if span < SignedDuration::from_secs(1) || span > LONGEST {
        let message = "a cooldown lasts between a second and 31 days";
        let again = format!("agent-fleet profile cooldown {} --for 2h", arguments.id);
        return Err(Error::new(code::USAGE, message).hint(again));
    }
    let registry = snapshot::registry::load(context)?;
    let profile = registry.profile(&arguments.id)?;
    let deadline = context.clock.deadline(ROUTINE);
    let until = context.clock.now().checked_add(span);
    let until = until.map_err(|_| Error::internal("the clock has no such time"))?;
    let changed = hold::rest(context, profile.provider, &profile.id, until, &deadline)?;
    if let Some(reason) = &arguments.reason {
        audit::said(context, profile.provider, &profile.id, reason);
    }
    let mut known = snapshot::provider::load(context, profile.provider)?;
    let state = known.states.remove(profile.id.as_str());
    app.view(&CooldownSet {
        profile: profile.id.clone(),
        cooldown: state.and_then(|state| report::profile::cooldown(context, &state)),
        changed,
    })
}

pub(super) fn clear(app: &App, id: &ProfileId) -> Result<Outcome> {
    let context = &app.context;
    let registry = snapshot::registry::load(context)?;
    let profile = registry.profile(id)?;
    let deadline = context.clock.deadline(ROUTINE);
    // What workers met up to now is cleared with the rest, and does not come back with the next command.
    snapshot::fold::settle(context, profile.provider, &deadline)?;
    let changed = hold::clear_limits(context, profile.provider, &profile.id, &deadline)?;
    app.view(&CooldownCleared {
        profile: profile.id.clone(),
        changed,
    })
}
