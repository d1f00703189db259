//! Whose slots a record keeps that cannot be read.
//!
//! Until it is settled, a damaged record keeps a slot of the profile that the details of its grant name. When
//! those are not to be found by what stands in it, it keeps one of every profile that it may be of: of the one
//! whose name can be read, and of those that are named by details without a record.
//!
//! Limit: a record whose details are lost, and whose profile's name is not the one it was, keeps no slot of
//! its own.

use std::collections::{BTreeMap, BTreeSet};

use super::machine::Machine;
use super::name::Name;
use super::record::Slot;
use crate::id::ProfileId;

/// The profiles that damaged records may be of, by number of the record.
#[derive(Debug, Default)]
pub(super) struct Damage(BTreeMap<usize, BTreeSet<ProfileId>>);

impl Damage {
    /// Looks the damaged records of a table up; without any, nothing is read.
    pub(super) fn look(machine: &impl Machine, slots: &[Slot]) -> Self {
        let mut found = BTreeMap::new();
        for (at, slot) in slots.iter().enumerate() {
            let Slot::Damaged {
                profile,
                task,
                generation,
            } = slot
            else {
                continue;
            };
            let profiles = if let Some(details) = machine.details(*task, *generation) {
                BTreeSet::from([details.profile])
            } else {
                let mut any = without_record(machine, slots);
                any.extend(profile.iter().map(Name::id));
                any
            };
            found.insert(at, profiles);
        }
        Self(found)
    }

    /// The profiles of which a damaged record keeps a slot.
    pub(super) fn of(&self, record: usize) -> impl Iterator<Item = &ProfileId> {
        self.0.get(&record).into_iter().flatten()
    }

    /// How many slots of a profile are kept so.
    pub(super) fn slots(&self, profile: &ProfileId) -> u32 {
        let kept = self.0.values().filter(|any| any.contains(profile));
        u32::try_from(kept.count()).unwrap_or(u32::MAX)
    }
}

/// The profiles named by details to which no readable record belongs.
fn without_record(machine: &impl Machine, slots: &[Slot]) -> BTreeSet<ProfileId> {
    let readable: BTreeSet<u64> = slots
        .iter()
        .filter_map(|slot| match slot {
            Slot::Lease(record) => Some(record.generation),
            Slot::Free | Slot::Pick { .. } | Slot::Damaged { .. } => None,
        })
        .collect();
    let files = machine.files().unwrap_or_default();
    let lost = files.details.iter();
    lost.filter(|(_, generation)| !readable.contains(generation))
        .filter_map(|(task, generation)| machine.details(*task, *generation))
        .map(|details| details.profile)
        .collect()
}
