//! `fleet run`: the loop around one step of a run, until nothing is left that could happen by itself.
//!
//! It owns nothing: killed, it loses latency and no truth, and another one goes on from the same files. Between steps
//! it sleeps on the ends of the hosts, not on a clock. It ends when two looks in a row find the same, nothing runs and
//! nothing is waited for: what is left is a person's.

use std::time::Duration;

use jiff::Timestamp;

use super::board::Board;
use super::files::RunFiles;
use super::launch::begin::Host;
use super::launch::{Life, StartedRecord};
use super::model::{RunState, WorkerState};
use super::prompt::Templates;
use super::record;
use super::settings::Settings;
use super::stop::{self, Force, Which};
use super::tick::{Aim, Ticked, tick};
use crate::contract::fleet::steering::StoppedRun;
use crate::env::Context;
use crate::error::{Class, Result, code};
use crate::sys::interrupt::Interrupts;
use crate::sys::process::Endings;

/// Longest sleep: what another command queued or answered is seen after it.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);

/// How long a worker that is stopped by Ctrl-C may take to end.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// How a loop ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Driven {
    /// The run is over, or nothing can go on before somebody answers.
    Settled(RunState),
    /// The person asked for an end, or went away; workers that run, run on.
    Interrupted,
    /// The person asked twice: the workers were stopped, or at least asked to end.
    Stopped(StoppedRun),
}

/// Drives a run. `seen` is told after each step, and `note` what a person should know.
///
/// After one Ctrl-C nothing new is launched and the turns that run are waited for; after another one they are stopped.
/// When the terminal hangs up or a program asks for an end, it ends at once and the workers run on.
pub fn drive(
    context: &Context,
    files: &RunFiles,
    settings: &Settings,
    templates: &Templates,
    interrupts: &Interrupts,
    note: &mut dyn FnMut(&str),
    seen: &mut dyn FnMut(&Board, &Ticked) -> Result<()>,
) -> Result<Driven> {
    let mut hosts: Vec<Host> = Vec::new();
    let mut told = false;
    let mut before = None;
    loop {
        if interrupts.asked() > 1 {
            let force = Force {
                timeout: STOP_PATIENCE,
                force: false,
            };
            return stop::stop(context, files, Which::Active, force, note).map(Driven::Stopped);
        }
        let aim = if interrupts.came() {
            Aim::Settle
        } else {
            Aim::Advance
        };
        // What cannot be looked at here is told by whoever settles the launch.
        hosts.retain_mut(|host| !host.has_ended().unwrap_or(true));
        let mut ticked = match tick(context, files, settings, templates, aim) {
            Ok(ticked) => ticked,
            // Another command changes the run; it is the next look's to see how.
            Err(error) if error.code.class == Class::Busy && !interrupts.told() => {
                context.clock.pause(LONGEST_SLEEP);
                continue;
            }
            Err(error) => return Err(error),
        };
        hosts.extend(ticked.launched.drain(..).map(|(_, host)| host));
        let board = Board::look(files)?;
        seen(&board, &ticked)?;
        let state = ticked.state.unwrap_or(board.run.state);
        let waits = board.active().next().is_some()
            || board
                .workers
                .values()
                .any(|worker| worker.state == WorkerState::Limited)
            || ticked.wake.is_some();
        if state.is_final() || (state == RunState::Blocked && !waits) {
            return Ok(Driven::Settled(state));
        }
        if interrupts.came() {
            let active = board.active().count();
            if interrupts.told() || active == 0 {
                return Ok(Driven::Interrupted);
            }
            if !told {
                note(&format!(
                    "agent-fleet: nothing new is launched; waiting for {active} running turns to end; Ctrl-C again stops them"
                ));
                told = true;
            }
            sleep(&board, None, context.clock.now());
            continue;
        }
        // Only a lead can go on with what was handed back.
        if !waits && state != RunState::Planned && !could_go_on(&board) {
            return Ok(Driven::Settled(state));
        }
        let now = (board.progress.clone(), board.workers.clone());
        let runs = board
            .workers
            .values()
            .any(|worker| worker.state.holds_slot() || worker.state == WorkerState::Limited);
        let held = ticked
            .refused
            .iter()
            .any(|(_, error)| error.code == code::HELD);
        let stands = before.as_ref() == Some(&now) && !runs && ticked.wake.is_none() && !held;
        if stands {
            return Ok(Driven::Settled(state));
        }
        before = Some(now);
        sleep(&board, ticked.wake, context.clock.now());
    }
}

/// Whether the next step of the loop may find something to do.
fn could_go_on(board: &Board) -> bool {
    use super::model::{Accept, StepState};
    board
        .progress
        .values()
        .any(|progress| match progress.state {
            StepState::Ready
            | StepState::Running
            | StepState::ChangesRequested
            | StepState::Checking => true,
            StepState::Reported => board.run.options.accept == Accept::Program,
            StepState::Pending
            | StepState::Verified
            | StepState::Failed
            | StepState::Blocked
            | StepState::Dropped
            | StepState::Skipped => false,
        })
}

/// Lets time pass until a process of the run ends, something that is waited for is over, or a moment has gone by.
fn sleep(board: &Board, wake: Option<Timestamp>, now: Timestamp) {
    let until = wake.and_then(|at| Duration::try_from(at.duration_since(now)).ok());
    let span = until
        .map_or(LONGEST_SLEEP, |until| until.min(LONGEST_SLEEP))
        .max(Duration::from_millis(20));
    let pids = board
        .workers
        .values()
        .filter(|worker| worker.state.holds_slot())
        .filter_map(|worker| {
            let path = board.files.launch(&worker.name, worker.launch).started();
            let started: StartedRecord = record::load(&path).ok()??;
            // One that outlived its host is waited for itself.
            Some(match started.host.life() {
                Life::Gone => started.child.pid,
                Life::Alive | Life::Unknown => started.host.pid,
            })
        });
    Endings::of(pids.collect::<Vec<_>>()).wait(span);
}
