//! One idempotent step of a run: bring the records up to date, then start whatever can be started.
//!
//! `fleet run` is a loop around it, `fleet launch --ready` does it once, and any number of commands may do it at once:
//! each holds the run's lock for as long as it decides, and hosts are started after it is given back.

use jiff::{SignedDuration, Timestamp};

use super::begin;
use super::board::Board;
pub use super::engage::{launch_author, launch_reviewer};
use super::files::RunFiles;
use super::launch::begin::Host;
use super::locate::Place;
use super::model::{
    Accept, Assignment, Going, OnFailure, PlannedStep, Run, RunState, StepState, Worker,
    WorkerState,
};
use super::plan::graph;
use super::prompt::Templates;
use super::reconcile::reconcile;
use super::review;
use super::send;
use super::settings::Settings;
use super::settle;
use super::start::{Ready, Turn};
use super::stop::STOP_RUN;
use super::verify::{reviewer_of, worker_of};
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::id::fleet::{StepId, WorkerId};

/// What may be done besides bringing the records up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aim {
    /// Nothing new.
    Settle,
    /// Launch what is ready, continue what was cut short, check and review where the program accepts.
    Advance,
}

/// What one step of the loop did.
#[derive(Debug, Default)]
pub struct Ticked {
    /// Workers whose host was started, with the host.
    pub launched: Vec<(WorkerId, Host)>,
    /// What could not be launched, and why.
    pub refused: Vec<(StepId, Error)>,
    /// When something that is waited for is over.
    pub wake: Option<Timestamp>,
    /// Where the run stands now.
    pub state: Option<RunState>,
}

/// Does one step of a run.
pub fn tick(
    context: &Context,
    files: &RunFiles,
    settings: &Settings,
    templates: &Templates,
    aim: Aim,
) -> Result<Ticked> {
    let mut ticked = Ticked::default();
    let mut board = settled(context, files)?;
    if aim == Aim::Settle || is_over(&board) {
        ticked.state = Some(close(context, &mut board)?);
        return Ok(ticked);
    }
    if board.run.options.accept == Accept::Program {
        review::conclude(context, &mut board)?;
        board = review::check_reported(context, files, board)?;
    }
    promote(&mut board)?;
    let mut ready = Vec::new();
    // Two runs of a checkout must not begin to work at once, so launches are decided under the checkout's lock.
    let mut alone = None;
    if is_due(&board, context.clock.now())? {
        let place = Place::of_run(context, &board);
        drop(board);
        alone = Some(begin::alone(context, &place.key)?);
        match begin::refuse_others(context, &place, &files.id) {
            // Each launch is refused for it.
            Err(error) if error.code != code::RUN_ACTIVE => return Err(error),
            Err(_) | Ok(()) => {}
        }
        board = settled(context, files)?;
        start_due(
            context,
            &mut board,
            settings,
            templates,
            &mut ready,
            &mut ticked,
        )?;
    }
    ticked.state = Some(close(context, &mut board)?);
    drop(board);
    drop(alone);
    for launch in ready {
        match launch.go(context) {
            Ok(host) => ticked.launched.push((launch.worker, host)),
            Err(error) => ticked
                .refused
                .push((launch.worker.as_str().parse()?, error)),
        }
    }
    Ok(ticked)
}

/// Brings a run's records up to date and starts nothing: whoever only watches needs no settings for it. The run as it is
/// then, let go.
pub fn settle(context: &Context, files: &RunFiles) -> Result<Board> {
    let mut board = settled(context, files)?;
    close(context, &mut board)?;
    Ok(board.let_go())
}

fn settled(context: &Context, files: &RunFiles) -> Result<Board> {
    let mut board = Board::hold(context, files)?;
    reconcile(context, &mut board)?;
    // A lead sees at once what a review came to; what the program accepts, it accepts as it advances.
    if board.run.options.accept == Accept::Lead && !is_over(&board) {
        review::conclude(context, &mut board)?;
    }
    promote(&mut board)?;
    Ok(board)
}

/// Whether nothing of a run is launched any more: it has ended, or is being stopped as a whole.
pub fn is_over(board: &Board) -> bool {
    board.run.state.is_final() || board.ledger.has(STOP_RUN)
}

/// Brings the steps and the state of a held, reconciled run up to date.
pub fn settle_run(context: &Context, board: &mut Board) -> Result<RunState> {
    promote(board)?;
    close(context, board)
}

