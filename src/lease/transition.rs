//! The rules of leases, as pure and total functions: who lives, and what may follow what.

use super::holder::Sighting;
use super::witness::Probe;
use crate::contract::lease::Verdict;

/// What is known of a running lease's holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    /// What the kernel says of its pid.
    pub(super) sighting: Sighting,
    /// What the last probe of its witness saw.
    pub(super) witness: Probe,
    /// True when the witness was held in three probes over 20 ms. A dying process closes its files a moment
    /// before or after its pid goes, so one probe proves nothing.
    pub(super) confirmed: bool,
}

/// Whether a running lease's holder lives. Everything but [`Verdict::Dead`] keeps its slot.
pub(super) fn verdict(facts: Facts) -> Verdict {
    match (facts.sighting, facts.witness) {
        (Sighting::OtherBoot, Probe::Free | Probe::Held | Probe::Unreadable)
        | (Sighting::Gone | Sighting::OtherNamespace | Sighting::Unreadable, Probe::Free) => {
            Verdict::Dead
        }
        (Sighting::Alive, Probe::Free | Probe::Held | Probe::Unreadable)
        | (Sighting::OtherNamespace | Sighting::Unreadable, Probe::Held) => Verdict::Alive,
        (Sighting::Gone, Probe::Held) if facts.confirmed => Verdict::Orphaned,
        (Sighting::Gone, Probe::Held)
        | (Sighting::Gone | Sighting::OtherNamespace | Sighting::Unreadable, Probe::Unreadable) => {
            Verdict::Unknown
        }
    }
}

/// How a task stands with the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// No lease.
    Absent,
    /// No lease, but the process of one that was released by force still lives.
    Evicted,
    /// A reservation whose time has not come.
    Reserved,
    /// A reservation whose time has passed.
    Expired,
    /// Bound to a process.
    Running(Verdict),
    /// Its record cannot be read.
    Damaged,
}

/// What is asked of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Choose: give it a lease.
    Reserve(Terms),
    /// Exec: give it a lease and bind it.
    Bind(Terms),
    /// End its lease.
    Release,
    /// End its lease even if its process lives.
    Force,
}

/// Whether the request agrees with the lease there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Terms {
    /// Same workspace and pool, and profile and provider where given.
    Same,
    /// Some of them differ.
    Different,
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Grant a new lease, after removing what has ended.
    Grant,
    /// Return the lease there is.
    Return,
    /// Bind the lease there is.
    Bind,
    /// Remove the lease.
    Remove,
    /// Refused: other terms.
    Conflict,
    /// Refused: a live process owns the task.
    Owned,
    /// Refused: its process lives.
    Active,
    /// Refused: there is no lease.
    Missing,
    /// Refused: the record cannot be read.
    Unreadable,
}

/// What follows when `event` is asked of a task that stands so.
pub(super) fn decide(standing: Standing, event: Event) -> Decision {
    match (standing, event) {
        (Standing::Damaged, _) => Decision::Unreadable,
        (
            Standing::Absent | Standing::Expired | Standing::Running(Verdict::Dead),
            Event::Reserve(_) | Event::Bind(_),
        ) => Decision::Grant,
        (Standing::Absent | Standing::Evicted, Event::Release | Event::Force) => Decision::Missing,
        (Standing::Evicted, Event::Reserve(_) | Event::Bind(_))
        | (Standing::Running(_), Event::Bind(_)) => Decision::Owned,
        (Standing::Reserved | Standing::Running(_), Event::Reserve(Terms::Different))
        | (Standing::Reserved, Event::Bind(Terms::Different)) => Decision::Conflict,
        (Standing::Reserved | Standing::Running(_), Event::Reserve(Terms::Same)) => {
            Decision::Return
        }
        (Standing::Reserved, Event::Bind(Terms::Same)) => Decision::Bind,
        (Standing::Reserved | Standing::Expired, Event::Release | Event::Force)
        | (Standing::Running(_), Event::Force)
        | (Standing::Running(Verdict::Dead), Event::Release) => Decision::Remove,
        (Standing::Running(_), Event::Release) => Decision::Active,
    }
}

#[cfg(test)]
mod tests {
    use super::{Decision, Event, Facts, Standing, Terms, decide, verdict};
    use crate::contract::lease::Verdict;
    use crate::lease::holder::Sighting;
    use crate::lease::witness::Probe;
    use proptest::prelude::*;

