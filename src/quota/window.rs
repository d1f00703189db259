//! Quota windows as a provider reports them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Kind of window, by duration and never by the slot it was reported in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Hours: five hours at both providers today.
    Session,
    /// Seven days.
    Weekly,
    /// A month.
    Monthly,
    /// Anything else; gates like the others.
    Other,
}

impl Kind {
    /// The kind of a window of this length.
    pub fn of_minutes(minutes: u64) -> Self {
        match minutes {
            1..=1_440 => Self::Session,
            1_441..=11_520 => Self::Weekly,
            11_521..=46_080 => Self::Monthly,
            _ => Self::Other,
        }
    }

    /// The kind as it is written in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Weekly => "weekly",
            Self::Monthly => "monthly",
            Self::Other => "other",
        }
    }
}

/// The name of what stands for a window that is used up and that the server did not name.
pub const REFUSED: &str = "limit_reached";

/// One quota window at one time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// The provider's name for it, such as `five_hour`.
    pub id: String,
    /// By duration.
    pub kind: Kind,
    /// Model class that it gates alone; all models when `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// 0 to 100.
    pub remaining_percent: f64,
    /// When it becomes full again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<Timestamp>,
}

/// Windows of one account at one time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// When they were read.
    pub at: Timestamp,
    /// Whole fingerprint of the account that they belong to.
    pub fingerprint: String,
    /// Who read them: `builtin`, `external`, `rollout`, `statusline`, `limit`.
    pub source: String,
    /// The windows, in the provider's order.
    pub windows: Vec<Window>,
    /// Whether paid overage is switched on at the provider, when it says so.
    pub overage_enabled: Option<bool>,
    /// What overage has cost, when the provider says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spend: Option<Spend>,
}

/// Paid overage as the provider tells it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spend {
    /// Paid in this month, in the account's currency (Claude).
    pub used: Option<f64>,
    /// Most that may be paid in a month, in the account's currency (Claude).
    pub limit: Option<f64>,
    /// Credits that were bought and not used yet (Codex).
    pub balance: Option<f64>,
}

/// No new leases until then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cooldown {
    /// `quota`, `rate`, `manual` or `limit_suspected`.
    pub reason: String,
    /// When it ends by itself.
    pub until: Timestamp,
    /// When it was set.
    pub since: Timestamp,
    /// True when its end was read out of a sentence that did not say everything, and so is rather late.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub guessed: bool,
}
