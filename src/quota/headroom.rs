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

use jiff::{SignedDuration, Timestamp};

use super::model::{Model, gates};
use super::poll;
use super::window::{Kind, Reading, Window};
use crate::reason::{self, TOKEN_EXPIRED};
use crate::snapshot::profile::{Poll, ProfileState};

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
            Self::Fresh => reason::FRESH,
            Self::Presumed => reason::PRESUMED,
            Self::Stale => reason::STALE,
            Self::Unmeasured => reason::UNMEASURED,
        }
    }
}

/// What is asked of a reading.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The model that the worker will use; `None` when nobody said.
    pub model: Option<&'a Model>,
    /// A reading older than this many seconds is stale.
    pub fresh_seconds: u64,
    /// When a worker of ours last used the account, as far as is known.
    pub last_used: Option<Timestamp>,
    /// Whether anybody can renew the reading at all.
    pub readable: bool,
    /// The moment of asking.
    pub now: Timestamp,
}

/// One window that gates, as it is now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// By duration.
    pub kind: Kind,
    /// 0 to 100; 100 once it has reset.
    pub remaining: f64,
    /// When it becomes full again, if it says so and that lies ahead.
    pub resets_at: Option<Timestamp>,
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
    /// Age of the reading in seconds.
    pub age_seconds: Option<u64>,
    /// The windows that gate.
    pub windows: Vec<Share>,
    /// When it will be read anew if it is asked for, never in the past; `None` when only a worker's own CLI
    /// can bring that about, or nobody.
    pub measured_at: Option<Timestamp>,
    /// When it will be presumed full without being read: every window has reset by then. `None` unless it
    /// cannot be renewed.
    pub presumed_at: Option<Timestamp>,
}

impl Worth {
    /// A fresh reading of one window with this share left.
    pub fn fresh(remaining: f64) -> Self {
        Self {
            status: Status::Fresh,
            reason: None,
            headroom: Some(remaining),
            age_seconds: Some(0),
            windows: vec![Share {
                kind: Kind::Other,
                remaining,
                resets_at: None,
            }],
            measured_at: None,
            presumed_at: None,
        }
    }

    /// When every window has more than `reserve` percent left: when the last one that has not will have reset.
    /// Where one does not say when that is, it has to be read anew.
    pub fn frees_at(&self, reserve: f64) -> Option<Timestamp> {
        self.windows
            .iter()
            .filter(|window| window.remaining <= reserve)
            .map(|window| window.resets_at.or(self.measured_at))
            .try_fold(None, |latest, at| Some(latest.max(Some(at?))))
            .flatten()
    }
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
    let known = reading(state);
    let gating: Vec<&Window> = known
        .map(|reading| &reading.windows)
        .into_iter()
        .flatten()
        .filter(|window| gates(window, question.model))
        .collect();
    let windows: Vec<Share> = gating.iter().map(|window| share(window, now)).collect();
    let tightest = windows
        .iter()
        .map(|window| window.remaining)
        .min_by(f64::total_cmp);
    let known = known.filter(|reading| {
        is_young(reading, question) || state.poll.reason.as_deref() != Some(poll::UNMEASURABLE)
    });
    let (Some(reading), Some(headroom)) = (known, tightest) else {
        return Worth {
            status: Status::Unmeasured,
            reason: Some(block.unwrap_or(reason::NEVER_MEASURED).to_owned()),
            headroom: None,
            age_seconds: None,
            windows: Vec::new(),
            measured_at: measured_at(state, question, now),
            presumed_at: None,
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
            None if any_reset => (Status::Stale, Some(reason::RESET)),
            None => (Status::Stale, Some(reason::AGED)),
        }
    };
    let aged_at = match status {
        Status::Fresh => after(reading.at, question.fresh_seconds),
        Status::Presumed | Status::Stale | Status::Unmeasured => now,
    };
    let full_at = gating
        .iter()
        .map(|window| window.resets_at)
        .try_fold(now, |latest, at| Some(latest.max(at?)));
    Worth {
        status,
        reason: reason.map(str::to_owned),
        headroom: Some(headroom),
        age_seconds: Some(age),
        windows,
        measured_at: measured_at(state, question, aged_at),
        presumed_at: full_at.filter(|_| block.is_some()),
    }
}