    const SIGHTINGS: [Sighting; 5] = [
        Sighting::Alive,
        Sighting::Gone,
        Sighting::OtherBoot,
        Sighting::OtherNamespace,
        Sighting::Unreadable,
    ];
    const PROBES: [Probe; 3] = [Probe::Free, Probe::Held, Probe::Unreadable];
    const VERDICTS: [Verdict; 4] = [
        Verdict::Alive,
        Verdict::Orphaned,
        Verdict::Dead,
        Verdict::Unknown,
    ];

    fn judge(sighting: Sighting, witness: Probe, confirmed: bool) -> Verdict {
        verdict(Facts {
            sighting,
            witness,
            confirmed,
        })
    }

    #[test]
    fn the_verdict_follows_the_table() {
        for witness in PROBES {
            for confirmed in [false, true] {
                assert_eq!(judge(Sighting::Alive, witness, confirmed), Verdict::Alive);
                assert_eq!(
                    judge(Sighting::OtherBoot, witness, confirmed),
                    Verdict::Dead
                );
            }
        }
        assert_eq!(judge(Sighting::Gone, Probe::Held, true), Verdict::Orphaned);
        assert_eq!(judge(Sighting::Gone, Probe::Held, false), Verdict::Unknown);
        assert_eq!(judge(Sighting::Gone, Probe::Free, false), Verdict::Dead);
        for sighting in [Sighting::OtherNamespace, Sighting::Unreadable] {
            assert_eq!(judge(sighting, Probe::Held, false), Verdict::Alive);
            assert_eq!(judge(sighting, Probe::Free, false), Verdict::Dead);
            assert_eq!(judge(sighting, Probe::Unreadable, false), Verdict::Unknown);
        }
        assert_eq!(
            judge(Sighting::Gone, Probe::Unreadable, true),
            Verdict::Unknown
        );
    }

    #[test]
    fn a_held_witness_of_this_boot_is_never_dead() {
        for sighting in SIGHTINGS {
            for confirmed in [false, true] {
                let dead = judge(sighting, Probe::Held, confirmed) == Verdict::Dead;
                assert_eq!(dead, sighting == Sighting::OtherBoot, "{sighting:?}");
            }
        }
    }

    fn standing() -> impl Strategy<Value = Standing> {
        prop_oneof![
            Just(Standing::Absent),
            Just(Standing::Evicted),
            Just(Standing::Reserved),
            Just(Standing::Expired),
            Just(Standing::Damaged),
            prop::sample::select(VERDICTS.to_vec()).prop_map(Standing::Running),
        ]
    }

    fn event() -> impl Strategy<Value = Event> {
        let terms = prop::sample::select(vec![Terms::Same, Terms::Different]);
        prop_oneof![
            terms.clone().prop_map(Event::Reserve),
            terms.prop_map(Event::Bind),
            Just(Event::Release),
            Just(Event::Force),
        ]
    }

    /// The standing after a decision was carried out, or `None` when nothing changed.
    fn after(standing: Standing, event: Event, decision: Decision) -> Option<Standing> {
        match decision {
            Decision::Grant | Decision::Bind => Some(match event {
                Event::Reserve(_) => Standing::Reserved,
                Event::Bind(_) | Event::Release | Event::Force => Standing::Running(Verdict::Alive),
            }),
            Decision::Remove => Some(match standing {
                Standing::Running(Verdict::Alive | Verdict::Orphaned) => Standing::Evicted,
                Standing::Running(_)
                | Standing::Absent
                | Standing::Evicted
                | Standing::Reserved
                | Standing::Expired
                | Standing::Damaged => Standing::Absent,
            }),
            Decision::Return
            | Decision::Conflict
            | Decision::Owned
            | Decision::Active
            | Decision::Missing
            | Decision::Unreadable => None,
        }
    }

    proptest! {
        #[test]
        fn a_live_owner_is_never_replaced(
            first in standing(),
            events in prop::collection::vec(event(), 1..12),
        ) {
            let mut now = first;
            for event in events {
                let decision = decide(now, event);
                let owned = matches!(
                    now,
                    Standing::Evicted
                        | Standing::Damaged
                        | Standing::Running(Verdict::Alive | Verdict::Orphaned | Verdict::Unknown)
                );
                prop_assert!(!(owned && matches!(decision, Decision::Grant | Decision::Bind)));
                if let (true, Event::Release) = (owned, event) {
                    prop_assert!(decision != Decision::Remove);
                }
                now = after(now, event, decision).unwrap_or(now);
            }
        }

        #[test]
        fn what_has_ended_is_never_in_the_way(event in event()) {
            for ended in [Standing::Expired, Standing::Running(Verdict::Dead)] {
                let decision = decide(ended, event);
                prop_assert!(matches!(decision, Decision::Grant | Decision::Remove));
            }
        }
    }
}
