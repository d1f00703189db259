//! Launching a step's author or its reviewer: what it is told, and then the launch.
//!
//! Whatever can be refused is refused before anything is made, so that a refused launch leaves nothing behind.

use super::begin;
use super::board::Board;
use super::compose;
use super::files::RunFiles;
use super::locate::Place;
use super::model::{Assignment, PlannedStep, Role, StepState};
use super::prompt::{self, Templates};
use super::reconcile::reconcile;
use super::review;
use super::settings::Settings;
use super::settings::pools::Pools;
use super::settings::route::{self, Facts};
use super::start::{self, Order, Ready, Turn};
use super::tick::{next_of, promote};
use super::verify::{self, reviewer_of, worker_of};
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::id::fleet::{StepId, WorkerId};

/// What a lead launched by name.
#[derive(Debug)]
pub struct Launched {
    /// The worker.
    pub worker: WorkerId,
    /// Number of the launch.
    pub number: u32,
}

/// Launches a step's author or reviewer because a lead asks for it; a step that failed or is blocked is tried again.
pub fn launch(
    context: &Context,
    files: &RunFiles,
    settings: &Settings,
    templates: &Templates,
    id: &StepId,
    role: Role,
) -> Result<Launched> {
    start::refuse_inside(context)?;
    let place = Place::of_run(context, &Board::look(files)?);
    let alone = begin::alone(context, &place.key)?;
    begin::refuse_others(context, &place, &files.id)?;
    let mut board = Board::hold(context, files)?;
    reconcile(context, &mut board)?;
    promote(&mut board)?;
    let step = board.step(id)?.clone();
    let ready = match role {
        Role::Implementation => {
            let (turn, assignment, taken) = asked(context, &board, settings, &step)?;
            if board.run.state.is_final() {
                // Everything that may be refused comes before the end is taken back.
                let name = worker_of(&step.id)?;
                start::fits(
                    context,
                    &board,
                    settings,
                    &step,
                    &name,
                    role,
                    &assignment,
                    &turn,
                )?;
                let text = told(context, &board, templates, &step, &turn, taken)?;
                prompt::finished(&text, &board.files.prompt(&name))?;
                begin::reopen(context, &mut board)?;
            }
            launch_author(
                context, &mut board, settings, templates, &step, turn, assignment, taken,
            )?
        }
        Role::Review => {
            reviewable(&board, &step)?;
            let step = with_reviewers(context, &board, settings, step)?;
            if board.run.state.is_final() {
                let name = reviewer_of(&step.id)?;
                let assignment = review::reviewer(&board, &step, context.clock.now())?;
                start::fits(
                    context,
                    &board,
                    settings,
                    &step,
                    &name,
                    role,
                    &assignment,
                    &Turn::New,
                )?;
                begin::reopen(context, &mut board)?;
            }
            launch_reviewer(context, &mut board, settings, templates, &step)?
        }
    };
    // What waits for a step that had failed can be had again.
    promote(&mut board)?;
    let number = board.worker(&ready.worker)?.launch;
    drop(board);
    drop(alone);
    ready.go(context)?.settle_in(context)?;
    Ok(Launched {
        worker: ready.worker,
        number,
    })
}

/// What the step's author is launched for.
fn asked(
    context: &Context,
    board: &Board,
    settings: &Settings,
    step: &PlannedStep,
) -> Result<(Turn, Assignment, usize)> {
    if let Some(next) = next_of(board, step, context.clock.now())? {
        return Ok(next);
    }
    let name = worker_of(&step.id)?;
    let role = Role::Implementation;
    start::fits(
        context,
        board,
        settings,
        step,
        &name,
        role,
        &step.assignment,
        &Turn::New,
    )?;
    let state = board.progress_of(&step.id).state;
    if matches!(state, StepState::Failed | StepState::Blocked) {
        return Ok((Turn::New, step.assignment.clone(), 0));
    }
    let message = format!(
        "the step `{}` is {state}, so there is nothing to launch",
        step.id
    );
    let hint = match state {
        StepState::Reported => format!("agent-fleet fleet verify {} --evidence FILE", step.id),
        StepState::Pending
        | StepState::Ready
        | StepState::Running
        | StepState::Checking
        | StepState::Verified
        | StepState::Failed
        | StepState::Blocked
        | StepState::ChangesRequested
        | StepState::Dropped
        | StepState::Skipped => "agent-fleet fleet status".to_owned(),
    };
    Err(Error::new(code::STEP_NOT_READY, message).hint(hint))
}

