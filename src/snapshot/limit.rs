//! What a worker's end tells of its account: limits, refused logins, and windows seen on the way.
//!
//! Only structured evidence counts: a hook's reason word, windows, a stated reset; what a worker merely
//! prints never does. Applying an event twice changes nothing, and news older than a proof or a longer
//! cooldown yields to it, so that evidence may be folded again from its beginning.

use jiff::{SignedDuration, Timestamp};

use super::evidence::{Event, Kind};
use super::merge::{self, Extent};
use super::profile::{Durable, Note, ProfileState};
use super::provider::Snapshot;
use crate::quota::window::{Cooldown, Reading, Window};

/// A cooldown longer than this survives the loss of the snapshot.
const LONG: SignedDuration = SignedDuration::from_hours(1);
/// How long a used-up account rests when nobody said until when: long enough for one measurement.
const UNSTATED: SignedDuration = SignedDuration::from_mins(10);
/// How long a per-minute limit rests, before jitter.
const RATE: SignedDuration = SignedDuration::from_secs(60);
/// How long an account rests after an end that nobody can name.
const SUSPECTED: SignedDuration = SignedDuration::from_mins(5);

/// What kind of limit a worker met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The allowance of a window is used up.
    Quota,
    /// Too many requests in a short time.
    Rate,
    /// The account owes money or has run out of it: time alone does not mend that.
    Billing,
    /// The login is no longer taken.
    Auth,
    /// Something that looks like a limit but has no known name.
    Suspected,
}

impl Limit {
    /// The limit that a provider's reason word names, if it names one.
    ///
    /// Claude's `StopFailure` says `rate_limit` for a used-up window and for a per-minute limit alike
    /// (2.1.332); the longer rest is the safe reading, and the next measurement ends it.
    pub fn of_word(word: &str) -> Option<Self> {
        Some(match word {
            "rate_limit" | "usage_limit_reached" | "usage_limit_exceeded" | "quota" => Self::Quota,
            "overloaded" | "rate" | "too_many_requests" => Self::Rate,
            "billing_error" | "billing" | "insufficient_quota" | "credit_balance_too_low" => {
                Self::Billing
            }
            "authentication_failed" | "authentication_error" | "unauthorized" | "auth" => {
                Self::Auth
            }
            "limit_suspected" => Self::Suspected,
            _ => return None,
        })
    }
}

/// Takes one event of a worker into its profile's state. Events of strangers change nothing.
pub fn apply_event(snapshot: &mut Snapshot, event: &Event, now: Timestamp) {
    if event.foreign {
        return;
    }
    let state = snapshot.entry(event.profile.as_str());
    state.last_used = state.last_used.max(Some(event.at));
    match event.event {
        Kind::Windows => saw_windows(
            snapshot.entry(event.profile.as_str()),
            &event.windows,
            event.at,
        ),
        Kind::StopFailure => {
            if let Some(limit) = event.reason.as_deref().and_then(Limit::of_word) {
                // The windows of a failed turn are those that it failed on.
                let reset = event
                    .windows
                    .iter()
                    .filter_map(|window| window.resets_at)
                    .max();
                let unknown = snapshot.damaged.contains_key(event.profile.as_str());
                let state = snapshot.entry(event.profile.as_str());
                let kept = unknown.then(|| state.durable.clone());
                met(state, limit, event.at, reset, now);
                if let Some(kept) = kept {
                    volatile_only(state, kept);
                }
            }
        }
        Kind::SessionStart
        | Kind::PromptSubmit
        | Kind::Stop
        | Kind::SessionEnd
        | Kind::PermissionRequest
        | Kind::Notification
        | Kind::TurnEnd => {}
    }
}

/// Puts durable facts that cannot be written back as they were. A profile whose record is damaged takes no
/// work anyway, and an attempt to write it would keep its siblings' evidence from being folded.
fn volatile_only(state: &mut ProfileState, kept: Durable) {
    let met = std::mem::replace(&mut state.durable, kept);
    if met.cooldown != state.durable.cooldown {
        // The longer of two: a short one may have been met before.
        let cooldowns = [state.cooldown.take(), met.cooldown];
        state.cooldown = cooldowns.into_iter().flatten().max_by_key(|it| it.until);
    }
}

/// Takes windows that a worker's own CLI was told: a reading that cost no request.
pub fn saw_windows(state: &mut ProfileState, windows: &[Window], at: Timestamp) {
    let Some(proof) = &state.proof else { return };
    if windows.is_empty() {
        return;
    }
    let reading = Reading {
        at,
        fingerprint: proof.fingerprint.whole.clone(),
        source: "statusline".to_owned(),
        windows: windows.to_vec(),
        overage_enabled: None,
        spend: None,
    };
    merge::read(state, reading, Extent::Part);
}

