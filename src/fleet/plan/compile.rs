//! What a person asked for → the frozen plan. Pure.

use std::collections::BTreeSet;

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};

use super::graph::{self, Broken};
use super::text::{PlanText, StepText};
use crate::error::{Code, Error, Refusal, Result, code};
use crate::fleet::model::{
    Acceptance, Mode, Options, Plan, PlannedStep, ReviewMode, SCHEMA, StepKind, Tier,
};
use crate::fleet::scope::path::Case;
use crate::fleet::settings::Settings;
use crate::fleet::settings::permission;
use crate::fleet::settings::pools::Pools;
use crate::fleet::settings::route::{self, Facts, Routing, Wish};
use crate::id::fleet::{NAME_LENGTH, StepId};

/// Most steps of a plan.
pub const MOST_STEPS: usize = 500;
/// Longest text of a step, in bytes.
pub const LONGEST_TEXT: usize = 256 << 10;
/// What a reviewer's name has after that of its step.
pub const REVIEW_SUFFIX: &str = "-review";

/// What a plan is compiled against.
#[derive(Clone, Copy)]
pub struct Ground<'a> {
    /// What holds here.
    pub settings: &'a Settings,
    /// Where the accounts are.
    pub pools: &'a Pools,
    /// Whether a step may own a file of the checkout, and its path: `scope::place::check`.
    pub file: &'a dyn Fn(&str) -> Result<Utf8PathBuf>,
    /// Whether names of the checkout that differ in case alone are one name: `scope::place::case`.
    pub case: Case,
}

impl std::fmt::Debug for Ground<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Ground").finish_non_exhaustive()
    }
}

/// A plan, and how it is to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// What is frozen.
    pub plan: Plan,
    /// How it is run: the plan's word over the settings'.
    pub options: Options,
    /// What it may use; for steps that are added later.
    pub routing: Routing,
}

/// Why a plan cannot be run as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Nothing to do.
    #[error("the plan has no step: begin one with `[[step]]`")]
    Empty,
    /// Too much at once.
    #[error("the plan has {0} steps, and at most {MOST_STEPS} are taken")]
    TooMany(usize),
    /// The graph is broken.
    #[error(transparent)]
    Graph(#[from] Broken),
    /// What one step says does not fit together.
    #[error("step `{step}`: {problem}")]
    Step {
        /// Which step.
        step: StepId,
        /// What is wrong, with the key.
        problem: String,
    },
}

impl Refusal for Refused {
    fn code(&self) -> Code {
        code::PLAN_INVALID
    }

    fn hint(&self) -> Option<String> {
        Some("agent-fleet fleet plan --help".to_owned())
    }
}

/// The frozen plan of a plan file whose tickets have been read.
pub fn compile(text: &PlanText, ground: Ground<'_>) -> Result<Compiled> {
    let choices = text.choices();
    let options = choices.options(&ground.settings.options);
    let routing = choices
        .routing
        .unwrap_or_else(|| ground.settings.routing.clone());
    if text.steps.is_empty() {
        return Err(Refused::Empty.into());
    }
    let steps = steps(&text.steps, &options, &routing, ground)?;
    let plan = Plan {
        schema: SCHEMA,
        steps,
        decisions: text.decisions.clone(),
    };
    check(&plan)?;
    Ok(Compiled {
        plan,
        options,
        routing,
    })
}

/// Steps as the plan keeps them; the graph is not checked yet.
pub(super) fn steps(
    texts: &[StepText],
    options: &Options,
    routing: &Routing,
    ground: Ground<'_>,
) -> Result<Vec<PlannedStep>> {
    texts
        .iter()
        .map(|text| step(text, options, routing, ground))
        .collect()
}

/// Checks what only the whole plan can show.
pub(super) fn check(plan: &Plan) -> Result<(), Refused> {
    if plan.steps.len() > MOST_STEPS {
        return Err(Refused::TooMany(plan.steps.len()));
    }
    let steps: Vec<(&StepId, &[StepId])> = plan
        .steps
        .iter()
        .map(|step| (&step.id, step.needs.as_slice()))
        .collect();
    graph::check(&steps)?;
    // A lead may have any step reviewed.
    for step in &plan.steps {
        let reviewer = format!("{}{REVIEW_SUFFIX}", step.id);
        let taken = plan.steps.iter().any(|other| other.id.as_str() == reviewer);
        if taken || reviewer.len() > NAME_LENGTH {
            return Err(Refused::Step {
                step: step.id.clone(),
                problem: format!(
                    "its reviewer is called `{reviewer}`, which is {}: give another `id`",
                    if taken { "another step" } else { "too long" }
                ),
            });
        }
    }
    Ok(())
}

