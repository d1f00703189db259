//! Leases in a table on this machine: the store that all commands use.

use camino::Utf8Path;

use super::holder::{Here, Holder};
use super::leases::{Attempt, Leases};
use super::machine::ThisMachine;
use super::{Force, Grant, Granted, LeaseStore, Listing, Occupancy, Pick, Reclaimed, Request};
use crate::clock::Deadline;
use crate::contract::lease::{DamagedLease, Lease};
use crate::env::Context;
use crate::error::Result;
use crate::id::{ProfileId, ProviderKind, Task, TaskKey};
use crate::store::lock::Locks;

/// The lease table of one state root.
#[derive(Debug)]
pub struct TableStore {
    leases: Leases<ThisMachine>,
}

impl TableStore {
    /// The store below the context's state root. Locks are waited for until `deadline`.
    pub fn open(context: &Context, deadline: Deadline) -> Result<Self> {
        let machine = ThisMachine {
            directory: context.roots.state.join("leases"),
            clock: context.clock,
            here: Here::look()?,
            locks: Locks::of(context),
            faults: context.faults,
            deadline,
        };
        Ok(Self {
            leases: Leases::on(machine),
        })
    }

    /// Where the lease files are.
    pub fn directory(&self) -> &Utf8Path {
        &self.leases.machine.directory
    }

    /// The calling process as a holder.
    pub fn myself(&self) -> Result<Holder> {
        self.leases.machine.here.myself()
    }
}

impl LeaseStore for TableStore {
    fn reserve(&self, request: &Request, pick: &mut Pick<'_>) -> Result<Granted> {
        let ahead = self.leases.look_ahead();
        self.leases
            .attempt(|locked| locked.reserve(request, &ahead, pick))
    }

    fn probe(
        &self,
        profile: &ProfileId,
        provider: ProviderKind,
        holder: Holder,
    ) -> Result<Granted> {
        self.leases
            .attempt(|locked| locked.grant_probe(profile, provider, holder))
    }

    fn abandon(&self, granted: Granted) -> Result<()> {
        let Granted {
            lease, mut witness, ..
        } = granted;
        self.leases
            .attempt(|locked| locked.abandon(&lease, witness.take()).map(Attempt::Done))
    }

    fn release(&self, task: &Task, force: Force) -> Result<Lease> {
        self.leases.attempt(|locked| locked.release(task, force))
    }

    fn settle(&self, record: u32) -> Result<DamagedLease> {
        self.leases
            .attempt(|locked| locked.settle(record).map(Attempt::Done))
    }

    fn find(&self, task: &Task) -> Result<Option<Lease>> {
        self.leases.find_lease(task)
    }

    fn list(&self) -> Result<Listing> {
        self.leases.list_leases()
    }

    fn occupancy(&self) -> Result<Occupancy> {
        self.leases.verified_occupancy()
    }

    fn glance(&self) -> Result<Occupancy> {
        self.leases.glance()
    }

    fn lookup(&self, task: TaskKey) -> Result<Option<Grant>> {
        self.leases.look_up(task)
    }

    fn reclaimed(&self) -> Vec<Reclaimed> {
        self.leases.forget()
    }
}