/// Makes steps ready whose needs are verified, and skips those whose needs will never be.
pub fn promote(board: &mut Board) -> Result<()> {
    let Some(plan) = board.plan.clone() else {
        return Ok(());
    };
    for step in graph::order(&plan) {
        let progress = board.progress_of(&step.id);
        let states: Vec<StepState> = step
            .needs
            .iter()
            .map(|need| board.progress_of(need).state)
            .collect();
        let lost = states.iter().any(|state| {
            matches!(
                state,
                StepState::Failed | StepState::Skipped | StepState::Dropped
            )
        });
        let next = match progress.state {
            StepState::Pending if lost => StepState::Skipped,
            StepState::Pending if states.iter().all(|state| *state == StepState::Verified) => {
                StepState::Ready
            }
            // A need that failed was tried again.
            StepState::Skipped if !lost => StepState::Pending,
            other @ (StepState::Pending
            | StepState::Ready
            | StepState::Running
            | StepState::Reported
            | StepState::Checking
            | StepState::Verified
            | StepState::Failed
            | StepState::Blocked
            | StepState::ChangesRequested
            | StepState::Dropped
            | StepState::Skipped) => other,
        };
        if next != progress.state {
            let mut progress = progress;
            progress.state = next;
            progress.reason = None;
            board.save_progress(&step.id, progress)?;
        }
    }
    Ok(())
}

