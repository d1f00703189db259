//! Which task may use a slot of which profile, and who holds it.
//!
//! # Guarantees
//! - A profile never has more live leases than its cap, and a task never has two live holders, on one kernel.
//! - The kernel decides who lives: pid and start time, and the witness (an `flock` that a worker's main
//!   process carries through execve). No heartbeat, no clock, no host name.
//! - A dead holder's slot is free again in the same call that needs it.
//! - Every grant has a strictly increasing generation, also across reboots and a lost table.
//! - A record that cannot be read affects only its own profile or task, and is never overwritten.
//!
//! # Limits
//! - One kernel: two machines that share a state root are refused by the file-system check of `store::lock`
//!   or see one another as another boot.
//! - Nothing is synced but the epoch: a power cut ends every holder anyway.
//! - Reservations expire by the boot clock: for a process in a time namespace that moves that clock, they expire
//!   early or late.
//! - Processes that a worker's tools leave behind outlive the lease, unless they inherited the witness.
//!
//! # Files
//! `state/leases/table` (records), `state/leases/epoch` (durable), `<task-key>.<generation>.json` and
//! `.bound.json` (what people want to know of a lease), `<task-key>.live` (the witness, always empty).

mod damage;
mod details;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
pub mod holder;
mod leases;
mod leftover;
mod locked;
mod machine;
#[cfg(test)]
mod model;
mod name;
mod reclaim;
mod record;
mod refusal;
mod release;
mod reserve;
mod survey;
mod table;
mod table_store;
mod transition;
pub mod witness;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use camino::Utf8PathBuf;

use crate::contract::lease::{DamagedLease, Lease};
use crate::error::{Error, Result};
use crate::id::{PoolId, ProfileId, ProviderKind, Task, TaskKey};
use holder::Holder;
pub use refusal::{no_lease, with_holders};
pub use table_store::TableStore;
use witness::Witness;

/// What a lease is asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// For which task.
    pub task: Task,
    /// Canonical workspace; a lease of the task for another one is a conflict.
    pub workspace: Utf8PathBuf,
    /// The pool asked for; `None` agrees with any, on either side.
    pub pool: Option<PoolId>,
    /// Only a lease of this provider will do.
    pub provider: Option<ProviderKind>,
    /// Only a lease of this profile will do.
    pub profile: Option<ProfileId>,
    /// Labels, kept with the lease for people.
    pub labels: BTreeMap<String, String>,
    /// Whether the lease waits for its process or gets it now.
    pub hold: Hold,
}

/// When a lease gets its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Reserved for this long, counted on the boot clock.
    Later(Duration),
    /// Running at once, under this holder, which must be the calling process: it gets the witness.
    Now(Holder),
}

/// What the pick decided.
#[derive(Debug)]
pub enum Choice {
    /// Give a slot of this profile, whose cap is checked again.
    Take {
        /// Which profile.
        profile: ProfileId,
        /// Its provider.
        provider: ProviderKind,
        /// Its slots.
        cap: u32,
    },
    /// Nothing is free as far as is known; the error is returned once every lease has been verified.
    Nothing {
        /// Why; the store adds `details.holders`.
        error: Error,
        /// The profiles whose holders the error lists: those that lack nothing but a slot.
        full: Vec<ProfileId>,
    },
}

/// Ranks the profiles by how they are used now. Called under the `leases` lock, perhaps more than once, so it
/// must not block. An error ends the call at once.
pub type Pick<'a> = dyn FnMut(&Occupancy) -> Result<Choice> + 'a;

/// How profiles are used now.
///
/// Inside a pick the counts are upper bounds: leases not yet verified count as live.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// Live leases per profile; profiles without any are absent. A damaged record counts.
    pub live: BTreeMap<ProfileId, u32>,
    /// Generation of the last grant per profile, released or not: greater is later.
    pub last_pick: BTreeMap<ProfileId, u64>,
    /// Profiles of which a probe holds every slot.
    pub probed: BTreeSet<ProfileId>,
}

impl Occupancy {
    /// Live leases on a profile.
    pub fn live(&self, profile: &ProfileId) -> u32 {
        self.live.get(profile).copied().unwrap_or(0)
    }

    /// Generation of the profile's last grant; 0 when there never was one in this boot.
    pub fn last_pick(&self, profile: &ProfileId) -> u64 {
        self.last_pick.get(profile).copied().unwrap_or(0)
    }
}

