//! Ending leases, under the lock.

use super::Force;
use super::leases::Attempt;
use super::locked::{Locked, settle_command};
use super::machine::Machine;
use super::record::{Slot, Stage, Takes};
use super::refusal;
use super::transition::{Decision, Event, Standing, decide};
use super::witness::{Probe, Witness};
use crate::contract::lease::{DamagedLease, Lease, Verdict};
use crate::error::{Error, Result, code};
use crate::id::Task;

impl<M: Machine> Locked<'_, M> {
    /// [`super::LeaseStore::release`].
    pub(super) fn release(&mut self, task: &Task, force: Force) -> Result<Attempt<Lease>> {
        let standing = self.standing(task.key());
        if self.unsure {
            return Ok(Attempt::Unsure);
        }
        let event = match force {
            Force::No => Event::Release,
            Force::Yes => Event::Force,
        };
        let decision = decide(standing, event);
        let Some((at, mut record)) = self.lease_of(task.key()).map(|(at, it)| (at, *it)) else {
            return Err(match standing {
                Standing::Damaged => self.damaged(task),
                Standing::Absent
                | Standing::Evicted
                | Standing::Reserved
                | Standing::Expired
                | Standing::Running(_) => refusal::no_lease(task),
            });
        };
        let verdict = self.verify(at);
        match decision {
            Decision::Remove => {}
            Decision::Active => return Err(refusal::active(task, &record, verdict)),
            Decision::Unreadable => return Err(self.damaged(task)),
            Decision::Missing
            | Decision::Grant
            | Decision::Return
            | Decision::Bind
            | Decision::Conflict
            | Decision::Owned => return Err(refusal::no_lease(task)),
        }
        let known = self.machine.details(record.task, record.generation);
        let lease = self.store.lease(&record, known.clone(), verdict);
        if standing == Standing::Running(Verdict::Dead) {
            self.note(&record, known, self.machine.boot());
        }
        let held = self.machine.probe(record.task) != Probe::Free;
        match &mut record.stage {
            // The process lives on: its slot is free, its task is not.
            Stage::Running { takes, .. } if held => {
                *takes = Takes::Nothing;
                self.table.write(at, &record.encode())?;
            }
            Stage::Running { .. } | Stage::Reserved { .. } => self.remove(at, &record)?,
        }
        Ok(Attempt::Done(lease))
    }

    /// [`super::LeaseStore::abandon`].
    pub(super) fn abandon(&mut self, lease: &Lease, witness: Option<Witness>) -> Result<()> {
        if let Some(witness) = witness {
            self.machine.give_up(witness);
        }
        let found = self
            .table
            .slots
            .iter()
            .enumerate()
            .find_map(|(at, slot)| match slot {
                Slot::Lease(record) if record.generation == lease.generation => Some((at, *record)),
                Slot::Lease(_) | Slot::Free | Slot::Pick { .. } | Slot::Damaged { .. } => None,
            });
        match found {
            Some((at, record)) => self.remove(at, &record),
            None => Ok(()),
        }
    }

    /// [`super::LeaseStore::settle`].
    pub(super) fn settle(&mut self, record: u32) -> Result<DamagedLease> {
        let at = record as usize;
        match self.table.slots.get(at).copied() {
            Some(slot @ Slot::Damaged { .. }) => {
                let damaged = self.store.damaged_lease(at, &slot);
                self.table.free(at)?;
                Ok(damaged)
            }
            Some(Slot::Free | Slot::Lease(_) | Slot::Pick { .. }) | None => {
                let message = format!(
                    "record {record} of `{}` is not damaged",
                    self.machine.table_path()
                );
                Err(Error::new(code::NOT_FOUND, message).hint("agent-fleet lease list"))
            }
        }
    }

    /// The refusal for a task whose record is damaged.
    pub(super) fn damaged(&self, task: &Task) -> Error {
        let record = self.damage_of(task.key()).unwrap_or_default();
        let message = format!(
            "record {record} of `{}`, which seems to be the lease of task {task}, is damaged",
            self.machine.table_path()
        );
        Error::new(code::RECORD_DAMAGED, message)
            .hint(settle_command(record))
            .detail("path", self.machine.table_path().as_str())
            .detail("record", record)
    }
}
