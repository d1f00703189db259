//! What may be changed of a plan that runs: steps added, a step dropped, a step's later launches steered. Pure.
//!
//! What was launched is never rewritten: a change concerns what is still to come.

use std::collections::BTreeMap;

use super::compile::{self, Ground};
use super::graph;
use super::text::PlanText;
use crate::error::{Code, Refusal, Result, code};
use crate::fleet::model::{Options, Plan, PlannedStep, StepProgress, StepState};
use crate::fleet::scope::path::Case;
use crate::fleet::settings::permission;
use crate::fleet::settings::route::{self, Facts, Routing, Wish};
use crate::id::ProviderKind;
use crate::id::fleet::StepId;

/// How far each step is; one without an entry is pending.
pub type Progress = BTreeMap<StepId, StepProgress>;

/// Why a plan stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// There is no such step.
    #[error("the run has no step `{0}`")]
    NoStep(StepId),
    /// How a run is run is frozen.
    #[error("steps are added to a run as it is: leave out `{0}`, which was settled when it began")]
    Settled(&'static str),
    /// A new step would write what another is not done with.
    #[error(
        "step `{step}` writes `{file}`, which `{other}` is not verified with: add `{other}` to its `needs`"
    )]
    Overlap {
        /// The new one.
        step: StepId,
        /// Whose file it is.
        other: StepId,
        /// The file.
        file: String,
    },
    /// A new step would wait for ever.
    #[error("step `{step}` needs `{need}`, which is {state}")]
    NeverVerified {
        /// The new one.
        step: StepId,
        /// What it waits for.
        need: StepId,
        /// How that ended.
        state: StepState,
    },
    /// It is at work, or over.
    #[error("step `{step}` is {state}, and is not dropped")]
    Standing {
        /// Which.
        step: StepId,
        /// Where it stands.
        state: StepState,
    },
    /// Another step waits for it.
    #[error("step `{other}` needs `{step}`: drop `{other}` first")]
    Needed {
        /// Which.
        step: StepId,
        /// Who waits.
        other: StepId,
    },
    /// There is no later launch.
    #[error("step `{step}` is {state}, so nothing of it is launched any more")]
    Over {
        /// Which.
        step: StepId,
        /// How it ended.
        state: StepState,
    },
}

impl Refusal for Refused {
    fn code(&self) -> Code {
        match self {
            Self::NoStep(_) => code::NOT_FOUND,
            Self::Settled(_)
            | Self::Overlap { .. }
            | Self::NeverVerified { .. }
            | Self::Standing { .. }
            | Self::Needed { .. }
            | Self::Over { .. } => code::PLAN_INVALID,
        }
    }

    fn hint(&self) -> Option<String> {
        Some("agent-fleet fleet status".to_owned())
    }
}

fn state(progress: &Progress, step: &StepId) -> StepState {
    progress
        .get(step)
        .map_or(StepState::Pending, |step| step.state)
}

/// The plan with the steps of a plan file at its end.
pub fn add(
    plan: &Plan,
    progress: &Progress,
    more: &PlanText,
    run: (&Options, &Routing),
    ground: Ground<'_>,
) -> Result<Plan> {
    if let Some(key) = more.choices().first_said() {
        return Err(Refused::Settled(key).into());
    }
    if more.steps.is_empty() {
        return Err(compile::Refused::Empty.into());
    }
    let added = compile::steps(&more.steps, run.0, run.1, ground)?;
    let from = plan.steps.len();
    let mut grown = plan.clone();
    grown.steps.extend(added);
    grown.decisions.extend(more.decisions.iter().cloned());
    compile::check(&grown)?;
    for step in grown.steps.iter().skip(from) {
        for need in &step.needs {
            let state = state(progress, need);
            if state.is_final() && state != StepState::Verified {
                return Err(Refused::NeverVerified {
                    step: step.id.clone(),
                    need: need.clone(),
                    state,
                }
                .into());
            }
        }
        overlaps(plan, progress, (&grown, step), ground.case)?;
    }
    Ok(grown)
}

