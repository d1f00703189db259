//! Runs of the fleet as callers see them. States are words; new ones may be added.

pub mod lead;
pub mod steering;
pub mod watch;

use camino::Utf8PathBuf;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::id::fleet::{RunId, StepId, WorkerId};
use crate::id::{PoolId, ProfileId, ProviderKind};

/// The answer of `fleet status`, and of every command that changes a run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RunStatus {
    /// Version of this shape.
    pub schema: u32,
    /// The run.
    pub run: RunId,
    /// Its checkout.
    #[schemars(with = "String")]
    pub repository: Utf8PathBuf,
    /// `draft`, `planned`, `running`, `paused`, `blocked`, `done`, `failed` or `stopped`.
    pub state: String,
    /// Why, in one word.
    pub reason: Option<String>,
    /// When it began.
    #[schemars(with = "String")]
    pub created: Timestamp,
    /// When it ended.
    #[schemars(with = "Option<String>")]
    pub ended: Option<Timestamp>,
    /// `lead` or `program`.
    pub accept: String,
    /// Workers that have or may have a process.
    pub active: u32,
    /// The most there may be: the number that is enforced.
    pub max_parallel: u32,
    /// Every step, in the plan's order.
    pub steps: Vec<StepStatus>,
    /// Every worker, by name.
    pub workers: Vec<WorkerStatus>,
    /// What holds launches of this run now.
    pub holds: Vec<HoldStatus>,
    /// What could not be read, so that nothing is concluded from it.
    pub not_read: Vec<NotRead>,
    /// Commands to type next.
    pub next: Vec<String>,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StepStatus {
    /// Its name.
    pub id: StepId,
    /// `pending`, `ready`, `running`, `reported`, `checking`, `verified`, `failed`, `blocked`, `changes_requested`,
    /// `dropped` or `skipped`.
    pub state: String,
    /// Why, in one word.
    pub reason: Option<String>,
    /// `heavy`, `standard` or `light`.
    pub tier: String,
    /// Its provider.
    pub provider: ProviderKind,
    /// Its pool.
    pub pool: PoolId,
    /// Its model; the CLI's default when absent.
    pub model: Option<String>,
    /// Steps that it needs.
    pub needs: Vec<StepId>,
    /// Files that it owns.
    #[schemars(with = "Vec<String>")]
    pub files: Vec<Utf8PathBuf>,
    /// Whether it has a worktree of its own.
    pub worktree: bool,
    /// Launches that counted as attempts.
    pub attempts: u32,
    /// Whether another family must review it.
    pub review_required: bool,
}

/// One worker.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WorkerStatus {
    /// Its name.
    pub name: WorkerId,
    /// `implementation` or `review`.
    pub role: String,
    /// Its step.
    pub step: StepId,
    /// `launching`, `running`, `parked`, `limited`, `start_blocked`, `exited`, `unknown`, `stopping` or `stop_failed`.
    pub state: String,
    /// Why, in one word.
    pub reason: Option<String>,
    /// Its task at the broker.
    pub task: String,
    /// Number of its current launch.
    pub launch: u32,
    /// Its provider.
    pub provider: ProviderKind,
    /// Its model.
    pub model: Option<String>,
    /// The account of its last launch.
    pub profile: Option<ProfileId>,
    /// The provider's conversation.
    pub session: Option<String>,
    /// When going on may work.
    #[schemars(with = "Option<String>")]
    pub held_until: Option<Timestamp>,
    /// What its report says of itself, its status or a reviewer's verdict: `-` without one, `no status line` without
    /// either.
    pub report: String,
    /// Age of the report in seconds.
    pub report_age_seconds: Option<u64>,
    /// Texts that wait for its next turn.
    pub queued: u32,
}

/// One hold.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct HoldStatus {
    /// `host`, `repository`, `run` or `step`.
    pub scope: String,
    /// Which step, for that scope.
    pub step: Option<StepId>,
    /// Why.
    pub reason: Option<String>,
    /// Since when.
    #[schemars(with = "String")]
    pub since: Timestamp,
    /// Until when.
    #[schemars(with = "Option<String>")]
    pub expires: Option<Timestamp>,
}

/// Something that could not be read.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct NotRead {
    /// What: a worker's name, `ledger`, …
    pub what: String,
    /// Why not.
    pub why: String,
    /// The command to type next.
    pub next: Option<String>,
}
