//! `agent-fleet fleet logs`, `attach` and `peek`: what a worker said and did.

use super::super::output::{Told, tell};
use super::{App, Outcome, Which};
use crate::contract::fleet::watch::{LogLine, Peek};
use crate::error::Result;
use crate::fleet::follow::{self, Reader, Until, Wish, follow};
use crate::fleet::locate::Place;
use crate::id::fleet::WorkerId;
use crate::render::{self, Format};

#[derive(Debug, clap::Args)]
pub(super) struct LogsArguments {
    /// Whose
    worker: WorkerId,
    /// Go on with what comes, from one launch to the next, until the worker's step is over
    #[arg(long, short)]
    follow: bool,
    /// Only this launch
    #[arg(long, value_name = "NUMBER")]
    launch: Option<u32>,
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, clap::Args)]
pub(super) struct AttachArguments {
    /// Whose
    worker: WorkerId,
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, clap::Args)]
pub(super) struct PeekArguments {
    /// Whose
    worker: WorkerId,
    /// How many lines
    #[arg(long, value_name = "NUMBER", default_value = "40")]
    lines: usize,
    #[command(flatten)]
    which: Which,
}

pub(super) fn logs(app: &App, arguments: LogsArguments) -> Result<Outcome> {
    let wish = Wish {
        worker: arguments.worker,
        first: Some(arguments.launch.unwrap_or(1)),
        only: arguments.launch.is_some(),
        until: if arguments.follow {
            Until::Over
        } else {
            Until::Now
        },
    };
    show(app, &arguments.which, &wish)
}

pub(super) fn attach(app: &App, arguments: AttachArguments) -> Result<Outcome> {
    let wish = Wish {
        worker: arguments.worker,
        first: None,
        only: true,
        until: Until::Parked,
    };
    show(app, &arguments.which, &wish)
}

fn show(app: &App, which: &Which, wish: &Wish) -> Result<Outcome> {
    let files = Place::here(&app.context)?.choose(which.run.as_ref())?;
    follow(&app.context, &files, wish, &mut |lines| {
        let mut text = String::new();
        for line in lines {
            text.push_str(&told(line, app.format)?);
        }
        Ok(match tell(&text)? {
            Told::Somebody => Reader::Reads,
            Told::Nobody => Reader::Left,
        })
    })?;
    Ok(Outcome::Done(0))
}

fn told(line: &LogLine, format: Format) -> Result<String> {
    match format {
        Format::Human => Ok(format!("{}\n", line.text)),
        Format::Json | Format::Toon => render::data(line, format),
    }
}

pub(super) fn peek(app: &App, arguments: &PeekArguments) -> Result<Outcome> {
    let board = Place::here(&app.context)?.look(arguments.which.run.as_ref())?;
    let worker = board.worker(&arguments.worker)?;
    app.view(&Peek {
        schema: 1,
        worker: worker.name.clone(),
        step: worker.step.clone(),
        launch: worker.launch,
        state: worker.state.word().to_owned(),
        lines: follow::peek(&app.context, &board, worker, arguments.lines)?,
    })
}
