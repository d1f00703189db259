//! Finding out which leases have ended, without looking at all of them every time.
//!
//! A record that was not verified counts as live, so a cap is never exceeded. A call verifies its own task's
//! record, the records of the profile it is about to grant, and a window of 64 that moves through the table
//! from call to call; everything only before it answers that nothing is free. What is found to have ended is
//! removed at once, and its slot is free in the same call.

use std::collections::BTreeSet;

use super::holder::{Holder, Sighting};
use super::leases::Leases;
use super::locked::Locked;
use super::machine::Machine;
use super::record::{Record, Slot, Stage, Takes};
use super::table::{self, Read};
use super::transition::{Facts, verdict};
use super::witness::Probe;
use crate::contract::lease::Verdict;
use crate::error::Result;
use crate::id::{ProfileId, TaskKey};

/// Leases that a call verifies beyond those it needs.
const WINDOW: usize = 64;

impl<M: Machine> Locked<'_, M> {
    /// The verdict on a record; one that is [`Verdict::Dead`] stays until it is reclaimed.
    pub(super) fn verify(&mut self, at: usize) -> Verdict {
        if let Some(known) = self.verdicts.get(&at) {
            return *known;
        }
        let Some(Slot::Lease(record)) = self.table.slots.get(at) else {
            return Verdict::Unknown;
        };
        let task = record.task;
        let found = match record.stage {
            Stage::Reserved { expires } if expires <= self.now.0 => Verdict::Dead,
            Stage::Reserved { .. } => Verdict::Reserved,
            Stage::Running { takes, .. } => {
                let sighting = match (takes, holder(record, self.machine.boot())) {
                    // Released by force: its pid no longer counts, only what still holds its witness.
                    (Takes::Nothing, _) | (_, None) => Sighting::OtherNamespace,
                    (Takes::Slot | Takes::Profile, Some(holder)) => self.machine.sight(&holder),
                };
                self.judge(task, sighting)
            }
        };
        self.verdicts.insert(at, found);
        found
    }

    fn judge(&mut self, task: TaskKey, sighting: Sighting) -> Verdict {
        let witness = match sighting {
            Sighting::Alive | Sighting::OtherBoot => Probe::Free,
            Sighting::Gone | Sighting::OtherNamespace | Sighting::Unreadable => {
                self.machine.probe(task)
            }
        };
        if witness == Probe::Held && !self.confirmed {
            self.unsure = true;
        }
        verdict(Facts {
            sighting,
            witness,
            confirmed: self.confirmed,
        })
    }

    /// True when some process holds the task's witness.
    pub(super) fn held_now(&mut self, task: TaskKey) -> bool {
        // Whether an unreadable one is held shows when it is taken, with the reason why it cannot be read.
        let held = self.machine.probe(task) == Probe::Held;
        if held && !self.confirmed {
            self.unsure = true;
        }
        held
    }

    /// Verifies one record and removes it if it has ended; true when it did.
    pub(super) fn reclaim(&mut self, at: usize) -> Result<bool> {
        if self.verify(at) != Verdict::Dead {
            return Ok(false);
        }
        let Some(Slot::Lease(record)) = self.table.slots.get(at).copied() else {
            return Ok(false);
        };
        let details = self.machine.details(record.task, record.generation);
        self.remove(at, &record)?;
        if !record.is_evicted() {
            self.note(&record, details, self.machine.boot());
        }
        Ok(true)
    }

    /// Reclaims among the records that `wanted` admits; true when any had ended.
    fn reclaim_where(&mut self, wanted: impl Fn(&Record) -> bool) -> Result<bool> {
        let mut any = false;
        for at in 0..self.table.slots.len() {
            // The table may have become shorter.
            if matches!(self.table.slots.get(at), Some(Slot::Lease(record)) if wanted(record)) {
                any |= self.reclaim(at)?;
            }
        }
        Ok(any)
    }

    /// Reclaims among all records; true when any had ended.
    pub(super) fn reclaim_all(&mut self) -> Result<bool> {
        self.reclaim_where(|_| true)
    }

    /// Reclaims among a profile's records; true when any had ended.
    pub(super) fn reclaim_profile(&mut self, profile: &ProfileId) -> Result<bool> {
        self.reclaim_where(|record| record.profile == *profile)
    }

    /// Reclaims expired reservations, which costs nothing to see, and what the look ahead found gone. The
    /// hand is written with the next grant.
    pub(super) fn reclaim_window(&mut self, ahead: &Ahead) -> Result<()> {
        let now = self.now.0;
        self.reclaim_where(|record| match record.stage {
            Stage::Reserved { expires } => expires <= now,
            Stage::Running { .. } => ahead.suspects.contains(&record.generation),
        })?;
        self.table.header.hand = ahead.hand;
        Ok(())
    }
}

/// What was seen of the window before the lock was taken.
#[derive(Clone, Debug, Default)]
pub(super) struct Ahead {
    /// Generations whose holder is not alive here. The dead stay dead, so looking early is safe.
    pub(super) suspects: BTreeSet<u64>,
    /// Where the next window starts.
    hand: u32,
}

impl<M: Machine> Leases<M> {
    /// Looks the processes of the next window up without the lock: 64 look-ups cost more than all that
    /// happens under it. A table that cannot be read now is dealt with under the lock.
    pub(super) fn look_ahead(&self) -> Ahead {
        let Ok(Read::Usable(header, slots)) = table::read(&self.machine) else {
            return Ahead::default();
        };
        let mut ahead = Ahead::default();
        let mut looked = 0;
        for step in 0..slots.len() {
            let at = (header.hand as usize + step) % slots.len();
            if looked == WINDOW {
                ahead.hand = u32::try_from(at).unwrap_or(0);
                break;
            }
            let Slot::Lease(record) = &slots[at] else {
                continue;
            };
            let Stage::Running { .. } = record.stage else {
                continue;
            };
            looked += 1;
            let sighting =
                holder(record, self.machine.boot()).map(|holder| self.machine.sight(&holder));
            if record.is_evicted() || sighting != Some(Sighting::Alive) {
                ahead.suspects.insert(record.generation);
            }
        }
        ahead
    }
}

/// The process that a record is bound to; `None` when it is not, or was restored without one.
pub(super) fn holder(record: &Record, boot: [u8; 16]) -> Option<Holder> {
    match record.stage {
        Stage::Reserved { .. } | Stage::Running { pid: 0, .. } => None,
        Stage::Running {
            pid,
            start,
            namespace,
            unique,
            ..
        } => Some(Holder {
            pid,
            start,
            boot,
            namespace,
            unique,
        }),
    }
}
