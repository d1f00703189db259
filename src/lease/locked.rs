//! The table while the `leases` lock is held: what one call looks at and changes.

use std::collections::{BTreeMap, BTreeSet};

use super::damage::Damage;
use super::details::Details;
use super::leases::{Leases, boot_text};
use super::machine::Machine;
use super::record::{Record, Slot, Stage, Takes, encode_pick};
use super::table::Table;
use super::transition::Standing;
use super::{Ended, Occupancy, Reclaimed};
use crate::clock::BootTime;
use crate::contract::lease::{DamagedLease, Lease, Verdict};
use crate::error::Result;
use crate::id::{ProfileId, TaskKey};
use crate::store::lock::Mode;

/// Grants between two sweeps of the files that killed commands left behind.
const SWEEP_INTERVAL: u32 = 1024;

/// The table under the lock.
#[derive(Debug)]
pub(super) struct Locked<'a, M: Machine> {
    pub(super) store: &'a Leases<M>,
    pub(super) machine: &'a M,
    pub(super) table: Table<'a, M>,
    pub(super) now: BootTime,
    /// True in the last of the attempts, when a held witness counts as confirmed.
    pub(super) confirmed: bool,
    /// True once a holder was seen gone whose witness is still held, unconfirmed.
    pub(super) unsure: bool,
    /// Whose slots its damaged records keep.
    pub(super) damage: Damage,
    /// Verdicts of this call by record number.
    pub(super) verdicts: BTreeMap<usize, Verdict>,
    /// Released when everything above has been dropped.
    _guard: M::Guard,
}

impl<'a, M: Machine> Locked<'a, M> {
    /// Takes the lock and opens the table.
    pub(super) fn open(store: &'a Leases<M>, confirmed: bool) -> Result<Self> {
        let machine = &store.machine;
        let guard = machine.lock(Mode::Exclusive)?;
        let (table, over) = Table::open(machine)?;
        let locked = Self {
            store,
            machine,
            damage: Damage::look(machine, &table.slots),
            table,
            now: machine.since_boot(),
            confirmed,
            unsure: false,
            verdicts: BTreeMap::new(),
            _guard: guard,
        };
        for (record, details) in over.leases {
            locked.note(&record, details, over.boot);
        }
        Ok(locked)
    }

    /// Remembers for the caller that a lease ended by itself.
    pub(super) fn note(&self, record: &Record, details: Option<Details>, boot: [u8; 16]) {
        let ended = match record.stage {
            Stage::Reserved { .. } => Ended::Expired,
            Stage::Running { .. } => Ended::Died,
        };
        let mut lease = self.store.lease(record, details, Verdict::Dead);
        lease.boot_id = boot_text(boot);
        self.store.remember(Reclaimed {
            lease,
            task_key: record.task,
            ended,
        });
    }

    /// The number and the record of a task's lease.
    pub(super) fn lease_of(&self, task: TaskKey) -> Option<(usize, &Record)> {
        let mut slots = self.table.slots.iter().enumerate();
        slots.find_map(|(at, slot)| match slot {
            Slot::Lease(record) if record.task == task => Some((at, record)),
            Slot::Lease(_) | Slot::Free | Slot::Pick { .. } | Slot::Damaged { .. } => None,
        })
    }

    /// The number of a damaged record that seems to be the task's.
    pub(super) fn damage_of(&self, task: TaskKey) -> Option<usize> {
        let mut slots = self.table.slots.iter();
        slots.position(|slot| matches!(slot, Slot::Damaged { task: other, .. } if *other == task))
    }

    /// How a task stands, its record verified.
    pub(super) fn standing(&mut self, task: TaskKey) -> Standing {
        if self.damage_of(task).is_some() {
            return Standing::Damaged;
        }
        let Some((at, record)) = self.lease_of(task) else {
            // A witness without a record: of a record that a person settled, or that was lost.
            return if self.held_now(task) {
                Standing::Evicted
            } else {
                Standing::Absent
            };
        };
        let takes = match record.stage {
            Stage::Reserved { .. } => None,
            Stage::Running { takes, .. } => Some(takes),
        };
        match (takes, self.verify(at)) {
            (None, Verdict::Dead) => Standing::Expired,
            (None, _) => Standing::Reserved,
            (Some(Takes::Nothing), Verdict::Dead) => Standing::Absent,
            (Some(Takes::Nothing), _) => Standing::Evicted,
            (Some(Takes::Slot | Takes::Profile), verdict) => Standing::Running(verdict),
        }
    }

