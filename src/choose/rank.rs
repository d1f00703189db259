//! Which of the eligible profiles is best. Pure and deterministic.

use std::cmp::Ordering;

use jiff::Timestamp;

use super::candidate::Basis;
use crate::id::{ProfileId, ProviderKind};
use crate::registry::schema::{Settings, Strategy};

/// Headroom points that each step of weight above 1 is worth.
const WEIGHT_POINTS: f64 = 5.0;

/// An eligible profile with what it is ranked by.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Which profile.
    pub profile: ProfileId,
    /// Its provider.
    pub provider: ProviderKind,
    /// Slots.
    pub slots: u32,
    /// Least remaining percent; `None` when unmeasured.
    pub headroom: Option<f64>,
    /// What the headroom rests on.
    pub basis: Basis,
    /// Registry weight.
    pub weight: u32,
    /// When its tightest window resets.
    pub resets_at: Option<Timestamp>,
    /// Live leases, never too low.
    pub live: u32,
    /// Generation of its last pick; 0 when never picked.
    pub last_pick: u64,
    /// Place in the registry.
    pub order: usize,
}

/// The number that candidates of one basis are compared by; more is better.
pub fn score(candidate: &Candidate, settings: &Settings) -> f64 {
    adjusted_headroom(
        candidate.headroom.unwrap_or(0.0),
        candidate.weight,
        candidate.live,
        settings,
    )
}

/// Headroom with the points of a weight added and those of live leases taken off.
pub fn adjusted_headroom(headroom: f64, weight: u32, live: u32, settings: &Settings) -> f64 {
    headroom + WEIGHT_POINTS * (f64::from(weight) - 1.0)
        - settings.active_lease_penalty * f64::from(live)
}

/// Sorts the best candidate first and drops those without a free slot.
///
/// A fresh reading ranks above every presumed one, and that above an unmeasured profile. Ties: fewer live
/// leases, longest since the last pick, place in the registry.
pub fn rank(mut candidates: Vec<Candidate>, settings: &Settings, now: Timestamp) -> Vec<Candidate> {
    candidates.retain(|candidate| candidate.live < candidate.slots);
    candidates.sort_by(|a, b| {
        class(&a.basis)
            .cmp(&class(&b.basis))
            .then_with(|| by_strategy(a, b, settings, now))
            .then_with(|| {
                a.live
                    .cmp(&b.live)
                    .then(a.last_pick.cmp(&b.last_pick))
                    .then(a.order.cmp(&b.order))
            })
    });
    candidates
}

fn class(basis: &Basis) -> u8 {
    match basis {
        Basis::Fresh => 0,
        Basis::Presumed(_) => 1,
        Basis::Unmeasured => 2,
        Basis::Overage => 3,
    }
}

fn by_strategy(a: &Candidate, b: &Candidate, settings: &Settings, now: Timestamp) -> Ordering {
    let by_score = || score(b, settings).total_cmp(&score(a, settings));
    match settings.strategy {
        Strategy::Headroom => by_score(),
        Strategy::RoundRobin => a.last_pick.cmp(&b.last_pick),
        Strategy::SoonestReset => expiring(b, now)
            .total_cmp(&expiring(a, now))
            .then_with(by_score),
    }
}

/// Headroom per hour until it would expire unused; live leases spread the load here too.
fn expiring(candidate: &Candidate, now: Timestamp) -> f64 {
    let Some(resets_at) = candidate.resets_at else {
        return 0.0;
    };
    let hours = (resets_at.duration_since(now).as_secs_f64() / 3600.0).max(0.1);
    candidate.headroom.unwrap_or(0.0) / hours / f64::from(candidate.live + 1)
}

