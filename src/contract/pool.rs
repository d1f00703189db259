//! What a pool can take, as callers see it.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::profile::ProfileStatus;
use crate::id::{PoolId, ProviderKind};

/// The answer of `pool status`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PoolStatus {
    /// Version of this shape: 1.
    pub schema: u32,
    /// Which pool.
    pub pool: PoolId,
    /// One entry for each provider that has a profile in the pool, in lock order.
    pub providers: Vec<ProviderStatus>,
}

/// One provider's part of a pool.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ProviderStatus {
    /// Which provider.
    pub provider: ProviderKind,
    /// Whether a task could be taken now.
    pub available: bool,
    /// `quota` when it is available, else `unavailable`.
    pub selection_mode: &'static str,
    /// True when it is available, but on no fresh reading.
    pub degraded: bool,
    /// How many enabled profiles could take a task now.
    pub eligible_profiles: u32,
    /// The best of their headrooms, weight added and live leases taken off.
    pub best_adjusted_headroom_percent: Option<f64>,
    /// Live leases on its profiles.
    pub active_leases: u32,
    /// When it may be available again; `null` when it is, or when no time is known.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub retry_at: Option<Timestamp>,
    /// Its profiles, sorted by id.
    pub profiles: Vec<ProfileStatus>,
}
