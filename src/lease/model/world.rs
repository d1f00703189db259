//! A machine in memory: a table, files, witnesses, processes and clocks, which [`Leases`] runs over.
//!
//! A killed process stops before any change that it was about to make; each change is there or not, as on a
//! disk that is not cut off from power. Pids are few and are used again at once.
//!
//! [`Leases`]: crate::lease::leases::Leases

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use camino::Utf8PathBuf;
use jiff::Timestamp;

use super::names::{BOOT_NAMESPACE, OTHER_NAMESPACE};
use super::state::{Process, State};
use crate::clock::BootTime;
use crate::error::{Error, Result};
use crate::id::TaskKey;
use crate::lease::details::Details;
use crate::lease::holder::{Here, Holder, Processes, Sighting};
use crate::lease::leftover::Files;
use crate::lease::machine::{Access, Bound, Machine};
use crate::lease::record::Bytes;
use crate::lease::witness::{Probe, Witness};
use crate::store::lock::Mode;
use crate::sys::process::Status;

/// A protection that is missing, on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// The `leases` lock keeps nobody out between reading and writing.
    NoLock,
    /// The witness is neither held nor believed.
    NoWitness,
    /// A pid is the process, whenever that was started.
    NoStartTime,
    /// The boot id never changes.
    NoBootId,
    /// The clock of another namespace runs ahead, so that reservations expire early there.
    ClockAhead,
    /// The epoch is kept nowhere but in the table.
    EpochInTable,
    /// The processes that live on are not put into a new table.
    NothingRestored,
    /// A forced release takes the witness file away.
    ForceUnlinks,
    /// What the look ahead suspects is reclaimed without another look.
    NoSecondLook,
    /// A held witness is believed at the first probe.
    OneProbe,
    /// Nobody sees who waits.
    NoQueue,
    /// One who was served still counts as waiting.
    NotServed,
    /// One who is stopped keeps its turn.
    StoppedKept,
}

/// What the world is, as far as the lease protocol can see it.
#[derive(Clone, Debug, Default)]
pub(super) struct World {
    /// Milliseconds since boot.
    pub(super) now: u64,
    /// How often the machine was booted.
    pub(super) boot: u8,
    pub(super) table: Option<Vec<Bytes>>,
    pub(super) epoch: u32,
    pub(super) details: BTreeMap<(TaskKey, u64), Rc<Details>>,
    /// Witness files with their inodes.
    pub(super) live: BTreeMap<TaskKey, u32>,
    pub(super) inodes: u32,
}

/// One call of one process over a state.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) state: RefCell<State>,
    /// The process that acts.
    pub(super) me: usize,
    pub(super) broken: Option<Broken>,
    /// The table as it was read before others wrote it, where no lock keeps them out.
    pub(super) stale: Option<Vec<Bytes>>,
    /// Generations that the look ahead suspects.
    pub(super) suspects: Vec<u64>,
    /// True while a forced release is at work.
    pub(super) forces: bool,
    /// Before which change the process is killed.
    pub(super) cut: Option<usize>,
    pub(super) changes: Cell<usize>,
    pub(super) dead: Cell<bool>,
}

impl Model {
    /// Before each change.
    fn change(&self) -> Result<()> {
        let at = self.changes.get();
        if self.cut == Some(at) {
            self.dead.set(true);
        }
        if self.dead.get() {
            return Err(Error::internal("killed"));
        }
        self.changes.set(at + 1);
        Ok(())
    }

    fn is(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }

    fn here(&self) -> Here {
        let state = self.state.borrow();
        let foreign = state.processes[self.me].foreign;
        Here {
            boot: self.boot(),
            namespace: Some(if foreign {
                OTHER_NAMESPACE
            } else {
                BOOT_NAMESPACE
            }),
        }
    }

    /// The acting process as a holder.
    pub(super) fn myself(&self) -> Holder {
        let here = self.here();
        Holder {
            pid: u32::try_from(self.me).unwrap_or(0) + 1,
            start: self.state.borrow().processes[self.me].start,
            boot: here.boot,
            namespace: here.namespace.unwrap_or(0),
            unique: 0,
        }
    }
}

/// The processes that one sees in its namespace.
struct Seen<'a> {
    processes: &'a [Process],
    foreign: bool,
    any_start: Option<u64>,
}

impl Processes for Seen<'_> {
    fn status(&self, pid: u32) -> io::Result<Option<Status>> {
        let found = self.processes.get(pid as usize - 1);
        let found = found.filter(|process| process.start > 0 && process.foreign == self.foreign);
        Ok(found.map(|process| Status {
            start: self.any_start.unwrap_or(process.start),
            parent: 0,
            zombie: false,
        }))
    }

    fn has_ended(&self, pid: u32, _: u64) -> io::Result<bool> {
        Ok(self.status(pid)?.is_none())
    }
}

impl Machine for Model {
    type Table = ();
    type Guard = ();
    const SPARE: usize = 1;

    fn lock(&self, _: Mode) -> Result<()> {
        Ok(())
    }

    fn pause(&self, _: Duration) {}

    fn since_boot(&self) -> BootTime {
        let state = self.state.borrow();
        let ahead = self.is(Broken::ClockAhead) && state.processes[self.me].foreign;
        BootTime(state.world.now + if ahead { super::names::TICK } else { 0 })
    }

    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn boot(&self) -> [u8; 16] {
        if self.is(Broken::NoBootId) {
            return [1; 16];
        }
        [self.state.borrow().world.boot + 1; 16]
    }