fn step(
    text: &StepText,
    options: &Options,
    routing: &Routing,
    ground: Ground<'_>,
) -> Result<PlannedStep> {
    let refuse = |problem: &str| Refused::Step {
        step: text.id.clone(),
        problem: problem.to_owned(),
    };
    let work = match (&text.text, &text.ticket) {
        (Some(work), None) => work,
        (Some(_), Some(_)) => return Err(refuse("`text` and `ticket` exclude each other").into()),
        (None, _) => return Err(refuse("the work is missing: say it in `text` or `ticket`").into()),
    };
    if work.trim().is_empty() {
        return Err(refuse("`text` says nothing").into());
    }
    let long = |text: &String| text.len() > LONGEST_TEXT;
    if long(work) || text.context.as_ref().is_some_and(long) {
        let problem = format!(
            "`text` and `context` may have {} KiB each",
            LONGEST_TEXT >> 10
        );
        return Err(refuse(&problem).into());
    }
    let kind = text.kind.unwrap_or(StepKind::Change);
    let owned: BTreeSet<Utf8PathBuf> = text
        .files
        .iter()
        .map(|file| (ground.file)(file).map_err(|error| within(&text.id, error)))
        .collect::<Result<_>>()?;
    match (kind, owned.is_empty(), text.worktree) {
        (StepKind::Investigate, true, false)
        | (StepKind::Change, false, false)
        | (StepKind::Change, true, true) => {}
        (StepKind::Investigate, ..) => {
            let problem = "`kind = \"investigate\"` only reads: leave out `files` and `worktree`";
            return Err(refuse(problem).into());
        }
        (StepKind::Change, false, true) => {
            return Err(refuse("`files` and `worktree` exclude each other").into());
        }
        (StepKind::Change, true, false) => {
            let problem = "say where it may write: list its `files`, or set `worktree = true`, or `kind = \"investigate\"`";
            return Err(refuse(problem).into());
        }
    }
    let tier = text.tier.unwrap_or(Tier::Standard);
    if tier == Tier::Review {
        return Err(
            refuse("`tier = \"review\"` is for reviewers: use heavy, standard or light").into(),
        );
    }
    let accept = text.accept.acceptance();
    acceptable(&accept).map_err(|problem| refuse(&problem))?;
    let facts = Facts {
        settings: ground.settings,
        routing,
        pools: ground.pools,
    };
    let name = |name: &Option<super::text::NameText>| name.as_ref().map(|name| name.0.clone());
    let wish = Wish {
        step: text.id.clone(),
        tier,
        role: permission::role(kind),
        provider: text.provider,
        model: name(&text.model),
        effort: name(&text.effort),
        family: name(&text.family),
    };
    let (assignment, alternatives) = route::assign(facts, &wish)?;
    let review_required = kind == StepKind::Change
        && text.review.unwrap_or(match options.review {
            ReviewMode::Off => false,
            ReviewMode::CrossHeavy => tier == Tier::Heavy,
            ReviewMode::CrossAll => true,
        });
    if text.review == Some(true) && kind == StepKind::Investigate {
        return Err(refuse("`review = true` has nothing to review: it changes nothing").into());
    }
    let reviewers = if review_required {
        route::reviewers(facts, &text.id, std::slice::from_ref(&assignment.family))?
    } else {
        Vec::new()
    };
    let mut needs = text.needs.clone();
    needs.sort();
    needs.dedup();
    Ok(PlannedStep {
        id: text.id.clone(),
        kind,
        text: work.clone(),
        context: text
            .context
            .clone()
            .filter(|context| !context.trim().is_empty()),
        needs,
        files: owned.into_iter().collect(),
        worktree: text.worktree,
        tier,
        mode: text.mode.unwrap_or(Mode::Headless),
        assignment,
        alternatives,
        reviewers,
        accept,
        review_required,
    })
}

/// The refusal of a file, with the step whose it is.
fn within(step: &StepId, error: Error) -> Error {
    Error {
        code: code::PLAN_INVALID,
        message: format!("step `{step}`: `files`: {}", error.message),
        ..error
    }
}

fn acceptable(accept: &Acceptance) -> Result<(), String> {
    for artifact in &accept.artifacts {
        if !is_below(&artifact.path) {
            return Err(format!(
                "`accept.artifacts` takes paths below the workspace, not `{}`",
                artifact.path
            ));
        }
    }
    if accept
        .commands
        .iter()
        .any(|command| command.trim().is_empty() || command.contains('\0'))
    {
        return Err("`accept.commands` holds an empty command".to_owned());
    }
    Ok(())
}

/// Whether a path names something below where it starts.
fn is_below(path: &Utf8Path) -> bool {
    !path.as_str().is_empty()
        && !path.as_str().chars().any(char::is_control)
        && path
            .components()
            .all(|part| matches!(part, Utf8Component::Normal(_)))
}