/// A granted or returned lease.
#[derive(Debug)]
pub struct Granted {
    /// The lease as it is now.
    pub lease: Lease,
    /// True when the task had it already.
    pub sticky: bool,
    /// Other live leases on its profile, an upper bound.
    pub active_before: u32,
    /// The witness, for [`Hold::Now`]: hand it over just before execve.
    pub witness: Option<Witness>,
}

/// A lease that ended without a release.
#[derive(Clone, Debug, PartialEq)]
pub struct Reclaimed {
    /// The lease as it was; `verdict` is `dead`.
    pub lease: Lease,
    /// Its task, also when the details were lost.
    pub task_key: TaskKey,
    /// Why it ended.
    pub ended: Ended,
}

/// How a lease ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its holder is gone.
    Died,
    /// No process took the reservation in time.
    Expired,
}

/// Whether a live lease may be taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    /// A live lease is refused with `lease_active`.
    No,
    /// It is removed; its process lives on and keeps its task owned until it ends.
    Yes,
}

/// Everything in the store.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listing {
    /// Sorted by task, then generation.
    pub leases: Vec<Lease>,
    /// Records that cannot be read, by number.
    pub damaged: Vec<DamagedLease>,
}

/// What a hook needs to know of a running lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The leased profile.
    pub profile: ProfileId,
    /// Its provider.
    pub provider: ProviderKind,
    /// The grant's number.
    pub generation: u64,
    /// Its process, once bound.
    pub holder: Option<Holder>,
}

/// Where leases live. One implementation keeps them in a table on this machine; one for many machines needs
/// nothing but this trait.
pub trait LeaseStore: std::fmt::Debug {
    /// Returns the task's lease, or grants one, in one atomic step.
    ///
    /// A lease of the same task, workspace and pool (and provider and profile, if given) is returned, a
    /// reservation with its time renewed; with [`Hold::Now`] it is bound. Otherwise `pick` chooses.
    /// Refused with `task_conflict` (other terms), `task_owned` (a live process has the task),
    /// `record_damaged`, `capacity` (the pick's profile is full after verification), or what `pick` says.
    fn reserve(&self, request: &Request, pick: &mut Pick<'_>) -> Result<Granted>;

    /// Takes every slot of a profile under the reserved task `@probe/<profile>`, for the calling process.
    /// Refused with `lease_active` while the profile has a live lease.
    fn probe(&self, profile: &ProfileId, provider: ProviderKind, holder: Holder)
    -> Result<Granted>;

    /// Undoes a grant that came to nothing: removes the lease if it is still this one and gives up its
    /// witness. A lease that is gone already is not an error.
    fn abandon(&self, granted: Granted) -> Result<()>;

    /// Ends a task's lease. Refused with `not_found`, or `lease_active` when its holder lives.
    ///
    /// Returns the lease as it was, with the verdict at its end.
    fn release(&self, task: &Task, force: Force) -> Result<Lease>;

    /// Removes a damaged record, by its number in [`Listing::damaged`]. Refused with `not_found` when that
    /// record is not damaged.
    fn settle(&self, record: u32) -> Result<DamagedLease>;

    /// The task's lease with its verdict.
    fn find(&self, task: &Task) -> Result<Option<Lease>>;

    /// All leases with their verdicts; others are not kept waiting.
    fn list(&self) -> Result<Listing>;

    /// The present use of all profiles, every lease verified, nothing written.
    fn occupancy(&self) -> Result<Occupancy>;

    /// The use of all profiles as the records alone tell it: no lock, no verdict, so an upper bound. For guesses.
    fn glance(&self) -> Result<Occupancy>;

    /// The task's grant without a lock and without a verdict, for hooks.
    fn lookup(&self, task: TaskKey) -> Result<Option<Grant>>;

    /// What calls on this value have reclaimed since this was last asked, whether they succeeded or not: the
    /// caller reads the transcripts of the dead and audits.
    fn reclaimed(&self) -> Vec<Reclaimed>;

    /// Binds the lease that the task has: [`LeaseStore::reserve`] without a pick, so `not_found` when there
    /// is none.
    fn bind(&self, request: &Request) -> Result<Granted> {
        self.reserve(request, &mut |_| Err(no_lease(&request.task)))
    }
}
