//! A limit per minute is about the pace of the work, not about the account: moved on from account to account, the
//! herd only takes the limit along. So a task is moved once, and then waits for the shorter rest. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::id::ProfileId;

/// Until when a task is not moved to another profile.
///
/// `resting` are the asked-for profiles that rest from a limit per minute, with the end of each rest, and `last`
/// is where the task worked last: a task that comes from one of two goes to no third.
pub fn pause(
    last: Option<&ProfileId>,
    resting: &BTreeMap<ProfileId, Timestamp>,
) -> Option<Timestamp> {
    let comes_from_one = last.is_some_and(|last| resting.contains_key(last));
    if comes_from_one && resting.len() > 1 {
        resting.values().min().copied()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::pause;
    use crate::id::ProfileId;
    use jiff::Timestamp;
    use std::collections::BTreeMap;

    fn id(name: &str) -> ProfileId {
        name.parse().unwrap()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_task_is_moved_once_and_then_waits_for_the_shorter_rest() {
        let one = BTreeMap::from([(id("a"), at(90))]);
        assert_eq!(pause(Some(&id("a")), &one), None, "its first move");
        let two = BTreeMap::from([(id("a"), at(90)), (id("b"), at(70))]);
        assert_eq!(pause(Some(&id("b")), &two), Some(at(70)));
        assert_eq!(pause(Some(&id("c")), &two), None, "its own account is well");
        assert_eq!(pause(None, &two), None, "it never worked");
    }
}
