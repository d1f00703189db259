//! The lead's words to a worker: kept for its next turn, which begins as soon as it may.
//!
//! A text is durable before anything else happens; from then on whoever looks at the run delivers it: this command, the
//! host at the end of the worker's turn, or any step of the loop. The same text sent twice in a row waits once, so a
//! command that was cut short can be given again.

use std::time::Duration;

use super::begin;
use super::board::{Board, Entry};
use super::compose;
use super::ending::{self, Came, Manner};
use super::files::RunFiles;
use super::launch::LaunchRecord;
use super::ledger::Kind;
use super::locate::Place;
use super::model::{Mode, PlannedStep, Role, RunState, StepState, Worker, WorkerState};
use super::prompt::{self, Templates};
use super::reconcile::{interrupt_id, reconcile};
use super::record;
use super::settings::Settings;
use super::start::{self, Order, Ready, Turn};
use super::tick::{self, launch_author};
use crate::contract::fleet::steering::{SendOutcome, Sent};
use crate::crash_point;
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::id::fleet::WorkerId;
use crate::sys::tend::Signal;

/// How long an interrupted turn may take to end.
const INTERRUPT_PATIENCE: Duration = Duration::from_secs(10);

/// What is to be told, and when.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// To whom.
    pub worker: &'a WorkerId,
    /// What.
    pub text: &'a str,
    /// When.
    pub when: When,
}

/// When a text is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// After the turn that runs.
    Next,
    /// The turn that runs is interrupted.
    Now,
}

/// Sends a text to a worker.
///
/// Refused with `not_found`, `run_over`, `step_not_ready` (its step is over), `worker_active` (it is being stopped), or
/// `usage` (no text).
pub fn send(
    context: &Context,
    files: &RunFiles,
    settings: &Settings,
    templates: &Templates,
    message: Message<'_>,
    note: &mut dyn FnMut(&str),
) -> Result<Sent> {
    start::refuse_inside(context)?;
    let name = message.worker;
    let mut board = Board::hold(context, files)?;
    reconcile(context, &mut board)?;
    queue(context, &mut board, name, message.text)?;
    crash_point!("send.queued");
    let mut waits: Option<Error> = None;
    if message.when == When::Now && board.worker(name)?.state.holds_slot() {
        let worker = intend(context, &mut board, name)?;
        drop(board);
        waits = interrupt(context, files, &worker, note)?;
    } else {
        drop(board);
    }
    let ready = match next_turn(context, files, settings, templates, name) {
        Ok(ready) => ready,
        Err(error) if error.code == code::INTERNAL => return Err(error),
        Err(error) => {
            waits = Some(error);
            None
        }
    };
    let outcome = match &ready {
        None => SendOutcome::Queued,
        Some(ready) => match ready
            .go(context)
            .and_then(|mut host| host.settle_in(context))
        {
            Ok(()) => SendOutcome::Launched,
            Err(error) => {
                // The text waits again, for whoever launches next.
                tick::settle(context, files)?;
                waits = Some(error);
                SendOutcome::Queued
            }
        },
    };
    let worker = Board::look(files)?.worker(name)?.clone();
    let waits_for = match (outcome, &waits) {
        (SendOutcome::Launched, _) => None,
        (SendOutcome::Queued, Some(error)) => Some(error.message.clone()),
        (SendOutcome::Queued, None) => Some(format!("`{name}` is {}", worker.state)),
    };
    let retry_at = waits.and_then(|error| error.retry_at).or(worker.held_until);
    Ok(Sent {
        schema: 1,
        run: files.id.clone(),
        worker: name.clone(),
        outcome,
        state: worker.state.word().to_owned(),
        launch: worker.launch,
        queued: u32::try_from(worker.queue.len()).unwrap_or(u32::MAX),
        retry_at: retry_at.filter(|_| waits_for.is_some()),
        waits_for,
    })
}

