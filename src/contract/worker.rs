//! A worker's own view of its lease.

use camino::Utf8PathBuf;
use schemars::JsonSchema;
use serde::Serialize;

use crate::id::{PoolId, ProfileId, ProviderKind, Task};

/// The answer of `which`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Which {
    /// The task.
    pub task: Task,
    /// The leased profile.
    pub profile: ProfileId,
    /// Its provider.
    pub provider: ProviderKind,
    /// The pool asked for.
    pub pool: PoolId,
    /// The workspace.
    #[schemars(with = "String")]
    pub workspace: Utf8PathBuf,
    /// The grant's number.
    pub generation: u64,
    /// Opaque name of the account, 64 hex digits, once it was proved.
    pub identity_fingerprint: Option<String>,
}
