//! Accounts that were found on this machine or in another tool's list.

use camino::Utf8PathBuf;
use schemars::JsonSchema;
use serde::Serialize;

use crate::id::{ProfileId, ProviderKind};

/// The answer of `profile import`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Imported {
    /// The list that was read.
    #[schemars(with = "String")]
    pub file: Utf8PathBuf,
    /// Whose list it is.
    pub format: String,
    /// One row per account of the list, in its order.
    pub accounts: Vec<ImportedAccount>,
    /// What to type next.
    pub next: Vec<String>,
}

/// The answer of `init --import`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Surveyed {
    /// The registry.
    #[schemars(with = "String")]
    pub registry: Utf8PathBuf,
    /// Whether it was written now; an older one was only added to.
    pub written: bool,
    /// One row per account that was found.
    pub accounts: Vec<ImportedAccount>,
    /// What to type next.
    pub next: Vec<String>,
}

/// An account that was found. Nothing here names a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ImportedAccount {
    /// What was found, and where.
    pub account: String,
    /// Its provider; `null` when it is none that is known.
    pub provider: Option<ProviderKind>,
    /// What was done about it.
    pub outcome: ImportOutcome,
    /// Its profile.
    pub profile: Option<ProfileId>,
    /// Why nothing was done.
    pub reason: Option<String>,
    /// The command that settles it.
    pub hint: Option<String>,
}

/// What was done about an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImportOutcome {
    /// It has a profile now, disabled.
    Added,
    /// It had a profile before.
    Present,
    /// It is the person's everyday login, which no worker uses.
    Kept,
    /// It has no profile, for the reason given.
    LeftOut,
}
