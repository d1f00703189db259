//! `agent-fleet fleet resume`.

use super::{App, Ground, Outcome, run::to_its_end};
use crate::error::{Error, Result, code};
use crate::fleet::board::Board;
use crate::fleet::locate::Place;
use crate::fleet::reconcile::reconcile;
use crate::fleet::start::refuse_inside;
use crate::fleet::{show, tick};
use crate::id::fleet::RunId;

#[derive(Debug, clap::Args)]
pub(super) struct ResumeArguments {
    /// The run
    run: RunId,
    /// Go on with it as `fleet run` does, until nothing is left to do. Other commands may do the same at the same
    /// time: no step is done twice
    #[arg(long)]
    go: bool,
}

pub(super) fn run(app: &App, arguments: &ResumeArguments) -> Result<Outcome> {
    let context = &app.context;
    refuse_inside(context)?;
    let files = Place::here(context)?.run(&arguments.run);
    let mut board = Board::hold(context, &files)?;
    if files.result().exists() {
        let message = format!(
            "the run `{}` has ended: it is {}",
            files.id, board.run.state
        );
        let hint = format!("agent-fleet fleet status --run {}", files.id);
        return Err(Error::new(code::RUN_OVER, message).hint(hint));
    }
    reconcile(context, &mut board)?;
    tick::settle_run(context, &mut board)?;
    if !arguments.go {
        return app.view(&show::status(context, &board)?);
    }
    let ground = Ground::at(app, &board.run.repository)?;
    drop(board);
    to_its_end(app, &files, &ground)
}
