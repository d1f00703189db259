//! The answer of `choose`, `lease choose`, `lease acquire` and `lease recover`.

use camino::Utf8PathBuf;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::lease::Lease;
use crate::id::{PoolId, ProfileId, ProviderKind, Task};

/// Why this profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DecisionReason {
    /// It ranked first.
    Quota,
    /// The task had this lease already.
    Sticky,
    /// The task's recorded profile, reserve ignored.
    StickyResume,
    /// The caller named it.
    Explicit,
}

/// Which account was proved, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Identity {
    /// 64 hex digits.
    pub fingerprint: String,
    /// When the server named it.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub proved_at: Timestamp,
    /// Who asked.
    pub source: String,
}

/// One profile's place in a selection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// Which profile.
    pub profile: ProfileId,
    /// Whether it could take the task.
    pub eligible: bool,
    /// Stable reason word.
    pub reason: String,
    /// Least remaining percent over the gating windows, where there is a reading.
    pub headroom_percent: Option<f64>,
    /// Live leases on it.
    pub active_leases: u32,
    /// What it was ranked by; `null` when it was not, and under `round-robin`.
    pub score: Option<f64>,
    /// Age of its reading.
    pub reading_age_seconds: Option<u64>,
    /// When its reason may have passed, never in the past; `null` when no time alone helps.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub retry_at: Option<Timestamp>,
}

/// A selection.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Selection {
    /// Version of this shape: 1.
    pub schema: u32,
    /// For which task.
    pub task: Task,
    /// From which pool.
    pub pool: PoolId,
    /// The chosen profile.
    pub profile: ProfileId,
    /// Its provider.
    pub provider: ProviderKind,
    /// Canonical workspace.
    #[schemars(with = "String")]
    pub workspace: Utf8PathBuf,
    /// Why this profile.
    pub decision_reason: DecisionReason,
    /// The model whose windows gated, as the caller named it; `null` when every window did.
    pub model: Option<String>,
    /// Whether its reading is fresh.
    pub quota_fresh: bool,
    /// Least remaining percent over the gating windows.
    pub headroom_percent: Option<f64>,
    /// Live leases on it, before a new one.
    pub active_lease_count: u32,
    /// True when the reading is presumed or missing.
    pub degraded: bool,
    /// Why it is degraded.
    pub degraded_reason: Option<String>,
    /// True when nothing was written.
    pub dry_run: bool,
    /// The lease's generation; 0 in a dry run.
    pub generation: u64,
    /// The proved account.
    pub identity: Option<Identity>,
    /// The lease; `null` in a dry run.
    pub lease: Option<Lease>,
    /// One row per profile, with `--explain`: the pick first, then as they rank, then the others by id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explain: Option<Vec<Explanation>>,
}