/// Keeps a text for a worker's next turn, and lets a worker that had ended go on.
fn queue(context: &Context, board: &mut Board, name: &WorkerId, text: &str) -> Result<()> {
    if text.trim().is_empty() {
        let message = format!("there is no text for `{name}`");
        return Err(Error::new(code::USAGE, message).hint("agent-fleet fleet send --help"));
    }
    // One that failed goes on when it is told to; one that was stopped does not.
    if tick::is_over(board) && board.run.state != RunState::Failed {
        let run = &board.run.id;
        let message = format!("the run `{run}` has ended or is being stopped");
        return Err(Error::new(code::RUN_OVER, message).hint("agent-fleet fleet status"));
    }
    let mut worker = board.worker(name)?.clone();
    let mut progress = board.progress_of(&worker.step);
    if matches!(
        progress.state,
        StepState::Verified | StepState::Dropped | StepState::Skipped
    ) {
        let message = format!("the step `{}` is {}", worker.step, progress.state);
        return Err(Error::new(code::STEP_NOT_READY, message).hint("agent-fleet fleet status"));
    }
    if worker.state.is_ending() {
        let message = format!("the worker `{name}` is being stopped");
        let hint = format!("agent-fleet fleet stop {name}");
        return Err(Error::new(code::WORKER_ACTIVE, message).hint(hint));
    }
    begin::reopen(context, board)?;
    if worker.queue.last().map(String::as_str) != Some(text) {
        worker.queue.push(text.to_owned());
    }
    let idle = matches!(worker.state, WorkerState::Exited | WorkerState::Parked);
    if worker.state == WorkerState::Exited && worker.session.is_some() {
        worker.state = WorkerState::Parked;
        worker.reason = None;
        worker.held_until = None;
    }
    let state = match (worker.role, &worker.session) {
        (Role::Implementation, Some(_)) => StepState::Running,
        (Role::Implementation, None) => StepState::Ready,
        (Role::Review, _) => StepState::Checking,
    };
    board.save_worker(worker.clone())?;
    if idle {
        progress.state = state;
        progress.reason = (state == StepState::Checking).then(|| "review".to_owned());
        board.save_progress(&worker.step, progress)?;
    }
    let id = format!("send.{name}.{}", uuid::Uuid::new_v4().simple());
    let entry = Entry {
        id,
        kind: Kind::Done,
        verb: "send",
        target: name.as_str(),
        of: None,
        reason: None,
    };
    board.note(context, entry).map(drop)
}

/// Writes down that a worker's turn is to be interrupted.
pub fn intend(context: &Context, board: &mut Board, name: &WorkerId) -> Result<Worker> {
    let worker = board.worker(name)?.clone();
    board.note(
        context,
        Entry {
            id: interrupt_id(&worker),
            kind: Kind::Intent,
            verb: "interrupt",
            target: name.as_str(),
            of: None,
            reason: None,
        },
    )?;
    crash_point!("send.intended");
    Ok(worker)
}

/// Interrupts a worker's turn and waits for its end; says why it did not come.
pub fn interrupt(
    context: &Context,
    files: &RunFiles,
    worker: &Worker,
    note: &mut dyn FnMut(&str),
) -> Result<Option<Error>> {
    let launch = files.launch(&worker.name, worker.launch);
    let asked: Option<LaunchRecord> = record::load(&launch.launch())?;
    let manner = Manner {
        // A screen takes Ctrl-C from its keys alone; what ends it approves nothing, and the conversation goes on all the
        // same.
        signal: match asked.map(|asked| asked.mode) {
            Some(Mode::Terminal) => Signal::Terminate,
            Some(Mode::Headless) | None => Signal::Interrupt,
        },
        timeout: INTERRUPT_PATIENCE,
        kill: false,
    };
    let came = ending::end(context, vec![(worker.clone(), launch)], manner, note);
    crash_point!("send.interrupted");
    let name = &worker.name;
    let refused =
        |message: String, hint: String| Some(Error::new(code::WORKER_ACTIVE, message).hint(hint));
    Ok(match came.into_iter().next() {
        None | Some((_, Came::Over)) => None,
        Some((_, Came::Failed(error))) => return Err(error),
        Some((_, Came::Asked)) => refused(
            format!("the turn of `{name}` was interrupted and has not ended yet"),
            format!("agent-fleet fleet stop {name}"),
        ),
        Some((_, Came::Unseen)) => refused(
            format!("from here it cannot be told which process `{name}` is"),
            format!("agent-fleet fleet recover {name} --evidence FILE"),
        ),
    })
}

