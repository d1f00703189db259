//! Stopping workers, and runs as a whole.
//!
//! That a worker is being stopped is durable before anything is signalled, so whatever ends the command, its end
//! counts as asked for and its step waits for a person. A launch that nobody claimed is revoked instead. What is not
//! confirmed keeps its place: a later look that sees the end frees it.

use std::time::Duration;

use super::board::{Board, Entry};
use super::ending::{self, Came, Manner};
use super::files::RunFiles;
use super::launch::revoke::revoke;
use super::ledger::Kind;
use super::model::{Role, StepState, Worker, WorkerState};
use super::reconcile::{reconcile, stop_id};
use super::tick;
use crate::contract::fleet::steering::{StopOutcome, StoppedRun, StoppedWorker};
use crate::crash_point;
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::id::fleet::WorkerId;
use crate::sys::tend::Signal;

/// Id of the ledger's intent to stop the run as a whole: nothing of it is launched from then on.
pub const STOP_RUN: &str = "stop.run";

/// How workers are stopped.
#[derive(Clone, Copy, Debug)]
pub struct Force {
    /// How long each may take after its signal.
    pub timeout: Duration,
    /// Whether the process group of one that does not end is killed.
    pub force: bool,
}

/// Which workers of a run.
#[derive(Clone, Copy, Debug)]
pub enum Which<'a> {
    /// These.
    Named(&'a [WorkerId]),
    /// All that have or may have a process, and the run goes on.
    Active,
    /// All, and the run is over.
    All,
}

/// Stops workers of a run. Each is processed, whatever becomes of the others.
///
/// Refused with `not_found`, before anything is done, when one of the names is no worker.
pub fn stop(
    context: &Context,
    files: &RunFiles,
    which: Which<'_>,
    manner: Force,
    note: &mut dyn FnMut(&str),
) -> Result<StoppedRun> {
    let mut board = Board::hold(context, files)?;
    let names: Vec<WorkerId> = match which {
        Which::Named(names) => {
            for name in names {
                if !board.damaged.contains_key(name) {
                    board.worker(name)?;
                }
            }
            names.to_vec()
        }
        Which::Active => board.active().cloned().collect(),
        Which::All => board
            .workers
            .keys()
            .chain(board.damaged.keys())
            .cloned()
            .collect(),
    };
    if matches!(which, Which::All) && !board.run.state.is_final() {
        let run = board.run.id.clone();
        board.note(
            context,
            Entry {
                id: STOP_RUN.to_owned(),
                kind: Kind::Intent,
                verb: "stop",
                target: run.as_str(),
                of: None,
                reason: None,
            },
        )?;
        crash_point!("stop.run");
    }
    reconcile(context, &mut board)?;
    let mut asked = Vec::new();
    let mut stopped = Vec::new();
    for name in &names {
        match ask(context, &mut board, name)? {
            Asked::Signal(worker) => {
                let launch = board.files.launch(&worker.name, worker.launch);
                asked.push((*worker, launch));
            }
            Asked::Settled(outcome) => stopped.push(told(&board, name, outcome, None)),
            Asked::Damaged(error) => {
                stopped.push(told(&board, name, StopOutcome::Refused, Some(error)));
            }
        }
    }
    tick::settle_run(context, &mut board)?;
    drop(board);
    let tokens: Vec<(WorkerId, String)> = asked
        .iter()
        .map(|(worker, _)| (worker.name.clone(), worker.token.clone()))
        .collect();
    let manner = Manner {
        signal: Signal::Terminate,
        timeout: manner.timeout,
        kill: manner.force,
    };
    let came = ending::end(context, asked, manner, note);
    crash_point!("stop.signalled");
    let mut board = Board::hold(context, files)?;
    reconcile(context, &mut board)?;
    for (name, came) in came {
        let token = tokens.iter().find(|(asked, _)| *asked == name);
        let still = board.workers.get(&name).is_some_and(|worker| {
            worker.state.holds_slot() && token.is_some_and(|(_, token)| *token == worker.token)
        });
        let row = if still {
            let error = unconfirmed(context, &mut board, &name, came)?;
            told(&board, &name, StopOutcome::StopFailed, Some(error))
        } else {
            told(&board, &name, StopOutcome::Stopped, None)
        };
        stopped.push(row);
    }
    tick::settle_run(context, &mut board)?;
    stopped.sort_by(|one, other| one.name.cmp(&other.name));
    // What was said of each may have been said before the others were seen.
    for row in &mut stopped {
        if let Some(worker) = board.workers.get(&row.name) {
            row.state = Some(worker.state.word().to_owned());
        }
    }
    Ok(StoppedRun {
        run: board.run.id.clone(),
        repository: board.run.repository.clone(),
        state: Some(board.run.state.word().to_owned()),
        workers: stopped,
        error: None,
    })
}

/// A run that could not be stopped.
pub fn failed(files: &RunFiles, error: &Error) -> StoppedRun {
    StoppedRun {
        run: files.id.clone(),
        repository: files.directory.clone(),
        state: None,
        workers: Vec::new(),
        error: Some(error.message.clone()),
    }
}

