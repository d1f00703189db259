//! Answers of the verbs by which a lead plans, launches, judges and merges.

use std::collections::BTreeMap;

use camino::Utf8PathBuf;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::HoldStatus;
use crate::contract::doctor::{Check, Counts};
use crate::id::fleet::{RunId, StepId, WorkerId};
use crate::id::{PoolId, ProfileId, ProviderKind};

/// The answer of `fleet plan --dry-run`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PlanForecast {
    /// Version of this shape.
    pub schema: u32,
    /// Always true: nothing was written and nothing leased.
    pub dry_run: bool,
    /// Every step, in the order in which they are launched.
    pub steps: Vec<StepForecast>,
}

/// What would become of one step now.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StepForecast {
    /// Its name.
    pub id: StepId,
    /// Longest chain of needs before it; steps of one wave could run at once.
    pub wave: u32,
    /// `heavy`, `standard` or `light`.
    pub tier: String,
    /// Its provider.
    pub provider: ProviderKind,
    /// Its pool.
    pub pool: PoolId,
    /// Its model; the CLI's default when absent.
    pub model: Option<String>,
    /// Its effort; the CLI's default when absent.
    pub effort: Option<String>,
    /// The model's family, when it is known.
    pub family: Option<String>,
    /// Steps that it needs.
    pub needs: Vec<StepId>,
    /// Files that it owns.
    #[schemars(with = "Vec<String>")]
    pub files: Vec<Utf8PathBuf>,
    /// Whether it has a worktree of its own.
    pub worktree: bool,
    /// Steps that it shares files with and so does not run beside.
    pub beside: Vec<StepId>,
    /// Who would review it; `null` when nobody has to.
    pub reviewer: Option<ReviewerForecast>,
    /// What the broker would give it now.
    pub account: AccountForecast,
}

/// Who would review a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReviewerForecast {
    /// Which service.
    pub provider: ProviderKind,
    /// Its model; the CLI's default when absent.
    pub model: Option<String>,
    /// The model's family.
    pub family: Option<String>,
}

/// What the broker would give a step now.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AccountForecast {
    /// The account; `null` when none is free.
    pub profile: Option<ProfileId>,
    /// Least remaining percent of it.
    pub headroom_percent: Option<f64>,
    /// How long it would wait for one; `null` when no time alone helps, or nobody knows.
    pub wait_seconds: Option<u64>,
    /// Why none is free.
    pub code: Option<String>,
    /// The same in a sentence.
    pub why: Option<String>,
    /// When one may be.
    #[schemars(with = "Option<String>")]
    pub retry_at: Option<Timestamp>,
}

/// The answer of `fleet prompt`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PreparedPrompt {
    /// Version of this shape.
    pub schema: u32,
    /// The run.
    pub run: RunId,
    /// The step.
    pub step: StepId,
    /// Where its prompt is kept.
    #[schemars(with = "String")]
    pub path: Utf8PathBuf,
    /// Whether something is left for the lead to write: such a prompt is not launched.
    pub open: bool,
}

/// The answer of `fleet launch`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LaunchRows {
    /// Version of this shape.
    pub schema: u32,
    /// The run.
    pub run: RunId,
    /// One row per worker that was launched or could have been; none when nothing is ready.
    pub rows: Vec<LaunchRow>,
}

/// What became of one launch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LaunchRow {
    /// `launched` or `skipped`.
    pub outcome: String,
    /// The step.
    pub step: StepId,
    /// The worker that was launched.
    pub worker: Option<WorkerId>,
    /// Number of its launch.
    pub launch: Option<u32>,
    /// Why it was skipped.
    pub code: Option<String>,
    /// The same in a sentence.
    pub why: Option<String>,
    /// When trying again may work.
    #[schemars(with = "Option<String>")]
    pub retry_at: Option<Timestamp>,
}

/// The answer of `fleet check`, which is refused when something changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TreeCheck {
    /// Version of this shape.
    pub schema: u32,
    /// The run.
    pub run: RunId,
    /// How many repositories were compared: the checkout and its submodules.
    pub repositories: u32,
    /// Always false.
    pub changed: bool,
    /// Whether they count as they are from now on, because somebody said so.
    pub accepted: bool,
}

