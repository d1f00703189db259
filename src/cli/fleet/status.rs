//! `agent-fleet fleet status`.

use super::{App, Outcome, Which};
use crate::error::Result;
use crate::fleet::board::Board;
use crate::fleet::locate::Place;
use crate::fleet::reconcile::{is_due, reconcile};
use crate::fleet::show;

#[derive(Debug, clap::Args)]
pub(super) struct StatusArguments {
    #[command(flatten)]
    which: Which,
}

pub(super) fn run(app: &App, arguments: &StatusArguments) -> Result<Outcome> {
    let place = Place::here(&app.context)?;
    let mut board = place.look(arguments.which.run.as_ref())?;
    // Only what has changed is worth a lock.
    if is_due(&app.context, &board) {
        let files = board.files.clone();
        board = Board::hold(&app.context, &files)?;
        reconcile(&app.context, &mut board)?;
    }
    app.view(&show::status(&app.context, &board)?)
}
