//! `agent-fleet fleet logs`, `attach` and `peek`: what a worker said and did.

use super::super::output::{Told, tell};
use super::{App, Outcome, Which};
use crate::contract::fleet::watch::{LogLine, Peek};
use crate::error::{Error, Result, code};
use crate::fleet::files::LaunchFiles;
use crate::fleet::follow::{self, Reader, Until, Wish, follow};
use crate::fleet::locate::Place;
use crate::fleet::model::{Mode, Worker};
use crate::fleet::screen::picture::Purpose;
use crate::fleet::view::{self, Left};
use crate::id::fleet::WorkerId;
use crate::render::{self, Format};
use crate::sys::console::Console;

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
    /// Send your keys to the provider's screen of a worker in terminal mode; without it they only leave
    #[arg(long = "type")]
    typing: bool,
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

impl AttachArguments {
    /// What is done at the screen.
    fn purpose(&self) -> Purpose {
        if self.typing {
            Purpose::Type
        } else {
            Purpose::Look
        }
    }

    /// Whether it does nothing but look.
    pub(super) fn only_looks(&self) -> bool {
        self.purpose() == Purpose::Look
    }
}

pub(super) fn attach(app: &App, arguments: AttachArguments) -> Result<Outcome> {
    let board = Place::here(&app.context)?.look(arguments.which.run.as_ref())?;
    let worker = board.worker(&arguments.worker)?;
    let files = board.files.launch(&worker.name, worker.launch);
    let mut first = None;
    if is_shown(app, &files, worker, arguments.purpose())? {
        match view::see(&app.context, &files, worker, arguments.purpose())? {
            Some(Left::Person) => {
                app.note(&format!("note: `{}` goes on", worker.name));
                return Ok(Outcome::Done(0));
            }
            // How it ended is told by what is left of it.
            Some(Left::Over) => first = Some(worker.launch),
            None if arguments.only_looks() => {}
            None => return Err(idle(worker)),
        }
    }
    let wish = Wish {
        worker: arguments.worker,
        first,
        only: true,
        until: Until::Parked,
    };
    show(app, &arguments.which, &wish)
}

/// Whether the provider's screen is shown, and not the transcript; refused where keys could not reach it.
fn is_shown(app: &App, files: &LaunchFiles, worker: &Worker, purpose: Purpose) -> Result<bool> {
    let is_on_screen = view::is_on_screen(files, worker)?;
    let kind = app.context.variables.text("TERM");
    let is_at_terminal = Console::is_there() && kind.is_some_and(|kind| kind != "dumb");
    match purpose {
        Purpose::Look => Ok(is_on_screen && is_at_terminal && app.format == Format::Human),
        Purpose::Type if worker.mode == Mode::Headless => {
            let message = format!("`{}` is headless, so nobody can type at it", worker.name);
            let hint = format!("agent-fleet fleet take {}", worker.name);
            Err(Error::new(code::USAGE, message).hint(hint))
        }
        Purpose::Type if !is_at_terminal => {
            let message = "keys are typed at a terminal, and this is none that can be drawn on";
            let hint = format!("agent-fleet fleet send {} TEXT", worker.name);
            Err(Error::new(code::USAGE, message).hint(hint))
        }
        Purpose::Type if !is_on_screen => Err(idle(worker)),
        Purpose::Type => Ok(true),
    }
}

/// There is no screen to type at.
fn idle(worker: &Worker) -> Error {
    let message = format!(
        "the turn of `{}` is over, so it has no screen now",
        worker.name
    );
    let hint = format!("agent-fleet fleet take {}", worker.name);
    Error::new(code::STEP_NOT_READY, message).hint(hint)
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
    let files = board.files.launch(&worker.name, worker.launch);
    let mut rows = None;
    if view::is_on_screen(&files, worker)? {
        rows = view::peek(&app.context, &files, worker)?;
    }
    let (source, lines) = if let Some(mut rows) = rows {
        let from = rows.len().saturating_sub(arguments.lines);
        ("screen", rows.split_off(from))
    } else {
        let lines = follow::peek(&app.context, &board, worker, arguments.lines)?;
        ("transcript", lines)
    };
    app.view(&Peek {
        schema: 1,
        worker: worker.name.clone(),
        step: worker.step.clone(),
        launch: worker.launch,
        state: worker.state.word().to_owned(),
        source: source.to_owned(),
        lines,
    })
}
