//! The lease protocol, over whatever machine it runs on.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use super::Reclaimed;
use super::details::Details;
use super::holder::Holder;
use super::locked::Locked;
use super::machine::Machine;
use super::reclaim::holder;
use super::record::{Record, Stage, Takes};
use crate::contract::lease::{Lease, State, Verdict};
use crate::error::{Error, Result};

/// How often a call looks before it believes that a process outlives its pid, and the pause between.
pub(super) const PROBES: u32 = 3;
const PROBE_PAUSE: Duration = Duration::from_millis(10);

/// The leases of one state root.
#[derive(Debug)]
pub(super) struct Leases<M> {
    pub(super) machine: M,
    reclaimed: Mutex<Vec<Reclaimed>>,
}

/// What one look at the table came to.
#[derive(Debug)]
pub(super) enum Attempt<T> {
    /// It is settled.
    Done(T),
    /// It depends on a process that may be ending just now.
    Unsure,
}

impl<M: Machine> Leases<M> {
    /// The leases that a machine has.
    pub(super) fn on(machine: M) -> Self {
        Self {
            machine,
            reclaimed: Mutex::default(),
        }
    }

    /// Runs `look` under the lock; up to three times over 20 ms, the lock free between, while it depends on a
    /// process whose pid is gone and whose witness is still held. In the last attempt that is a fact.
    pub(super) fn attempt<T>(
        &self,
        mut look: impl FnMut(&mut Locked<'_, M>) -> Result<Attempt<T>>,
    ) -> Result<T> {
        for probe in 1..=PROBES {
            let confirmed = probe == PROBES;
            let mut locked = Locked::open(self, confirmed)?;
            if let Attempt::Done(value) = look(&mut locked)? {
                return Ok(value);
            }
            drop(locked);
            self.machine.pause(PROBE_PAUSE);
        }
        Err(Error::internal(
            "a confirmed look at the lease table was unsure",
        ))
    }

    /// Remembers a lease that ended by itself.
    pub(super) fn remember(&self, ended: Reclaimed) {
        let mut all = self
            .reclaimed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        all.push(ended);
    }

    /// What was remembered since this was last asked.
    pub(super) fn forget(&self) -> Vec<Reclaimed> {
        let mut all = self
            .reclaimed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *all)
    }

    /// A record as callers see it.
    pub(super) fn lease(
        &self,
        record: &Record,
        details: Option<Details>,
        verdict: Verdict,
    ) -> Lease {
        let holder = holder(record, self.machine.boot());
        let at = |milliseconds| Timestamp::from_millisecond(milliseconds).unwrap_or_default();
        let (state, expires_at, bound_at) = match record.stage {
            Stage::Reserved { expires } => {
                let now = i128::from(self.machine.since_boot().0);
                let left = i64::try_from(i128::from(expires) - now).unwrap_or(i64::MAX);
                let end = self.machine.now().as_millisecond().saturating_add(left);
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
            boot_id: boot_text(self.machine.boot()),
            labels,
            created_at: at(record.created),
            expires_at,
            bound_at,
            verdict,
            details_lost,
        }
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
