//! Taking a worker over: its conversation in the provider's own screen at this terminal, leased like every turn.
//!
//! Meanwhile the worker is running, with a launch of its own; afterwards it is parked again, with its report captured.
//! What a person did there is judged by nobody: with a report the step is reported, else it stands where it stood.

use std::time::Duration;

use super::begin;
use super::board::Board;
use super::files::RunFiles;
use super::launch::attended::attend;
use super::locate::Place;
use super::model::WorkerState;
use super::reconcile::reconcile;
use super::send::{When, intend, interrupt};
use super::settings::Settings;
use super::start::{self, Order, Ready, Turn};
use super::tick;
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::id::fleet::WorkerId;
use crate::sys::attend::is_at_terminal;
use crate::sys::interrupt::Interrupts;
use crate::worker::receipt::Receipt;

/// Time between two looks at a turn that is waited for.
const POLL: Duration = Duration::from_millis(200);

/// Takes a worker over until its screen is left.
///
/// Refused with `usage` without a terminal, `not_found`, `run_over`, `session_mismatch` (no conversation), as every
/// launch is, and with the broker's own refusal.
pub fn take(
    context: &Context,
    files: &RunFiles,
    settings: &Settings,
    name: &WorkerId,
    when: When,
    note: &mut dyn FnMut(&str),
) -> Result<()> {
    start::refuse_inside(context)?;
    if !is_at_terminal() {
        let message = "a worker is taken over at a terminal, and standard input is none";
        let hint = format!("agent-fleet fleet send {name} TEXT");
        return Err(Error::new(code::USAGE, message).hint(hint));
    }
    let watch = Interrupts::watch().map_err(|error| Error::io("watch signals in", "/", &error))?;
    let place = Place::of_run(context, &idle(context, files, name, when, &watch, note)?);
    // Two runs of a checkout must not begin to work at once; what began meanwhile is refused by its admission.
    let alone = begin::alone(context, &place.key)?;
    begin::refuse_others(context, &place, &files.id)?;
    let mut board = Board::hold(context, files)?;
    reconcile(context, &mut board)?;
    let ready = prepare(context, &mut board, settings, name)?;
    drop(board);
    drop(alone);
    let launch = ready.files().clone();
    let ended = attend(context, &launch, &watch);
    drop(watch);
    let mut board = Board::hold(context, files)?;
    reconcile(context, &mut board)?;
    tick::settle_run(context, &mut board)?;
    drop(board);
    ended?;
    let receipt: Option<Receipt> = crate::store::read::optional(launch.receipt())?
        .and_then(|bytes| serde_json::from_slice(&bytes).ok());
    match receipt.filter(|receipt| !receipt.ok) {
        None => Ok(()),
        Some(receipt) => {
            let word = receipt.code.unwrap_or_default();
            let known = code::ALL.iter().find(|(code, _)| code.name == word);
            let kind = known.map_or(code::PROVIDER_FAILED, |(code, _)| *code);
            let message = format!("`{name}` could not be taken over: {word}");
            Err(Error::new(kind, message)
                .hint("agent-fleet status")
                .retry_at(receipt.retry_at))
        }
    }
}

/// The run, held, once the worker has no process: its turn was waited for or ended.
fn idle(
    context: &Context,
    files: &RunFiles,
    name: &WorkerId,
    when: When,
    watch: &Interrupts,
    note: &mut dyn FnMut(&str),
) -> Result<Board> {
    let mut told = false;
    loop {
        let mut board = Board::hold(context, files)?;
        reconcile(context, &mut board)?;
        let worker = board.worker(name)?;
        if !worker.state.holds_slot() {
            return Ok(board);
        }
        if when == When::Now && !told {
            told = true;
            let worker = intend(context, &mut board, name)?;
            drop(board);
            match interrupt(context, files, &worker, note)? {
                None => continue,
                Some(error) => return Err(error),
            }
        }
        if matches!(worker.state, WorkerState::Unknown | WorkerState::StopFailed) {
            let message = format!("the worker `{name}` is {} and may still run", worker.state);
            let hint = format!("agent-fleet fleet recover {name} --evidence FILE");
            return Err(Error::new(code::WORKER_ACTIVE, message).hint(hint));
        }
        if !told {
            note(&format!(
                "agent-fleet: waiting for the end of the turn of `{name}`; --now ends it"
            ));
            told = true;
        }
        drop(board);
        if watch.came() {
            let message = format!("the turn of `{name}` goes on");
            let hint = format!("agent-fleet fleet take {name} --now");
            return Err(Error::new(code::TIMEOUT, message).hint(hint));
        }
        context.clock.pause(POLL);
    }
}

/// Writes the launch down.
fn prepare(
    context: &Context,
    board: &mut Board,
    settings: &Settings,
    name: &WorkerId,
) -> Result<Ready> {
    let worker = board.worker(name)?.clone();
    if worker.session.is_none() {
        let message = format!("the worker `{name}` has no conversation to go on with");
        let hint = format!("agent-fleet fleet send {name} TEXT");
        return Err(Error::new(code::SESSION_MISMATCH, message).hint(hint));
    }
    let step = board.step(&worker.step)?.clone();
    start::admit(
        context,
        board,
        settings,
        &step,
        name,
        worker.role,
        &worker.assignment,
        &Turn::Taken,
    )?;
    let order = Order {
        worker: name.clone(),
        role: worker.role,
        assignment: worker.assignment,
        turn: Turn::Taken,
        prompt: String::new(),
        reviewed_diff: worker.reviewed_diff,
        taken: 0,
    };
    start::prepare(context, board, &step, order)
}
