//! `result.json`: how a run ended, written once.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::board::Board;
use super::model::{RunState, SCHEMA, StepState};
use super::record;
use crate::error::Result;
use crate::id::fleet::{RunId, StepId};

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunResult {
    /// Format.
    pub schema: u32,
    /// Which.
    pub run: RunId,
    /// `done`, `failed` or `stopped`.
    pub state: RunState,
    /// When.
    #[schemars(with = "String")]
    pub ended: Timestamp,
    /// Every step.
    pub steps: Vec<StepResult>,
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepResult {
    /// Which.
    pub id: StepId,
    /// How.
    pub state: StepState,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Digest of the accepted diff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

/// Writes the result of a run, unless it is there.
pub fn write(board: &Board, state: RunState, ended: Timestamp) -> Result<()> {
    let steps = board.plan.iter().flat_map(|plan| &plan.steps).map(|step| {
        let progress = board.progress_of(&step.id);
        StepResult {
            id: step.id.clone(),
            state: progress.state,
            reason: progress.reason,
            diff: progress.accepted_diff,
        }
    });
    let result = RunResult {
        schema: SCHEMA,
        run: board.run.id.clone(),
        state,
        ended,
        steps: steps.collect(),
    };
    record::create(&board.files.result(), &result).map(drop)
}
