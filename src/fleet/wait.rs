//! `fleet wait`: until something happens in a run that its lead should know, and no longer.

use std::time::Duration;

use jiff::Timestamp;

use super::board::Board;
use super::cursor::{Consumer, Given, Wanted};
use super::files::{FleetFiles, RunFiles};
use super::hold;
use super::model::{SCHEMA, StepState, WorkerState};
use super::verify::worker_of;
use super::vigil::Vigil;
use super::{show, wake};
use crate::contract::fleet::watch::{Pending, Waited};
use crate::env::Context;
use crate::error::Result;
use crate::id::fleet::WorkerId;
use crate::sys::changes::Came;

/// Longest wait.
pub const LONGEST: Duration = Duration::from_hours(24);

/// What is waited for.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Who waits.
    pub consumer: WorkerId,
    /// For how long.
    pub timeout: Duration,
    /// How long more is gathered after the first event.
    pub settle: Duration,
    /// What ends the wait.
    pub wanted: Wanted,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Events were given.
    Given,
    /// None came in time, or none can come any more.
    TimedOut,
}

/// Waits, and gives what it waited for. `give` is called once at most, with the consumer's lock held, unless nobody
/// is there to be given to.
pub fn wait(
    context: &Context,
    files: &RunFiles,
    wish: &Wish,
    give: &mut dyn FnMut(&Waited) -> Result<Given>,
) -> Result<Ended> {
    let deadline = context.clock.deadline(wish.timeout.min(LONGEST));
    let consumer = Consumer {
        files,
        name: &wish.consumer,
        wanted: wish.wanted,
    };
    let mut vigil = Vigil::of(context, files);
    let mut gathered = None;
    loop {
        let board = vigil.look()?;
        let mut left = deadline.left();
        if consumer.has_some()? {
            let until = gathered.get_or_insert_with(|| deadline.within(wish.settle));
            left = until.left();
            if left.is_zero() {
                let taken = consumer.take(context, |records| {
                    let events = records.iter().map(|one| wake::told(files, one)).collect();
                    give(&Waited {
                        events,
                        ..answer(context, &board, wish)?
                    })
                })?;
                if taken {
                    return Ok(Ended::Given);
                }
                // Another wait of this consumer was quicker.
                gathered = None;
                continue;
            }
        } else if deadline.passed() || is_over(&board) {
            let pending = pending(context, &board)?;
            give(&Waited {
                timed_out: true,
                pending,
                ..answer(context, &board, wish)?
            })?;
            return Ok(Ended::TimedOut);
        }
        if vigil.wait(&board, left) == Came::ReaderLeft {
            return Ok(Ended::TimedOut);
        }
    }
}

/// Whether nothing can come any more.
fn is_over(board: &Board) -> bool {
    board.run.state.is_final() && board.active().next().is_none()
}

fn answer(context: &Context, board: &Board, wish: &Wish) -> Result<Waited> {
    Ok(Waited {
        schema: SCHEMA,
        run: board.run.id.clone(),
        state: board.run.state.word().to_owned(),
        consumer: wish.consumer.clone(),
        timed_out: false,
        events: Vec::new(),
        pending: Vec::new(),
        not_read: show::status(context, board)?.not_read,
    })
}

/// Who is still waited for: workers that are at work or held up, and steps that could begin.
fn pending(context: &Context, board: &Board) -> Result<Vec<Pending>> {
    let workers = board
        .workers
        .values()
        .filter(|worker| worker.state.holds_slot() || worker.state == WorkerState::Limited);
    let mut pending: Vec<Pending> = workers
        .map(|worker| Pending {
            kind: "worker".to_owned(),
            name: worker.name.to_string(),
            state: worker.state.word().to_owned(),
            reason: worker.reason.clone(),
            held_until: worker.held_until,
        })
        .collect();
    let now = context.clock.now();
    let holds = hold::in_force(&FleetFiles::new(context), now).unwrap_or_default();
    for step in board.plan.iter().flat_map(|plan| &plan.steps) {
        let state = board.progress_of(&step.id).state;
        if !matches!(state, StepState::Ready | StepState::ChangesRequested) {
            continue;
        }
        let (repository, run) = (&board.files.repository, &board.run.id);
        let held = hold::stopping(&holds, repository, run, &step.id);
        let worker = board.workers.get(&worker_of(&step.id)?);
        if worker.is_some_and(|worker| worker.state.holds_slot()) {
            continue;
        }
        let until = worker.and_then(|worker| worker.held_until);
        pending.push(Pending {
            kind: "step".to_owned(),
            name: step.id.to_string(),
            state: state.word().to_owned(),
            reason: match held {
                Some(_) => Some("held".to_owned()),
                None => worker.and_then(|worker| worker.reason.clone()),
            },
            held_until: held.and_then(|hold| hold.expires).or(still(until, now)),
        });
    }
    Ok(pending)
}

/// A moment that lies ahead.
fn still(at: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
    at.filter(|at| *at > now)
}
