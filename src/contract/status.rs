//! The state of the whole fleet as callers see it.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::lease::{DamagedLease, Lease, Waiting};
use super::unleased::Unleased;
use crate::id::{PoolId, ProfileId, ProviderKind};

/// The answer of `status`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Status {
    /// Version of this shape: 1.
    pub schema: u32,
    /// When it was put together.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub generated_at: Timestamp,
    /// Only this pool; everything when `null`.
    pub pool: Option<PoolId>,
    /// How many of each.
    pub summary: Summary,
    /// The command to type next.
    pub next: String,
    /// One row per profile, sorted by id; empty when the registry cannot be used.
    pub profiles: Vec<StatusRow>,
    /// Leases, sorted by task; without a registry those of every profile.
    pub leases: Vec<Lease>,
    /// Commands that wait for an account, in turn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<Waiting>,
    /// Lease records that cannot be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<DamagedLease>,
    /// Provider processes in the homes that no lease accounts for.
    pub unleased: Vec<Unleased>,
    /// What wants a look, the worst first.
    pub warnings: Vec<Warning>,
}

/// How many of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Summary {
    /// Profiles that could take a task now.
    pub free: u32,
    /// Enabled profiles whose slots are all taken.
    pub full: u32,
    /// Enabled profiles that something stands in the way of.
    pub blocked: u32,
    /// Profiles that are not routed.
    pub disabled: u32,
    /// Leases that hold a slot.
    pub live_leases: u32,
    /// Commands that wait for an account.
    pub waiting: u32,
    /// Provider processes without a lease.
    pub unleased: u32,
    /// Warnings.
    pub warnings: u32,
}

/// What a profile can do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RowState {
    /// It could take a task.
    Free,
    /// Every slot is taken.
    Full,
    /// Something is in the way.
    Blocked,
    /// It is disabled, or not for workers.
    Disabled,
}

/// One profile.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StatusRow {
    /// Which.
    pub profile: ProfileId,
    /// Its provider.
    pub provider: ProviderKind,
    /// Pools it joins.
    pub pools: Vec<PoolId>,
    /// What it can do now.
    pub state: RowState,
    /// Stable reason word, as in `choose --explain`.
    pub reason: String,
    /// The reason as a sentence, where something is in the way.
    pub why: Option<String>,
    /// Since when, where that is known.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub since: Option<Timestamp>,
    /// When that may have passed by itself.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub until: Option<Timestamp>,
    /// Least remaining percent over all windows.
    pub headroom_percent: Option<f64>,
    /// Age of the reading.
    pub reading_age_seconds: Option<u64>,
    /// Live leases on it.
    pub active_leases: u32,
    /// Slots.
    pub max_concurrent: u32,
    /// When the login itself ends.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub login_expires_at: Option<Timestamp>,
    /// The command that puts it into use, where more than waiting is needed.
    pub hint: Option<String>,
}

/// Something that wants a look.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Warning {
    /// Stable word: an error code, or the id of a doctor's check.
    pub code: String,
    /// Whose, where it is about one profile.
    pub profile: Option<ProfileId>,
    /// One sentence.
    pub message: String,
    /// The command to type.
    pub hint: Option<String>,
}
