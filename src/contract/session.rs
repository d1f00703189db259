//! The sticky mapping from a task to the provider's conversation.

use camino::Utf8PathBuf;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{PoolId, ProfileId, ProviderKind, Task};

/// A mapping. Also the format of `state/sessions/<task-key>.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Session {
    /// Version of this shape: 2.
    pub schema: u32,
    /// Whose conversation.
    pub task: Task,
    /// The only profile it can be continued under.
    pub profile: ProfileId,
    /// Its provider.
    pub provider: ProviderKind,
    /// The pool it was asked for in.
    pub pool: PoolId,
    /// The only workspace it can be continued in.
    #[schemars(with = "String")]
    pub workspace: Utf8PathBuf,
    /// The provider's id.
    pub session_id: String,
    /// Counts the events that moved the mapping forward.
    pub session_event_seq: u64,
    /// When it was last moved.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub updated_at: Timestamp,
}

/// The answer of `session remove`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SessionRemoved {
    /// Whose mapping is gone.
    pub task: Task,
    /// Always true: an absent mapping is refused.
    pub removed: bool,
}

/// The answer of `session list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SessionList {
    /// Sorted by task.
    pub sessions: Vec<Session>,
}
