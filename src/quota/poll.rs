//! When a profile's account may be asked about again. Pure.
//!
//! The usage endpoints admit about 28 calls an hour and identity, then answer 429 for a long time. So:
//!
//! - one measurement in three minutes at most, and after a failure a wait that doubles, kept in the snapshot
//!   for every process to see; the server's own Retry-After when it is longer;
//! - twenty fetches in any hour, whoever asks, a person or a login that keeps changing included;
//! - a fetch is booked before it is made, so that one whose process was killed counts as a failed one.
//!
//! A wait holds for whichever login is in the home: it is the account that is limited. Only what a login
//! itself brought about, such as a refusal, is over with it. To learn who a changed login belongs to cannot
//! wait, and is asked once for each login.

use jiff::{SignedDuration, Timestamp};

use super::refresh::Asker;
use crate::provider::FetchError;
use crate::reason::TOKEN_EXPIRED;
use crate::snapshot::profile::Poll;

/// Least time between two measurements of one profile.
pub const INTERVAL: SignedDuration = SignedDuration::from_secs(180);
/// Most fetches in any hour.
pub const BUDGET: usize = 20;
/// The time that [`BUDGET`] is for.
const HOUR: SignedDuration = SignedDuration::from_hours(1);
/// Longest back-off of our own.
const LONGEST: SignedDuration = SignedDuration::from_hours(1);
/// Longest Retry-After that is believed.
const LONGEST_ASKED: SignedDuration = SignedDuration::from_hours(24);
/// A token that may not ask will not be allowed to in the next minutes either; each try counts against it.
const FORBIDDEN: SignedDuration = SignedDuration::from_hours(24);
/// First and longest back-off when no server was reached, as after waking up without a network: nobody is
/// burdened, and the network may be back at any time.
const UNREACHED: SignedDuration = SignedDuration::from_secs(10);
const UNREACHED_LONGEST: SignedDuration = SignedDuration::from_mins(5);
/// How long a fetch that has begun may be under way at most; one that is older has died.
const UNDER_WAY: SignedDuration = SignedDuration::from_secs(10);

/// The reason word of a token that may not read the quota.
pub const UNMEASURABLE: &str = "unmeasurable";
/// The reason word of a token that may not even say whose it is.
pub const NOT_ALLOWED: &str = "forbidden";
/// The reason word of a server that wants to be left alone.
const THROTTLED: &str = "throttled";
/// The reason word of an answer, or a part of it, that made no sense.
pub const MISREAD: &str = "unknown_shape";
/// The reason word of a login that the server turned away.
pub(super) const REFUSED: &str = "unauthorized";
/// The reason word of files that contradict the server about whose login they hold.
pub(crate) const HINT_DISAGREES: &str = "hint_disagrees";
/// The reason words that are over with the login they came from.
const OF_THE_LOGIN: [&str; 2] = [REFUSED, HINT_DISAGREES];

/// The reason word of a failure, by whether the identity was being asked for.
pub fn reason(error: &FetchError, identity: bool) -> &'static str {
    match error {
        FetchError::Unauthorized => REFUSED,
        FetchError::Forbidden if identity => NOT_ALLOWED,
        FetchError::Forbidden => UNMEASURABLE,
        FetchError::Throttled(_) => THROTTLED,
        FetchError::Unavailable(_) | FetchError::Unreached(_) => "unavailable",
        FetchError::Shape => MISREAD,
    }
}

/// The word for why nothing may be asked now.
pub(super) fn reason_word(poll: &Poll) -> &'static str {
    match poll.reason.as_deref() {
        Some(THROTTLED) => THROTTLED,
        Some(REFUSED) => REFUSED,
        Some(NOT_ALLOWED) => NOT_ALLOWED,
        Some(UNMEASURABLE) => UNMEASURABLE,
        Some("unavailable") => "unavailable",
        Some(MISREAD) => MISREAD,
        Some(TOKEN_EXPIRED) => TOKEN_EXPIRED,
        Some(HINT_DISAGREES) => HINT_DISAGREES,
        Some(_) | None => "recently_measured",
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
    let waits = poll.next_at.filter(|at| *at > now && !set_back);
    waits.max(budget_from(poll, now))
}

/// When the hour's budget admits a fetch again, if it does not now.
fn budget_from(poll: &Poll, now: Timestamp) -> Option<Timestamp> {
    let mut counted = counted(poll, now);
    counted.sort_unstable();
    let first = counted.len().checked_sub(BUDGET)?;
    let over = counted.get(first)?.checked_add(HOUR).ok()?;
    (over > now).then_some(over)
}

/// The fetches of the last hour. Those from far ahead are from before the clock was set back.
fn counted(poll: &Poll, now: Timestamp) -> Vec<Timestamp> {
    let made = poll.calls.iter().copied();
    made.filter_map(|at| Timestamp::from_second(at).ok())
        .filter(|at| now.duration_since(*at) < HOUR && !is_ahead(*at, now))
        .collect()
}