enum Asked {
    /// Its process is to be signalled.
    Signal(Box<Worker>),
    /// There is nothing to signal.
    Settled(StopOutcome),
    /// Nobody knows what it is.
    Damaged(Error),
}

/// Writes down that a worker is to end.
fn ask(context: &Context, board: &mut Board, name: &WorkerId) -> Result<Asked> {
    if let Some(error) = board.damaged.get(name) {
        let message = format!("{}; so `{name}` cannot be signalled", error.message);
        let hint = format!("agent-fleet fleet recover {name} --evidence FILE");
        return Ok(Asked::Damaged(Error::new(error.code, message).hint(hint)));
    }
    let worker = board.worker(name)?.clone();
    if !worker.state.holds_slot() {
        return hold_back(context, board, worker).map(Asked::Settled);
    }
    let id = stop_id(&worker);
    board.note(
        context,
        Entry {
            id,
            kind: Kind::Intent,
            verb: "stop",
            target: name.as_str(),
            of: None,
            reason: None,
        },
    )?;
    crash_point!("stop.intended");
    let stopping = Worker {
        state: WorkerState::Stopping,
        reason: None,
        ..worker
    };
    board.save_worker(stopping.clone())?;
    crash_point!("stop.asked");
    let files = board.files.launch(name, stopping.launch);
    if !files.claim().exists() && revoke(&files, &stopping.token, "stopped")? {
        reconcile(context, board)?;
        return Ok(Asked::Settled(StopOutcome::Revoked));
    }
    Ok(Asked::Signal(Box::new(stopping)))
}

/// Keeps a worker without a process from going on by itself.
fn hold_back(context: &Context, board: &mut Board, worker: Worker) -> Result<StopOutcome> {
    let mut progress = board.progress_of(&worker.step);
    let queued = worker.state == WorkerState::Parked && !worker.queue.is_empty();
    let waits = worker.state == WorkerState::Limited;
    let tried_again = match (worker.role, progress.state) {
        (_, StepState::Ready | StepState::Running | StepState::ChangesRequested) => true,
        (Role::Review, StepState::Checking) => worker.state == WorkerState::Exited,
        _ => false,
    };
    let goes_on = (queued || waits || tried_again) && !progress.state.is_final();
    if !goes_on {
        return Ok(StopOutcome::Idle);
    }
    let id = format!("{}.{}.held_back", worker.name, worker.launch);
    board.tell(context, id, "exited", worker.name.as_str(), Some("stopped"))?;
    progress.state = StepState::Blocked;
    progress.reason = Some("stopped".to_owned());
    board.save_progress(&worker.step.clone(), progress)?;
    crash_point!("stop.held_back");
    board.save_worker(Worker {
        state: WorkerState::Exited,
        reason: Some("stopped".to_owned()),
        ..worker
    })?;
    Ok(StopOutcome::Stopped)
}

/// Writes down that nobody saw a worker end.
fn unconfirmed(context: &Context, board: &mut Board, name: &WorkerId, came: Came) -> Result<Error> {
    let worker = board.worker(name)?.clone();
    let (reason, error) = match came {
        Came::Failed(error) => (error.code.name, error),
        Came::Unseen => {
            let message = format!(
                "from here it cannot be told which process `{name}` is, so none was signalled"
            );
            let hint = format!("agent-fleet fleet recover {name} --evidence FILE");
            (
                "not_seen",
                Error::new(code::WORKER_ACTIVE, message).hint(hint),
            )
        }
        Came::Asked | Came::Over => {
            let message = format!("`{name}` was asked to end, and its end was not seen in time");
            let hint = format!("agent-fleet fleet stop {name} --force");
            (
                "not_confirmed",
                Error::new(code::TIMEOUT, message).hint(hint),
            )
        }
    };
    let id = stop_id(&worker);
    board.note(
        context,
        Entry {
            id: format!("{id}.unknown"),
            kind: Kind::Unknown,
            verb: "stop",
            target: name.as_str(),
            of: Some(&id),
            reason: Some(reason),
        },
    )?;
    let event = format!("{name}.{}.stop_failed", worker.launch);
    board.tell(
        context,
        event,
        "unreachable",
        name.as_str(),
        Some("stop_failed"),
    )?;
    board.save_worker(Worker {
        state: WorkerState::StopFailed,
        reason: Some(reason.to_owned()),
        ..worker
    })?;
    crash_point!("stop.unconfirmed");
    Ok(error)
}

fn told(
    board: &Board,
    name: &WorkerId,
    outcome: StopOutcome,
    error: Option<Error>,
) -> StoppedWorker {
    let state = board.workers.get(name).map(|worker| worker.state);
    StoppedWorker {
        name: name.clone(),
        outcome,
        state: state.map(|state| state.word().to_owned()),
        why: error.as_ref().map(|error| error.message.clone()),
        next: error.and_then(|error| error.hint),
    }
}