/// A file belongs to its step until that is verified or dropped, failed ones included.
fn overlaps(
    plan: &Plan,
    progress: &Progress,
    (grown, step): (&Plan, &PlannedStep),
    case: Case,
) -> Result<(), Refused> {
    let before = graph::before(grown, step);
    for other in &plan.steps {
        let over = matches!(
            state(progress, &other.id),
            StepState::Verified | StepState::Dropped | StepState::Skipped
        );
        if over || before.contains(&other.id) {
            continue;
        }
        if let Some(file) = graph::overlap(&step.files, &other.files, case) {
            return Err(Refused::Overlap {
                step: step.id.clone(),
                other: other.id.clone(),
                file: file.to_string(),
            });
        }
    }
    Ok(())
}

/// What becomes of a step that is taken out: one that was never launched, or that nobody works on any more. Whether a
/// process of it lives is the caller's to know.
pub fn drop(plan: &Plan, progress: &Progress, id: &StepId, why: &str) -> Result<StepProgress> {
    let step = plan.step(id).ok_or_else(|| Refused::NoStep(id.clone()))?;
    let standing = progress.get(id).cloned().unwrap_or_default();
    let given_up = match standing.state {
        StepState::Pending
        | StepState::Ready
        | StepState::Reported
        | StepState::Checking
        | StepState::Failed
        | StepState::Blocked
        | StepState::ChangesRequested => true,
        StepState::Running | StepState::Verified | StepState::Dropped | StepState::Skipped => false,
    };
    if !given_up {
        return Err(Refused::Standing {
            step: id.clone(),
            state: standing.state,
        }
        .into());
    }
    let waits = |other: &&PlannedStep| {
        other.needs.contains(&step.id) && !state(progress, &other.id).is_final()
    };
    if let Some(other) = plan.steps.iter().find(waits) {
        return Err(Refused::Needed {
            step: id.clone(),
            other: other.id.clone(),
        }
        .into());
    }
    Ok(StepProgress {
        state: StepState::Dropped,
        reason: Some(why.to_owned()),
        ..standing
    })
}

/// What a step's later launches are to use; nothing of it means what the settings say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steer {
    /// This provider and no other.
    pub provider: Option<ProviderKind>,
    /// This model and no other.
    pub model: Option<String>,
    /// This effort.
    pub effort: Option<String>,
    /// Who made the model.
    pub family: Option<String>,
}

/// The plan with another assignment for the later launches of a step; its reviewers cross every family that worked
/// on it and the new one.
pub fn steer(
    plan: &Plan,
    progress: &Progress,
    id: &StepId,
    to: Steer,
    routing: &Routing,
    ground: Ground<'_>,
) -> Result<Plan> {
    let mut steered = plan.clone();
    let step = steered
        .steps
        .iter_mut()
        .find(|step| step.id == *id)
        .ok_or_else(|| Refused::NoStep(id.clone()))?;
    let standing = progress.get(id).cloned().unwrap_or_default();
    if standing.state.is_final() {
        return Err(Refused::Over {
            step: id.clone(),
            state: standing.state,
        }
        .into());
    }
    let facts = Facts {
        settings: ground.settings,
        routing,
        pools: ground.pools,
    };
    let wish = Wish {
        step: id.clone(),
        tier: step.tier,
        role: permission::role(step.kind),
        provider: to.provider,
        model: to.model,
        effort: to.effort,
        family: to.family,
    };
    (step.assignment, step.alternatives) = route::assign(facts, &wish)?;
    if step.review_required {
        let mut authors: Vec<Option<String>> =
            standing.author_families.into_iter().map(Some).collect();
        authors.push(step.assignment.family.clone());
        authors.sort();
        authors.dedup();
        step.reviewers = route::reviewers(facts, id, &authors)?;
    }
    Ok(steered)
}
