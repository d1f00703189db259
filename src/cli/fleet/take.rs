//! `agent-fleet fleet take`.

use super::{App, Ground, Outcome, Which};
use crate::error::Result;
use crate::fleet::board::Board;
use crate::fleet::locate::Place;
use crate::fleet::send::{When, go_on};
use crate::fleet::show;
use crate::fleet::take::take;
use crate::id::fleet::WorkerId;

#[derive(Debug, clap::Args)]
pub(super) struct TakeArguments {
    /// The worker
    worker: WorkerId,
    /// Interrupt the turn that runs, instead of waiting for its end
    #[arg(long)]
    now: bool,
    #[command(flatten)]
    which: Which,
}

pub(super) fn run(app: &App, arguments: &TakeArguments) -> Result<Outcome> {
    let context = &app.context;
    let files = Place::here(context)?.choose(arguments.which.run.as_ref())?;
    let board = Board::look(&files)?;
    let ground = Ground::at(app, &board.run.repository)?;
    let when = if arguments.now { When::Now } else { When::Next };
    let name = &arguments.worker;
    take(context, &files, &ground.settings, name, when, &mut |text| {
        app.note(text);
    })?;
    // What was sent meanwhile is told now.
    go_on(context, &files, &ground.settings, &ground.templates, name)?;
    app.view(&show::status(context, &Board::look(&files)?)?)
}
