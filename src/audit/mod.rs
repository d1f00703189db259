//! What happened and who did it: `state/audit.jsonl`, for whoever has to explain a fleet afterwards.
//!
//! One line per event, appended with one write and no lock. A file of 4 MiB is set aside as `audit.1.jsonl`; four
//! such are kept, so that the newest 16 MiB at least can be read.
//!
//! # Guarantees
//! - No secret and no e-mail address: ids, tasks, reason words, times, and what a person gave as the reason of a drain or a rest.
//! - A line that cannot be written, as on a full disk, changes nothing about what the command does.
//!
//! # Limits
//! Nothing is synced: a power cut may lose the last lines. Nothing decides by it: deleting it costs the history alone.

mod command;
mod read;
mod rotate;
mod state;

pub use command::command;
pub use read::{Filter, read};
pub use state::{Mark, changes};

use camino::Utf8PathBuf;

use crate::contract::audit::AuditEvent;
use crate::contract::lease::Lease;
use crate::env::Context;
use crate::id::{ProfileId, ProviderKind};
use crate::store::append;
use crate::withheld::withhold;

/// Version of the line's fields.
const SCHEMA: u32 = 1;
/// Longest text of a task or a reason, in characters.
const LONGEST: usize = 200;

/// The words for what happened to a lease.
pub mod lease {
    /// A slot was reserved for a task.
    pub const RESERVED: &str = "lease_reserved";
    /// A process took the lease.
    pub const BOUND: &str = "lease_bound";
    /// It was given back.
    pub const RELEASED: &str = "lease_released";
    /// It was taken from a task by force.
    pub const FORCED: &str = "lease_forced";
    /// Its process was found dead, or its reservation over.
    pub const RECLAIMED: &str = "lease_reclaimed";
}

fn path(context: &Context) -> Utf8PathBuf {
    context.roots.state.join("audit.jsonl")
}

/// The start of an event of now.
pub fn event(context: &Context, word: &str) -> AuditEvent {
    AuditEvent {
        schema: SCHEMA,
        at: context.clock.now(),
        event: word.to_owned(),
        by: context.command.clone(),
        pid: std::process::id(),
        ..AuditEvent::default()
    }
}

/// Writes down what happened. A machine that cannot is no reason to fail.
pub fn write(context: &Context, event: &AuditEvent) {
    let path = path(context);
    let Ok(text) = serde_json::to_string(event) else {
        return;
    };
    // Nothing is there before `init`, and an event is no reason to make it.
    if append::line(&path, &text).is_ok() {
        rotate::rotate(context, &path);
    }
}

/// Writes down what happened to a lease.
pub fn of_lease(context: &Context, word: &str, lease: &Lease) {
    write(context, &about(context, word, lease));
}

/// Writes down what happened to a lease, and why.
pub fn of_lease_because(context: &Context, word: &str, lease: &Lease, reason: &str) {
    write(
        context,
        &AuditEvent {
            reason: Some(reason.to_owned()),
            ..about(context, word, lease)
        },
    );
}

/// Writes down what a person gave as the reason of what they did to a profile.
pub fn said(context: &Context, provider: ProviderKind, profile: &ProfileId, reason: &str) {
    write(
        context,
        &AuditEvent {
            provider: Some(provider.to_string()),
            profile: Some(profile.to_string()),
            reason: Some(cut(reason)),
            ..event(context, "reason_given")
        },
    );
}

fn about(context: &Context, word: &str, lease: &Lease) -> AuditEvent {
    let task = lease.task.as_deref();
    AuditEvent {
        provider: Some(lease.provider.to_string()),
        profile: Some(lease.profile.to_string()),
        task: task.map(cut),
        generation: Some(lease.generation),
        ..event(context, word)
    }
}

/// A text that is short enough for a line, and holds nothing that was pasted in the wrong place.
pub fn cut(text: &str) -> String {
    let text = &*withhold(text);
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Filter, cut, event, read, write};
    use crate::contract::audit::AuditEvent;
    use crate::snapshot::provider::tests::World;
    use crate::store::append::LINE_LIMIT;

    #[test]
    fn the_longest_event_fits_one_append() {
        let long = cut(&"\"".repeat(512));
        let widest = cut(&"𝄞".repeat(512));
        for text in [long, widest] {
            let world = World::new();
            let longest = AuditEvent {
                provider: Some("scripted".to_owned()),
                profile: Some("p".repeat(128)),
                task: Some(text.clone()),
                generation: Some(u64::MAX),
                reason: Some(text),
                until: Some(world.context.clock.now()),
                ..event(&world.context, "lease_reclaimed")
            };
            let size = serde_json::to_string(&longest).unwrap().len();
            assert!(size + 2 < LINE_LIMIT, "{size}");
            std::fs::create_dir_all(&world.context.roots.state).unwrap();
            write(&world.context, &longest);
            let found = read(&world.context, &Filter::default()).unwrap();
            assert_eq!(found.events, [longest]);
        }
    }
}
