//! What the lease protocol stands on: the table's bytes, the files beside it, witnesses, processes, time.
//!
//! [`ThisMachine`] is the real one. A test runs the same protocol over a model of it, in which processes end
//! at every step (`docs/reliability.md`).
//!
//! Each change is one step that is there or not when the process is killed. But for the epoch nothing is
//! synced: no holder survives a power cut.

use std::fmt::Debug;
use std::io;
use std::time::Duration;

use camino::Utf8PathBuf;
use jiff::Timestamp;

use super::details::{self, Details};
use super::holder::{Here, Holder, Sighting};
use super::leftover::Files;
use super::record::{Bytes, SIZE};
use super::witness::{self, Probe, Witness};
use crate::clock::{BootTime, Clock, Deadline};
use crate::env::Faults;
use crate::error::{Error, Result};
use crate::id::TaskKey;
use crate::store::inplace::Blocks;
use crate::store::lock::{Guard, Locks, Mode, Name};
use crate::store::replace::{self, Durability};
use crate::store::{directory, owner, read, seal};

/// What a call sees of the world, and the changes it makes.
pub(super) trait Machine: Debug {
    /// The table's file, open.
    type Table: Debug;
    /// The `leases` lock, held.
    type Guard: Debug;
    /// With fewer free records at its end a table is not cut.
    const SPARE: usize;

    /// Takes the `leases` lock.
    fn lock(&self, mode: Mode) -> Result<Self::Guard>;
    /// Lets `span` pass.
    fn pause(&self, span: Duration);
    /// Time since boot.
    fn since_boot(&self) -> BootTime;
    /// Wall time.
    fn now(&self) -> Timestamp;
    /// The kernel's id of this boot.
    fn boot(&self) -> [u8; 16];
    /// What the kernel says of a recorded holder.
    fn sight(&self, holder: &Holder) -> Sighting;

    /// Whether a task's witness is held. Only under the lock.
    fn probe(&self, task: TaskKey) -> Probe;
    /// Takes a task's witness; `None` when another process holds it. Only under the lock.
    fn take_witness(&self, task: TaskKey) -> Result<Option<Witness>>;
    /// Unlocks a witness for every process that shares it.
    fn give_up(&self, witness: Witness);
    /// Unlinks a task's witness file if nobody holds it. Only under the lock.
    fn unlink_witness(&self, task: TaskKey) -> Result<()>;

    /// Where the table is.
    fn table_path(&self) -> Utf8PathBuf;
    /// Opens the table; `None` when there is none.
    fn open_table(&self, access: Access) -> Result<Option<Self::Table>>;
    /// Reads the table's blocks, the header first.
    fn read_table(&self, table: &Self::Table) -> Result<Vec<Bytes>>;
    /// Writes one block; one past the end makes the table longer.
    fn write_block(&self, table: &Self::Table, at: usize, bytes: &Bytes) -> Result<()>;
    /// Cuts the table so that this many blocks are left.
    fn cut_table(&self, table: &Self::Table, blocks: usize) -> Result<()>;
    /// Replaces the table, or makes it.
    fn replace_table(&self, blocks: &[Bytes]) -> Result<()>;
    /// Keeps a table that cannot be read under another name.
    fn put_table_aside(&self, epoch: u32) -> Result<()>;
    /// The last epoch; 0 when the file says nothing. It holds one number, so one that cannot be read is
    /// replaced: the table and the names of details files tell the number too.
    fn epoch(&self) -> u32;
    /// Makes an epoch survive everything.
    fn save_epoch(&self, epoch: u32) -> Result<()>;

    /// The files of leases, as the directory lists them; the directory is made if it is missing.
    fn files(&self) -> Result<Files>;
    /// The details of a grant; `None` when they are lost.
    fn details(&self, task: TaskKey, generation: u64) -> Option<Details>;
    /// Writes the details of a grant.
    fn save_details(&self, generation: u64, details: &Details) -> Result<()>;
    /// Adds the labels of a bind to the details of its grant.
    fn save_labels(&self, bound: &Bound<'_>) -> Result<()>;
    /// Removes the details of a grant; what cannot be removed is swept later.
    fn remove_details(&self, task: TaskKey, generation: u64);
}

/// What a table is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// To look.
    Read,
    /// To change it. Only under the lock.
    Write,
}

/// Labels that came with a bind.
#[derive(Debug)]
pub(super) struct Bound<'a> {
    /// The task.
    pub(super) task: TaskKey,
    /// The grant.
    pub(super) generation: u64,
    /// The labels.
    pub(super) labels: &'a std::collections::BTreeMap<String, String>,
}

