//! What a worker on a screen waits for that only a person can give: to begin, or a permission. Nothing here answers.

use super::board::Board;
use super::files::LaunchFiles;
use super::launch::LaunchRecord;
use super::model::{Worker, WorkerState};
use super::turn::told;
use crate::env::Context;
use crate::error::Result;

/// What it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// For nothing.
    Nothing,
    /// Its CLI did not begin: it shows a question of its own.
    Start,
    /// A permission; the first that is asked for in its launch is 1.
    Permission(usize),
    /// That the person leaves who is at its keys: its turn is not over before.
    Keys,
}

impl Waits {
    /// What the process of a launch waits for now.
    pub fn of(context: &Context, files: &LaunchFiles, launch: &LaunchRecord) -> Self {
        if !launch.is_on_screen() {
            return Self::Nothing;
        }
        let told = told::read(context, files, launch);
        match told.asked {
            _ if told.is_start_blocked(context.clock.now()) => Self::Start,
            Some(number) => Self::Permission(number),
            None if files.typed().exists() => Self::Keys,
            None => Self::Nothing,
        }
    }

    /// Where its worker stands, and why.
    pub fn state(self) -> (WorkerState, Option<&'static str>) {
        match self {
            Self::Nothing => (WorkerState::Running, None),
            Self::Start => (WorkerState::StartBlocked, None),
            Self::Permission(_) => (WorkerState::Running, Some("permission_asked")),
            Self::Keys => (WorkerState::Running, Some("typed_at")),
        }
    }

    /// Tells the lead, once for each thing that is waited for.
    pub fn tell(self, context: &Context, board: &mut Board, worker: &Worker) -> Result<()> {
        let (what, reason) = match self {
            Self::Nothing | Self::Keys => return Ok(()),
            Self::Start => ("start_blocked".to_owned(), "start_blocked"),
            Self::Permission(number) => (format!("permission.{number}"), "permission_asked"),
        };
        let id = format!("{}.{}.{what}", worker.name, worker.launch);
        let name = worker.name.as_str();
        board
            .tell(context, id, "blocked", name, Some(reason))
            .map(drop)
    }
}
