//! Every small world: who may take what, by brute force.

use super::{ATTENTION, Place, after, is_before};
use crate::id::ProfileId;
use crate::lease::Occupancy;

const PROFILES: usize = 2;

fn id(index: usize) -> ProfileId {
    format!("p{index}").parse().unwrap()
}

fn free(occupancy: &Occupancy, caps: [u32; PROFILES], index: usize) -> u32 {
    caps[index].saturating_sub(occupancy.live(&id(index)))
}

/// The first profile with a free slot among those in the bit set: what a request of these wishes would take.
fn best(wishes: u8, occupancy: &Occupancy, caps: [u32; PROFILES]) -> Option<usize> {
    (0..PROFILES).find(|index| wishes & (1 << index) != 0 && free(occupancy, caps, *index) > 0)
}

fn left(first: &[u8], caps: [u32; PROFILES]) -> Occupancy {
    after(first, Occupancy::default(), |wishes, occupancy| {
        best(*wishes, occupancy, caps).map(id)
    })
}

/// All lists of up to three waiters, each with any wishes, over all caps up to two.
fn worlds(mut check: impl FnMut(&[u8], [u32; PROFILES])) {
    for code in 0..9 {
        let caps = [code % 3, code / 3];
        for length in 0..=3_u32 {
            for all in 0..4_u32.pow(length) {
                let first: Vec<u8> = (0..length)
                    .map(|at| u8::try_from(all / 4_u32.pow(at) % 4).unwrap())
                    .collect();
                check(&first, caps);
            }
        }
    }
}

#[test]
fn nobody_is_let_take_beyond_a_cap() {
    worlds(|first, caps| {
        let taken = left(first, caps);
        for (index, cap) in caps.into_iter().enumerate() {
            assert!(taken.live(&id(index)) <= cap, "{first:?} {caps:?}");
        }
    });
}

#[test]
fn who_asks_gets_a_slot_only_if_nobody_before_it_goes_without_one_it_could_use() {
    worlds(|first, caps| {
        let taken = left(first, caps);
        for wishes in 1..4_u8 {
            let Some(mine) = best(wishes, &taken, caps) else {
                continue;
            };
            let unserved = goes_without(first, caps, mine);
            assert_eq!(unserved, 0, "{first:?} {caps:?}: {wishes:b} took {mine}");
        }
    });
}

/// How many of those whom `profile` would suit are given nothing.
fn goes_without(first: &[u8], caps: [u32; PROFILES], profile: usize) -> usize {
    let mut without = 0;
    after(first, Occupancy::default(), |wishes, occupancy| {
        let found = best(*wishes, occupancy, caps);
        if found.is_none() && wishes & (1 << profile) != 0 {
            without += 1;
        }
        found.map(id)
    });
    without
}

#[test]
fn one_who_can_have_nothing_of_what_is_free_changes_nothing() {
    worlds(|first, caps| {
        let without: Vec<u8> = {
            let mut served = Vec::new();
            after(first, Occupancy::default(), |wishes, occupancy| {
                let found = best(*wishes, occupancy, caps);
                if found.is_some() {
                    served.push(*wishes);
                }
                found.map(id)
            });
            served
        };
        assert_eq!(
            left(first, caps),
            left(&without, caps),
            "{first:?} {caps:?}"
        );
    });
}

#[test]
fn a_slot_that_nobody_before_can_use_is_never_left_empty() {
    worlds(|first, caps| {
        let taken = left(first, caps);
        for (index, cap) in caps.into_iter().enumerate() {
            let suits = first.iter().any(|theirs| theirs & (1 << index) != 0);
            if !suits {
                assert_eq!(free(&taken, caps, index), cap, "{first:?} {caps:?}");
            }
        }
    });
}

#[test]
fn the_oldest_takes_the_only_slot_and_the_next_one_the_next() {
    let caps = [1, 0];
    let taken = left(&[0b01], caps);
    assert_eq!(best(0b01, &taken, caps), None, "the second got it");
    let taken = left(&[0b10], caps);
    assert_eq!(
        best(0b01, &taken, caps),
        Some(0),
        "another profile's waiter"
    );
}

#[test]
fn only_older_ones_that_were_heard_of_lately_come_first() {
    let place = |since, name: &str| Place {
        since,
        name: name.to_owned(),
    };
    let (older, asker) = (place(10, "b"), place(20, "a"));
    let now = 50_000;
    assert!(is_before(&older, now, Some(&asker), now));
    assert!(!is_before(&asker, now, Some(&older), now));
    assert!(!is_before(&asker, now, Some(&asker), now), "before itself");
    assert!(
        is_before(&asker, now, None, now),
        "a direct request overtook"
    );
    assert!(is_before(&older, now - ATTENTION, Some(&asker), now));
    assert!(!is_before(&older, now - ATTENTION - 1, Some(&asker), now));
    assert!(!is_before(&older, 0, None, now), "it has been served");
    assert!(is_before(&place(10, "a"), now, Some(&older), now), "a tie");
}
