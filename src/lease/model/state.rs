//! One moment of the model: the world, the processes, and the truth that no file has a say in.

use super::names::task_of;
use super::world::World;
use crate::choose::turn::Place;
use crate::id::TaskKey;
use crate::lease::reclaim::Ahead;
use crate::lease::record::{Bytes, Header, Record, Slot};

/// What a process wants of the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Want {
    /// A reservation.
    Choose,
    /// To become the task's worker.
    Exec,
    /// Every slot of a profile.
    Probe,
    /// The end of the task's lease.
    Release,
    /// The end of the task's lease, come what may.
    Force,
    /// Like `Choose`, in a queue until there is a slot.
    Wait,
}

/// A call of the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ask {
    pub(super) want: Want,
    pub(super) task: usize,
    /// Bit set of the profiles that will do.
    pub(super) wishes: u8,
    /// Index of the workspace.
    pub(super) place: usize,
}

/// A live worker's lease, as it truly is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Work {
    pub(super) task: usize,
    pub(super) profile: usize,
    pub(super) generation: u64,
    pub(super) place: usize,
    /// Its slot was taken away by force.
    pub(super) evicted: bool,
    pub(super) probes: bool,
}

/// What a process is about.
#[derive(Clone, Debug, Default)]
pub(super) enum Doing {
    /// There is none under this pid.
    #[default]
    Nothing,
    /// It asks the broker.
    Asking(Asking),
    /// It works.
    Working(Work),
    /// Its files are closed, its pid is still there.
    Closing(Work),
}

/// A call that is under way.
#[derive(Clone, Debug)]
pub(super) struct Asking {
    pub(super) ask: Ask,
    /// Who asks.
    pub(super) pid: usize,
    /// How many attempts were unsure.
    pub(super) attempts: u32,
    /// What was seen before the lock.
    pub(super) ahead: Ahead,
    /// The table as it was read, where no lock keeps others from changing it; without blocks, there was none.
    pub(super) stale: Option<Vec<Bytes>>,
    /// Whom a look found to come first.
    pub(super) first: Vec<Place>,
    /// Whether it has looked since its last attempt.
    pub(super) looked: bool,
}

/// A pid.
#[derive(Clone, Debug, Default)]
pub(super) struct Process {
    /// When its process was started; 0 when there is none.
    pub(super) start: u64,
    /// Whether it is in the other namespace.
    pub(super) foreign: bool,
    /// The inode whose lock it holds.
    pub(super) witness: Option<u32>,
    pub(super) doing: Doing,
    pub(super) ticket: Option<Ticket>,
}

/// A place in the queue.
#[derive(Clone, Debug)]
pub(super) struct Ticket {
    pub(super) place: Place,
    pub(super) heard: u64,
    pub(super) wishes: u8,
}

/// What holds a witness after its pid is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Survivor {
    pub(super) work: Work,
    pub(super) witness: u32,
    /// It ends by itself within milliseconds.
    pub(super) dying: bool,
}

/// A reservation in force, as it truly is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reserved {
    pub(super) profile: usize,
    pub(super) generation: u64,
    pub(super) expires: u64,
    pub(super) place: usize,
}

/// How many rare things may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Budget {
    /// Calls killed between two changes.
    pub(super) crashes: u8,
    /// Workers that leave a child, or end in two steps.
    pub(super) remains: u8,
    /// Forced releases.
    pub(super) forces: u8,
    pub(super) reboots: u8,
    /// Tables lost or cut short.
    pub(super) losses: u8,
    /// Records damaged.
    pub(super) damages: u8,
}

/// Everything at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) world: World,
    pub(super) processes: Vec<Process>,
    pub(super) survivors: Vec<Survivor>,
    pub(super) starts: u64,
    pub(super) tickets: u64,
    pub(super) budget: Budget,
    /// The highest generation that was ever granted.
    pub(super) highest: u64,
    pub(super) reserved: [Option<Reserved>; super::names::ASKED],
    /// A table was lost, or a record damaged.
    pub(super) harmed: bool,
}

impl State {
    /// Whether some process holds the lock of an inode.
    pub(super) fn holds(&self, inode: u32) -> bool {
        let of_processes = self.processes.iter().filter_map(|process| process.witness);
        let mut all = of_processes.chain(self.survivors.iter().map(|it| it.witness));
        all.any(|held| held == inode)
    }

