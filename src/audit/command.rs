//! That a person's command changed something, or was refused.

use super::{event, write};
use crate::contract::audit::AuditEvent;
use crate::env::{Context, World};
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

/// Writes down that a person's command changed something, or was refused.
pub fn command(context: &Context, world: &World, refusal: Option<&Error>) {
    if !CHANGING.contains(&context.command.as_str()) {
        return;
    }
    let word = match refusal {
        None => "command_done",
        Some(_) => "command_refused",
    };
    write(
        context,
        &AuditEvent {
            profile: profile(context, world, refusal),
            reason: refusal.map(|error| error.code.name.to_owned()),
            ..event(context, word)
        },
    );
}

/// The profile that a command was about. Only one that the command took for a profile: what was refused may be
/// anything that a person pasted.
fn profile(context: &Context, world: &World, refusal: Option<&Error>) -> Option<String> {
    // What follows `import` is a file.
    let names_none = context.command == "profile import";
    if !context.command.starts_with("profile ") || names_none || refusal.is_some() {
        return None;
    }
    let words = world.arguments.iter().filter_map(|word| word.to_str());
    let mut words = words
        .skip_while(|word| !context.command.ends_with(word))
        .skip(1);
    let id: ProfileId = words.find(|word| !word.starts_with('-'))?.parse().ok()?;
    Some(id.to_string())
}
