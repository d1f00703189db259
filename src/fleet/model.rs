//! What a run is made of: the durable records' types and the states they go through. Pure.
//!
//! Every record is JSON with a `schema` of [`SCHEMA`]; another number is refused, never upgraded in place.
//! Unknown fields are ignored, so that a field can be added.

use camino::Utf8PathBuf;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::fleet::{RunId, StepId, WorkerId};
use crate::id::{PoolId, ProfileId, ProviderKind, Task};

/// Format of every record below.
pub const SCHEMA: u32 = 1;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum $name { $($(#[$variant_doc])* #[serde(rename = $word)] $variant,)+ }

        impl $name {
            /// Every one of them, in order.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The word in files and answers.
            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl std::str::FromStr for $name {
            type Err = ();
            fn from_str(text: &str) -> Result<Self, ()> {
                match text { $($word => Ok(Self::$variant),)+ _ => Err(()) }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.pad(self.word())
            }
        }
    };
}

words! {
    /// What a worker is there for.
    Role {
        /// It changes the step's files.
        Implementation = "implementation",
        /// It judges another worker's changes and changes nothing.
        Review = "review",
    }
}

words! {
    /// How hard a step is: what a tier of the settings is called by.
    Tier {
        /// Needs the strongest model.
        Heavy = "heavy",
        /// Ordinary work.
        Standard = "standard",
        /// Small work.
        Light = "light",
        /// Judging the work of others.
        Review = "review",
    }
}

words! {
    /// What a step may do.
    StepKind {
        /// It changes the files it names, or its own worktree.
        Change = "change",
        /// It only reads, owns no files and answers.
        Investigate = "investigate",
    }
}

words! {
    /// How a worker talks.
    Mode {
        /// One process per turn, output to a file.
        Headless = "headless",
        /// The provider's own screen, on a terminal that the host owns.
        Terminal = "terminal",
    }
}

words! {
    /// Which steps another model family has to review.
    ReviewMode {
        /// None.
        Off = "off",
        /// Those of tier heavy.
        CrossHeavy = "cross-heavy",
        /// Every one that changes something.
        CrossAll = "cross-all",
    }
}

words! {
    /// Who says that a step is done.
    Accept {
        /// The lead, by `fleet verify` with evidence.
        Lead = "lead",
        /// The program, by the step's own artifacts and commands.
        Program = "program",
    }
}

words! {
    /// What a failed step means for the rest.
    OnFailure {
        /// Nothing new is launched.
        Stop = "stop",
        /// What does not need it goes on.
        Continue = "continue",
    }
}

words! {
    /// How work goes on after a usage limit.
    Going {
        /// A new conversation on another account, with a handoff.
        Fresh = "fresh",
        /// The same conversation, when its account's reset is near.
        Sticky = "sticky",
    }
}

words! {
    /// Where a worker stands.
    WorkerState {
        /// A launch was written down and no process of it is known yet.
        Launching = "launching",
        /// Its process lives.
        Running = "running",
        /// Its turn ended well; no process, no lease.
        Parked = "parked",
        /// A usage limit ended its turn; `held_until` says when it is over.
        Limited = "limited",
        /// Alive, but no session began: a trust, login or update screen.
        StartBlocked = "start_blocked",
        /// Its turn failed, or it was stopped.
        Exited = "exited",
        /// Whether it runs cannot be told; it keeps its slot.
        Unknown = "unknown",
        /// It was asked to end.
        Stopping = "stopping",
        /// It was asked to end and did not; it keeps its slot.
        StopFailed = "stop_failed",
    }
}

impl WorkerState {
    /// Whether a process of it lives or may live, so that its files and its place are taken.
    pub fn holds_slot(self) -> bool {
        match self {
            Self::Launching
            | Self::Running
            | Self::StartBlocked
            | Self::Stopping
            | Self::StopFailed
            | Self::Unknown => true,
            Self::Parked | Self::Limited | Self::Exited => false,
        }
    }
}

words! {
    /// Where a step stands.
    StepState {
        /// Something it needs is not verified yet.
        Pending = "pending",
        /// It could be launched.
        Ready = "ready",
        /// Its worker works, or waits to go on.
        Running = "running",
        /// Its worker handed back.
        Reported = "reported",
        /// Its acceptance or its review is under way.
        Checking = "checking",
        /// Accepted; what needs it may begin.
        Verified = "verified",
        /// Given up after its attempts.
        Failed = "failed",
        /// A question is open that a person or a lead has to answer.
        Blocked = "blocked",
        /// The review wants something changed.
        ChangesRequested = "changes_requested",
        /// Taken out of the plan.
        Dropped = "dropped",
        /// What it needs failed.
        Skipped = "skipped",
    }
}

impl StepState {
    /// Whether nothing more happens to it by itself.
    pub fn is_final(self) -> bool {
        matches!(
            self,
            Self::Verified | Self::Failed | Self::Dropped | Self::Skipped
        )
    }
}

words! {
    /// Where a run stands.
    RunState {
        /// Begun, without a plan.
        Draft = "draft",
        /// Planned, nothing launched.
        Planned = "planned",
        /// Something was launched.
        Running = "running",
        /// Held.
        Paused = "paused",
        /// Nothing can go on until a question is answered.
        Blocked = "blocked",
        /// Every step is verified, or dropped.
        Done = "done",
        /// Some step failed, and nothing can go on.
        Failed = "failed",
        /// A person stopped it.
        Stopped = "stopped",
    }
}

impl RunState {
    /// Whether `result.json` says how it ended.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Stopped)
    }
}

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
    /// Launches that counted.
    #[serde(default)]
    pub attempts: u32,
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
            attempts: 0,
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
    use super::{Options, RunState, StepState, WorkerState};

    #[test]
    fn what_may_still_run_keeps_its_slot() {
        let free: Vec<&str> = WorkerState::ALL
            .iter()
            .filter(|state| !state.holds_slot())
            .map(|state| state.word())
            .collect();
        assert_eq!(free, ["parked", "limited", "exited"]);
    }

    #[test]
    fn words_are_read_back() {
        for state in StepState::ALL {
            assert_eq!(state.word().parse(), Ok(*state));
            let json = serde_json::to_value(state).unwrap();
            assert_eq!(json, state.word());
        }
        assert_eq!("gone".parse::<RunState>(), Err(()));
        let options = serde_json::to_string(&Options::default()).unwrap();
        assert_eq!(
            serde_json::from_str::<Options>(&options).unwrap(),
            Options::default()
        );
    }
}
