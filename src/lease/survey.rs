//! Looking at leases without keeping others waiting.
//!
//! The table is read without the lock and processes are looked up without it; a torn record is told by its
//! checksum and read again. Only where a verdict depends on a witness is the lock taken, shared, for the time
//! of the probes.

use std::collections::BTreeMap;
use std::time::Duration;

use super::damage::Damage;
use super::holder::Sighting;
use super::leases::Leases;
use super::locked::{occupancy, settle_command};
use super::machine::Machine;
use super::reclaim::holder;
use super::record::{Record, Slot, Stage};
use super::table::{self, Read, Table};
use super::transition::{Facts, verdict};
use super::witness::Probe;
use super::{Grant, Listing, Occupancy};
use crate::contract::lease::{DamagedLease, Lease, Verdict};
use crate::error::Result;
use crate::id::{Task, TaskKey};
use crate::store::lock::Mode;

/// Reads of a table before a broken checksum is taken for damage, and the pause between.
const READS: u32 = 5;
const READ_PAUSE: Duration = Duration::from_millis(1);
/// Probes of a witness before it is believed, and the pause between.
const PROBES: u32 = 3;
const PROBE_PAUSE: Duration = Duration::from_millis(10);

/// The table with a verdict on each lease that was asked about.
struct Survey {
    slots: Vec<Slot>,
    verdicts: BTreeMap<usize, Verdict>,
}

impl<M: Machine> Leases<M> {
    fn slots(&self) -> Result<Vec<Slot>> {
        let is_damaged = |slot: &Slot| matches!(slot, Slot::Damaged { .. });
        let mut read = table::read(&self.machine)?;
        for _ in 1..READS {
            match &read {
                Read::Usable(_, slots) if !slots.iter().any(is_damaged) => break,
                Read::Over(_) => break,
                Read::Usable(..) | Read::Damaged => {}
            }
            self.machine.pause(READ_PAUSE);
            read = table::read(&self.machine)?;
        }
        match read {
            Read::Usable(_, slots) => Ok(slots),
            Read::Over(_) => Ok(Vec::new()),
            Read::Damaged => {
                let _guard = self.machine.lock(Mode::Exclusive)?;
                Ok(Table::open(&self.machine)?.0.slots)
            }
        }
    }

    fn survey(&self, wanted: impl Fn(&Record) -> bool) -> Result<Survey> {
        let mut sightings = BTreeMap::new();
        let slots = self.slots()?;
        let mut survey = self.judge(slots, &wanted, &mut sightings, None);
        for probe in 1..=PROBES {
            if !survey
                .verdicts
                .values()
                .any(|known| *known == Verdict::Unknown)
            {
                break;
            }
            if probe > 1 {
                self.machine.pause(PROBE_PAUSE);
            }
            let guard = self.machine.lock(Mode::Shared)?;
            let slots = self.slots_under_lock()?;
            survey = self.judge(slots, &wanted, &mut sightings, Some(probe == PROBES));
            drop(guard);
        }
        Ok(survey)
    }

    fn slots_under_lock(&self) -> Result<Vec<Slot>> {
        Ok(match table::read(&self.machine)? {
            Read::Usable(_, slots) => slots,
            Read::Over(_) | Read::Damaged => Vec::new(),
        })
    }

