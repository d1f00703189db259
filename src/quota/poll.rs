//! When a profile's account may be asked about again. Pure.
//!
//! The usage endpoints admit about 28 calls an hour and identity, then answer 429 for a long time. So: one
//! fetch in three minutes at most, a back-off that doubles and is kept in the snapshot for every process to
//! see, and the server's own Retry-After when it is longer.

use jiff::{SignedDuration, Timestamp};

use crate::provider::FetchError;
use crate::snapshot::profile::Poll;

/// Least time between two fetches of one profile.
pub const INTERVAL: SignedDuration = SignedDuration::from_secs(180);
/// Longest back-off of our own.
const LONGEST: SignedDuration = SignedDuration::from_hours(1);
/// Longest Retry-After that is believed.
const LONGEST_ASKED: SignedDuration = SignedDuration::from_hours(24);
/// A token that may not ask will not be allowed to in the next minutes either; each try counts against it.
const FORBIDDEN: SignedDuration = SignedDuration::from_hours(24);
/// First back-off when no server was reached, as after waking up without a network.
const UNREACHED: SignedDuration = SignedDuration::from_secs(10);

/// The reason word of a failure.
pub fn reason(error: &FetchError) -> &'static str {
    match error {
        FetchError::Unauthorized => "unauthorized",
        FetchError::Forbidden => "forbidden",
        FetchError::Throttled(_) => "throttled",
        FetchError::Unavailable(_) => "unavailable",
        FetchError::Shape => "unknown_shape",
    }
}

/// How far two commands that began at one time may be apart when they write it down.
const SKEW: SignedDuration = SignedDuration::from_mins(1);

/// Whether a time that was written down lies ahead: the wall clock has been set back since. What counts from
/// such a time would hold until the clock is there again.
pub fn is_ahead(then: Timestamp, now: Timestamp) -> bool {
    then.duration_since(now) > SKEW
}

/// When the account may be asked again, if that is later than now.
pub fn next_at(poll: &Poll, now: Timestamp) -> Option<Timestamp> {
    let set_back = poll.last_at.is_some_and(|at| is_ahead(at, now));
    poll.next_at.filter(|at| *at > now && !set_back)
}

/// Whether a fetch with the login of this digest may be made now.
pub fn is_due(poll: &Poll, digest: Option<&str>, now: Timestamp) -> bool {
    // Another login is another token, and proving it cannot wait for the old one's penalty.
    let same_login = poll.digest.as_deref() == digest;
    !same_login || next_at(poll, now).is_none()
}

/// What to remember after a fetch.
pub fn after(
    poll: &Poll,
    digest: Option<&str>,
    outcome: Result<(), &FetchError>,
    now: Timestamp,
) -> Poll {
    let same_login = poll.digest.as_deref() == digest;
    let failures = match outcome {
        Ok(()) => 0,
        Err(_) if same_login => poll.failures.saturating_add(1),
        Err(_) => 1,
    };
    let wait = match outcome {
        Ok(()) => INTERVAL,
        Err(FetchError::Forbidden) => FORBIDDEN,
        Err(FetchError::Unavailable(_)) => doubled(UNREACHED, failures),
        Err(FetchError::Throttled(Some(seconds))) => {
            let asked = i64::try_from(*seconds).unwrap_or(i64::MAX);
            let asked = SignedDuration::from_secs(asked).min(LONGEST_ASKED);
            doubled(INTERVAL, failures).max(asked)
        }
        Err(FetchError::Throttled(None) | FetchError::Unauthorized | FetchError::Shape) => {
            doubled(INTERVAL, failures)
        }
    };
    Poll {
        next_at: now.checked_add(wait).ok(),
        last_at: Some(now),
        digest: digest.map(str::to_owned),
        failures,
        reason: outcome.err().map(|error| reason(error).to_owned()),
    }
}

fn doubled(first: SignedDuration, failures: u32) -> SignedDuration {
    let factor = 1_i32 << failures.saturating_sub(1).min(12);
    first.saturating_mul(factor).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::{INTERVAL, after, is_due, next_at};
    use crate::provider::FetchError;
    use crate::snapshot::profile::Poll;
    use jiff::{SignedDuration, Timestamp};

    fn start() -> Timestamp {
        "2030-01-02T12:00:00Z".parse().unwrap()
    }

    #[test]
    fn an_hour_of_429_with_retry_after_zero_costs_a_handful_of_calls() {
        let mut poll = Poll::default();
        let mut calls = 0;
        for second in 0..3600 {
            let now = start() + SignedDuration::from_secs(second);
            if is_due(&poll, Some("d"), now) {
                calls += 1;
                poll = after(&poll, Some("d"), Err(&FetchError::Throttled(Some(0))), now);
            }
        }
        assert!(calls <= 6, "{calls} calls");
    }

    #[test]
    fn good_answers_are_three_minutes_apart() {
        let poll = after(&Poll::default(), Some("d"), Ok(()), start());
        assert!(!is_due(
            &poll,
            Some("d"),
            start() + INTERVAL - SignedDuration::from_secs(1)
        ));
        assert!(is_due(&poll, Some("d"), start() + INTERVAL));
    }

    #[test]
    fn a_clock_that_was_set_back_keeps_nobody_from_asking() {
        let poll = after(&Poll::default(), None, Ok(()), start());
        let back = start() - SignedDuration::from_hours(5);
        assert!(is_due(&poll, None, back));
        // Commands that began a moment apart do not disagree about it.
        let earlier = start() - SignedDuration::from_secs(8);
        assert!(!is_due(&poll, None, earlier));
        assert_eq!(next_at(&poll, earlier), poll.next_at);
        assert_eq!(
            next_at(&poll, start() + INTERVAL),
            None,
            "a time that is over"
        );
    }

    #[test]
    fn a_longer_retry_after_is_obeyed_and_an_absurd_one_bounded() {
        let poll = after(
            &Poll::default(),
            None,
            Err(&FetchError::Throttled(Some(5000))),
            start(),
        );
        assert!(!is_due(
            &poll,
            None,
            start() + SignedDuration::from_secs(4999)
        ));
        let poll = after(
            &Poll::default(),
            None,
            Err(&FetchError::Throttled(Some(u64::MAX))),
            start(),
        );
        assert!(is_due(
            &poll,
            None,
            start() + SignedDuration::from_hours(24)
        ));
    }

    #[test]
    fn another_login_may_be_asked_about_at_once() {
        let poll = after(
            &Poll::default(),
            Some("old"),
            Err(&FetchError::Unauthorized),
            start(),
        );
        assert!(is_due(&poll, Some("new"), start()));
        let poll = after(&poll, Some("new"), Err(&FetchError::Unauthorized), start());
        assert_eq!(
            poll.failures, 1,
            "the old login's failures are not the new one's"
        );
    }
}
