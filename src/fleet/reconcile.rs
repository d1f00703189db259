//! Bringing a run's records up to date with what its launches became: from files, processes and the broker's lease,
//! and from nothing else.
//!
//! Any command may do it, under the run's lock, and doing it twice changes nothing: ledger records and events have
//! ids that say what they are about, attempts are counted by token, and the worker's record, which ends the
//! repetition, is written last.

use super::board::{Board, Entry};
use super::launch::observe::{Observed, Seen, look};
use super::launch::revoke::revoke;
use super::launch::{self, Before, Life};
use super::ledger::Kind;
use super::left;
use super::model::{Role, StepState, Worker, WorkerState};
use super::reach;
use super::record;
use super::report;
use super::settle::{Happened, Left, Settled, settle};
use super::turn::{self, Ended, ExitFacts, Turn};
use super::waiting::Waits;
use super::windows;
use crate::clock::ROUTINE;
use crate::crash_point;
use crate::env::Context;
use crate::error::{Class, Result, code};
use crate::id::fleet::WorkerId;
use crate::id::{ProfileId, Task};
use crate::lease::LeaseStore as _;
use crate::lease::TableStore;
use crate::sys::tend::Exit;

/// Brings every worker of a held run up to date that has or may have a process.
pub fn reconcile(context: &Context, board: &mut Board) -> Result<()> {
    let names: Vec<WorkerId> = board
        .workers
        .values()
        .filter(|worker| worker.state.holds_slot())
        .map(|worker| worker.name.clone())
        .collect();
    for name in names {
        update(context, board, &name)?;
    }
    reach::damaged(context, board)
}

/// Whether reconciling would change something, by a look without the lock: what a status may skip.
pub fn is_due(context: &Context, board: &Board) -> bool {
    board.workers.values().any(|worker| {
        let files = board.files.launch(&worker.name, worker.launch);
        match worker.state {
            WorkerState::Parked | WorkerState::Limited | WorkerState::Exited => false,
            WorkerState::Running => {
                match look(&files, &worker.token, context.clock.now(), || Life::Gone) {
                    Ok(observed) => {
                        let waits = || Waits::of(context, &files, &observed.launch);
                        let stands = (worker.state, worker.reason.as_deref());
                        !matches!(observed.seen, Seen::Running { .. }) || waits().state() != stands
                    }
                    Err(_) => true,
                }
            }
            WorkerState::Launching
            | WorkerState::StartBlocked
            | WorkerState::Unknown
            | WorkerState::Stopping
            | WorkerState::StopFailed => true,
        }
    }) || !board.damaged.is_empty()
}

/// Whether the broker has a live lease of a task; what cannot be asked is unknown.
pub fn lease_life(context: &Context, task: &Task) -> Life {
    let store = TableStore::open(context, context.clock.deadline(ROUTINE));
    match store.and_then(|store| store.find(task)) {
        Ok(None) => Life::Gone,
        Ok(Some(lease)) => match lease.verdict {
            crate::contract::lease::Verdict::Dead => Life::Gone,
            crate::contract::lease::Verdict::Unknown => Life::Unknown,
            crate::contract::lease::Verdict::Alive
            | crate::contract::lease::Verdict::Orphaned
            | crate::contract::lease::Verdict::Reserved => Life::Alive,
        },
        Err(_) => Life::Unknown,
    }
}

fn update(context: &Context, board: &mut Board, name: &WorkerId) -> Result<()> {
    let worker = board.worker(name)?.clone();
    let files = board.files.launch(name, worker.launch);
    let now = context.clock.now();
    let observed = match look(&files, &worker.token, now, || {
        lease_life(context, &worker.task)
    }) {
        Ok(observed) => observed,
        // One torn or foreign file costs this worker its certainty and nobody else anything.
        Err(error) if matches!(error.code, code::RECORD_DAMAGED | code::NEWER_FORMAT) => {
            return unknown(context, board, &worker, error.code.name);
        }
        Err(error) => return Err(error),
    };
    match observed.seen {
        Seen::Waiting => Ok(()),
        Seen::Overdue => {
            if revoke(&files, &worker.token, "overdue")? {
                never_started(context, board, &worker, &observed)
            } else {
                Ok(())
            }
        }
        Seen::NeverStarted => never_started(context, board, &worker, &observed),
        Seen::Running { .. } => {
            reach::reached(context, board, &reach::id(&worker), name)?;
            running(context, board, &worker, &observed)
        }
        Seen::Ended(exit) => ended(context, board, &worker, &observed, exit),
        Seen::Unknown => unknown(context, board, &worker, "not_seen"),
    }
}

/// No process of it ever ran.
fn never_started(
    context: &Context,
    board: &mut Board,
    worker: &Worker,
    observed: &Observed,
) -> Result<()> {
    let happened = match &observed.launch.before {
        Some(before) => Happened::GivenBack {
            before,
            left: Left::Nothing,
        },
        None => Happened::NeverStarted,
    };
    end(context, board, worker, None, &happened)
}

