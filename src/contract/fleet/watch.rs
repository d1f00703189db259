//! What is told of a run while it is watched: its wake events, its launches, its transcripts.

use camino::Utf8PathBuf;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::NotRead;
use crate::id::fleet::{RunId, StepId, WorkerId};
use crate::id::{ProfileId, ProviderKind};

/// The answer of `fleet wait`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Waited {
    /// Version of this shape.
    pub schema: u32,
    /// The run.
    pub run: RunId,
    /// Where the run stands.
    pub state: String,
    /// Whose cursor it is.
    pub consumer: WorkerId,
    /// Whether the time was up; also when nothing can come any more, because the run is over.
    pub timed_out: bool,
    /// What happened since the consumer's last wait, in order. Each is given once; in the moment between printing
    /// and remembering, a killed wait may give one again, with the same `id`.
    pub events: Vec<WakeEvent>,
    /// After a timeout: who is still waited for.
    pub pending: Vec<Pending>,
    /// What could not be read, so that nothing is concluded from it.
    pub not_read: Vec<NotRead>,
}

/// Something that happened in a run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WakeEvent {
    /// Unique in the run.
    pub id: String,
    /// When.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// `report`, `exited`, `limited`, `denied`, `blocked`, `unreachable` or `done`. With `--any-change` also `verified`,
    /// and what was intended and done: `launch`, `send`, `stop`, ….
    pub event: String,
    /// `event`; for what was intended and done `intent`, `done`, `failed` or `unknown`.
    pub kind: String,
    /// The worker, the step, or for `done` the run.
    pub target: String,
    /// Which launch of the worker, where it is one's.
    pub launch: Option<u32>,
    /// Why, in one word.
    pub reason: Option<String>,
    /// What the report says of itself: `no status line` without that. For `report` alone.
    pub status: Option<String>,
    /// The report. For `report` alone.
    #[schemars(with = "Option<String>")]
    pub path: Option<Utf8PathBuf>,
}

/// Somebody who is still waited for.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Pending {
    /// `worker`, or `step` for one that has no worker yet.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: String,
    /// Why, in one word; `held` for a step that may not be launched now.
    pub reason: Option<String>,
    /// When going on may work.
    #[schemars(with = "Option<String>")]
    pub held_until: Option<Timestamp>,
}

/// What the program of `on_event` reads from its standard input.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Notice {
    /// Version of this shape.
    pub schema: u32,
    /// The run.
    pub run: RunId,
    /// Its checkout.
    #[schemars(with = "String")]
    pub repository: Utf8PathBuf,
    /// What happened.
    pub event: WakeEvent,
}

/// The answer of `fleet list`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RunList {
    /// Version of this shape.
    pub schema: u32,
    /// The runs, the newest first.
    pub runs: Vec<RunRow>,
    /// Runs that could not be read.
    pub not_read: Vec<NotRead>,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RunRow {
    /// Its name.
    pub run: RunId,
    /// Its checkout.
    #[schemars(with = "String")]
    pub repository: Utf8PathBuf,
    /// Where it stands; see `fleet status`.
    pub state: String,
    /// Why, in one word.
    pub reason: Option<String>,
    /// When it began.
    #[schemars(with = "String")]
    pub created: Timestamp,
    /// When it ended.
    #[schemars(with = "Option<String>")]
    pub ended: Option<Timestamp>,
    /// Its steps.
    pub steps: u32,
    /// Those that are verified.
    pub verified: u32,
    /// Workers that have or may have a process.
    pub active: u32,
}

/// The answer of `fleet history`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct History {
    /// Version of this shape.
    pub schema: u32,
    /// The run.
    pub run: RunId,
    /// Its launches, in the order in which they were begun.
    pub launches: Vec<LaunchRow>,
    /// What could not be read.
    pub not_read: Vec<NotRead>,
}

/// One launch of a worker.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LaunchRow {
    /// Whose.
    pub worker: WorkerId,
    /// Its number, from 1.
    pub launch: u32,
    /// The provider; `None` where it cannot be told.
    pub provider: Option<ProviderKind>,
    /// The account; `None` when the broker gave none.
    pub profile: Option<ProfileId>,
    /// When it was begun.
    #[schemars(with = "String")]
    pub began: Timestamp,
    /// When its process ended, as its host saw it.
    #[schemars(with = "Option<String>")]
    pub ended: Option<Timestamp>,
    /// The exit status of its process.
    pub status: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// `open`, `done`, `limited` (by a usage limit), `failed` (nothing of it ran) or `unknown` (a person attested its end).
    pub outcome: String,
    /// Why, in one word.
    pub reason: Option<String>,
}

/// One line of `fleet logs`, `fleet attach` and `fleet peek`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LogLine {
    /// Whose.
    pub worker: WorkerId,
    /// Which launch.
    pub launch: u32,
    /// `began`, `line` or `ended`.
    pub what: String,
    /// The line as people see it: what the worker said is set in by two spaces, what a tool answered by four.
    pub text: String,
}

/// The answer of `fleet peek`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Peek {
    /// Version of this shape.
    pub schema: u32,
    /// Whose.
    pub worker: WorkerId,
    /// Its step.
    pub step: StepId,
    /// The current launch.
    pub launch: u32,
    /// Where the worker stands.
    pub state: String,
    /// `transcript`, or `screen` for a worker in terminal mode that runs now.
    pub source: String,
    /// The last lines of the launch's transcript, or of its screen.
    pub lines: Vec<String>,
}
