//! Leases in a table on this machine: the store that all commands use.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;

use super::details::Details;
use super::holder::{Here, Holder};
use super::locked::Locked;
use super::reclaim::holder;
use super::record::{Record, Stage, Takes};
use super::witness::{self, Probe, Witness};
use super::{Force, Grant, Granted, LeaseStore, Listing, Occupancy, Pick, Reclaimed, Request};
use crate::clock::{Clock, Deadline};
use crate::contract::lease::{DamagedLease, Lease, State, Verdict};
use crate::env::{Context, Faults};
use crate::error::{Error, Result};
use crate::id::{ProfileId, ProviderKind, Task, TaskKey};
use crate::store::directory;
use crate::store::lock::{Guard, Locks, Mode, Name};

/// How often a call looks before it believes that a process outlives its pid, and the pause between.
const PROBES: u32 = 3;
const PROBE_PAUSE: Duration = Duration::from_millis(10);

/// The lease table of one state root.
#[derive(Debug)]
pub struct TableStore {
    pub(super) directory: Utf8PathBuf,
    pub(super) clock: Clock,
    pub(super) here: Here,
    locks: Locks,
    faults: Faults,
    deadline: Deadline,
    reclaimed: Mutex<Vec<Reclaimed>>,
}

/// What one look at the table came to.
pub(super) enum Attempt<T> {
    /// It is settled.
    Done(T),
    /// It depends on a process that may be ending just now.
    Unsure,
}

impl TableStore {
    /// The store below the context's state root. Locks are waited for until `deadline`.
    pub fn open(context: &Context, deadline: Deadline) -> Result<Self> {
        Ok(Self {
            directory: context.roots.state.join("leases"),
            clock: context.clock,
            here: Here::look()?,
            locks: Locks::new(&context.roots.state, context.clock),
            faults: context.faults,
            deadline,
            reclaimed: Mutex::default(),
        })
    }

    /// Where the lease files are.
    pub fn directory(&self) -> &Utf8Path {
        &self.directory
    }

    /// The calling process as a holder.
    pub fn myself(&self) -> Result<Holder> {
        self.here.myself()
    }

    pub(super) fn lock(&self, mode: Mode) -> Result<Guard> {
        if self.faults.no_leases_lock {
            return Ok(self.locks.pretend(Name::Leases));
        }
        self.locks.take(&Name::Leases, mode, &self.deadline)
    }