/// Whether a fetch of another process is under way, whose outcome is worth waiting for.
pub fn is_under_way(poll: &Poll, now: Timestamp) -> bool {
    poll.begun_at
        .is_some_and(|at| now.duration_since(at).abs() < UNDER_WAY)
}

/// Whether what is left may be measured now with the login of this digest.
pub fn may_measure(poll: &Poll, digest: Option<&str>, now: Timestamp) -> bool {
    let over_with_login = poll
        .reason
        .as_deref()
        .is_some_and(|reason| OF_THE_LOGIN.contains(&reason));
    if over_with_login && poll.digest.as_deref() != digest {
        return budget_from(poll, now).is_none();
    }
    next_at(poll, now).is_none()
}

/// Whether the server may be asked now whose login it is that has this digest.
pub fn may_prove(poll: &Poll, digest: Option<&str>, asker: Asker, now: Timestamp) -> bool {
    if budget_from(poll, now).is_some() {
        return false;
    }
    let another = poll.digest.as_deref() != digest;
    let skips_wait = match (asker, poll.reason.as_deref()) {
        // A login that replaced one that might not even say whose it is is likely of the same kind.
        (Asker::Program, Some(NOT_ALLOWED)) => false,
        (Asker::Person, Some(THROTTLED)) | (Asker::Program, _) => another,
        (Asker::Person, _) => true,
    };
    skips_wait || next_at(poll, now).is_none()
}

/// What to remember once a person has given the profile a login that was just proved: the budget, and a pause that the
/// server asked for. Every other wait was for the login before.
pub fn with_new_login(poll: &Poll) -> Poll {
    if poll.reason.as_deref() == Some(THROTTLED) {
        return poll.clone();
    }
    Poll {
        next_at: None,
        failures: 0,
        reason: None,
        ..poll.clone()
    }
}

/// What to remember before a fetch is made, in case nobody lives to tell how it ended: a failure of unknown
/// kind. Someone who stopped a command with Ctrl-C may want it again soon.
pub fn begin(poll: &Poll, digest: Option<&str>, now: Timestamp) -> Poll {
    // The old login's failures are not the new one's.
    let same_login = poll.digest.as_deref() == digest;
    let failures = if same_login { poll.failures } else { 0 }.saturating_add(1);
    let mut calls = counted(poll, now);
    calls.push(now);
    Poll {
        next_at: next_at(poll, now).max(now.checked_add(doubled(UNREACHED, failures)).ok()),
        last_at: Some(now),
        digest: digest.map(str::to_owned),
        failures,
        reason: poll.reason.clone(),
        begun_at: Some(now),
        calls: calls.into_iter().map(Timestamp::as_second).collect(),
    }
}

/// What to remember of a fetch that was `begun` and has ended; `identity` when that was asked for too.
pub fn after(
    begun: &Poll,
    outcome: Result<(), &FetchError>,
    identity: bool,
    now: Timestamp,
) -> Poll {
    let failures = outcome.map_or_else(|_| begun.failures, |()| 0);
    let wait = match outcome {
        Ok(()) => INTERVAL,
        Err(FetchError::Forbidden) => FORBIDDEN,
        Err(FetchError::Unreached(_)) => doubled(UNREACHED, failures).min(UNREACHED_LONGEST),
        Err(FetchError::Throttled(Some(seconds))) => {
            let asked = i64::try_from(*seconds).unwrap_or(i64::MAX);
            let asked = SignedDuration::from_secs(asked).min(LONGEST_ASKED);
            doubled(INTERVAL, failures).max(asked)
        }
        Err(
            FetchError::Throttled(None)
            | FetchError::Unauthorized
            | FetchError::Unavailable(_)
            | FetchError::Shape,
        ) => doubled(INTERVAL, failures),
    };
    Poll {
        next_at: now.checked_add(wait).ok(),
        last_at: Some(now),
        failures,
        reason: outcome
            .err()
            .map(|error| reason(error, identity).to_owned()),
        begun_at: None,
        ..begun.clone()
    }
}

/// What to remember of a fetch that asked for the identity alone, and got it: the wait of the measurements
/// before it stands, unless the login was the reason for it.
pub fn proved(before: &Poll, begun: &Poll, now: Timestamp) -> Poll {
    let stands = before
        .reason
        .as_deref()
        .is_none_or(|reason| [THROTTLED, UNMEASURABLE, MISREAD].contains(&reason));
    let before = if stands { before } else { &Poll::default() };
    Poll {
        next_at: before.next_at,
        last_at: Some(now),
        failures: before.failures,
        reason: before.reason.clone(),
        begun_at: None,
        ..begun.clone()
    }
}

fn doubled(first: SignedDuration, failures: u32) -> SignedDuration {
    let factor = 1_i32 << failures.saturating_sub(1).min(12);
    first.saturating_mul(factor).min(LONGEST)
}

#[cfg(test)]
#[path = "poll_tests.rs"]
mod tests;
