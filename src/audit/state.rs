//! What a change of a profile's state amounts to. Pure.

use jiff::Timestamp;

use super::cut;
use crate::contract::audit::AuditEvent;
use crate::quota::window::Cooldown;
use crate::snapshot::profile::{Binding, Durable, Note, ProfileState};

/// What was known of a profile before a change, as far as a change of it is an event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mark {
    /// The facts that survive.
    pub durable: Durable,
    auth_broken: Option<Note>,
    cooldown: Option<Cooldown>,
    login: Option<Binding>,
}

impl Mark {
    /// What is known now.
    pub fn of(state: &ProfileState) -> Self {
        Self {
            durable: state.durable.clone(),
            auth_broken: state.auth_broken.clone(),
            cooldown: state.cooldown.clone(),
            login: state.proof.as_ref().map(|proof| proof.binding.clone()),
        }
    }

    /// Whether nothing of it has changed.
    pub fn still_holds(&self, state: &ProfileState) -> bool {
        let login = state.proof.as_ref().map(|proof| &proof.binding);
        self.durable == state.durable
            && self.auth_broken == state.auth_broken
            && self.cooldown == state.cooldown
            && self.login.as_ref() == login
    }

    fn rest(&self) -> Option<&Cooldown> {
        let both = [&self.cooldown, &self.durable.cooldown];
        both.into_iter().flatten().max_by_key(|one| one.until)
    }
}

/// The events of a change, each made from a start with the word for it.
pub fn changes(
    before: &Mark,
    after: &Mark,
    now: Timestamp,
    start: impl Fn(&str) -> AuditEvent,
) -> Vec<AuditEvent> {
    let mut events = Vec::new();
    let mut noted = |old: &Option<Note>, new: &Option<Note>, set: &str, lifted: &str| {
        if old == new {
            return;
        }
        events.push(match new {
            Some(note) => AuditEvent {
                reason: Some(cut(&note.reason)),
                ..start(set)
            },
            None => start(lifted),
        });
    };
    let (old, new) = (&before.durable, &after.durable);
    noted(
        &old.quarantine,
        &new.quarantine,
        "quarantined",
        "quarantine_lifted",
    );
    noted(&old.drain, &new.drain, "drained", "undrained");
    noted(
        &old.billing_block,
        &new.billing_block,
        "billing_blocked",
        "billing_unblocked",
    );
    noted(
        &before.auth_broken,
        &after.auth_broken,
        "auth_broken",
        "auth_mended",
    );
    let whose = |durable: &Durable| {
        durable
            .pinned
            .as_ref()
            .map(|pin| pin.fingerprint.whole.clone())
    };
    if let Some(pinned) = &new.pinned
        && whose(old) != whose(new)
    {
        events.push(AuditEvent {
            reason: Some(pinned.source.clone()),
            ..start("identity_pinned")
        });
    }
    if before.login.is_some() && after.login.is_some() && before.login != after.login {
        events.push(start("login_changed"));
    }
    match (before.rest(), after.rest()) {
        (old, Some(new)) if old.map(|old| old.until) != Some(new.until) => {
            events.push(AuditEvent {
                reason: Some(cut(&new.reason)),
                until: Some(new.until),
                ..start("cooldown_set")
            });
        }
        (Some(old), None) if old.until > now => events.push(start("cooldown_lifted")),
        (Some(_) | None, Some(_) | None) => {}
    }
    events
}

#[cfg(test)]
mod tests {
    use super::{Mark, changes};
    use crate::contract::audit::AuditEvent;
    use crate::quota::window::Cooldown;
    use crate::snapshot::profile::{Binding, Durable, Note};
    use jiff::{SignedDuration, Timestamp};

    fn told(before: &Mark, after: &Mark) -> Vec<String> {
        let start = |word: &str| AuditEvent {
            event: word.to_owned(),
            ..AuditEvent::default()
        };
        let events = changes(before, after, Timestamp::UNIX_EPOCH, start);
        events
            .into_iter()
            .map(|one| format!("{} {}", one.event, one.reason.unwrap_or_default()))
            .collect()
    }

    fn note(reason: &str) -> Note {
        Note {
            reason: reason.to_owned(),
            at: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn what_is_set_and_what_is_lifted_are_events_and_what_stays_is_none() {
        let free = Mark::default();
        let rest = |minutes| {
            Some(Cooldown {
                reason: "quota".to_owned(),
                until: Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes),
                since: Timestamp::UNIX_EPOCH,
                guessed: false,
            })
        };
        let blocked = Mark {
            durable: Durable {
                quarantine: Some(note("identity_changed")),
                drain: Some(note("maintenance")),
                billing_block: Some(note("billing")),
                ..Durable::default()
            },
            auth_broken: Some(note("revoked")),
            cooldown: rest(30),
            login: Some(Binding::NoCredential),
        };
        let set = [
            "quarantined identity_changed",
            "drained maintenance",
            "billing_blocked billing",
            "auth_broken revoked",
            "cooldown_set quota",
        ];
        assert_eq!(told(&free, &blocked), set);
        assert_eq!(told(&blocked, &blocked), [""; 0]);
        let lifted = [
            "quarantine_lifted ",
            "undrained ",
            "billing_unblocked ",
            "auth_mended ",
            "cooldown_lifted ",
        ];
        assert_eq!(told(&blocked, &free), lifted);
        let longer = Mark {
            durable: Durable {
                cooldown: rest(300),
                ..blocked.durable.clone()
            },
            login: Some(Binding::Tokens("other".to_owned())),
            ..blocked.clone()
        };
        assert_eq!(
            told(&blocked, &longer),
            ["login_changed ", "cooldown_set quota"]
        );
        let over = Mark {
            cooldown: rest(0),
            ..free.clone()
        };
        assert_eq!(told(&over, &free), [""; 0], "one that ended by itself");
    }
}
