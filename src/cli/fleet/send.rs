//! `agent-fleet fleet send`.

use std::io::Read as _;

use super::{App, Ground, Outcome, Which};
use crate::error::{Error, Result};
use crate::fleet::board::Board;
use crate::fleet::locate::Place;
use crate::fleet::send::{Message, When, send};
use crate::id::fleet::WorkerId;

#[derive(Debug, clap::Args)]
pub(super) struct SendArguments {
    /// The worker
    worker: WorkerId,
    /// What to tell it; `-` reads standard input, and a text that begins with a dash stands behind `--`
    #[arg(required = true, num_args = 1.., value_name = "TEXT")]
    text: Vec<String>,
    /// Interrupt the turn that runs, instead of waiting for its end
    #[arg(long)]
    now: bool,
    #[command(flatten)]
    which: Which,
}

pub(super) fn run(app: &App, arguments: &SendArguments) -> Result<Outcome> {
    let place = Place::here(&app.context)?;
    let files = place.choose(arguments.which.run.as_ref())?;
    let text = match arguments.text.as_slice() {
        [only] if only == "-" => standard_input()?,
        words => words.join(" "),
    };
    let board = Board::look(&files)?;
    let ground = Ground::at(app, &board.run.repository)?;
    let message = Message {
        worker: &arguments.worker,
        text: &text,
        when: if arguments.now { When::Now } else { When::Next },
    };
    let sent = send(
        &app.context,
        &files,
        &ground.settings,
        &ground.templates,
        message,
        &mut |text| app.note(text),
    )?;
    app.view(&sent)
}

fn standard_input() -> Result<String> {
    let mut text = String::new();
    std::io::stdin()
        .lock()
        .read_to_string(&mut text)
        .map_err(|error| Error::io("read", "/dev/stdin", &error))?;
    Ok(text.trim_end().to_owned())
}
