//! A lease as callers see it.

use std::collections::BTreeMap;

use camino::Utf8PathBuf;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::unleased::Unleased;
use crate::id::{PoolId, ProfileId, ProviderKind, Task};

/// Whether the holder of a lease lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Its process lives.
    Alive,
    /// Its process is gone but the provider's main process still holds the witness.
    Orphaned,
    /// Gone; the next choose reclaims it.
    Dead,
    /// Cannot be told from here; it keeps its slot.
    Unknown,
    /// Not yet bound to a process.
    Reserved,
}

/// A lease.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Lease {
    /// Version of this shape: 3.
    pub schema: u32,
    /// The task; `null` with `details_lost` when its details file is gone.
    pub task: Option<String>,
    /// The leased profile.
    pub profile: ProfileId,
    /// Its provider.
    pub provider: ProviderKind,
    /// The pool asked for.
    pub pool: Option<String>,
    /// The workspace.
    #[schemars(with = "Option<String>")]
    pub workspace: Option<Utf8PathBuf>,
    /// `reserved` or `running`.
    pub state: State,
    /// Strictly increasing number of the grant.
    pub generation: u64,
    /// The holder's pid.
    pub pid: Option<u32>,
    /// The holder's kernel start time.
    pub process_start: Option<u64>,
    /// The boot that the holder belongs to.
    pub boot_id: String,
    /// Labels given to exec.
    pub labels: BTreeMap<String, String>,
    /// When it was granted.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub created_at: Timestamp,
    /// When a reservation ends.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub expires_at: Option<Timestamp>,
    /// When it was bound to its process.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub bound_at: Option<Timestamp>,
    /// Whether the holder lives.
    pub verdict: Verdict,
    /// True when the details file is gone: task, pool, workspace and labels are unknown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub details_lost: bool,
}

/// Stages of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Waits for its exec.
    Reserved,
    /// Bound to a live process.
    Running,
}

/// A task that waits for a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Waiting {
    /// The task.
    pub task: Task,
    /// The pool asked for.
    pub pool: PoolId,
    /// The only provider that will do, if it was named.
    pub provider: Option<ProviderKind>,
    /// The only profile that will do, if it was named.
    pub profile: Option<ProfileId>,
    /// The process that waits.
    pub pid: u32,
    /// Since when it waits.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub since: Timestamp,
    /// False when it has not looked for a slot in the last two seconds, as when it is stopped: its turn passes.
    pub attending: bool,
}

/// The answer of `lease list`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LeaseList {
    /// Sorted by task.
    pub leases: Vec<Lease>,
    /// Who waits for a slot, in the order of their turns.
    pub waiting: Vec<Waiting>,
    /// Records that cannot be read; each keeps its slot until it is settled.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<DamagedLease>,
    /// Provider processes in the profiles' homes that no lease accounts for; unknown without a registry.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unleased: Vec<Unleased>,
}

/// A lease record whose checksum fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DamagedLease {
    /// Its number in the table.
    pub record: u32,
    /// The profile it counts against, where its name can still be read.
    pub profile: Option<ProfileId>,
    /// The task it seems to belong to, where its details still name it.
    pub task: Option<String>,
    /// The table.
    #[schemars(with = "String")]
    pub path: Utf8PathBuf,
    /// The command that removes it.
    pub settle: String,
}

/// The answer of `lease release`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LeaseReleased {
    /// Whose slot is free; `null` when a damaged record did not name it.
    pub profile: Option<ProfileId>,
    /// Always true.
    pub released: bool,
    /// Which task; `null` when a damaged record did not name it.
    pub task: Option<String>,
}