/// The answer of `fleet diff`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StepDiff {
    /// Version of this shape.
    pub schema: u32,
    /// The run.
    pub run: RunId,
    /// The step.
    pub step: StepId,
    /// What the diff is known by, 64 hex digits; an acceptance is bound to it.
    pub digest: String,
    /// The files that changed.
    pub files: Vec<String>,
    /// The diff; `null` when it was written to a file.
    pub text: Option<String>,
    /// That file.
    #[schemars(with = "Option<String>")]
    pub output: Option<Utf8PathBuf>,
}

/// The answer of `fleet merge`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StepMerged {
    /// Version of this shape.
    pub schema: u32,
    /// The run.
    pub run: RunId,
    /// The step.
    pub step: StepId,
    /// `merged`, `already` or `nothing`.
    pub outcome: String,
    /// The files that changed in the checkout or on the branch.
    pub files: Vec<String>,
    /// The branch that was asked for.
    pub branch: Option<String>,
    /// Where the step worked.
    #[schemars(with = "String")]
    pub worktree: Utf8PathBuf,
    /// Whether that is gone.
    pub worktree_removed: bool,
}

/// The answer of `fleet hold` and `fleet release`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct HoldChanged {
    /// Version of this shape.
    pub schema: u32,
    /// Whether it is in force now.
    pub held: bool,
    /// Which one.
    pub hold: HoldStatus,
}

/// The answer of `fleet providers`: the settings as they hold in this checkout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FleetSettings {
    /// Version of this shape.
    pub schema: u32,
    /// Most workers with a process at once.
    pub max_parallel: u32,
    /// Which steps are reviewed.
    pub review: String,
    /// Who accepts.
    pub accept: String,
    /// What a failure means for the rest.
    pub on_failure: String,
    /// Most launches of a step that count as attempts.
    pub max_attempts: u32,
    /// How work goes on after a limit.
    pub r#continue: String,
    /// Longest wait for a reset that keeps the conversation, in seconds.
    pub sticky_max_seconds: u64,
    /// Which providers may be used.
    pub routing: String,
    /// Order of providers for a tier that lists none.
    pub prefer: Vec<ProviderKind>,
    /// What every tier comes to here, in order of preference; `problem` says why one is of no use.
    pub tiers: BTreeMap<String, TierSettings>,
    /// Every provider.
    pub providers: Vec<FleetProvider>,
    /// The program of an event with its arguments; empty for none.
    pub on_event: Vec<String>,
}

/// What a tier comes to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TierSettings {
    /// Workers of it, in order of preference.
    pub workers: Vec<TierWorker>,
    /// Why there is none.
    pub problem: Option<String>,
}

/// One kind of worker of a tier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TierWorker {
    /// Which service.
    pub provider: ProviderKind,
    /// Its pool.
    pub pool: PoolId,
    /// Its model; the CLI's default when absent.
    pub model: Option<String>,
    /// Its effort; the CLI's default when absent.
    pub effort: Option<String>,
    /// The model's family, when it is known.
    pub family: Option<String>,
}

/// What holds for every worker of a provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FleetProvider {
    /// Which service.
    pub provider: ProviderKind,
    /// Who made its models; `null` when that differs or is not known.
    pub family: Option<String>,
    /// Who made which of its models.
    pub model_families: BTreeMap<String, String>,
    /// Most workers of it at once.
    pub max: u32,
    /// Its pool, where one is named.
    pub pool: Option<PoolId>,
    /// Permission arguments of workers that change something.
    pub implementation_permissions: Vec<String>,
    /// Permission arguments of workers that only read.
    pub review_permissions: Vec<String>,
}

/// The answer of `fleet doctor`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FleetDoctor {
    /// Version of this shape.
    pub schema: u32,
    /// True when no check failed.
    pub healthy: bool,
    /// How many of each.
    pub counts: Counts,
    /// The command to type next.
    pub next: Option<String>,
    /// Every check.
    pub checks: Vec<Check>,
}

/// The answer of `fleet skill install`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SkillsInstalled {
    /// Version of this shape.
    pub schema: u32,
    /// One row per place.
    pub skills: Vec<SkillInstalled>,
}

/// One page that was written, or was there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SkillInstalled {
    /// Whose CLI reads it; `null` for a directory that was named.
    pub provider: Option<ProviderKind>,
    /// Where.
    #[schemars(with = "String")]
    pub path: Utf8PathBuf,
    /// `written`, `replaced` or `unchanged`.
    pub outcome: String,
}