fn share(window: &Window, now: Timestamp) -> Share {
    Share {
        kind: window.kind,
        remaining: remaining(window, now),
        resets_at: window.resets_at.filter(|at| *at > now),
    }
}

/// The first whole second at which something is older than so many seconds.
fn after(at: Timestamp, seconds: u64) -> Timestamp {
    let span = i64::try_from(seconds).map_or(SignedDuration::MAX, SignedDuration::from_secs);
    let span = span.saturating_add(SignedDuration::from_secs(1));
    at.checked_add(span).unwrap_or(Timestamp::MAX)
}

/// When the reading will be renewed if it is asked for from `from` on.
fn measured_at(
    state: &ProfileState,
    question: &Question<'_>,
    from: Timestamp,
) -> Option<Timestamp> {
    let expired = state.poll.reason.as_deref() == Some(TOKEN_EXPIRED);
    let asks = question.readable && !expired;
    asks.then(|| from.max(poll::next_at(&state.poll, question.now).unwrap_or(from)))
}

fn is_young(reading: &Reading, question: &Question<'_>) -> bool {
    let age = age_seconds(reading.at, question.now);
    age <= question.fresh_seconds && !poll::is_ahead(reading.at, question.now)
}

/// Why a reading cannot be renewed now, if it cannot.
fn renewal_block<'a>(poll: &'a Poll, question: &Question<'_>) -> Option<&'a str> {
    if !question.readable {
        return Some(reason::NO_READER);
    }
    match poll.reason.as_deref() {
        // The token stays expired until a worker's CLI renews it, however long that takes.
        Some(TOKEN_EXPIRED) => Some(TOKEN_EXPIRED),
        word if poll::next_at(poll, question.now).is_some() => {
            Some(word.unwrap_or(reason::RECENTLY_MEASURED))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Question, Status, Worth, worth};
    use crate::id::ProviderKind::Claude;
    use crate::identity::fingerprint::{Account, Key};
    use crate::quota::model::Model;
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
        assert_eq!(worth.frees_at(50.0), Some(after(900)));
    }

    #[test]
    fn the_last_window_to_reset_frees_the_account() {
        let both = state(
            10,
            vec![window(5.0, Some(60), None), window(10.0, Some(9000), None)],
        );
        let worth = ask(&both, Some(0));
        assert_eq!(worth.frees_at(15.0), Some(after(9000)));
        assert_eq!(worth.frees_at(7.0), Some(after(60)));
        assert_eq!(worth.frees_at(1.0), None, "nothing has to reset");
        // A window that says no end has to be read anew, once the reading has aged.
        let endless = state(
            10,
            vec![window(5.0, Some(60), None), window(0.0, None, None)],
        );
        assert_eq!(ask(&endless, Some(0)).frees_at(15.0), Some(after(291)));
    }

    #[test]
    fn a_used_up_window_of_another_model_is_in_nobodys_way() {
        let state = state(
            10,
            vec![
                window(70.0, Some(60), None),
                window(0.0, Some(9000), Some("opus")),
            ],
        );
        let asked = |model: Option<&Model>| {
            let question = Question {
                model,
                fresh_seconds: 300,
                last_used: None,
                readable: true,
                now: now(),
            };
            worth(&state, &question)
        };
        let named = |name: &str| asked(Some(&name.parse().unwrap())).headroom;
        assert_eq!(named("sonnet"), Some(70.0));
        assert_eq!(named("claude-opus-4-1"), Some(0.0));
        assert_eq!(named("newcomer"), Some(0.0), "it may be limited too");
        assert_eq!(asked(None).headroom, Some(0.0));
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

    proptest! {
        #[test]
        fn headroom_is_always_a_percentage(percents in prop::collection::vec(any::<f64>(), 1..6)) {
            let windows = percents.iter().map(|percent| window(*percent, None, None)).collect();
            let headroom = ask(&state(1, windows), None).headroom.unwrap();
            prop_assert!((0.0..=100.0).contains(&headroom));
        }
    }
}
