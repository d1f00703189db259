//! What holds for every set of profiles, under every strategy.

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::candidate::tests::{asked, facts, profile};
use super::candidate::{Basis, Eligibility, eligibility};
use super::rank::{Candidate, rank, score};
use crate::quota::headroom::{Share, Status, Worth};
use crate::quota::window::Kind;
use crate::registry::schema::{Settings, StaleReadings, Strategy as Ranking, Unmeasured};
use crate::snapshot::profile::ProfileState;

fn now() -> Timestamp {
    "2030-01-02T12:00:00Z".parse().unwrap()
}

/// One profile as it is found.
#[derive(Clone, Debug)]
struct Found {
    status: Status,
    windows: Vec<(f64, i64)>,
    reserve: f64,
    weight: u32,
    live: u32,
    last_pick: u64,
}

fn found() -> impl Strategy<Value = Found> {
    let status = prop_oneof![
        3 => Just(Status::Fresh),
        1 => Just(Status::Presumed),
        1 => Just(Status::Stale),
        1 => Just(Status::Unmeasured),
    ];
    let windows = prop::collection::vec((0.0..=100.0_f64, -3_i64..200), 1..4);
    let rest = (0.0..=50.0_f64, 1_u32..4, 0_u32..4, 0_u64..4);
    (status, windows, rest).prop_map(|(status, windows, (reserve, weight, live, last_pick))| {
        Found {
            status,
            windows,
            reserve,
            weight,
            live,
            last_pick,
        }
    })
}

fn settings() -> impl Strategy<Value = Settings> {
    let strategy = prop_oneof![
        Just(Ranking::Headroom),
        Just(Ranking::SoonestReset),
        Just(Ranking::RoundRobin)
    ];
    (strategy, 0.0..20.0_f64).prop_map(|(strategy, active_lease_penalty)| Settings {
        strategy,
        active_lease_penalty,
        stale_readings: StaleReadings::Presume,
        unmeasured: Unmeasured::Allow,
        ..Settings::default()
    })
}

fn worth(found: &Found) -> Worth {
    let windows: Vec<Share> = found
        .windows
        .iter()
        .map(|(remaining, hours)| Share {
            kind: if *hours > 5 {
                Kind::Weekly
            } else {
                Kind::Session
            },
            remaining: *remaining,
            resets_at: (*hours > 0).then(|| now() + SignedDuration::from_hours(*hours)),
        })
        .collect();
    let headroom = windows
        .iter()
        .map(|window| window.remaining)
        .fold(100.0, f64::min);
    Worth {
        status: found.status,
        headroom: (found.status != Status::Unmeasured).then_some(headroom),
        reason: Some("throttled".to_owned()),
        windows,
        ..Worth::fresh(0.0)
    }
}

/// The candidates that eligibility lets through.
fn candidates(all: &[Found], settings: &Settings) -> Vec<Candidate> {
    all.iter()
        .enumerate()
        .filter_map(|(order, found)| {
            let mut profile = profile(&format!("p{order}"));
            profile.reserve_percent = found.reserve;
            let state = ProfileState::new(&profile.id);
            let worth = worth(found);
            match eligibility(&facts(&profile, &state, &worth), &asked(), settings, now()) {
                Eligibility::Eligible { headroom, basis } => Some(Candidate {
                    profile: profile.id.clone(),
                    provider: profile.provider,
                    slots: profile.max_concurrent,
                    headroom,
                    basis,
                    weight: found.weight,
                    windows: worth.windows,
                    live: found.live,
                    ends_soon: false,
                    last_pick: found.last_pick,
                    order,
                }),
                Eligibility::Refused { .. } => None,
            }
        })
        .collect()
}

proptest! {
    #[test]
    fn no_profile_at_or_below_its_reserve_and_none_without_a_slot_is_ranked(
        all in prop::collection::vec(found(), 0..9), settings in settings()
    ) {
        for best in rank(candidates(&all, &settings), &settings, now()) {
            let found = &all[best.order];
            prop_assert!(found.live < best.slots);
            if let Some(headroom) = best.headroom {
                prop_assert!(headroom > found.reserve);
                prop_assert!(found.windows.iter().all(|(left, _)| *left > found.reserve));
            }
        }
    }

    #[test]
    fn the_order_in_which_profiles_are_found_decides_nothing(
        all in prop::collection::vec(found(), 0..9), settings in settings(), turn in 0_usize..9
    ) {
        let ranked = rank(candidates(&all, &settings), &settings, now());
        let mut turned = candidates(&all, &settings);
        turned.reverse();
        let middle = turn.min(turned.len());
        turned.rotate_left(middle);
        prop_assert_eq!(rank(turned, &settings, now()), ranked);
    }

    #[test]
    fn a_degraded_profile_ranks_below_every_fresh_one(
        all in prop::collection::vec(found(), 0..9), settings in settings()
    ) {
        let ranked = rank(candidates(&all, &settings), &settings, now());
        let class = |best: &Candidate| match best.basis {
            Basis::Fresh => 0,
            Basis::Presumed(_) => 1,
            Basis::Unmeasured => 2,
            Basis::Overage => 3,
        };
        let in_order = ranked.is_sorted_by_key(class);
        prop_assert!(in_order);
    }

    #[test]
    fn within_one_basis_the_score_that_is_shown_is_what_decided(
        all in prop::collection::vec(found(), 0..9), settings in settings()
    ) {
        let ranked = rank(candidates(&all, &settings), &settings, now());
        for pair in ranked.windows(2) {
            let scores = pair.iter().map(|best| score(best, &settings, now()));
            let scores: Vec<f64> = scores.flatten().collect();
            let one_basis = pair[0].basis.word() == pair[1].basis.word();
            if let ([better, worse], true) = (&scores[..], one_basis) {
                prop_assert!(better >= worse);
            }
        }
    }
}
