//! What `doctor` found, as callers see it.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::id::{ProfileId, ProviderKind};

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// Works, but wants a look.
    Warn,
    /// Keeps work from being done, or endangers a login.
    Fail,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Check {
    /// Stable word; docs/doctor.md lists them.
    pub id: String,
    /// Which provider a check of the machine is about, where it is made for each.
    pub provider: Option<ProviderKind>,
    /// How it came out.
    pub level: Level,
    /// What was seen.
    pub evidence: String,
    /// How old that is, or how long it has been so.
    pub age_seconds: Option<u64>,
    /// The command that mends it or shows more.
    pub fix: Option<String>,
}

/// The checks of one profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ProfileChecks {
    /// Which.
    pub profile: ProfileId,
    /// Its provider.
    pub provider: ProviderKind,
    /// Whether it is routed; one that is not keeps nobody from being healthy.
    pub enabled: bool,
    /// The worst of its checks.
    pub level: Level,
    /// Every check, in the order of docs/doctor.md.
    pub checks: Vec<Check>,
}

/// How many checks came out how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Counts {
    /// As it should be.
    pub ok: u32,
    /// Wants a look.
    pub warn: u32,
    /// Failed.
    pub fail: u32,
}

/// Something that `doctor --fix` did, or could not do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Fixed {
    /// The check that asked for it.
    pub check: String,
    /// Whose, where it is about one profile.
    pub profile: Option<ProfileId>,
    /// Whether it was done.
    pub done: bool,
    /// What was done, or why it was not.
    pub what: String,
}

/// The answer of `doctor`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Doctor {
    /// Version of this shape: 1.
    pub schema: u32,
    /// When it was put together.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub generated_at: Timestamp,
    /// True when no check of the machine and of an enabled profile failed; of any profile when none is enabled.
    pub healthy: bool,
    /// How many of each, over everything.
    pub counts: Counts,
    /// The command to type next.
    pub next: Option<String>,
    /// What `--fix` did; the checks below were made afterwards.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fixed: Vec<Fixed>,
    /// The machine's checks.
    pub machine: Vec<Check>,
    /// One entry per profile, sorted by id.
    pub profiles: Vec<ProfileChecks>,
}