/// Takes a limit that a worker met at `at`; `resets_at` is the reset that was stated, if one was.
pub fn met(
    state: &mut ProfileState,
    limit: Limit,
    at: Timestamp,
    resets_at: Option<Timestamp>,
    now: Timestamp,
) {
    let rest = |reason: &str, span: SignedDuration| Cooldown {
        reason: reason.to_owned(),
        until: at.checked_add(span).unwrap_or(at),
        since: at,
    };
    let cooldown = match limit {
        Limit::Quota => Cooldown {
            until: resets_at.unwrap_or_else(|| at.checked_add(UNSTATED).unwrap_or(at)),
            ..rest("quota", UNSTATED)
        },
        Limit::Rate => rest("rate", RATE + jitter(&state.profile, at)),
        Limit::Suspected => rest("limit_suspected", SUSPECTED),
        Limit::Auth => return merge::auth_broken(state, "auth", at),
        Limit::Billing => {
            state.durable.billing_block.get_or_insert(Note {
                reason: "billing".to_owned(),
                at,
            });
            return;
        }
    };
    if cooldown.until <= now {
        return;
    }
    let long = cooldown.until.duration_since(at) > LONG;
    let slot = if long {
        &mut state.durable.cooldown
    } else {
        &mut state.cooldown
    };
    if slot
        .as_ref()
        .is_none_or(|known| known.until < cooldown.until)
    {
        *slot = Some(cooldown);
    }
}

/// Up to 30 seconds that differ between profiles and events, so that a herd does not come back at once.
fn jitter(profile: &str, at: Timestamp) -> SignedDuration {
    let seed = crc32fast::hash(format!("{profile} {at}").as_bytes());
    SignedDuration::from_millis(i64::from(seed % 30_000))
}

#[cfg(test)]
mod tests {
    use super::{Limit, apply_event, met};
    use crate::quota::window::Cooldown;
    use crate::snapshot::evidence::Event;
    use crate::snapshot::evidence::Kind::{Stop, StopFailure};
    use crate::snapshot::evidence::tests::event;
    use crate::snapshot::profile::ProfileState;
    use crate::snapshot::provider::Snapshot;
    use jiff::{SignedDuration, Timestamp};

    fn now() -> Timestamp {
        event("t", Stop, 1, 1).at
    }

    fn after(seconds: i64) -> Timestamp {
        now() + SignedDuration::from_secs(seconds)
    }

    fn failure(word: &str) -> Event {
        let mut event = event("t", StopFailure, 1, 1);
        event.reason = Some(word.to_owned());
        event
    }

    fn applied(event: &Event, now: Timestamp) -> ProfileState {
        let mut snapshot = Snapshot::default();
        apply_event(&mut snapshot, event, now);
        let once = snapshot.clone();
        apply_event(&mut snapshot, event, now);
        assert_eq!(snapshot, once, "folding an event twice changed something");
        snapshot.states.remove("codex-1").unwrap_or_default()
    }

    /// A profile of which is known only when a worker last used it.
    fn only_used() -> ProfileState {
        let mut state = ProfileState::named("codex-1");
        state.last_used = Some(now());
        state
    }

    #[test]
    fn each_kind_of_limit_has_its_own_consequence() {
        let quota = applied(&failure("rate_limit"), now()).cooldown.unwrap();
        assert_eq!((quota.reason.as_str(), quota.until), ("quota", after(600)));
        let rate = applied(&failure("overloaded"), now()).cooldown.unwrap();
        assert!(
            rate.until >= after(60) && rate.until < after(90),
            "{}",
            rate.until
        );
        assert!(
            applied(&failure("billing_error"), now())
                .durable
                .billing_block
                .is_some()
        );
        assert!(
            applied(&failure("authentication_failed"), now())
                .auth_broken
                .is_some()
        );
        for harmless in [
            "server_error",
            "max_output_tokens",
            "unknown",
            "You hit your limit",
        ] {
            assert_eq!(
                applied(&failure(harmless), now()),
                only_used(),
                "{harmless}"
            );
        }
    }

    #[test]
    fn strangers_change_nothing() {
        let mut foreign = failure("rate_limit");
        foreign.foreign = true;
        assert_eq!(applied(&foreign, now()), ProfileState::default());
    }

    #[test]
    fn a_stated_reset_is_the_end_and_a_long_one_is_durable() {
        let mut state = ProfileState::named("x");
        met(&mut state, Limit::Quota, now(), Some(after(1200)), now());
        assert_eq!(state.cooldown.as_ref().unwrap().until, after(1200));
        met(&mut state, Limit::Quota, now(), Some(after(90_000)), now());
        assert_eq!(state.durable.cooldown.unwrap().until, after(90_000));
    }

    #[test]
    fn old_news_neither_shortens_a_cooldown_nor_brings_one_back() {
        let mut state = ProfileState::named("x");
        met(&mut state, Limit::Quota, now(), Some(after(1200)), now());
        met(&mut state, Limit::Suspected, now(), None, now());
        let kept: Option<Cooldown> = state.cooldown.clone();
        assert_eq!(kept.unwrap().until, after(1200));
        assert_eq!(applied(&failure("rate_limit"), after(700)), only_used());
    }
}
