//! What a run is made of: the types of its durable records. Pure.
//!
//! Every record is JSON with a `schema` of [`SCHEMA`]; another number is refused, never upgraded in place.
//! Unknown fields are ignored, so that a field can be added.

use std::collections::BTreeSet;

use camino::Utf8PathBuf;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use super::state::{
    Accept, Going, Mode, OnFailure, ReviewMode, Role, RunState, StepKind, StepState, Tier,
    WorkerState,
};
use crate::id::fleet::{RunId, StepId, WorkerId};
use crate::id::{PoolId, ProfileId, ProviderKind, Task};

/// Format of every record below.
pub const SCHEMA: u32 = 1;

/// How a run is to be run; frozen when it begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// Most workers with a process at once.
    pub max_parallel: u32,
    /// Which steps are reviewed.
    pub review: ReviewMode,
    /// Who accepts.
    pub accept: Accept,
    /// What a failure means for the rest.
    pub on_failure: OnFailure,
    /// Most launches of a step that count as attempts.
    pub max_attempts: u32,
    /// How work goes on after a limit.
    pub going: Going,
    /// Longest wait for a reset that keeps the conversation, in seconds.
    pub sticky_max_seconds: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_parallel: 6,
            review: ReviewMode::Off,
            accept: Accept::Lead,
            on_failure: OnFailure::Stop,
            max_attempts: 2,
            going: Going::Fresh,
            sticky_max_seconds: 20 * 60,
        }
    }
}

/// What a worker is started as: resolved from the settings when the plan is made, frozen in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// Which provider.
    pub provider: ProviderKind,
    /// The pool that the broker chooses from.
    pub pool: PoolId,
    /// Model, as the provider's CLI calls it; its default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Effort, as the provider's CLI calls it; its default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// Model family; reviews must cross it. Unknown when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    /// Permission arguments for the provider's CLI.
    #[serde(default)]
    pub permissions: Vec<String>,
}

/// What the program itself checks before a step counts as done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acceptance {
    /// Files that must be there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
    /// Shell commands that must end with status 0, run in the step's workspace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
}

/// A file that must be there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Artifact {
    /// Relative to the step's workspace.
    pub path: Utf8PathBuf,
    /// Fewest characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_chars: Option<u64>,
    /// Texts that it must contain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contains: Vec<String>,
}

/// A step as planned; frozen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedStep {
    /// Its name.
    pub id: StepId,
    /// What it may do.
    pub kind: StepKind,
    /// The work, in words.
    pub text: String,
    /// More for its prompt: what the lead wants it to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// Steps that must be verified first.
    #[serde(default)]
    pub needs: Vec<StepId>,
    /// Files that it owns, relative to the checkout, sorted; empty with a worktree and for `investigate`.
    #[serde(default)]
    pub files: Vec<Utf8PathBuf>,
    /// Whether it works in a git worktree of its own.
    #[serde(default)]
    pub worktree: bool,
    /// How hard it is.
    pub tier: Tier,
    /// How its worker talks.
    pub mode: Mode,
    /// What its worker is started as.
    pub assignment: Assignment,
    /// Others that may continue it after a limit, in order; only the tier's own list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<Assignment>,
    /// What its reviewer may be started as, in order of preference.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reviewers: Vec<Assignment>,
    /// What the program checks.
    #[serde(default)]
    pub accept: Acceptance,
    /// Whether another family must have reviewed it.
    #[serde(default)]
    pub review_required: bool,
}

/// `plan.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Format.
    pub schema: u32,
    /// The steps, in the order of the plan file.
    pub steps: Vec<PlannedStep>,
    /// What the lead decided beforehand, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<String>,
}

impl Plan {
    /// The step of a name.
    pub fn step(&self, id: &StepId) -> Option<&PlannedStep> {
        self.steps.iter().find(|step| step.id == *id)
    }
}

/// How far a step is: one entry of `steps.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepProgress {
    /// Where it stands.
    pub state: StepState,
    /// Why, in one word; `None` when the state says it all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Tokens of the launches that counted as attempts.
    #[serde(default)]
    pub attempts: BTreeSet<String>,
    /// Families of every model that worked on it.
    #[serde(default)]
    pub author_families: Vec<String>,
    /// Digest of the scoped diff that was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_diff: Option<String>,
}

impl Default for StepProgress {
    fn default() -> Self {
        Self {
            state: StepState::Pending,
            reason: None,
            attempts: BTreeSet::new(),
            author_families: Vec::new(),
            accepted_diff: None,
        }
    }
}

/// `workers/<w>.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worker {
    /// Format.
    pub schema: u32,
    /// Its name.
    pub name: WorkerId,
    /// What it is there for.
    pub role: Role,
    /// The step that it works on or judges.
    pub step: StepId,
    /// Its task at the broker, the same for every launch.
    pub task: Task,
    /// What it was last started as.
    pub assignment: Assignment,
    /// How it talks.
    pub mode: Mode,
    /// Where it stands.
    pub state: WorkerState,
    /// Why, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Number of its current launch, from 1.
    pub launch: u32,
    /// What marks everything of that launch; everything else is stale.
    pub token: String,
    /// The provider's conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The account of the last launch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<ProfileId>,
    /// When going on may work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_until: Option<Timestamp>,
    /// Digest of the diff that a reviewer judges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reviewed_diff: Option<String>,
    /// Texts for its next turns, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queue: Vec<String>,
    /// Texts that the current launch took from the queue; they go back when nothing of it ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taken: Vec<String>,
}

/// `run.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Format.
    pub schema: u32,
    /// Its name.
    pub id: RunId,
    /// Canonical root of its checkout.
    pub repository: Utf8PathBuf,
    /// How it is run.
    pub options: Options,
    /// Which providers it may use, as a settings file writes it; what the settings say when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing: Option<String>,
    /// Where it stands.
    pub state: RunState,
    /// Why, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// SHA-256 (64 hex) of `plan.json`; `None` while it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// When it began.
    pub created: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::Options;

    #[test]
    fn options_are_read_back() {
        let options = serde_json::to_string(&Options::default()).unwrap();
        let read: Options = serde_json::from_str(&options).unwrap();
        assert_eq!(read, Options::default());
    }
}
