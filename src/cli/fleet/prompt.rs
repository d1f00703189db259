//! `agent-fleet fleet prompt`.

use std::path::PathBuf;

use super::{App, Ground, Outcome, Which, text_of};
use crate::contract::fleet::lead::PreparedPrompt;
use crate::error::Result;
use crate::fleet::board::Board;
use crate::fleet::compose;
use crate::fleet::locate::Place;
use crate::fleet::prompt::finished;
use crate::fleet::reconcile::reconcile;
use crate::fleet::verify::worker_of;
use crate::id::fleet::StepId;

#[derive(Debug, clap::Args)]
pub(super) struct PromptArguments {
    /// The step
    step: StepId,
    /// Only print what its worker would be told first
    #[arg(long, conflicts_with_all = ["edit", "force"])]
    print: bool,
    /// Tell it what this file says instead
    #[arg(long, value_name = "FILE")]
    edit: Option<PathBuf>,
    /// Replace what was prepared before
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    which: Which,
}

pub(super) fn run(app: &App, arguments: &PromptArguments) -> Result<Outcome> {
    let context = &app.context;
    let place = Place::here(context)?;
    let ground = Ground::of(app, &place)?;
    let files = place.choose(arguments.which.run.as_ref())?;
    if arguments.print {
        let board = Board::look(&files)?;
        let step = board.step(&arguments.step)?;
        let text = match compose::prepared(&board, &worker_of(&step.id)?)? {
            Some(text) => text,
            None => compose::plain(context, &board, &ground.templates, step)?,
        };
        return Ok(Outcome::Text(text));
    }
    let text = match &arguments.edit {
        Some(file) => Some(text_of(app, file)?),
        None => None,
    };
    let mut board = Board::hold(context, &files)?;
    reconcile(context, &mut board)?;
    let step = board.step(&arguments.step)?.clone();
    let (text, force) = (text.as_deref(), arguments.force);
    let path = compose::prepare(context, &board, &ground.templates, &step, text, force)?;
    let told = compose::prepared(&board, &worker_of(&step.id)?)?.unwrap_or_default();
    app.view(&PreparedPrompt {
        schema: 1,
        run: board.run.id.clone(),
        step: step.id,
        open: finished(&told, &path).is_err(),
        path,
    })
}
