//! When a profile's reason may have passed.

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::candidate::tests::{asked, facts, profile};
use super::candidate::{Eligibility, Identity, eligibility};
use crate::error::code;
use crate::quota::headroom::{Share, Status, Worth};
use crate::quota::window::{Cooldown, Kind};
use crate::registry::schema::{Settings, StaleReadings};
use crate::snapshot::profile::{Note, ProfileState};

fn now() -> Timestamp {
    "2030-01-02T12:00:00Z".parse().unwrap()
}

fn after(hours: i64) -> Timestamp {
    now() + SignedDuration::from_hours(hours)
}

fn share(remaining: f64, resets_in: Option<i64>) -> Share {
    Share {
        kind: Kind::Weekly,
        remaining,
        resets_at: resets_in.map(after),
    }
}

/// A fresh reading of these windows.
fn read(windows: Vec<Share>) -> Worth {
    let headroom = windows
        .iter()
        .map(|window| window.remaining)
        .fold(100.0, f64::min);
    Worth {
        headroom: Some(headroom),
        windows,
        ..Worth::fresh(0.0)
    }
}

fn cooled(hours: i64) -> ProfileState {
    let mut state = ProfileState::named("a");
    state.cooldown = Some(Cooldown {
        reason: "quota".to_owned(),
        until: after(hours),
        since: now(),
        guessed: false,
    });
    state
}

fn retry(state: &ProfileState, worth: &Worth, settings: &Settings) -> Option<Timestamp> {
    let profile = profile("a");
    match eligibility(&facts(&profile, state, worth), &asked(), settings, now()) {
        Eligibility::Refused { retry_at, .. } => retry_at,
        Eligibility::Eligible { .. } => panic!("it is eligible"),
    }
}

fn idle() -> ProfileState {
    ProfileState::named("a")
}

#[test]
fn a_profile_under_its_reserve_is_back_when_the_last_such_window_resets() {
    let usual = Settings::default();
    let both = read(vec![
        share(3.0, Some(1)),
        share(10.0, Some(70)),
        share(60.0, Some(99)),
    ]);
    assert_eq!(retry(&idle(), &both, &usual), Some(after(70)));
    let silent = read(vec![share(3.0, Some(1)), share(0.0, None)]);
    assert_eq!(retry(&idle(), &silent, &usual), None, "nobody knows when");
    let readable = Worth {
        measured_at: Some(after(2)),
        ..silent
    };
    assert_eq!(retry(&idle(), &readable, &usual), Some(after(2)));
}

#[test]
fn a_cooldown_ends_for_good_only_when_nothing_else_is_in_the_way() {
    let usual = Settings::default();
    assert_eq!(
        retry(&cooled(3), &Worth::fresh(90.0), &usual),
        Some(after(3))
    );
    let used_up = read(vec![share(0.0, Some(40))]);
    assert_eq!(retry(&cooled(3), &used_up, &usual), Some(after(40)));
    assert_eq!(retry(&cooled(50), &used_up, &usual), Some(after(50)));
}

#[test]
fn a_reading_that_cannot_be_had_is_back_at_the_next_poll_or_the_last_reset() {
    let stale = |measured_at, presumed_at| Worth {
        status: Status::Stale,
        measured_at,
        presumed_at,
        ..Worth::fresh(50.0)
    };
    let usual = Settings::default();
    let refuse = Settings {
        stale_readings: StaleReadings::Refuse,
        ..Settings::default()
    };
    let (poll, reset) = (Some(after(1)), Some(after(9)));
    assert_eq!(retry(&idle(), &stale(poll, reset), &usual), poll);
    assert_eq!(retry(&idle(), &stale(None, reset), &usual), reset);
    assert_eq!(retry(&idle(), &stale(None, reset), &refuse), None);
    assert_eq!(retry(&idle(), &stale(None, None), &usual), None);
    let due = Some(now() - SignedDuration::from_hours(1));
    assert_eq!(
        retry(&idle(), &stale(due, None), &usual),
        Some(now()),
        "never in the past"
    );
}

#[test]
fn what_a_person_must_end_has_no_time() {
    let usual = Settings::default();
    let note = || {
        Some(Note {
            reason: "x".to_owned(),
            at: now(),
        })
    };
    let mut billed = cooled(1);
    billed.durable.billing_block = note();
    let mut isolated = cooled(1);
    isolated.durable.quarantine = note();
    let mut drained = cooled(1);
    drained.durable.drain = note();
    let mut ended = cooled(1);
    ended.login_expires_at = Some(now());
    for state in [billed, isolated, drained, ended] {
        assert_eq!(
            retry(&state, &read(vec![share(0.0, Some(1))]), &usual),
            None
        );
    }
    let (profile, state, worth) = (profile("a"), cooled(1), Worth::fresh(90.0));
    let mut unproved = facts(&profile, &state, &worth);
    unproved.identity = Identity::Refused(code::IDENTITY_UNPROVEN);
    let found = eligibility(&unproved, &asked(), &usual, now());
    let refused = Eligibility::Refused {
        code: code::IDENTITY_UNPROVEN,
        retry_at: None,
    };
    assert_eq!(found, refused);
}

proptest! {
    #[test]
    fn no_time_lies_in_the_past(
        cooldown in -9_i64..9, measured in prop::option::of(-9_i64..9), presumed in prop::option::of(0_i64..9),
        windows in prop::collection::vec((0.0..=100.0_f64, prop::option::of(1_i64..9)), 0..4), status in 0_u8..4
    ) {
        let worth = Worth {
            status: [Status::Fresh, Status::Presumed, Status::Stale, Status::Unmeasured][usize::from(status)],
            measured_at: measured.map(after),
            presumed_at: presumed.map(after),
            ..read(windows.into_iter().map(|(left, resets_in)| share(left, resets_in)).collect())
        };
        let (profile, state) = (profile("a"), cooled(cooldown));
        let found = eligibility(&facts(&profile, &state, &worth), &asked(), &Settings::default(), now());
        if let Eligibility::Refused { retry_at: Some(at), .. } = found {
            prop_assert!(at >= now());
        }
    }
}
