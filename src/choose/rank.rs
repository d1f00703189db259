//! Which of the eligible profiles is best. Pure and deterministic.
//!
//! - `headroom`: the most left, weight added, live leases taken off. Spreads the load evenly.
//! - `soonest-reset`: that, and what would expire unused: an account whose week ends sooner is used up first, so
//!   that fresh weeks are there when they are needed. What it buys is measured: `cargo bench --bench simulation`.
//! - `round-robin`: the one that was not picked for longest, whatever is left above its reserve.
//!
//! `docs/choosing.md` says the same for people.

use jiff::Timestamp;

use super::candidate::Basis;
use crate::id::{ProfileId, ProviderKind};
use crate::quota::headroom::Share;
use crate::quota::window::Kind;
use crate::registry::schema::{Settings, Strategy};

/// Headroom points that each step of weight above 1 is worth.
const WEIGHT_POINTS: f64 = 5.0;
/// Seconds.
const HOUR: f64 = 3600.0;
const DAY: f64 = 24.0 * HOUR;

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
    /// The windows that gate.
    pub windows: Vec<Share>,
    /// Live leases, never too low.
    pub live: u32,
    /// Whether the login itself ends within [`crate::identity::expiry::SOON`].
    pub ends_soon: bool,
    /// Generation of its last pick; 0 when never picked.
    pub last_pick: u64,
    /// Place in the registry.
    pub order: usize,
}

/// The number that candidates of one basis are compared by; more is better. `None` under `round-robin`, which
/// looks at the last pick alone.
pub fn score(candidate: &Candidate, settings: &Settings, now: Timestamp) -> Option<f64> {
    let adjusted = adjusted_headroom(
        candidate.headroom.unwrap_or(0.0),
        candidate.weight,
        candidate.live,
        settings,
    );
    match settings.strategy {
        Strategy::Headroom => Some(adjusted),
        Strategy::SoonestReset => Some(adjusted + expiring(candidate, now)),
        Strategy::RoundRobin => None,
    }
}

/// Headroom with the points of a weight added and those of live leases taken off.
pub fn adjusted_headroom(headroom: f64, weight: u32, live: u32, settings: &Settings) -> f64 {
    headroom + WEIGHT_POINTS * (f64::from(weight) - 1.0)
        - settings.active_lease_penalty * f64::from(live)
}

/// Sorts the best candidate first and drops those without a free slot.
///
/// A fresh reading ranks above every presumed one, and that above an unmeasured profile. Ties: fewer live
/// leases, a login that does not end soon, longest since the last pick, place in the registry; under
/// `round-robin` the last pick comes first. An ending login loses ties alone: what is left of its account is
/// worth using until then.
pub fn rank(candidates: Vec<Candidate>, settings: &Settings, now: Timestamp) -> Vec<Candidate> {
    let free = candidates.into_iter().filter(|it| it.live < it.slots);
    // A score costs more than a comparison, of which a thousand candidates need ten thousand.
    let mut scored: Vec<(Option<f64>, Candidate)> = free
        .map(|candidate| (score(&candidate, settings, now), candidate))
        .collect();
    scored.sort_by(|(a_score, a), (b_score, b)| {
        class(&a.basis)
            .cmp(&class(&b.basis))
            .then_with(|| match (a_score, b_score) {
                (Some(a), Some(b)) => b.total_cmp(a),
                (None, _) | (_, None) => a.last_pick.cmp(&b.last_pick),
            })
            .then_with(|| {
                a.live
                    .cmp(&b.live)
                    .then(a.ends_soon.cmp(&b.ends_soon))
                    .then(a.last_pick.cmp(&b.last_pick))
                    .then(a.order.cmp(&b.order))
            })
    });
    scored.into_iter().map(|(_, candidate)| candidate).collect()
}

fn class(basis: &Basis) -> u8 {
    match basis {
        Basis::Fresh => 0,
        Basis::Presumed(_) => 1,
        Basis::Unmeasured => 2,
        Basis::Overage => 3,
    }
}