/// The step with those who may review it: what the plan settled, else what the settings say now, since a lead may have
/// any step reviewed.
fn with_reviewers(
    context: &Context,
    board: &Board,
    settings: &Settings,
    step: PlannedStep,
) -> Result<PlannedStep> {
    if !step.reviewers.is_empty() {
        return Ok(step);
    }
    let settings = begin::settings_of(settings, &board.run);
    let pools = Pools::of(&crate::snapshot::registry::load(context)?);
    let facts = Facts {
        settings: &settings,
        routing: &settings.routing,
        pools: &pools,
    };
    let authors = board.progress_of(&step.id).author_families;
    let authors = if authors.is_empty() {
        vec![step.assignment.family.clone()]
    } else {
        authors.into_iter().map(Some).collect()
    };
    Ok(PlannedStep {
        reviewers: route::reviewers(facts, &step.id, &authors)?,
        ..step
    })
}

/// Refuses a review of what nobody handed back.
fn reviewable(board: &Board, step: &PlannedStep) -> Result<()> {
    let state = board.progress_of(&step.id).state;
    if matches!(
        state,
        StepState::Reported | StepState::Checking | StepState::Blocked | StepState::Failed
    ) && board.workers.contains_key(&worker_of(&step.id)?)
    {
        return Ok(());
    }
    let message = format!(
        "the step `{}` is {state}, so there is nothing to review",
        step.id
    );
    Err(Error::new(code::STEP_NOT_READY, message).hint("agent-fleet fleet status"))
}

/// Launches a step's author.
#[expect(
    clippy::too_many_arguments,
    reason = "the run, its surroundings, and what is to be launched"
)]
pub fn launch_author(
    context: &Context,
    board: &mut Board,
    settings: &Settings,
    templates: &Templates,
    step: &PlannedStep,
    turn: Turn,
    assignment: Assignment,
    taken: usize,
) -> Result<Ready> {
    let name = worker_of(&step.id)?;
    start::admit(
        context,
        board,
        settings,
        step,
        &name,
        Role::Implementation,
        &assignment,
        &turn,
    )?;
    let text = told(context, board, templates, step, &turn, taken)?;
    prompt::finished(&text, &board.files.prompt(&name))?;
    review::make_workspace(context, board, step)?;
    let order = Order {
        worker: name,
        role: Role::Implementation,
        assignment,
        turn,
        prompt: text,
        reviewed_diff: None,
        taken,
    };
    start::prepare(context, board, step, order)
}

/// What a step's author is told in this turn, with the first `taken` texts that wait for it.
fn told(
    context: &Context,
    board: &Board,
    templates: &Templates,
    step: &PlannedStep,
    turn: &Turn,
    taken: usize,
) -> Result<String> {
    let name = worker_of(&step.id)?;
    let queue = board
        .workers
        .get(&name)
        .map_or_else(Vec::new, |worker| worker.queue.clone());
    let texts: Vec<String> = queue.into_iter().take(taken).collect();
    Ok(match (turn, taken) {
        (Turn::Next | Turn::Taken, 0) => compose::CONTINUE.to_owned(),
        (Turn::Next | Turn::Taken, _) => compose::next(context, board, step, &name, &texts),
        (Turn::New, 0) => compose::author(context, board, templates, step)?,
        (Turn::New, _) => {
            let first = compose::author(context, board, templates, step)?;
            let next = compose::next(context, board, step, &name, &texts);
            format!(
                "{}\n\n# What is asked of you now\n\n{next}",
                first.trim_end()
            )
        }
    })
}

/// Launches a reviewer of a step as it is now.
pub fn launch_reviewer(
    context: &Context,
    board: &mut Board,
    settings: &Settings,
    templates: &Templates,
    step: &PlannedStep,
) -> Result<Ready> {
    let name = reviewer_of(&step.id)?;
    let assignment = review::reviewer(board, step, context.clock.now())?;
    start::admit(
        context,
        board,
        settings,
        step,
        &name,
        Role::Review,
        &assignment,
        &Turn::New,
    )?;
    let diff = verify::diff(context, board, step)?;
    let text = compose::reviewer(context, board, templates, step, &name, &diff)?;
    prompt::finished(&text, &board.files.prompt(&name))?;
    let order = Order {
        worker: name,
        role: Role::Review,
        assignment,
        turn: Turn::New,
        prompt: text,
        reviewed_diff: Some(diff.digest),
        taken: 0,
    };
    start::prepare(context, board, step, order)
}
