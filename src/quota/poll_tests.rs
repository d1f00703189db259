use super::{
    BUDGET, INTERVAL, after, begin, is_under_way, may_measure, may_prove, next_at, proved,
    with_new_login,
};
use crate::provider::FetchError;
use crate::quota::refresh::Asker::{Person, Program};
use crate::snapshot::profile::Poll;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

fn start() -> Timestamp {
    "2030-01-02T12:00:00Z".parse().unwrap()
}

fn later(seconds: i64) -> Timestamp {
    start() + SignedDuration::from_secs(seconds)
}

/// A measurement with the login `digest` that ended so.
fn measured(poll: &Poll, digest: &str, outcome: Result<(), &FetchError>, now: Timestamp) -> Poll {
    after(&begin(poll, Some(digest), now), outcome, false, now)
}

/// How many calls an hour of asking every second makes, each with this outcome.
fn calls_in_an_hour(outcome: Result<(), &FetchError>) -> usize {
    let mut poll = Poll::default();
    let mut calls = 0;
    for second in 0..3600 {
        if may_measure(&poll, Some("d"), later(second)) {
            calls += 1;
            poll = measured(&poll, "d", outcome, later(second));
        }
    }
    calls
}

#[test]
fn an_hour_of_failures_costs_a_handful_of_calls() {
    let unavailable = FetchError::Unavailable("it answered 500".to_owned());
    let unreached = FetchError::Unreached("its host name is not known".to_owned());
    for (outcome, most) in [
        (Ok(()), BUDGET),
        (Err(&FetchError::Throttled(Some(0))), 5),
        (Err(&FetchError::Throttled(None)), 5),
        (Err(&FetchError::Throttled(Some(3600))), 1),
        (Err(&FetchError::Unauthorized), 5),
        (Err(&FetchError::Shape), 5),
        (Err(&FetchError::Forbidden), 1),
        (Err(&unavailable), 5),
        (Err(&unreached), BUDGET),
    ] {
        let calls = calls_in_an_hour(outcome);
        assert!(
            (1..=most).contains(&calls),
            "{calls} calls after {outcome:?}"
        );
    }
}

#[test]
fn good_answers_are_three_minutes_apart() {
    let poll = measured(&Poll::default(), "d", Ok(()), start());
    assert!(!may_measure(&poll, Some("d"), later(179)));
    assert!(may_measure(&poll, Some("d"), start() + INTERVAL));
}

#[test]
fn a_fetch_whose_process_was_killed_counts_as_a_failed_one() {
    let mut poll = Poll::default();
    let mut calls = 0;
    for second in 0..3600 {
        if may_measure(&poll, Some("d"), later(second)) {
            calls += 1;
            poll = begin(&poll, Some("d"), later(second));
        }
    }
    assert!((1..=10).contains(&calls), "{calls}");
    let once = begin(&Poll::default(), Some("d"), start());
    assert!(
        may_measure(&once, Some("d"), later(10)),
        "Ctrl-C is forgiven soon"
    );
    assert!(
        !is_under_way(&poll, later(3600)),
        "nobody waits for the dead"
    );
}

#[test]
fn a_killed_fetch_forgets_no_back_off() {
    let throttled = FetchError::Throttled(Some(3600));
    let poll = measured(&Poll::default(), "d", Err(&throttled), start());
    let killed = begin(&poll, Some("d"), later(5));
    assert_eq!(next_at(&killed, later(5)), Some(later(3600)));
    assert_eq!(killed.reason.as_deref(), Some("throttled"));
    let again = after(&killed, Err(&throttled), false, later(3600));
    assert_eq!(again.failures, 2);
}

#[test]
fn a_clock_that_was_set_back_keeps_nobody_from_asking() {
    let mut poll = Poll::default();
    for _ in 0..BUDGET {
        poll = measured(&poll, "d", Ok(()), start());
    }
    let back = start() - SignedDuration::from_hours(5);
    assert!(may_measure(&poll, Some("d"), back));
    // Commands that began a moment apart do not disagree about it.
    let poll = measured(&Poll::default(), "d", Ok(()), start());
    let earlier = start() - SignedDuration::from_secs(8);
    assert!(!may_measure(&poll, Some("d"), earlier));
    assert_eq!(next_at(&poll, earlier), poll.next_at);
    assert_eq!(
        next_at(&poll, start() + INTERVAL),
        None,
        "a time that is over"
    );
}

#[test]
fn a_longer_retry_after_is_obeyed_and_an_absurd_one_bounded() {
    let wait = |seconds| {
        let throttled = FetchError::Throttled(Some(seconds));
        measured(&Poll::default(), "d", Err(&throttled), start())
    };
    assert!(!may_measure(&wait(5000), Some("d"), later(4999)));
    assert!(may_measure(&wait(u64::MAX), Some("d"), later(24 * 3600)));
}

#[test]
fn a_wait_belongs_to_the_account_unless_the_login_brought_it_about() {
    for (error, lifted) in [
        (FetchError::Unauthorized, true),
        (FetchError::Throttled(None), false),
        (FetchError::Forbidden, false),
        (FetchError::Shape, false),
    ] {
        let poll = measured(&Poll::default(), "old", Err(&error), start());
        assert_eq!(
            may_measure(&poll, Some("new"), later(5)),
            lifted,
            "{error:?}"
        );
        assert!(
            may_prove(&poll, Some("new"), Program, later(5)),
            "{error:?}"
        );
        assert!(
            !may_prove(&poll, Some("old"), Program, later(5)),
            "{error:?}"
        );
        let renewed = begin(&poll, Some("new"), later(5));
        assert_eq!(
            renewed.failures, 1,
            "the old login's failures are not the new one's"
        );
    }
    let measured = measured(&Poll::default(), "old", Ok(()), start());
    assert!(!may_measure(&measured, Some("new"), later(5)));
}

