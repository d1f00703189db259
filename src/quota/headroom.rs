//! What a reading is worth now. Pure.
//!
//! Headroom is the least remaining percent over the windows that gate the asked-for model. A window whose
//! reset has passed counts as full until it is measured once more. Without a model, every window gates:
//! nobody knows which model the worker will use, and too little headroom is the safer mistake.
//!
//! A reading is fresh while it is young and none of its windows has reset since. An older one is presumed
//! when it cannot be renewed and yet cannot have become worse: its windows have reset, or nobody here used
//! the account since. It is presumed also when only a worker can renew it, whose CLI refreshes an expired
//! token: refusing it would wait for a person. Anything else is stale and routes nothing. Where nobody may
//! read the quota, an older reading is none: it could never be renewed.

use jiff::Timestamp;

use super::poll;
use super::window::{Reading, Window};
use crate::snapshot::profile::{Poll, ProfileState};

/// The reason word of an expired access token.
pub(super) const TOKEN_EXPIRED: &str = "token_expired";

/// What a reading is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// Young, and no window has reset since.
    Fresh,
    /// Could not be renewed, but cannot have become worse.
    Presumed,
    /// Too old to route by.
    Stale,
    /// There is none for this account.
    Unmeasured,
}

impl Status {
    /// The status as it is written in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Presumed => "presumed",
            Self::Stale => "stale",
            Self::Unmeasured => "unmeasured",
        }
    }
}

/// What is asked of a reading.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The model that the worker will use; `None` when nobody said.
    pub model: Option<&'a str>,
    /// A reading older than this many seconds is stale.
    pub fresh_seconds: u64,
    /// When a worker of ours last used the account, as far as is known.
    pub last_used: Option<Timestamp>,
    /// Whether anybody can renew the reading at all.
    pub readable: bool,
    /// The moment of asking.
    pub now: Timestamp,
}

/// What a profile's reading is worth at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Worth {
    /// What the reading is good for.
    pub status: Status,
    /// Why it is not fresh, as a stable word.
    pub reason: Option<String>,
    /// Least remaining percent, 0 to 100; `None` without a reading.
    pub headroom: Option<f64>,
    /// When the tightest window becomes full again, if it says so and that lies ahead.
    pub resets_at: Option<Timestamp>,
    /// Age of the reading in seconds.
    pub age_seconds: Option<u64>,
}

/// True when a window became full again since it was read.
pub fn has_reset(window: &Window, now: Timestamp) -> bool {
    window.resets_at.is_some_and(|at| at <= now)
}

/// What is left in a window now: all of it once it has reset.
pub fn remaining(window: &Window, now: Timestamp) -> f64 {
    if has_reset(window, now) {
        return 100.0;
    }
    // NaN fails the comparison and so becomes no headroom.
    if window.remaining_percent >= 0.0 {
        window.remaining_percent.min(100.0)
    } else {
        0.0
    }
}

/// Whether a window limits work with this model.
pub fn gates(window: &Window, model: Option<&str>) -> bool {
    match (&window.scope, model) {
        (None, _) | (_, None) => true,
        (Some(scope), Some(model)) => {
            let plain = |text: &str| -> String {
                text.chars()
                    .filter(char::is_ascii_alphanumeric)
                    .map(|letter| letter.to_ascii_lowercase())
                    .collect()
            };
            let (scope, model) = (plain(scope), plain(model));
            model.contains(&scope) || scope.contains(&model)
        }
    }
}

/// The seconds from `then` to `now`; zero when it lies ahead.
pub fn age_seconds(then: Timestamp, now: Timestamp) -> u64 {
    u64::try_from(now.as_second().saturating_sub(then.as_second())).unwrap_or(0)
}

/// The reading of the account that the profile is proved to be.
pub fn reading(state: &ProfileState) -> Option<&Reading> {
    let account = &state.proof.as_ref()?.fingerprint.whole;
    state
        .reading
        .as_ref()
        .filter(|reading| reading.fingerprint == *account)
}