#[cfg(test)]
mod tests {
    use super::{Candidate, rank};
    use crate::choose::candidate::Basis;
    use crate::id::ProviderKind;
    use crate::registry::schema::{Settings, Strategy};
    use jiff::Timestamp;

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    fn candidate(order: usize, headroom: f64) -> Candidate {
        Candidate {
            profile: format!("p{order}").parse().unwrap(),
            provider: ProviderKind::Scripted,
            slots: 2,
            headroom: Some(headroom),
            basis: Basis::Fresh,
            weight: 1,
            resets_at: None,
            live: 0,
            last_pick: 0,
            order,
        }
    }

    fn winner(candidates: Vec<Candidate>, settings: &Settings) -> Option<usize> {
        rank(candidates, settings, now())
            .first()
            .map(|best| best.order)
    }

    #[test]
    fn most_headroom_wins_less_the_penalty_for_live_leases() {
        let settings = Settings::default();
        assert_eq!(
            winner(vec![candidate(0, 50.0), candidate(1, 51.0)], &settings),
            Some(1)
        );
        let busy = Candidate {
            live: 1,
            ..candidate(1, 51.0)
        };
        assert_eq!(winner(vec![candidate(0, 50.0), busy], &settings), Some(0));
        let heavy = Candidate {
            weight: 3,
            ..candidate(0, 50.0)
        };
        assert_eq!(winner(vec![heavy, candidate(1, 59.0)], &settings), Some(0));
    }

    #[test]
    fn presumed_ranks_below_every_fresh_reading() {
        let presumed = Candidate {
            basis: Basis::Presumed("x".into()),
            ..candidate(0, 100.0)
        };
        let unmeasured = Candidate {
            basis: Basis::Unmeasured,
            headroom: None,
            ..candidate(2, 0.0)
        };
        let order: Vec<_> = rank(
            vec![unmeasured, presumed, candidate(1, 16.0)],
            &Settings::default(),
            now(),
        )
        .iter()
        .map(|candidate| candidate.order)
        .collect();
        assert_eq!(order, [1, 0, 2]);
    }

    #[test]
    fn full_profiles_are_never_ranked() {
        let full = Candidate {
            live: 2,
            ..candidate(0, 100.0)
        };
        assert_eq!(winner(vec![full], &Settings::default()), None);
    }

    #[test]
    fn ties_go_to_the_idle_then_to_the_longest_unpicked_then_to_the_first() {
        let settings = Settings {
            active_lease_penalty: 0.0,
            ..Settings::default()
        };
        let busy = Candidate {
            live: 1,
            ..candidate(0, 50.0)
        };
        let picked = Candidate {
            last_pick: 9,
            ..candidate(1, 50.0)
        };
        let order: Vec<_> = rank(
            vec![busy, picked, candidate(3, 50.0), candidate(2, 50.0)],
            &settings,
            now(),
        )
        .iter()
        .map(|candidate| candidate.order)
        .collect();
        assert_eq!(order, [2, 3, 1, 0]);
    }

    #[test]
    fn soonest_reset_prefers_headroom_that_would_expire_unused() {
        let settings = Settings {
            strategy: Strategy::SoonestReset,
            ..Settings::default()
        };
        let at = |hour: &str| Some(format!("2026-01-01T{hour}:00:00Z").parse().unwrap());
        let soon = Candidate {
            resets_at: at("01"),
            ..candidate(0, 60.0)
        };
        let late = Candidate {
            resets_at: at("05"),
            ..candidate(1, 90.0)
        };
        assert_eq!(winner(vec![late, soon], &settings), Some(0));
    }

    #[test]
    fn simultaneous_choices_spread_over_equal_profiles() {
        let mut live = [0_u32; 4];
        for pick in 0..12 {
            let candidates = (0..4)
                .map(|at| Candidate {
                    slots: 5,
                    live: live[at],
                    ..candidate(at, 80.0)
                })
                .collect();
            let best = winner(candidates, &Settings::default()).unwrap();
            live[best] += 1;
            assert!(
                live.iter().max().unwrap() - live.iter().min().unwrap() <= 1,
                "pick {pick}: {live:?}"
            );
        }
    }
}
