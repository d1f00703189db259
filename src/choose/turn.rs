//! Whose turn it is. Pure.
//!
//! Everybody who waits is let take, oldest first, what it would take of what is free; what is left after that is
//! for the one who asks. So a slot goes to the oldest for whom its profile is a candidate, and one who
//! can have none of what is free keeps nobody from it. A request that does not wait comes after all who do.

use crate::id::ProfileId;
use crate::lease::Occupancy;

/// How long one who waits may be silent before its turn passes, in milliseconds: a stopped process must not
/// keep a slot empty.
pub const ATTENTION: u64 = 2_000;

/// A place in the order of waiting: by the time since boot, in milliseconds, then by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// When the waiting began.
    pub since: u64,
    /// Told apart from those who began in the same millisecond.
    pub name: String,
}

/// Whether one who waits in `place` and was last heard at `heard` comes before one who asks at `now`; `asker` is
/// `None` for a request that does not wait.
pub fn is_before(place: &Place, heard: u64, asker: Option<&Place>, now: u64) -> bool {
    let listens = heard > 0 && now.saturating_sub(heard) <= ATTENTION;
    listens && asker.is_none_or(|asker| place < asker)
}

/// How profiles are used once all who come first have taken what they would take. `best` says which profile
/// one of them would take, if any.
pub fn after<W>(
    first: &[W],
    mut occupancy: Occupancy,
    mut best: impl FnMut(&W, &Occupancy) -> Option<ProfileId>,
) -> Occupancy {
    let mut pick = occupancy.last_pick.values().copied().max().unwrap_or(0);
    for waiter in first {
        let Some(profile) = best(waiter, &occupancy) else {
            continue;
        };
        pick += 1;
        *occupancy.live.entry(profile.clone()).or_insert(0) += 1;
        occupancy.last_pick.insert(profile, pick);
    }
    occupancy
}

#[cfg(test)]
#[path = "turn_tests.rs"]
mod tests;