    /// Verdicts on the wanted leases. `confirmed` is `None` without the lock, when no witness is probed and
    /// what depends on one stays unknown.
    fn judge(
        &self,
        slots: Vec<Slot>,
        wanted: &impl Fn(&Record) -> bool,
        sightings: &mut BTreeMap<u64, Sighting>,
        confirmed: Option<bool>,
    ) -> Survey {
        let now = self.machine.since_boot().0;
        let mut verdicts = BTreeMap::new();
        for (at, slot) in slots.iter().enumerate() {
            let Slot::Lease(record) = slot else { continue };
            if record.is_evicted() || !wanted(record) {
                continue;
            }
            let known = match record.stage {
                Stage::Reserved { expires } if expires <= now => Verdict::Dead,
                Stage::Reserved { .. } => Verdict::Reserved,
                Stage::Running { .. } => {
                    // A process that is gone stays gone, and one that was alive a moment ago may be told so.
                    let sighting = *sightings.entry(record.generation).or_insert_with(|| {
                        holder(record, self.machine.boot())
                            .map_or(Sighting::OtherNamespace, |holder| {
                                self.machine.sight(&holder)
                            })
                    });
                    let witness = match (sighting, confirmed) {
                        (Sighting::Alive | Sighting::OtherBoot, _) => Probe::Free,
                        (_, Some(_)) => self.machine.probe(record.task),
                        (_, None) => Probe::Unreadable,
                    };
                    verdict(Facts {
                        sighting,
                        witness,
                        confirmed: confirmed == Some(true),
                    })
                }
            };
            verdicts.insert(at, known);
        }
        Survey { slots, verdicts }
    }

    fn leases(&self, survey: &Survey) -> Vec<Lease> {
        let mut leases: Vec<Lease> = survey
            .verdicts
            .iter()
            .filter_map(|(at, verdict)| match survey.slots.get(*at) {
                Some(Slot::Lease(record)) => {
                    let details = self.machine.details(record.task, record.generation);
                    Some(self.lease(record, details, *verdict))
                }
                Some(Slot::Free | Slot::Pick { .. } | Slot::Damaged { .. }) | None => None,
            })
            .collect();
        leases.sort_by(|a, b| (&a.task, a.generation).cmp(&(&b.task, b.generation)));
        leases
    }

    pub(super) fn list_leases(&self) -> Result<Listing> {
        let survey = self.survey(|_| true)?;
        let damaged = survey
            .slots
            .iter()
            .enumerate()
            .filter(|(_, slot)| matches!(slot, Slot::Damaged { .. }))
            .map(|(at, slot)| self.damaged_lease(at, slot))
            .collect();
        Ok(Listing {
            leases: self.leases(&survey),
            damaged,
        })
    }

    pub(super) fn find_lease(&self, task: &Task) -> Result<Option<Lease>> {
        let key = task.key();
        let survey = self.survey(|record| record.task == key)?;
        Ok(self.leases(&survey).pop())
    }

    pub(super) fn verified_occupancy(&self) -> Result<Occupancy> {
        let survey = self.survey(|_| true)?;
        let damage = Damage::look(&self.machine, &survey.slots);
        Ok(occupancy(&survey.slots, &damage, |at| {
            survey.verdicts.get(&at) != Some(&Verdict::Dead)
        }))
    }

    pub(super) fn glance(&self) -> Result<Occupancy> {
        let Read::Usable(_, slots) = table::read(&self.machine)? else {
            return Ok(Occupancy::default());
        };
        Ok(occupancy(&slots, &Damage::default(), |_| true))
    }

    pub(super) fn look_up(&self, task: TaskKey) -> Result<Option<Grant>> {
        let slots = self.slots()?;
        Ok(slots.into_iter().find_map(|slot| match slot {
            Slot::Lease(record) if record.task == task && !record.is_evicted() => Some(Grant {
                holder: holder(&record, self.machine.boot()),
                profile: record.profile.id(),
                provider: record.provider,
                generation: record.generation,
            }),
            Slot::Lease(_) | Slot::Free | Slot::Pick { .. } | Slot::Damaged { .. } => None,
        }))
    }

    /// A damaged record as callers see it.
    pub(super) fn damaged_lease(&self, at: usize, slot: &Slot) -> DamagedLease {
        let (name, details) = match slot {
            Slot::Damaged {
                profile,
                task,
                generation,
            } => (*profile, self.machine.details(*task, *generation)),
            Slot::Free | Slot::Lease(_) | Slot::Pick { .. } => (None, None),
        };
        let (profile, task) = match details {
            Some(details) => (Some(details.profile), Some(details.task.into())),
            None => (name.map(|name| name.id()), None),
        };
        DamagedLease {
            record: u32::try_from(at).unwrap_or(u32::MAX),
            profile,
            task,
            path: self.machine.table_path(),
            settle: settle_command(at),
        }
    }
}