/// Whether anything could be launched.
fn is_due(board: &Board, now: Timestamp) -> Result<bool> {
    for step in board.plan.iter().flat_map(|plan| &plan.steps) {
        let reviewer = board.workers.get(&reviewer_of(&step.id)?);
        let told = reviewer.is_some_and(|worker| !worker.queue.is_empty());
        if told || next_of(board, step, now)?.is_some() || review::is_wanted(board, step) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What a step's author would do next: which turn, as what, and with how many of the texts that wait for it.
pub fn next_of(
    board: &Board,
    step: &PlannedStep,
    now: Timestamp,
) -> Result<Option<(Turn, Assignment, usize)>> {
    let progress = board.progress_of(&step.id);
    let name = worker_of(&step.id)?;
    let Some(worker) = board.workers.get(&name) else {
        let ready = progress.state == StepState::Ready && !board.damaged.contains_key(&name);
        return Ok(ready.then(|| (Turn::New, step.assignment.clone(), 0)));
    };
    if worker.state.holds_slot() {
        return Ok(None);
    }
    let queued = worker.queue.len();
    if queued > 0
        && worker.session.is_some()
        && worker.state == WorkerState::Parked
        && !progress.state.is_final()
    {
        return Ok(Some(if waits_long(board, worker, now) {
            (Turn::New, step.assignment.clone(), queued)
        } else {
            (Turn::Next, worker.assignment.clone(), queued)
        }));
    }
    Ok(match worker.state {
        WorkerState::Limited => Some(going_on(board, step, worker, now)),
        WorkerState::Exited if progress.state == StepState::Ready => {
            let assignment = if waits_long(board, worker, now) {
                alternative(step, worker).unwrap_or_else(|| worker.assignment.clone())
            } else {
                step.assignment.clone()
            };
            Some((Turn::New, assignment, queued))
        }
        WorkerState::Parked
        | WorkerState::Exited
        | WorkerState::Launching
        | WorkerState::Running
        | WorkerState::StartBlocked
        | WorkerState::Unknown
        | WorkerState::Stopping
        | WorkerState::StopFailed => None,
    })
}

/// Whether a worker waits longer than one that could go on elsewhere should: for a limit, not for a free place.
fn waits_long(board: &Board, worker: &Worker, now: Timestamp) -> bool {
    let options = &board.run.options;
    let most = match options.going {
        Going::Sticky => {
            let seconds = i64::try_from(options.sticky_max_seconds).unwrap_or(i64::MAX);
            SignedDuration::from_secs(seconds)
        }
        Going::Fresh => {
            SignedDuration::try_from(settle::CAPACITY_PAUSE).unwrap_or(SignedDuration::MAX)
        }
    };
    worker
        .held_until
        .is_some_and(|until| until.duration_since(now) > most)
}

/// How work goes on after a limit: the same conversation when its reset is near, else a new one elsewhere.
fn going_on(
    board: &Board,
    step: &PlannedStep,
    worker: &Worker,
    now: Timestamp,
) -> (Turn, Assignment, usize) {
    let sticky = board.run.options.going == Going::Sticky
        && worker.session.is_some()
        && !waits_long(board, worker, now);
    if sticky {
        (Turn::Next, worker.assignment.clone(), worker.queue.len())
    } else {
        (Turn::New, step.assignment.clone(), worker.queue.len())
    }
}

/// The next of the tier's alternatives after what the worker was started as; `None` after the last.
fn alternative(step: &PlannedStep, worker: &Worker) -> Option<Assignment> {
    let mut all = std::iter::once(&step.assignment).chain(&step.alternatives);
    all.by_ref()
        .find(|assignment| **assignment == worker.assignment)?;
    all.next().cloned()
}

fn start_due(
    context: &Context,
    board: &mut Board,
    settings: &Settings,
    templates: &Templates,
    ready: &mut Vec<Ready>,
    ticked: &mut Ticked,
) -> Result<()> {
    let plan = board.plan()?.clone();
    let now = context.clock.now();
    let failed = plan
        .steps
        .iter()
        .any(|step| board.progress_of(&step.id).state == StepState::Failed);
    if failed && board.run.options.on_failure == OnFailure::Stop {
        return Ok(());
    }
    for step in graph::order(&plan) {
        if let Err(error) = start_step(context, board, settings, templates, step, now, ready) {
            if error.code == code::INTERNAL {
                return Err(error);
            }
            if error.code == code::REVIEW_MISSING {
                // Nobody of the tier may review it: a person decides.
                review::block(context, board, step, error.code.name)?;
            }
            if let Some(at) = error.retry_at {
                ticked.wake = Some(ticked.wake.map_or(at, |wake| wake.min(at)));
            }
            ticked.refused.push((step.id.clone(), error));
        }
    }
    Ok(())
}

fn start_step(
    context: &Context,
    board: &mut Board,
    settings: &Settings,
    templates: &Templates,
    step: &PlannedStep,
    now: Timestamp,
    ready: &mut Vec<Ready>,
) -> Result<()> {
    if let Some((turn, assignment, taken)) = next_of(board, step, now)? {
        ready.push(launch_author(
            context, board, settings, templates, step, turn, assignment, taken,
        )?);
    } else if let Some(turn) =
        send::launch_queued(context, board, settings, templates, &reviewer_of(&step.id)?)?
    {
        ready.push(turn);
    } else if review::is_wanted(board, step) {
        ready.push(launch_reviewer(context, board, settings, templates, step)?);
    }
    Ok(())
}

/// Draws the run's state from its steps and writes it down; a final one with its result, once.
fn close(context: &Context, board: &mut Board) -> Result<RunState> {
    if board.run.state.is_final() {
        return Ok(board.run.state);
    }
    let (state, reason) = match state_of(board) {
        // Stopped as a whole, and nobody may still run.
        (state, _) if board.ledger.has(STOP_RUN) && !state.is_final() => {
            if board.active().next().is_some() {
                (state, Some("stopping".to_owned()))
            } else {
                (RunState::Stopped, Some("stopped".to_owned()))
            }
        }
        drawn => drawn,
    };
    let now = context.clock.now();
    if state.is_final() {
        let word = state.word();
        // A run that went on after its end ends anew.
        let id = match board.times(begin::REOPENED) {
            0 => format!("run.{word}"),
            times => format!("run.{word}.{times}"),
        };
        board.tell(
            context,
            id,
            "done",
            board.run.id.clone().as_str(),
            Some(word),
        )?;
        super::result::write(board, state, now)?;
    }
    let run = Run {
        state,
        reason,
        ended: state.is_final().then_some(now),
        ..board.run.clone()
    };
    board.save_run(run)?;
    Ok(state)
}

/// Where a run stands, by its steps and workers.
pub fn state_of(board: &Board) -> (RunState, Option<String>) {
    let Some(plan) = &board.plan else {
        return (RunState::Draft, None);
    };
    let states: Vec<StepState> = plan
        .steps
        .iter()
        .map(|step| board.progress_of(&step.id).state)
        .collect();
    let launched = !board.workers.is_empty() || !board.damaged.is_empty();
    let active = board.active().next().is_some();
    let has = |wanted: StepState| states.contains(&wanted);
    let failed = has(StepState::Failed);
    // With a failure that stops the run, what was not begun will not begin.
    let stops = failed && board.run.options.on_failure == OnFailure::Stop;
    let moves = states.iter().any(|state| match state {
        StepState::Ready => !stops,
        StepState::Running
        | StepState::Reported
        | StepState::Checking
        | StepState::ChangesRequested => true,
        // One that is pending moves only after another one did.
        StepState::Pending
        | StepState::Verified
        | StepState::Failed
        | StepState::Dropped
        | StepState::Skipped
        | StepState::Blocked => false,
    });
    if active || moves {
        let state = if launched {
            RunState::Running
        } else {
            RunState::Planned
        };
        return (state, None);
    }
    if has(StepState::Blocked) {
        return (RunState::Blocked, Some("question_open".to_owned()));
    }
    if failed {
        return (RunState::Failed, Some("step_failed".to_owned()));
    }
    (RunState::Done, None)
}
