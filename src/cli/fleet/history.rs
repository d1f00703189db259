//! `agent-fleet fleet history`.

use super::{App, Outcome, Which};
use crate::error::Result;
use crate::fleet::history::history;
use crate::fleet::locate::Place;
use crate::id::fleet::WorkerId;

#[derive(Debug, clap::Args)]
pub(super) struct HistoryArguments {
    /// Only this worker's launches
    worker: Option<WorkerId>,
    #[command(flatten)]
    which: Which,
}

pub(super) fn run(app: &App, arguments: &HistoryArguments) -> Result<Outcome> {
    let board = Place::here(&app.context)?.look(arguments.which.run.as_ref())?;
    if let Some(worker) = &arguments.worker
        && !board.damaged.contains_key(worker)
    {
        board.worker(worker)?;
    }
    app.view(&history(&board, arguments.worker.as_ref())?)
}
