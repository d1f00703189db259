//! What a person says that keeps a profile from new work: drains and rests, and their end.
//!
//! # Guarantees
//! - Once a drain or a rest has been answered, nobody is given new work on the profile: a selection that looked
//!   before it was written down is waited for.
//! - It is in force as soon as it is written down, also when that wait is cut short.

use jiff::Timestamp;

use super::durable::update;
use super::profile::{Note, ProfileState};
use super::provider;
use crate::clock::Deadline;
use crate::env::Context;
use crate::error::Result;
use crate::id::{ProfileId, ProviderKind};
use crate::quota::window::Cooldown;
use crate::store::lock::Locks;

/// Waits for the selections that may have looked before what keeps the profile from new work was written down.
fn settle(
    context: &Context,
    provider: ProviderKind,
    profile: &ProfileId,
    deadline: &Deadline,
) -> Result<()> {
    let waited = Locks::of(context).await_selections(provider, deadline);
    waited.map_err(|mut error| {
        error.message = format!(
            "profile `{profile}` takes no new work from now on, but a choice that began before has not ended: {}",
            error.message
        );
        error
    })
}

/// Takes a profile out of routing for new work until [`undrain`]; a second drain replaces the reason.
pub fn drain(
    context: &Context,
    provider: ProviderKind,
    profile: &ProfileId,
    reason: &str,
    deadline: &Deadline,
) -> Result<()> {
    let note = Note {
        reason: reason.to_owned(),
        at: context.clock.now(),
    };
    update(context, provider, profile, deadline, |durable| {
        durable.drain = Some(note);
        Ok(())
    })?;
    settle(context, provider, profile, deadline)
}

/// Ends a drain; false when there was none.
pub fn undrain(
    context: &Context,
    provider: ProviderKind,
    profile: &ProfileId,
    deadline: &Deadline,
) -> Result<bool> {
    update(context, provider, profile, deadline, |durable| {
        Ok(durable.drain.take().is_some())
    })
}

/// The reason word of a cooldown that a person set.
const MANUAL: &str = "manual";

/// Lets a profile rest until then, as a person says; false when it rests as long already.
pub fn rest(
    context: &Context,
    provider: ProviderKind,
    profile: &ProfileId,
    until: Timestamp,
    deadline: &Deadline,
) -> Result<bool> {
    let now = context.clock.now();
    let changed = update(context, provider, profile, deadline, |durable| {
        let known = durable.cooldown.as_ref();
        if known.is_some_and(|known| known.holds(now) && known.until >= until) {
            return Ok(false);
        }
        durable.cooldown = Some(Cooldown {
            reason: MANUAL.to_owned(),
            until,
            since: now,
            guessed: false,
        });
        Ok(true)
    })?;
    settle(context, provider, profile, deadline)?;
    Ok(changed)
}

/// Ends cooldowns and a billing block, for a person who knows better; false when there were none. What they
/// came from is written down in conversations that are read again, and counts no more; a reading that says the same is
/// forgotten.
pub fn clear_limits(
    context: &Context,
    provider: ProviderKind,
    profile: &ProfileId,
    deadline: &Deadline,
) -> Result<bool> {
    provider::update(context, provider, deadline, |snapshot| {
        let state: &mut ProfileState = snapshot.entry(profile.as_str());
        let short = state.cooldown.take().is_some();
        let long = state.durable.cooldown.take().is_some();
        let billing = state.durable.billing_block.take().is_some();
        let any = short || long || billing;
        if any {
            state.durable.limits_cleared = Some(context.clock.now());
            // It would keep work away until its windows reset: measuring anew shows who is right.
            state.reading.take_if(|reading| {
                let mut windows = reading.windows.iter();
                windows.any(|window| window.remaining_percent <= 0.0)
            });
        }
        Ok(any)
    })
}
