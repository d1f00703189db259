//! Bringing the turns of workers to their end, several at once: signal, wait, and where it is wanted kill.
//!
//! It decides nothing and writes nothing down: whoever calls it has written the intent before, and reconciles
//! afterwards. A signal waits while the worker's profile is in the start gate, and it says so.

use std::time::Duration;

use super::files::LaunchFiles;
use super::launch::observe::{CLAIM_PATIENCE, Seen, look};
use super::launch::signal::{Gate, Reached, signal};
use super::model::Worker;
use super::reconcile::lease_life;
use crate::clock::Deadline;
use crate::env::Context;
use crate::error::{Error, Result};
use crate::id::fleet::WorkerId;
use crate::sys::tend::Signal;
use crate::worker::gate::PATIENCE;

/// How long a killed process may take to be gone.
const KILL_PATIENCE: Duration = Duration::from_secs(5);
/// Time between two looks.
const POLL: Duration = Duration::from_millis(20);

/// How turns are to be ended.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// The signal that asks.
    pub signal: Signal,
    /// How long each may take after it.
    pub timeout: Duration,
    /// Whether a process group that does not end is killed.
    pub kill: bool,
}

/// How far a turn came.
#[derive(Clone, Debug)]
pub enum Came {
    /// It is over.
    Over,
    /// It was asked, and its end was not seen.
    Asked,
    /// It was not asked: which process it is cannot be told from here.
    Unseen,
    /// It was not asked: something could not be read or done.
    Failed(Error),
}

enum Phase {
    /// Not signalled yet; at this deadline it has no process still, or the gate is waited for no longer.
    Before(Deadline),
    /// Asked to end.
    Asked(Deadline),
    /// Killed.
    Killed(Deadline),
    Done(Came),
}

struct Turn {
    worker: Worker,
    files: LaunchFiles,
    phase: Phase,
    told: bool,
}

/// Ends the current turns of these workers.
pub fn end(
    context: &Context,
    workers: Vec<(Worker, LaunchFiles)>,
    manner: Manner,
    note: &mut dyn FnMut(&str),
) -> Vec<(WorkerId, Came)> {
    let patience = PATIENCE.max(CLAIM_PATIENCE);
    let mut turns: Vec<Turn> = workers
        .into_iter()
        .map(|(worker, files)| Turn {
            worker,
            files,
            phase: Phase::Before(context.clock.deadline(patience)),
            told: false,
        })
        .collect();
    loop {
        let mut open = false;
        for turn in &mut turns {
            if matches!(turn.phase, Phase::Done(_)) {
                continue;
            }
            if let Err(error) = turn.go_on(context, manner, note) {
                turn.phase = Phase::Done(Came::Failed(error));
            }
            open |= !matches!(turn.phase, Phase::Done(_));
        }
        if !open {
            break;
        }
        context.clock.pause(POLL);
    }
    turns
        .into_iter()
        .map(|turn| {
            let came = match turn.phase {
                Phase::Done(came) => came,
                Phase::Before(_) | Phase::Asked(_) | Phase::Killed(_) => Came::Asked,
            };
            (turn.worker.name, came)
        })
        .collect()
}

impl Turn {
    fn go_on(
        &mut self,
        context: &Context,
        manner: Manner,
        note: &mut dyn FnMut(&str),
    ) -> Result<()> {
        let worker = &self.worker;
        let observed = look(&self.files, &worker.token, context.clock.now(), || {
            lease_life(context, &worker.task)
        })?;
        match observed.seen {
            Seen::Ended(_) | Seen::NeverStarted => self.phase = Phase::Done(Came::Over),
            Seen::Waiting | Seen::Overdue | Seen::Running { .. } | Seen::Unknown => {
                self.press(context, manner, note)?;
            }
        }
        Ok(())
    }

    /// The next thing to do to a turn that is not over.
    fn press(
        &mut self,
        context: &Context,
        manner: Manner,
        note: &mut dyn FnMut(&str),
    ) -> Result<()> {
        let worker = &self.worker;
        let send = |kind, gate| {
            signal(
                context,
                &self.files,
                &worker.token,
                &worker.task,
                kind,
                gate,
            )
        };
        match &self.phase {
            Phase::Before(until) => {
                let gate = if until.passed() {
                    Gate::Ignored
                } else {
                    Gate::Respected
                };
                match send(manner.signal, gate)? {
                    Reached::Refreshing(profile) => {
                        if !self.told {
                            note(&format!(
                                "agent-fleet: waiting with `{}` until a start on `{profile}` has refreshed its login (at most 30 s)",
                                worker.name
                            ));
                            self.told = true;
                        }
                    }
                    Reached::NotYet if until.passed() => self.phase = Phase::Done(Came::Unseen),
                    Reached::NotYet => {}
                    Reached::Unknown => self.phase = Phase::Done(Came::Unseen),
                    Reached::Sent | Reached::Gone => {
                        self.phase = Phase::Asked(context.clock.deadline(manner.timeout));
                    }
                }
            }
            Phase::Asked(until) if until.passed() && manner.kill => {
                send(Signal::KillGroup, Gate::Ignored)?;
                self.phase = Phase::Killed(context.clock.deadline(KILL_PATIENCE));
            }
            Phase::Asked(until) | Phase::Killed(until) if until.passed() => {
                self.phase = Phase::Done(Came::Asked);
            }
            Phase::Asked(_) | Phase::Killed(_) | Phase::Done(_) => {}
        }
        Ok(())
    }
}