/// Prepares the turn that begins with a worker's queued texts; `None` when it has none, or cannot begin now.
///
/// Refused as its admission is.
pub fn launch_queued(
    context: &Context,
    board: &mut Board,
    settings: &Settings,
    templates: &Templates,
    name: &WorkerId,
) -> Result<Option<Ready>> {
    let Some(worker) = board.workers.get(name).cloned() else {
        return Ok(None);
    };
    let progress = board.progress_of(&worker.step);
    if worker.queue.is_empty() || progress.state.is_final() || tick::is_over(board) {
        return Ok(None);
    }
    let step = board.step(&worker.step)?.clone();
    let count = worker.queue.len();
    let turn = match (worker.state, worker.role, &worker.session, progress.state) {
        (WorkerState::Parked, Role::Implementation, Some(_), _) => Turn::Next,
        (WorkerState::Exited, Role::Implementation, _, StepState::Ready) => Turn::New,
        (WorkerState::Parked, Role::Review, Some(_), _) => {
            return ask_reviewer(context, board, settings, &step, &worker).map(Some);
        }
        _ => return Ok(None),
    };
    let assignment = match turn {
        Turn::Next | Turn::Taken => worker.assignment,
        Turn::New => step.assignment.clone(),
    };
    launch_author(
        context, board, settings, templates, &step, turn, assignment, count,
    )
    .map(Some)
}

/// The next turn of a reviewer, about the diff that it judged.
fn ask_reviewer(
    context: &Context,
    board: &mut Board,
    settings: &Settings,
    step: &PlannedStep,
    worker: &Worker,
) -> Result<Ready> {
    start::admit(
        context,
        board,
        settings,
        step,
        &worker.name,
        Role::Review,
        &worker.assignment,
        &Turn::Next,
    )?;
    let text = compose::next_review(&worker.queue);
    prompt::finished(&text, &board.files.prompt(&worker.name))?;
    let order = Order {
        worker: worker.name.clone(),
        role: Role::Review,
        assignment: worker.assignment.clone(),
        turn: Turn::Next,
        prompt: text,
        reviewed_diff: worker.reviewed_diff.clone(),
        taken: worker.queue.len(),
    };
    start::prepare(context, board, step, order)
}

/// After a worker's turn: begins the one that its queued texts ask for, if it may. What may not begin now is left to
/// the next step of the loop.
pub fn go_on(
    context: &Context,
    files: &RunFiles,
    settings: &Settings,
    templates: &Templates,
    name: &WorkerId,
) -> Result<()> {
    let queued = Board::look(files)?
        .workers
        .get(name)
        .is_some_and(|worker| !worker.queue.is_empty());
    if !queued {
        return Ok(());
    }
    match next_turn(context, files, settings, templates, name) {
        Ok(Some(ready)) => ready.go(context)?.settle_in(context),
        Err(error) if error.code == code::INTERNAL => Err(error),
        Ok(None) | Err(_) => Ok(()),
    }
}

/// Prepares the turn that a worker's queued texts ask for. Two runs of a checkout must not begin to work at once, so it
/// is decided under the checkout's lock.
fn next_turn(
    context: &Context,
    files: &RunFiles,
    settings: &Settings,
    templates: &Templates,
    name: &WorkerId,
) -> Result<Option<Ready>> {
    let place = Place::of_run(context, &Board::look(files)?);
    let _alone = begin::alone(context, &place.key)?;
    begin::refuse_others(context, &place, &files.id)?;
    let mut board = Board::hold(context, files)?;
    reconcile(context, &mut board)?;
    let ready = launch_queued(context, &mut board, settings, templates, name)?;
    tick::settle_run(context, &mut board)?;
    Ok(ready)
}
