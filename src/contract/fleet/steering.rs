//! What came of steering a fleet: of texts sent to workers, and of stopping them.

use camino::Utf8PathBuf;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::id::fleet::{RunId, WorkerId};

/// The answer of `fleet send`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Sent {
    /// Version of this shape.
    pub schema: u32,
    /// The run.
    pub run: RunId,
    /// The worker.
    pub worker: WorkerId,
    /// Whether the turn has begun.
    pub outcome: SendOutcome,
    /// Where the worker stands.
    pub state: String,
    /// Number of its current launch.
    pub launch: u32,
    /// Texts that wait for its next turn, this one included.
    pub queued: u32,
    /// What the turn waits for, when it has not begun.
    pub waits_for: Option<String>,
    /// When that may be over.
    #[schemars(with = "Option<String>")]
    pub retry_at: Option<Timestamp>,
}

/// What became of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SendOutcome {
    /// A turn was begun with it.
    Launched,
    /// It waits for the next turn.
    Queued,
}

/// The answer of `fleet recover --set-aside`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RunSetAside {
    /// Version of this shape.
    pub schema: u32,
    /// The run.
    pub run: RunId,
    /// Where all that is left of it is now; moved back, it is the run again.
    #[schemars(with = "String")]
    pub directory: Utf8PathBuf,
}

/// The answer of `fleet stop`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FleetStopped {
    /// Version of this shape.
    pub schema: u32,
    /// Whether no worker that was meant has a process any more. The exit status is 1 otherwise.
    pub confirmed: bool,
    /// The runs, with their workers.
    pub runs: Vec<StoppedRun>,
    /// Commands to type next.
    pub next: Vec<String>,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StoppedRun {
    /// The run.
    pub run: RunId,
    /// Its checkout; where its records are, when those could not be read.
    #[schemars(with = "String")]
    pub repository: Utf8PathBuf,
    /// Where it stands; unknown when it could not be read.
    pub state: Option<String>,
    /// The workers that were meant.
    pub workers: Vec<StoppedWorker>,
    /// Why the run was left alone.
    pub error: Option<String>,
}

/// One worker.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StoppedWorker {
    /// Its name.
    pub name: WorkerId,
    /// What came of it.
    pub outcome: StopOutcome,
    /// Where it stands; unknown when its record cannot be read.
    pub state: Option<String>,
    /// Why it may still run.
    pub why: Option<String>,
    /// The command to type next.
    pub next: Option<String>,
}

/// What came of stopping a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopOutcome {
    /// It has no process and does not go on by itself.
    Stopped,
    /// Its launch had not begun, and never will.
    Revoked,
    /// It had no process and nothing to go on with.
    Idle,
    /// Its end was not seen: it keeps its place.
    StopFailed,
    /// Its record cannot be read, so nothing was signalled.
    Refused,
}

impl StopOutcome {
    /// Whether it certainly has no process any more.
    pub fn is_confirmed(self) -> bool {
        match self {
            Self::Stopped | Self::Revoked | Self::Idle => true,
            Self::StopFailed | Self::Refused => false,
        }
    }
}

impl FleetStopped {
    /// Of these runs.
    pub fn of(runs: Vec<StoppedRun>) -> Self {
        let workers = || runs.iter().flat_map(|run| &run.workers);
        let confirmed = runs.iter().all(|run| run.error.is_none())
            && workers().all(|worker| worker.outcome.is_confirmed());
        let next = workers().filter_map(|worker| worker.next.clone()).collect();
        Self {
            schema: 1,
            confirmed,
            runs,
            next,
        }
    }
}
