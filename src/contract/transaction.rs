//! Changes of a login that were begun and not finished, as callers see them. Never what a file holds.

use camino::Utf8PathBuf;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::id::{ProfileId, ProviderKind};

/// The answer of `transaction list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TransactionList {
    /// Sorted by name.
    pub transactions: Vec<Transaction>,
}

/// A change of a login that was begun. Also the answer of `transaction show`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Transaction {
    /// Its name.
    pub id: String,
    /// How it stands.
    pub state: TransactionState,
    /// The provider it fences; `null` when its name begins with none that this version knows.
    pub provider: Option<ProviderKind>,
    /// Whose login.
    pub profile: Option<ProfileId>,
    /// Its record.
    #[schemars(with = "String")]
    pub path: Utf8PathBuf,
    /// The credential file.
    #[schemars(with = "Option<String>")]
    pub credential: Option<Utf8PathBuf>,
    /// What is in force; `null` when the record does not say what was to come.
    pub in_force: Option<InForce>,
    /// When it was begun, if its record can be read.
    #[schemars(with = "Option<String>")]
    pub at: Option<Timestamp>,
    /// What it put beside the credential file.
    pub beside: Vec<BesideFile>,
    /// The command to type next.
    pub next: String,
}

/// How a transaction stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TransactionState {
    /// It was cut short; the next command that would take a profile of the provider takes it back.
    Pending,
    /// Whoever began it is at it.
    UnderWay,
    /// Its record cannot be gone by.
    Damaged,
    /// Its record is of a newer version of this program.
    Newer,
    /// A person set its record aside.
    SetAside,
}

/// Which login is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InForce {
    /// The one from before.
    Old,
    /// The one that was to come.
    New,
    /// One that the provider's CLI wrote meanwhile.
    Other,
    /// None.
    Missing,
    /// It cannot be read.
    Unreadable,
}

/// A file beside a credential file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BesideFile {
    /// Where it is.
    #[schemars(with = "String")]
    pub path: Utf8PathBuf,
    /// What it holds.
    pub holds: InForce,
}

/// The answer of `transaction recover`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TransactionsRecovered {
    /// One per transaction, sorted by name.
    pub recovered: Vec<TransactionRecovered>,
}

/// What became of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TransactionRecovered {
    /// Its name.
    pub transaction: String,
    /// Whose login.
    pub profile: Option<ProfileId>,
    /// What was done.
    pub outcome: RecoveryOutcome,
    /// A login that the provider's CLI wrote meanwhile and that is not in force, kept here.
    #[schemars(with = "Option<String>")]
    pub kept: Option<Utf8PathBuf>,
    /// Where the record is now, when it was set aside.
    #[schemars(with = "Option<String>")]
    pub path: Option<Utf8PathBuf>,
    /// What still lies beside the credential file.
    pub beside: Vec<BesideFile>,
    /// The command to type next.
    pub next: String,
}

/// What was done about a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecoveryOutcome {
    /// The new login was taken back; the one from before, or one that the CLI wrote meanwhile, is in force.
    TakenBack,
    /// Its record was renamed, and fences nobody any more; every login stayed where it was.
    SetAside,
}