/// A person left the screen at which the worker had been taken over, or the broker refused it.
fn given_back(
    context: &Context,
    board: &mut Board,
    worker: &Worker,
    observed: &Observed,
    before: &Before,
) -> Result<()> {
    let refused = observed.receipt.as_ref().is_some_and(|receipt| !receipt.ok);
    let report = if refused {
        None
    } else {
        left::report(context, board, worker, &Turn::default())?
    };
    let status = report.as_deref().and_then(report::status);
    let happened = Happened::GivenBack {
        before,
        left: match &report {
            Some(_) => Left::Report(status.as_ref()),
            None => Left::Nothing,
        },
    };
    let profile = observed.profile().filter(|_| !refused);
    end(context, board, worker, profile, &happened)
}

/// Its process lives.
fn running(
    context: &Context,
    board: &mut Board,
    worker: &Worker,
    observed: &Observed,
) -> Result<()> {
    let profile = observed
        .receipt
        .as_ref()
        .and_then(|receipt| receipt.profile.clone());
    let (state, reason) = if worker.state.is_ending() {
        (worker.state, worker.reason.clone())
    } else {
        let files = board.files.launch(&worker.name, worker.launch);
        let waits = Waits::of(context, &files, &observed.launch);
        waits.tell(context, board, worker)?;
        crash_point!("reconcile.waits");
        let (state, reason) = waits.state();
        (state, reason.map(str::to_owned))
    };
    let after = Worker {
        state,
        reason,
        profile: profile.or_else(|| worker.profile.clone()),
        ..worker.clone()
    };
    if after == *worker {
        return Ok(());
    }
    board.save_worker(after)
}

/// It cannot be told whether its process lives: it keeps its slot, and the lead is told once.
fn unknown(context: &Context, board: &mut Board, worker: &Worker, why: &str) -> Result<()> {
    reach::unreachable(context, board, &reach::id(worker), &worker.name, why)?;
    let state = if worker.state.is_ending() {
        worker.state
    } else {
        WorkerState::Unknown
    };
    let after = Worker {
        state,
        reason: Some(why.to_owned()),
        ..worker.clone()
    };
    if after == *worker {
        return Ok(());
    }
    board.save_worker(after)
}

/// Its process ended.
fn ended(
    context: &Context,
    board: &mut Board,
    worker: &Worker,
    observed: &Observed,
    exit: Option<Exit>,
) -> Result<()> {
    if let Some(before) = &observed.launch.before {
        return given_back(context, board, worker, observed, before);
    }
    let files = board.files.launch(&worker.name, worker.launch);
    let answered = files.receipt().exists() || launch::boot()? != observed.launch.boot;
    if exit.is_none() && !answered {
        // The child went no further than its gate, or died before the broker answered it. After another boot a receipt
        // may be missing that was there.
        return end(context, board, worker, None, &Happened::NeverStarted);
    }
    if let Some(receipt) = observed.receipt.as_ref().filter(|receipt| !receipt.ok) {
        let code = receipt.code.as_deref().unwrap_or("unknown");
        if code == code::TASK_OWNED.name && lease_life(context, &worker.task) == Life::Gone {
            // The earlier process that it met has ended since.
            return end(context, board, worker, None, &Happened::NeverStarted);
        }
        let happened = Happened::Refused {
            code,
            class: class_of(code),
            retry_at: receipt.retry_at,
        };
        let profile = observed.profile();
        return end(context, board, worker, profile, &happened);
    }
    let turn = left::turn(context, board, worker, observed)?;
    windows::tell(context, worker, observed, &turn);
    let report = left::report(context, board, worker, &turn)?;
    let exit = match exit {
        // A screen whose turn is over is ended from outside.
        Some(_) if observed.launch.is_on_screen() && turn.end.is_some() => ExitFacts::Unknown,
        Some(Exit::Status(status)) => ExitFacts::Status(status),
        Some(Exit::Signal(signal)) => ExitFacts::Signal(signal),
        None => ExitFacts::Unknown,
    };
    let asked = worker.state.is_ending() || board.ledger.has(&interrupt_id(worker));
    let judged = turn::judge(exit, &turn, report.as_deref(), asked);
    let status = report.as_deref().and_then(report::status);
    let happened = Happened::Ended {
        ended: &judged,
        status: status.as_ref(),
    };
    let worker = Worker {
        session: turn.session.clone().or_else(|| worker.session.clone()),
        profile: observed.profile().or_else(|| worker.profile.clone()),
        ..worker.clone()
    };
    if let Ended::Denied { tools } = &judged {
        note_denied(board, &worker, tools)?;
    }
    let profile = observed.profile();
    end(context, board, &worker, profile, &happened)
}

