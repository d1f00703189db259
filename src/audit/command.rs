//! That a person's command changed something, or was refused.

use super::{event, write};
use crate::contract::audit::AuditEvent;
use crate::env::Context;
use crate::error::Error;
use crate::id::ProfileId;

/// Commands of a person that change what is configured; each is an event, also when it was refused.
const CHANGING: [&str; 20] = [
    "config set",
    "init",
    "lease recover",
    "profile add",
    "profile cooldown",
    "profile cooldown-clear",
    "profile disable",
    "profile drain",
    "profile enable",
    "profile enroll",
    "profile import",
    "profile login",
    "profile policy",
    "profile provision",
    "profile remove",
    "profile undrain",
    "project register",
    "project remove",
    "session remove",
    "transaction recover",
];

/// Writes down that a person's command changed something, or was refused. `subject` finds the profile that it was
/// about. It is not asked after a refusal: what was refused may be anything that a person pasted.
pub fn command(
    context: &Context,
    refusal: Option<&Error>,
    subject: impl FnOnce() -> Option<ProfileId>,
) {
    if !CHANGING.contains(&context.command.as_str()) {
        return;
    }
    let (word, profile) = match refusal {
        None => ("command_done", subject()),
        Some(_) => ("command_refused", None),
    };
    write(
        context,
        &AuditEvent {
            profile: profile.map(|id| id.to_string()),
            reason: refusal.map(|error| error.code.name.to_owned()),
            ..event(context, word)
        },
    );
}