    /// The records of the table, as they can be read.
    pub(super) fn slots(&self) -> Vec<Slot> {
        let table = self.world.table.iter().flatten();
        table.skip(1).map(Slot::decode).collect()
    }

    /// The record of a task, in a table of this boot.
    pub(super) fn record_of(&self, task: TaskKey) -> Option<Record> {
        let head = Header::decode(self.world.table.as_ref()?.first()?).ok()?;
        if head.boot != [self.world.boot + 1; 16] {
            return None;
        }
        self.slots().into_iter().find_map(|slot| match slot {
            Slot::Lease(record) if record.task == task => Some(record),
            Slot::Lease(_) | Slot::Free | Slot::Pick { .. } | Slot::Damaged { .. } => None,
        })
    }

    /// Whether the table has the record of a grant.
    pub(super) fn has_record(&self, generation: u64) -> bool {
        let is =
            |slot: &Slot| matches!(slot, Slot::Lease(record) if record.generation == generation);
        self.slots().iter().any(is)
    }

    /// Workers that truly live: theirs is the task, and the slot unless it was taken by force.
    pub(super) fn working(&self) -> impl Iterator<Item = &Work> {
        let processes = self.processes.iter().filter_map(|it| match &it.doing {
            Doing::Working(work) => Some(work),
            Doing::Nothing | Doing::Asking(_) | Doing::Closing(_) => None,
        });
        let children = self.survivors.iter().filter(|it| !it.dying);
        processes.chain(children.map(|it| &it.work))
    }

    /// Workers whose pid is there although they have ended.
    pub(super) fn closing(&self) -> impl Iterator<Item = &Work> {
        self.processes.iter().filter_map(|it| match &it.doing {
            Doing::Closing(work) => Some(work),
            Doing::Nothing | Doing::Asking(_) | Doing::Working(_) => None,
        })
    }

    /// The reservation that a task truly has.
    pub(super) fn reservation(&self, task: usize) -> Option<Reserved> {
        let found = self.reserved.get(task).copied().flatten();
        found.filter(|it| it.expires > self.world.now)
    }

    /// How many leases a profile truly has.
    pub(super) fn live(&self, profile: usize) -> usize {
        let workers = self
            .working()
            .filter(|work| !work.evicted && work.profile == profile);
        let reserved = (0..self.reserved.len()).filter_map(|task| self.reservation(task));
        workers.count() + reserved.filter(|it| it.profile == profile).count()
    }

    /// Ends the process under a pid, if any.
    pub(super) fn end(&mut self, pid: usize) {
        let foreign = self.processes[pid].foreign;
        self.processes[pid] = Process {
            foreign,
            ..Process::default()
        };
    }

    /// Takes from the table what the truth about a task now is, after a call about it was killed half way.
    pub(super) fn learn(&mut self, task: usize, key: TaskKey, want: Want) {
        use crate::lease::record::{Stage, Takes};
        let record = self.record_of(key);
        let reserved = record.and_then(|record| match record.stage {
            Stage::Reserved { expires } => Some(Reserved {
                profile: super::names::profile_of(&record)?,
                generation: record.generation,
                expires,
                place: super::names::place_of(&record)?,
            }),
            Stage::Running { .. } => None,
        });
        if let Some(place) = self.reserved.get_mut(task) {
            *place = reserved;
        }
        let holds_slot = record.is_some_and(|record| match record.stage {
            Stage::Running { takes, .. } => takes != Takes::Nothing,
            Stage::Reserved { .. } => false,
        });
        let generation = record.map_or(0, |record| record.generation);
        self.highest = self.highest.max(generation);
        if want == Want::Force && !holds_slot {
            self.evict(task);
        }
    }

    /// Takes the slot of a task's worker away.
    pub(super) fn evict(&mut self, task: usize) {
        for process in &mut self.processes {
            if let Doing::Working(work) | Doing::Closing(work) = &mut process.doing {
                work.evicted |= work.task == task;
            }
        }
        for survivor in &mut self.survivors {
            survivor.work.evicted |= survivor.work.task == task;
        }
    }

    /// The numbers of the tasks of which a record is damaged, and of damaged records of no task.
    pub(super) fn damaged(&self) -> Vec<Option<usize>> {
        let slots = self.slots().into_iter();
        slots
            .filter_map(|slot| match slot {
                Slot::Damaged { task, .. } => Some(task_of(task)),
                Slot::Free | Slot::Lease(_) | Slot::Pick { .. } => None,
            })
            .collect()
    }
}