    fn sight(&self, holder: &Holder) -> Sighting {
        let state = self.state.borrow();
        let mut seen = Seen {
            processes: &state.processes,
            foreign: state.processes[self.me].foreign,
            any_start: None,
        };
        if self.is(Broken::NoStartTime) {
            seen.any_start = Some(holder.start);
        }
        self.here().sight_among(&seen, holder)
    }

    fn probe(&self, task: TaskKey) -> Probe {
        if self.is(Broken::NoWitness) || (self.is(Broken::ForceUnlinks) && self.forces) {
            return Probe::Free;
        }
        let state = self.state.borrow();
        if self.is(Broken::NoSecondLook)
            && let Some(record) = state.record_of(task)
            && self.suspects.contains(&record.generation)
        {
            return Probe::Free;
        }
        match state.world.live.get(&task) {
            Some(inode) if state.holds(*inode) => Probe::Held,
            Some(_) | None => Probe::Free,
        }
    }

    fn take_witness(&self, task: TaskKey) -> Result<Option<Witness>> {
        self.change()?;
        let mut state = self.state.borrow_mut();
        let world = &mut state.world;
        let inode = *world.live.entry(task).or_insert_with(|| {
            world.inodes += 1;
            world.inodes
        });
        if state.holds(inode) && !self.is(Broken::NoWitness) {
            return Ok(None);
        }
        state.processes[self.me].witness = Some(inode);
        Ok(Some(Witness::pretend()))
    }

    fn give_up(&self, _: Witness) {
        if self.change().is_ok() {
            self.state.borrow_mut().processes[self.me].witness = None;
        }
    }

    fn unlink_witness(&self, task: TaskKey) -> Result<()> {
        let held = self.probe(task) == Probe::Held;
        if held || !self.state.borrow().world.live.contains_key(&task) {
            return Ok(());
        }
        self.change()?;
        self.state.borrow_mut().world.live.remove(&task);
        Ok(())
    }

    fn table_path(&self) -> Utf8PathBuf {
        "/state/leases/table".into()
    }

    fn open_table(&self, _: Access) -> Result<Option<()>> {
        let there = match &self.stale {
            Some(stale) if self.changes.get() == 0 => !stale.is_empty(),
            Some(_) | None => self.state.borrow().world.table.is_some(),
        };
        Ok(there.then_some(()))
    }

    fn read_table(&self, (): &()) -> Result<Vec<Bytes>> {
        let now = || self.state.borrow().world.table.clone();
        Ok(match &self.stale {
            Some(stale) if self.changes.get() == 0 => stale.clone(),
            Some(_) | None => now().unwrap_or_default(),
        })
    }

    fn write_block(&self, (): &(), at: usize, bytes: &Bytes) -> Result<()> {
        self.change()?;
        let mut state = self.state.borrow_mut();
        let table = state.world.table.get_or_insert_default();
        if at >= table.len() {
            table.resize(at + 1, [0; 256]);
        }
        table[at] = *bytes;
        Ok(())
    }

    fn cut_table(&self, (): &(), blocks: usize) -> Result<()> {
        self.change()?;
        let mut state = self.state.borrow_mut();
        if let Some(table) = &mut state.world.table {
            table.truncate(blocks);
        }
        Ok(())
    }

    fn replace_table(&self, blocks: &[Bytes]) -> Result<()> {
        self.change()?;
        self.state.borrow_mut().world.table = Some(blocks.to_vec());
        Ok(())
    }

    fn put_table_aside(&self, _: u32) -> Result<()> {
        self.change()?;
        self.state.borrow_mut().world.table = None;
        Ok(())
    }

    fn epoch(&self) -> u32 {
        if self.is(Broken::EpochInTable) {
            return 0;
        }
        self.state.borrow().world.epoch
    }

    fn save_epoch(&self, epoch: u32) -> Result<()> {
        self.change()?;
        self.state.borrow_mut().world.epoch = epoch;
        Ok(())
    }

    fn files(&self) -> Result<Files> {
        let state = self.state.borrow();
        let mut files = Files {
            details: state.world.details.keys().copied().collect(),
            witnesses: state.world.live.keys().copied().collect(),
        };
        if self.is(Broken::NothingRestored) {
            files.witnesses.clear();
        }
        if self.is(Broken::EpochInTable) {
            files.details.clear();
        }
        Ok(files)
    }

    fn details(&self, task: TaskKey, generation: u64) -> Option<Details> {
        let state = self.state.borrow();
        let found = state.world.details.get(&(task, generation))?;
        Some(found.as_ref().clone())
    }

    fn save_details(&self, generation: u64, details: &Details) -> Result<()> {
        self.change()?;
        let key = (details.task.key(), generation);
        let details = Rc::new(details.clone());
        self.state.borrow_mut().world.details.insert(key, details);
        Ok(())
    }

    fn save_labels(&self, _: &Bound<'_>) -> Result<()> {
        Ok(())
    }

    fn remove_details(&self, task: TaskKey, generation: u64) {
        let there = self.details(task, generation).is_some();
        if there && self.change().is_ok() {
            self.state
                .borrow_mut()
                .world
                .details
                .remove(&(task, generation));
        }
    }
}