/// The percent a day at which the week's allowance has to be used for nothing to expire at its end; of several
/// long windows the least. Short windows come back too soon to be saved up for, and a window that names no end
/// has not begun, so nothing expires.
fn expiring(candidate: &Candidate, now: Timestamp) -> f64 {
    candidate
        .windows
        .iter()
        .filter(|window| matches!(window.kind, Kind::Weekly | Kind::Monthly))
        .filter_map(|window| {
            let left = window.resets_at?.duration_since(now).as_secs_f64();
            Some(window.remaining * DAY / left.max(HOUR))
        })
        .min_by(f64::total_cmp)
        .unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::{Candidate, rank};
    use crate::choose::candidate::Basis;
    use crate::id::ProviderKind;
    use crate::quota::headroom::Share;
    use crate::quota::window::Kind;
    use crate::registry::schema::{Settings, Strategy};
    use jiff::{SignedDuration, Timestamp};

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
            windows: Vec::new(),
            live: 0,
            ends_soon: false,
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
    fn a_login_that_ends_soon_loses_ties_and_nothing_else() {
        for strategy in [Strategy::Headroom, Strategy::SoonestReset] {
            let settings = Settings {
                strategy,
                active_lease_penalty: 0.0,
                ..Settings::default()
            };
            let soon = |headroom, live| Candidate {
                ends_soon: true,
                live,
                ..candidate(0, headroom)
            };
            let lasting = |headroom, live, last_pick| Candidate {
                live,
                last_pick,
                ..candidate(1, headroom)
            };
            let winner = |one, other| winner(vec![one, other], &settings);
            // Neither the registry's order nor the last pick outweighs it.
            assert_eq!(winner(soon(50.0, 0), lasting(50.0, 0, 9)), Some(1));
            assert_eq!(winner(soon(51.0, 0), lasting(50.0, 0, 0)), Some(0));
            assert_eq!(winner(soon(50.0, 0), lasting(50.0, 1, 0)), Some(0));
        }
        // Whose turn it is decides alone where turns are what was asked for.
        let turns = Settings {
            strategy: Strategy::RoundRobin,
            ..Settings::default()
        };
        let soon = Candidate {
            ends_soon: true,
            ..candidate(0, 50.0)
        };
        let picked = Candidate {
            last_pick: 3,
            ..candidate(1, 50.0)
        };
        assert_eq!(winner(vec![soon, picked], &turns), Some(0));
    }

    #[test]
    fn soonest_reset_uses_up_the_week_that_ends_first() {
        let settings = Settings {
            strategy: Strategy::SoonestReset,
            ..Settings::default()
        };
        let week = |order, remaining, hours| Candidate {
            windows: vec![Share {
                kind: Kind::Weekly,
                remaining,
                resets_at: Some(now() + SignedDuration::from_hours(hours)),
            }],
            ..candidate(order, remaining)
        };
        let soon = || week(0, 60.0, 12);
        assert_eq!(winner(vec![week(1, 80.0, 150), soon()], &settings), Some(0));
        // The same without an end in sight is decided by what is left, as is a short window's end.
        assert_eq!(
            winner(vec![candidate(1, 80.0), candidate(0, 60.0)], &settings),
            Some(1)
        );
        let mut session = soon();
        session.windows[0].kind = Kind::Session;
        assert_eq!(
            winner(vec![candidate(1, 80.0), session], &settings),
            Some(1)
        );
    }

    #[test]
    fn of_two_weeks_that_end_together_the_fuller_one_wins_under_each_strategy_that_looks() {
        for strategy in [Strategy::Headroom, Strategy::SoonestReset] {
            let settings = Settings {
                strategy,
                ..Settings::default()
            };
            let week = |order, remaining| Candidate {
                windows: vec![
                    Share {
                        kind: Kind::Session,
                        remaining: 95.0,
                        resets_at: None,
                    },
                    Share {
                        kind: Kind::Weekly,
                        remaining,
                        resets_at: Some(now() + SignedDuration::from_hours(80)),
                    },
                ],
                ..candidate(order, remaining)
            };
            assert_eq!(
                winner(vec![week(0, 16.0), week(1, 80.0)], &settings),
                Some(1)
            );
        }
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
