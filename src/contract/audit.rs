//! What happened, as `audit` tells it.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The answer of `audit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AuditList {
    /// Oldest first.
    pub events: Vec<AuditEvent>,
    /// Lines that could not be read, such as one that a power cut tore.
    pub damaged: u64,
}

/// One thing that happened. Also one line of `state/audit.jsonl`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditEvent {
    /// Version of these fields.
    pub schema: u32,
    /// When.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// What happened, as a word; an open set.
    pub event: String,
    /// The command that did it, without its arguments.
    pub by: String,
    /// The process that did it.
    pub pid: u32,
    /// Whose provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Which profile; `@base` is the provider's everyday login.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Which task; one longer than 200 characters is cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Generation of the lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// Why, as a reason word or an error code; of a drain, what the person said, cut at 200 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Until when.
    #[schemars(with = "Option<String>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}