/// Id of the ledger's intent to stop a worker's current launch.
pub fn stop_id(worker: &Worker) -> String {
    format!("stop.{}.{}", worker.name, worker.launch)
}

/// Id of the ledger's intent to interrupt a worker's current turn.
pub fn interrupt_id(worker: &Worker) -> String {
    format!("interrupt.{}.{}", worker.name, worker.launch)
}

/// The class of a code.
pub fn class_of(name: &str) -> Option<Class> {
    let found = code::ALL.iter().find(|(code, _)| code.name == name);
    found.map(|(code, _)| code.class)
}

/// Which tools were denied, for the lead.
fn note_denied(board: &Board, worker: &Worker, tools: &[String]) -> Result<()> {
    let id = format!("denied.{}.{}", worker.name, worker.launch);
    let text = serde_json::json!({ "schema": 1, "kind": "denied", "tools": tools });
    record::create(&board.files.receipt(&id), &text).map(drop)
}

/// Writes down what a launch came to: ledger, step, worker, in this order.
fn end(
    context: &Context,
    board: &mut Board,
    worker: &Worker,
    profile: Option<ProfileId>,
    happened: &Happened<'_>,
) -> Result<()> {
    let mut progress = board.progress_of(&worker.step);
    let most = board.run.options.max_attempts;
    // Cut short after the step was saved, this launch is among them already.
    let others = progress
        .attempts
        .iter()
        .filter(|token| **token != worker.token);
    let counted = u32::try_from(others.count()).unwrap_or(u32::MAX);
    let left = most.saturating_sub(counted.saturating_add(1));
    let settled = settle(worker, happened, left, context.clock.now());
    let name = worker.name.as_str();
    let intent = launch_id(worker);
    let (kind, word) = match happened {
        Happened::Ended { .. } | Happened::GivenBack { .. } => (Kind::Done, "done"),
        Happened::NeverStarted | Happened::Refused { .. } => (Kind::Failed, "failed"),
        Happened::Attested => (Kind::Unknown, "unknown"),
    };
    board.note(
        context,
        Entry {
            id: format!("{intent}.{word}"),
            kind,
            verb: "launch",
            target: name,
            of: Some(&intent),
            reason: settled.reason.as_deref(),
        },
    )?;
    // Whoever asked for the end may have been cut short before it saw it.
    for asked in [stop_id(worker), interrupt_id(worker)] {
        if board.ledger.has(&asked) {
            board.note(
                context,
                Entry {
                    id: format!("{asked}.{word}"),
                    kind,
                    verb: asked.split('.').next().unwrap_or_default(),
                    target: name,
                    of: Some(&asked),
                    reason: None,
                },
            )?;
        }
    }
    crash_point!("reconcile.noted");
    if let Some(event) = settled.event {
        let id = format!("{name}.{}.{event}", worker.launch);
        board.tell(context, id, event, name, settled.reason.as_deref())?;
    }
    if settled.counts {
        progress.attempts.insert(worker.token.clone());
    }
    if let Some(state) = settled
        .step
        .filter(|_| progress.state != StepState::Dropped)
    {
        progress.state = state;
        // A step whose reviewer came to nothing still wants a review.
        progress.reason = match state {
            StepState::Checking => Some("review".to_owned()),
            StepState::Pending
            | StepState::Ready
            | StepState::Running
            | StepState::Reported
            | StepState::Verified
            | StepState::Failed
            | StepState::Blocked
            | StepState::ChangesRequested
            | StepState::Dropped
            | StepState::Skipped => settled.reason.clone(),
        };
    }
    let ran = matches!(happened, Happened::Ended { .. });
    if let Some(family) = worker.assignment.family.as_ref().filter(|_| ran)
        && worker.role == Role::Implementation
        && !progress.author_families.contains(family)
    {
        progress.author_families.push(family.clone());
    }
    board.save_progress(&worker.step, progress)?;
    crash_point!("reconcile.progress");
    let mut taken = worker.taken.clone();
    let mut queue = worker.queue.clone();
    if matches!(happened, Happened::NeverStarted | Happened::Refused { .. }) {
        taken.append(&mut queue);
        queue = taken;
    }
    let Settled {
        worker: state,
        reason,
        held_until,
        ..
    } = settled;
    board.save_worker(Worker {
        state,
        reason,
        held_until,
        queue,
        taken: Vec::new(),
        profile: profile.or_else(|| worker.profile.clone()),
        ..worker.clone()
    })
}

/// Attests by hand that a worker's launch is over.
pub fn attest(context: &Context, board: &mut Board, worker: &Worker) -> Result<()> {
    end(context, board, worker, None, &Happened::Attested)
}

/// Id of the ledger's intent of a worker's current launch.
pub fn launch_id(worker: &Worker) -> String {
    format!("launch.{}.{}", worker.name, worker.launch)
}