#[test]
fn a_login_that_may_not_say_whose_it_is_is_tried_once_a_day_unless_a_person_asks() {
    let begun = begin(&Poll::default(), Some("old"), start());
    let poll = after(&begun, Err(&FetchError::Forbidden), true, start());
    assert_eq!(poll.reason.as_deref(), Some("forbidden"));
    for hour in 0..24 {
        assert!(!may_prove(&poll, Some("new"), Program, later(hour * 3600)));
    }
    assert!(may_prove(&poll, Some("new"), Person, later(5)));
    assert!(may_prove(&poll, Some("old"), Program, later(24 * 3600)));
}

#[test]
fn a_renewed_proof_ends_no_throttling() {
    let throttled = FetchError::Throttled(Some(3000));
    let before = measured(&Poll::default(), "old", Err(&throttled), start());
    let after = proved(&before, &begin(&before, Some("new"), later(9)), later(9));
    assert_eq!(
        (
            next_at(&after, later(9)),
            after.failures,
            after.reason.as_deref()
        ),
        (Some(later(3000)), 1, Some("throttled"))
    );
    let refused = measured(
        &Poll::default(),
        "old",
        Err(&FetchError::Unauthorized),
        start(),
    );
    let after = proved(&refused, &begin(&refused, Some("new"), later(9)), later(9));
    assert!(may_measure(&after, Some("new"), later(9)));
    assert_eq!(after.reason, None);
}

#[test]
fn a_person_skips_a_back_off_but_not_the_servers_wish_nor_the_budget() {
    let shape = measured(&Poll::default(), "d", Err(&FetchError::Shape), start());
    assert!(may_prove(&shape, Some("d"), Person, later(1)));
    assert!(!may_measure(&shape, Some("d"), later(1)));
    let throttled = measured(
        &Poll::default(),
        "d",
        Err(&FetchError::Throttled(None)),
        start(),
    );
    assert!(!may_prove(&throttled, Some("d"), Person, later(1)));
    let mut poll = Poll::default();
    let mut calls = 0;
    for second in 0..3600 {
        if may_prove(&poll, Some("d"), Person, later(second)) {
            calls += 1;
            poll = proved(
                &poll,
                &begin(&poll, Some("d"), later(second)),
                later(second),
            );
        }
    }
    assert_eq!(calls, BUDGET);
    assert!(
        next_at(&poll, later(3599)).is_some(),
        "it says when it goes on"
    );
}

proptest! {
    #[test]
    fn no_history_of_asking_exceeds_the_budget_of_any_hour(
        steps in prop::collection::vec((0_i64..400, 0_u8..7, 0_u8..3, any::<bool>(), any::<bool>()), 1..200)
    ) {
        let mut poll = Poll::default();
        let mut now = start();
        let mut made = Vec::new();
        for (wait, ending, login, person, usage) in steps {
            now += SignedDuration::from_secs(wait);
            let digest = ["a", "b", "c"][usize::from(login)];
            let asker = if person { Person } else { Program };
            let may = if usage {
                may_measure(&poll, Some(digest), now)
            } else {
                may_prove(&poll, Some(digest), asker, now)
            };
            if !may {
                prop_assert!(poll.next_at.is_some() || next_at(&poll, now).is_some());
                continue;
            }
            made.push(now);
            let begun = begin(&poll, Some(digest), now);
            poll = match ending {
                0 => begun,
                1 if !usage => proved(&poll, &begun, now),
                1 => after(&begun, Ok(()), false, now),
                2 => after(&begun, Err(&FetchError::Throttled(Some(0))), !usage, now),
                3 => after(&begun, Err(&FetchError::Unauthorized), !usage, now),
                4 => after(&begun, Err(&FetchError::Unreached(String::new())), !usage, now),
                5 => after(&begun, Err(&FetchError::Unavailable(String::new())), !usage, now),
                _ => after(&begun, Err(&FetchError::Shape), !usage, now),
            };
        }
        for first in &made {
            let hour = SignedDuration::from_hours(1);
            let within = made.iter().filter(|at| **at >= *first && at.duration_since(*first) < hour);
            prop_assert!(within.count() <= BUDGET);
        }
    }
}

#[test]
fn a_login_that_was_just_proved_waits_for_nothing_but_what_the_server_asked_for() {
    let ends = |error: FetchError| {
        let poll = measured(&Poll::default(), "old", Err(&error), start());
        let again = measured(&poll, "old", Err(&error), later(60));
        with_new_login(&again)
    };
    for error in [
        FetchError::Unauthorized,
        FetchError::Forbidden,
        FetchError::Shape,
        FetchError::Unavailable("it answered 500".to_owned()),
    ] {
        let poll = ends(error);
        assert!(may_measure(&poll, Some("new"), later(61)), "{poll:?}");
        assert_eq!((poll.failures, poll.calls.len()), (0, 2), "{poll:?}");
    }
    let throttled = ends(FetchError::Throttled(Some(3000)));
    assert!(!may_measure(&throttled, Some("new"), later(61)));
}