/// What the profile's reading is worth now.
pub fn worth(state: &ProfileState, question: &Question<'_>) -> Worth {
    let now = question.now;
    let block = renewal_block(&state.poll, question);
    let gating: Vec<&Window> = reading(state)
        .map(|reading| &reading.windows)
        .into_iter()
        .flatten()
        .filter(|window| gates(window, question.model))
        .collect();
    let tightest = gating
        .iter()
        .copied()
        .min_by(|one, other| remaining(one, now).total_cmp(&remaining(other, now)));
    let known = reading(state).filter(|reading| {
        is_young(reading, question) || state.poll.reason.as_deref() != Some(poll::UNMEASURABLE)
    });
    let (Some(reading), Some(tightest)) = (known, tightest) else {
        return Worth {
            status: Status::Unmeasured,
            reason: Some(block.unwrap_or("never_measured").to_owned()),
            headroom: None,
            resets_at: None,
            age_seconds: None,
        };
    };
    let age = age_seconds(reading.at, now);
    let any_reset = gating.iter().any(|window| has_reset(window, now));
    let all_reset = gating.iter().all(|window| has_reset(window, now));
    let unused = question.last_used.is_none_or(|used| used <= reading.at);
    let young = is_young(reading, question);
    let (status, reason) = if young && !any_reset {
        (Status::Fresh, None)
    } else {
        let cannot_be_worse = all_reset || unused || young;
        let waits_for_a_worker = block == Some(TOKEN_EXPIRED);
        match block {
            Some(block) if cannot_be_worse || waits_for_a_worker => (Status::Presumed, Some(block)),
            Some(block) => (Status::Stale, Some(block)),
            None => (
                Status::Stale,
                Some(if any_reset { "reset" } else { "aged" }),
            ),
        }
    };
    Worth {
        status,
        reason: reason.map(str::to_owned),
        headroom: Some(remaining(tightest, now)),
        resets_at: tightest.resets_at.filter(|at| *at > now),
        age_seconds: Some(age),
    }
}

fn is_young(reading: &Reading, question: &Question<'_>) -> bool {
    let age = age_seconds(reading.at, question.now);
    age <= question.fresh_seconds && !poll::is_ahead(reading.at, question.now)
}

