//! Quota as callers see it.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::id::{ProfileId, ProviderKind};

/// The answer of `quota show` and `quota refresh`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct QuotaList {
    /// One row per profile, sorted by id.
    pub quota: Vec<Quota>,
}

/// One profile's quota.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Quota {
    /// Version of this shape: 1.
    pub schema: u32,
    /// Which profile.
    pub profile: ProfileId,
    /// Its provider.
    pub provider: ProviderKind,
    /// `fresh`, `stale`, `presumed` or `unmeasured`.
    pub status: String,
    /// True when `status` is `fresh`.
    pub fresh: bool,
    /// Age of the reading.
    pub age_seconds: Option<u64>,
    /// The last fetch's own outcome: `fresh`, or its reason word.
    pub reported_status: String,
    /// Why it is not fresh.
    pub reason: Option<String>,
    /// Least remaining percent over all windows.
    pub headroom_percent: Option<f64>,
    /// 64 hex digits.
    pub identity_fingerprint: Option<String>,
    /// Who proved the account.
    pub identity_source: Option<String>,
    /// When the account was proved.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub verified_at: Option<Timestamp>,
    /// True when the proof holds for the login in the home now.
    pub verified_recent: bool,
    /// Age of the proof.
    pub verification_age_seconds: Option<u64>,
    /// When the reading was taken.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub refreshed_at: Option<Timestamp>,
    /// Who took the reading.
    pub source: Option<String>,
    /// Earliest next fetch.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub next_poll_at: Option<Timestamp>,
    /// Whether paid overage is switched on at the provider, when it says so.
    pub overage_enabled: Option<bool>,
    /// What overage has cost, when the provider says so.
    pub overage_spend: Option<Spend>,
    /// The windows.
    pub windows: Vec<Window>,
}

/// Paid overage as the provider tells it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Spend {
    /// Paid in this month, in the account's currency (Claude).
    pub used: Option<f64>,
    /// Most that may be paid in a month, in the account's currency (Claude).
    pub limit: Option<f64>,
    /// Credits that were bought and not used yet (Codex).
    pub balance: Option<f64>,
}

/// One window.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Window {
    /// The provider's name for it.
    pub id: String,
    /// `session`, `weekly`, `monthly` or `other`, by duration.
    pub kind: String,
    /// Model class that it gates alone.
    pub scope: Option<String>,
    /// 0 to 100.
    pub remaining_percent: f64,
    /// When it becomes full again.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub resets_at: Option<Timestamp>,
    /// True when it has reset since it was read and counts as full.
    pub presumed: bool,
}
