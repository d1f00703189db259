//! The few names and numbers that the model knows.

use std::sync::LazyLock;

use crate::id::{ProfileId, Task, TaskKey};
use crate::lease::details::terms;
use crate::lease::record::Record;

/// The inode of the first pid namespace, and of the other one.
pub(super) const BOOT_NAMESPACE: u64 = 100;
pub(super) const OTHER_NAMESPACE: u64 = 200;
/// One step of the clock: longer than a waiter may be silent, and as long as a reservation lives.
pub(super) const TICK: u64 = 2_500;
/// Tasks: those that are asked for, then one per profile for probes, then those of the final filling.
pub(super) const ASKED: usize = 3;
pub(super) const PROFILES: usize = 2;
/// Where work happens: the usual place and another one.
pub(super) const PLACES: [&str; 2] = ["/w", "/elsewhere"];

/// A task with its key.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) task: Task,
    pub(super) key: TaskKey,
}

pub(super) static PROFILE_IDS: LazyLock<[ProfileId; PROFILES]> =
    LazyLock::new(|| [0, 1].map(|index| format!("p{index}").parse().unwrap()));

pub(super) static TASKS: LazyLock<Vec<Named>> = LazyLock::new(|| {
    let asked = (0..ASKED).map(|index| format!("t{index}").parse().unwrap());
    let probes = PROFILE_IDS.iter().map(Task::probe);
    let filling = (0..5).map(|index| format!("f{index}").parse().unwrap());
    let all = asked.chain(probes).chain(filling);
    all.map(|task: Task| Named {
        key: task.key(),
        task,
    })
    .collect()
});

static TERMS: LazyLock<[[u8; 16]; 2]> =
    LazyLock::new(|| PLACES.map(|place| terms(Some(place.as_ref()), None)));

/// The number of a task.
pub(super) fn task_of(key: TaskKey) -> Option<usize> {
    TASKS.iter().position(|named| named.key == key)
}

/// The number of a record's profile.
pub(super) fn profile_of(record: &Record) -> Option<usize> {
    PROFILE_IDS.iter().position(|id| record.profile == *id)
}

/// The number of the place that a record's terms name.
pub(super) fn place_of(record: &Record) -> Option<usize> {
    TERMS.iter().position(|terms| record.terms == *terms)
}