/// Why a reading cannot be renewed now, if it cannot.
fn renewal_block<'a>(poll: &'a Poll, question: &Question<'_>) -> Option<&'a str> {
    if !question.readable {
        return Some("no_reader");
    }
    match poll.reason.as_deref() {
        // The token stays expired until a worker's CLI renews it, however long that takes.
        Some(TOKEN_EXPIRED) => Some(TOKEN_EXPIRED),
        reason if poll::next_at(poll, question.now).is_some() => {
            Some(reason.unwrap_or("recently_measured"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Question, Status, Worth, gates, worth};
    use crate::id::ProviderKind::Claude;
    use crate::identity::fingerprint::{Account, Key};
    use crate::quota::window::{Kind, Reading, Window};
    use crate::snapshot::profile::{Binding, ProfileState, Proof};
    use jiff::{SignedDuration, Timestamp};
    use proptest::prelude::*;

    fn now() -> Timestamp {
        "2030-01-02T12:00:00Z".parse().unwrap()
    }

    fn after(seconds: i64) -> Timestamp {
        now() + SignedDuration::from_secs(seconds)
    }

    fn window(remaining: f64, resets_in: Option<i64>, scope: Option<&str>) -> Window {
        Window {
            id: "w".to_owned(),
            kind: Kind::Session,
            scope: scope.map(str::to_owned),
            remaining_percent: remaining,
            resets_at: resets_in.map(after),
        }
    }

    fn state(age: i64, windows: Vec<Window>) -> ProfileState {
        let fingerprint = Key::new([1; 32]).fingerprint(Claude, &Account::default());
        let mut state = ProfileState::named("claude-1");
        state.reading = Some(Reading {
            at: after(-age),
            fingerprint: fingerprint.whole.clone(),
            source: "builtin".to_owned(),
            windows,
            overage_enabled: None,
            spend: None,
        });
        state.proof = Some(Proof {
            fingerprint,
            source: "oauth-profile".to_owned(),
            at: after(-age),
            binding: Binding::NoCredential,
            file: None,
            digested_at: 0,
        });
        state
    }

    fn ask(state: &ProfileState, last_used: Option<i64>) -> Worth {
        let question = Question {
            model: None,
            fresh_seconds: 300,
            last_used: last_used.map(after),
            readable: true,
            now: now(),
        };
        worth(state, &question)
    }

    #[test]
    fn the_tightest_window_is_the_headroom_and_says_when_it_resets() {
        let state = state(
            10,
            vec![window(62.0, Some(60), None), window(41.0, Some(900), None)],
        );
        let worth = ask(&state, Some(0));
        assert_eq!(
            (worth.status, worth.reason.as_deref()),
            (Status::Fresh, None)
        );
        assert_eq!(worth.headroom, Some(41.0));
        assert_eq!(worth.resets_at, Some(after(900)));
    }

    #[test]
    fn another_accounts_reading_is_no_reading() {
        let mut state = state(10, vec![window(62.0, None, None)]);
        state.reading.as_mut().unwrap().fingerprint = "f".repeat(64);
        assert_eq!(ask(&state, None).status, Status::Unmeasured);
        state.proof = None;
        assert_eq!(ask(&state, None).headroom, None);
    }

    #[test]
    fn a_passed_reset_counts_as_full_but_wants_one_measurement() {
        let state = state(
            200,
            vec![window(0.0, Some(-5), None), window(70.0, Some(900), None)],
        );
        let worth = ask(&state, Some(0));
        assert_eq!(worth.headroom, Some(70.0));
        assert_eq!(
            (worth.status, worth.reason.as_deref()),
            (Status::Stale, Some("reset"))
        );
    }

    #[test]
    fn an_old_reading_is_presumed_only_when_it_cannot_be_renewed_nor_have_become_worse() {
        let mut state = state(4000, vec![window(50.0, Some(900), None)]);
        assert_eq!(ask(&state, None).status, Status::Stale, "it can be renewed");
        state.poll.reason = Some("token_expired".to_owned());
        assert_eq!(ask(&state, None).status, Status::Presumed);
        assert_eq!(ask(&state, Some(-5000)).status, Status::Presumed);
        let used = ask(&state, Some(-100));
        assert_eq!(used.status, Status::Presumed, "only a worker can renew it");
        assert_eq!(used.reason.as_deref(), Some("token_expired"));
        state.poll.reason = Some("throttled".to_owned());
        state.poll.next_at = Some(after(60));
        let used = ask(&state, Some(-100));
        assert_eq!(used.status, Status::Stale, "a worker of ours used it since");
        state.reading.as_mut().unwrap().windows[0].resets_at = Some(after(-50));
        let reset = ask(&state, Some(-100));
        assert_eq!(
            (reset.status, reset.headroom),
            (Status::Presumed, Some(100.0))
        );
    }

    #[test]
    fn a_throttled_reading_is_presumed_until_it_may_be_renewed() {
        let mut state = state(4000, vec![window(50.0, Some(900), None)]);
        state.poll.reason = Some("throttled".to_owned());
        state.poll.next_at = Some(after(60));
        assert_eq!(ask(&state, None).status, Status::Presumed);
        state.poll.next_at = Some(after(0));
        assert_eq!(ask(&state, None).status, Status::Stale);
    }

    #[test]
    fn a_scoped_window_gates_its_model_and_the_unknown_one() {
        let opus = window(3.0, None, Some("opus"));
        assert!(gates(&opus, Some("claude-opus-4-5")));
        assert!(gates(&opus, Some("Opus")));
        assert!(!gates(&opus, Some("sonnet")));
        assert!(gates(&opus, None));
        assert!(gates(&window(3.0, None, None), Some("sonnet")));
    }

    proptest! {
        #[test]
        fn headroom_is_always_a_percentage(percents in prop::collection::vec(any::<f64>(), 1..6)) {
            let windows = percents.iter().map(|percent| window(*percent, None, None)).collect();
            let headroom = ask(&state(1, windows), None).headroom.unwrap();
            prop_assert!((0.0..=100.0).contains(&headroom));
        }
    }
}
