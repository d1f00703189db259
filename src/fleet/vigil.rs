//! Watching a run: looking at it whenever something happened, and sleeping in between.
//!
//! It sleeps on the run's files and on the ends of its processes, not on a clock: fifty parked workers cost nothing.
//! What ended is written down by whoever notices first, as by every other command.
//!
//! Limits: a worker of which nothing can be seen (no process that is known to live) is looked at every
//! [`UNSEEN`].

use std::time::Duration;

use super::board::Board;
use super::files::RunFiles;
use super::launch::{Life, StartedRecord};
use super::model::{Worker, WorkerState};
use super::reconcile::is_due;
use super::record;
use super::tick;
use crate::env::Context;
use crate::error::{Result, code};
use crate::sys::changes::{Came, Changes};

/// Longest sleep while a worker's process is not known to live.
pub const UNSEEN: Duration = Duration::from_secs(2);
/// Longest sleep while one that should run has no process: its end is about to be written down.
const ENDING: Duration = Duration::from_millis(50);

/// A run that is watched.
#[derive(Debug)]
pub struct Vigil<'a> {
    context: &'a Context,
    files: &'a RunFiles,
    changes: Changes,
    begun: bool,
}

impl<'a> Vigil<'a> {
    /// Of this run.
    pub fn of(context: &'a Context, files: &'a RunFiles) -> Self {
        Self {
            context,
            files,
            changes: Changes::watch(),
            begun: false,
        }
    }

    /// The run as it is now.
    pub fn look(&mut self) -> Result<Board> {
        self.changes.also(&self.files.directory);
        self.changes.also(self.files.directory.join("workers"));
        let board = Board::look(self.files)?;
        let due = !self.begun || is_due(self.context, &board);
        self.begun = true;
        if !due {
            return Ok(board);
        }
        match tick::settle(self.context, self.files) {
            Ok(settled) => Ok(settled),
            // Whoever holds it is doing the same.
            Err(error) if error.code == code::LOCK_TIMEOUT => Ok(board),
            Err(error) => Err(error),
        }
    }

    /// Watches the output of a launch as well.
    pub fn also(&mut self, worker: &Worker, launch: u32) {
        let files = self.files.launch(&worker.name, launch);
        self.changes.also(&files.directory);
    }

    /// Lets `span` pass, or less: until something happens to the run as it was looked at.
    pub fn wait(&mut self, board: &Board, span: Duration) -> Came {
        let mut span = span;
        let mut pids = Vec::new();
        for worker in board.workers.values() {
            if !worker.state.holds_slot() {
                continue;
            }
            let files = self.files.launch(&worker.name, worker.launch);
            let started: Option<StartedRecord> = record::load(&files.started()).ok().flatten();
            let started = started.filter(|started| started.token == worker.token);
            let known = started.is_some();
            let before = pids.len();
            for process in started.iter().flat_map(|one| [&one.host, &one.child]) {
                if process.life() == Life::Alive {
                    pids.push(process.pid);
                }
            }
            let seen = pids.len() > before;
            if !known {
                // Its host is on its way, and says so in there.
                self.changes.also(&files.directory);
                span = span.min(UNSEEN);
            } else if !seen && worker.state == WorkerState::Running {
                span = span.min(ENDING);
            } else if !seen {
                span = span.min(UNSEEN);
            }
        }
        self.changes.wait(&pids, span)
    }
}