/// The machine that the program runs on.
#[derive(Debug)]
pub(super) struct ThisMachine {
    pub(super) directory: Utf8PathBuf,
    pub(super) clock: Clock,
    pub(super) here: Here,
    pub(super) locks: Locks,
    pub(super) faults: Faults,
    pub(super) deadline: Deadline,
}

impl Machine for ThisMachine {
    type Table = Blocks<SIZE>;
    type Guard = Guard;
    const SPARE: usize = 64;

    fn lock(&self, mode: Mode) -> Result<Guard> {
        self.locks.take(&Name::Leases, mode, &self.deadline)
    }

    fn pause(&self, span: Duration) {
        self.clock.pause(span);
    }

    fn since_boot(&self) -> BootTime {
        self.clock.boot()
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn boot(&self) -> [u8; 16] {
        self.here.boot
    }

    fn sight(&self, holder: &Holder) -> Sighting {
        self.here.sight(holder)
    }

    fn probe(&self, task: TaskKey) -> Probe {
        if self.faults.no_witness {
            return Probe::Free;
        }
        witness::probe(&self.directory, task)
    }

    fn take_witness(&self, task: TaskKey) -> Result<Option<Witness>> {
        if self.faults.no_witness {
            return Ok(Some(Witness::pretend()));
        }
        Witness::take(&self.directory, task)
    }

    fn give_up(&self, witness: Witness) {
        witness.give_up();
    }

    fn unlink_witness(&self, task: TaskKey) -> Result<()> {
        let path = witness::path(&self.directory, task);
        match witness::probe(&self.directory, task) {
            Probe::Free => directory::remove_file(path),
            Probe::Held | Probe::Unreadable => Ok(()),
        }
    }

    fn table_path(&self) -> Utf8PathBuf {
        self.directory.join("table")
    }

    fn open_table(&self, access: Access) -> Result<Option<Blocks<SIZE>>> {
        let path = self.table_path();
        let opened = match access {
            Access::Read => Blocks::open_read_only(&path),
            Access::Write => Blocks::open(&path),
        };
        match opened {
            Ok(blocks) => Ok(Some(blocks)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => {
                let what = match access {
                    Access::Read => "read",
                    Access::Write => "open",
                };
                Err(owner::refused(what, &path, &error))
            }
        }
    }

    fn read_table(&self, table: &Blocks<SIZE>) -> Result<Vec<Bytes>> {
        let failed = |error| Error::io("read", self.table_path(), &error);
        table.read().map_err(failed)
    }

    fn write_block(&self, table: &Blocks<SIZE>, at: usize, bytes: &Bytes) -> Result<()> {
        let failed = |error| Error::io("write", self.table_path(), &error);
        table.write(at, bytes).map_err(failed)
    }

    fn cut_table(&self, table: &Blocks<SIZE>, blocks: usize) -> Result<()> {
        let failed = |error| Error::io("cut", self.table_path(), &error);
        table.cut(blocks).map_err(failed)
    }

    fn replace_table(&self, blocks: &[Bytes]) -> Result<()> {
        let bytes = blocks.as_flattened();
        replace::sweep_of(self.table_path());
        replace::replace(self.table_path(), bytes, Durability::Volatile)
    }

    fn put_table_aside(&self, epoch: u32) -> Result<()> {
        let aside = self.directory.join(format!("table.damaged-{epoch}"));
        replace::rename(self.table_path(), aside)
    }

    fn epoch(&self) -> u32 {
        read::optional(self.directory.join("epoch"))
            .ok()
            .flatten()
            .and_then(|bytes| seal::open(std::str::from_utf8(&bytes).ok()?)?.parse().ok())
            .unwrap_or(0)
    }

    fn save_epoch(&self, epoch: u32) -> Result<()> {
        let line = seal::line(&epoch.to_string());
        let path = self.directory.join("epoch");
        replace::sweep_of(&path);
        replace::replace(path, line.as_bytes(), Durability::Durable)
    }

    fn files(&self) -> Result<Files> {
        directory::ensure(&self.directory)?;
        Files::list(&self.directory)
    }

    fn details(&self, task: TaskKey, generation: u64) -> Option<Details> {
        details::load(&self.directory, task, generation)
    }

    fn save_details(&self, generation: u64, details: &Details) -> Result<()> {
        details::save(&self.directory, generation, details)
    }

    fn save_labels(&self, bound: &Bound<'_>) -> Result<()> {
        details::save_labels(&self.directory, bound.task, bound.generation, bound.labels)
    }

    fn remove_details(&self, task: TaskKey, generation: u64) {
        details::remove(&self.directory, task, generation);
    }
}