    /// Runs `look` under the lock; up to three times over 20 ms, the lock free between, while it depends on a
    /// process whose pid is gone and whose witness is still held. In the last attempt that is a fact.
    pub(super) fn attempt<T>(
        &self,
        mut look: impl FnMut(&mut Locked<'_>) -> Result<Attempt<T>>,
    ) -> Result<T> {
        for probe in 1..=PROBES {
            let confirmed = probe == PROBES;
            let mut locked = Locked::open(self, self.lock(Mode::Exclusive)?, confirmed)?;
            if let Attempt::Done(value) = look(&mut locked)? {
                return Ok(value);
            }
            drop(locked);
            self.clock.pause(PROBE_PAUSE);
        }
        Err(Error::internal(
            "a confirmed look at the lease table was unsure",
        ))
    }

    /// Whether a task's witness is held. Only under the lock.
    pub(super) fn probe(&self, task: TaskKey) -> Probe {
        if self.faults.no_witness {
            return Probe::Free;
        }
        witness::probe(&self.directory, task)
    }

    /// Takes a task's witness; `None` when another process holds it. Only under the lock.
    pub(super) fn take_witness(&self, task: TaskKey) -> Result<Option<Witness>> {
        if self.faults.no_witness {
            return Ok(Some(Witness::pretend()));
        }
        Witness::take(&self.directory, task)
    }

    /// Unlinks a task's witness file if nobody holds it. Only under the lock.
    pub(super) fn unlink_witness(&self, task: TaskKey) -> Result<()> {
        let path = witness::path(&self.directory, task);
        match witness::probe(&self.directory, task) {
            Probe::Free => directory::remove_file(path),
            Probe::Held | Probe::Unreadable => Ok(()),
        }
    }

    pub(super) fn remember(&self, ended: Reclaimed) {
        let mut all = self
            .reclaimed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        all.push(ended);
    }

    /// A record as callers see it.
    pub(super) fn lease(
        &self,
        record: &Record,
        details: Option<Details>,
        verdict: Verdict,
    ) -> Lease {
        let holder = holder(record, self.here.boot);
        let at = |milliseconds| Timestamp::from_millisecond(milliseconds).unwrap_or_default();
        let (state, expires_at, bound_at) = match record.stage {
            Stage::Reserved { expires } => {
                let now = i128::from(self.clock.boot().0);
                let left = i64::try_from(i128::from(expires) - now).unwrap_or(i64::MAX);
                let end = self.clock.now().as_millisecond().saturating_add(left);
                (State::Reserved, Some(at(end)), None)
            }
            Stage::Running { bound, .. } => (State::Running, None, Some(at(bound))),
        };
        let details_lost = details.is_none();
        let (task, pool, workspace, labels) = match details {
            Some(details) => (
                Some(details.task.into()),
                details.pool.map(Into::into),
                details.workspace,
                details.labels,
            ),
            None => Default::default(),
        };
        Lease {
            schema: 3,
            task,
            profile: record.profile.id(),
            provider: record.provider,
            pool,
            workspace,
            state,
            generation: record.generation,
            pid: holder.map(|holder| holder.pid),
            process_start: holder.map(|holder| holder.start),
            boot_id: boot_text(self.here.boot),
            labels,
            created_at: at(record.created),
            expires_at,
            bound_at,
            verdict,
            details_lost,
        }
    }
}

impl LeaseStore for TableStore {
    fn reserve(&self, request: &Request, pick: &mut Pick<'_>) -> Result<Granted> {
        let ahead = self.look_ahead();
        self.attempt(|locked| locked.reserve(request, &ahead, pick))
    }

    fn probe(
        &self,
        profile: &ProfileId,
        provider: ProviderKind,
        holder: Holder,
    ) -> Result<Granted> {
        self.attempt(|locked| locked.grant_probe(profile, provider, holder))
    }

    fn abandon(&self, granted: Granted) -> Result<()> {
        let Granted {
            lease, mut witness, ..
        } = granted;
        self.attempt(|locked| locked.abandon(&lease, witness.take()).map(Attempt::Done))
    }

    fn release(&self, task: &Task, force: Force) -> Result<Lease> {
        self.attempt(|locked| locked.release(task, force))
    }

    fn settle(&self, record: u32) -> Result<DamagedLease> {
        self.attempt(|locked| locked.settle(record).map(Attempt::Done))
    }

    fn find(&self, task: &Task) -> Result<Option<Lease>> {
        self.find_lease(task)
    }

    fn list(&self) -> Result<Listing> {
        self.list_leases()
    }

    fn occupancy(&self) -> Result<Occupancy> {
        self.verified_occupancy()
    }

    fn lookup(&self, task: TaskKey) -> Result<Option<Grant>> {
        self.look_up(task)
    }

    fn reclaimed(&self) -> Vec<Reclaimed> {
        let mut all = self
            .reclaimed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *all)
    }
}

/// A new record's stage for a holder.
pub(super) fn running(holder: Holder, takes: Takes, now: Timestamp) -> Stage {
    Stage::Running {
        pid: holder.pid,
        start: holder.start,
        namespace: holder.namespace,
        unique: holder.unique,
        bound: now.as_millisecond(),
        takes,
    }
}

/// A boot id as the kernel writes it.
pub(super) fn boot_text(boot: [u8; 16]) -> String {
    uuid::Uuid::from_bytes(boot).to_string()
}