    /// How profiles are used, counting everything that was not verified as dead.
    pub(super) fn occupancy(&self) -> Occupancy {
        occupancy(&self.table.slots, &self.damage, |_| true)
    }

    /// How one profile is used, by the same count.
    pub(super) fn use_of(&self, profile: &ProfileId) -> (u32, bool) {
        let (mut live, mut probed) = (self.damage.slots(profile), false);
        for slot in &self.table.slots {
            match slot {
                Slot::Lease(record) if record.profile == *profile && !record.is_evicted() => {
                    live += 1;
                    probed |= record.is_probe();
                }
                Slot::Lease(_) | Slot::Free | Slot::Pick { .. } | Slot::Damaged { .. } => {}
            }
        }
        (live, probed)
    }

    /// The damaged records that keep a slot of one of these profiles.
    pub(super) fn damaged_of(&self, profiles: &[ProfileId]) -> Vec<DamagedLease> {
        let slots = self.table.slots.iter().enumerate();
        let kept = slots.filter(|(at, _)| self.damage.of(*at).any(|it| profiles.contains(it)));
        kept.map(|(at, slot)| self.store.damaged_lease(at, slot))
            .collect()
    }

    /// Removes the record and the files of a lease.
    pub(super) fn remove(&mut self, at: usize, record: &Record) -> Result<()> {
        self.table.free(at)?;
        self.verdicts.remove(&at);
        self.machine.remove_details(record.task, record.generation);
        self.machine.unlink_witness(record.task)
    }

    /// Writes a profile's last pick.
    pub(super) fn save_pick(&mut self, profile: &ProfileId, generation: u64) -> Result<()> {
        let mut slots = self.table.slots.iter();
        let found = slots.position(
            |slot| matches!(slot, Slot::Pick { profile: other, .. } if *other == *profile),
        );
        let at = found.unwrap_or_else(|| self.table.free_place());
        self.table.write(at, &encode_pick(profile, generation))
    }

    /// Every so many grants, removes the files that belong to no record.
    pub(super) fn sweep(&self) {
        if !self.table.header.counter.is_multiple_of(SWEEP_INTERVAL) {
            return;
        }
        let kept: BTreeSet<(TaskKey, u64)> = self
            .table
            .slots
            .iter()
            .filter_map(|slot| match slot {
                Slot::Lease(record) => Some((record.task, record.generation)),
                Slot::Damaged {
                    task, generation, ..
                } => Some((*task, *generation)),
                Slot::Free | Slot::Pick { .. } => None,
            })
            .collect();
        if let Ok(files) = self.machine.files() {
            // A held witness without a record stays: a person settled its record.
            drop(files.sweep(self.machine, &kept));
        }
    }

    /// The lease of a record for the caller.
    pub(super) fn lease(&self, record: &Record, verdict: Verdict) -> Lease {
        let details = self.machine.details(record.task, record.generation);
        self.store.lease(record, details, verdict)
    }
}

/// The command that removes a damaged record.
pub(super) fn settle_command(record: usize) -> String {
    format!("agent-fleet lease release --record {record} --force")
}

/// How profiles are used, counting the records that `counts` admits.
pub(super) fn occupancy(
    slots: &[Slot],
    damage: &Damage,
    counts: impl Fn(usize) -> bool,
) -> Occupancy {
    #[derive(Default)]
    struct Use {
        live: u32,
        last_pick: u64,
        probed: bool,
    }
    let mut uses: BTreeMap<&str, Use> = BTreeMap::new();
    for (at, slot) in slots.iter().enumerate() {
        match slot {
            Slot::Pick {
                profile,
                generation,
            } => {
                let entry = uses.entry(profile.as_str()).or_default();
                entry.last_pick = entry.last_pick.max(*generation);
            }
            Slot::Damaged { .. } => {
                for profile in damage.of(at) {
                    uses.entry(profile.as_str()).or_default().live += 1;
                }
            }
            Slot::Lease(record) if counts(at) && !record.is_evicted() => {
                let entry = uses.entry(record.profile.as_str()).or_default();
                entry.live += 1;
                entry.probed |= record.is_probe();
            }
            Slot::Lease(_) | Slot::Free => {}
        }
    }
    let mut occupancy = Occupancy::default();
    for (name, found) in uses {
        let Ok(profile) = name.parse::<ProfileId>() else {
            continue;
        };
        if found.live > 0 {
            occupancy.live.insert(profile.clone(), found.live);
        }
        if found.probed {
            occupancy.probed.insert(profile.clone());
        }
        if found.last_pick > 0 {
            occupancy.last_pick.insert(profile, found.last_pick);
        }
    }
    occupancy
}
