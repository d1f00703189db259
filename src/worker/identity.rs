//! Who a worker is, by the variables that exec set.

use camino::Utf8PathBuf;

use crate::env::{self, Variables};
use crate::id::{PoolId, ProfileId, ProviderKind, Task};

/// A worker's own view of its lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// Its task.
    pub task: Task,
    /// The leased profile.
    pub profile: ProfileId,
    /// Its provider.
    pub provider: ProviderKind,
    /// The pool it was asked for in.
    pub pool: PoolId,
    /// Its workspace.
    pub workspace: Utf8PathBuf,
    /// The generation of its lease.
    pub generation: u64,
}

impl Worker {
    /// The worker whose environment this is; `None` outside a worker, or when a variable makes no sense.
    pub fn of(variables: &Variables) -> Option<Self> {
        Some(Self {
            task: variables.text(env::TASK_ID)?.parse().ok()?,
            profile: variables.text(env::PROFILE)?.parse().ok()?,
            provider: variables.text(env::PROVIDER)?.parse().ok()?,
            pool: variables.text(env::POOL)?.parse().ok()?,
            workspace: variables.text(env::WORKSPACE)?.into(),
            generation: variables.text(env::GENERATION)?.parse().ok()?,
        })
    }
}
