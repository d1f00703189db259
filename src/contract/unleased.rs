//! Provider processes in a worker's home that no lease accounts for.

use camino::Utf8PathBuf;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::id::{ProfileId, ProviderKind};

/// What such a process is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UnleasedRole {
    /// It talks to the model on the profile's account.
    Session,
    /// It serves other processes, with the login that it began with.
    Daemon,
    /// It restarts such a daemon after an update.
    Updater,
}

/// Whether it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UnleasedLife {
    /// Pid and start time are those of a living process.
    Alive,
    /// It is in another pid namespace, or the kernel would not say.
    Unknown,
}

/// A provider process in a profile's home that no lease accounts for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Unleased {
    /// Whose home.
    pub profile: ProfileId,
    /// Its provider.
    pub provider: ProviderKind,
    /// The home.
    #[schemars(with = "String")]
    pub home: Utf8PathBuf,
    /// The process.
    pub pid: u32,
    /// Its kernel start time, in clock ticks since boot.
    pub process_start: Option<u64>,
    /// What it is there for.
    pub role: UnleasedRole,
    /// Whether it lives.
    pub life: UnleasedLife,
    /// The conversation that it writes.
    pub session_id: Option<String>,
    /// When it began.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub since: Option<Timestamp>,
    /// True for a daemon that began before the login file was last written: it may serve an older login.
    pub older_login: bool,
    /// The command that ends a daemon, or shows the process.
    pub hint: String,
}
