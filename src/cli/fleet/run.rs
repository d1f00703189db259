//! `agent-fleet fleet run`.

use std::collections::BTreeSet;

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};

use super::init::new_name;
use super::live::Live;
use super::plan::{load, with_plans};
use super::{App, Ground, Outcome};
use crate::error::{Error, Result, code};
use crate::fleet::begin;
use crate::fleet::board::Board;
use crate::fleet::drive::{Driven, drive};
use crate::fleet::files::RunFiles;
use crate::fleet::locate::Place;
use crate::fleet::model::{Accept, Options, RunState, Tier};
use crate::fleet::plan::compile::{Compiled, compile};
use crate::fleet::plan::text::{PlanText, StepText};
use crate::fleet::show;
use crate::fleet::start::require_registered;
use crate::id::fleet::RunId;
use crate::registry::project::absolute;
use crate::sys::interrupt::Interrupts;
use crate::sys::shell;

/// Exit status of a run that was driven and did not come to its verified end.
const NOT_DONE: u8 = 3;

#[derive(Debug, clap::Args)]
pub(super) struct RunArguments {
    /// A plan file, or the work in words; without it, a run that is there goes on
    #[arg(value_name = "PLAN|TEXT", required_unless_present = "run")]
    work: Option<String>,
    /// Name of the run; default the date and time
    #[arg(long, value_name = "RUN")]
    run: Option<RunId>,
    /// Files that the work may change, as you would name them from here
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["worktree", "investigate"])]
    files: Vec<String>,
    /// Let it work in a git worktree of its own
    #[arg(long, conflicts_with = "investigate")]
    worktree: bool,
    /// Let it only read and answer
    #[arg(long)]
    investigate: bool,
    /// How hard it is: heavy, standard or light
    #[arg(long)]
    tier: Option<Tier>,
}

pub(super) fn run(app: &App, arguments: &RunArguments) -> Result<Outcome> {
    let context = &app.context;
    let place = Place::here(context)?;
    let ground = Ground::of(app, &place)?;
    let files = match (&arguments.work, &arguments.run) {
        (None, Some(id)) => existing(app, &place, id)?,
        (work, _) => begun(
            app,
            &place,
            &ground,
            work.as_deref().unwrap_or_default(),
            arguments,
        )?,
    };
    to_its_end(app, &files, &ground)
}

/// The loop around a run's steps, until nothing is left that could happen by itself.
pub(super) fn to_its_end(app: &App, files: &RunFiles, ground: &Ground) -> Result<Outcome> {
    let context = &app.context;
    let mut said = BTreeSet::new();
    let mut live = Live::new(app);
    let interrupts =
        Interrupts::watch().map_err(|error| Error::io("watch signals in", "/", &error))?;
    let driven = drive(
        context,
        files,
        &ground.settings,
        &ground.templates,
        &interrupts,
        &mut |text| app.note(text),
        &mut |board, ticked| {
            for (step, error) in &ticked.refused {
                let ordinary = matches!(
                    error.code,
                    code::STEP_NOT_READY | code::WORKER_ACTIVE | code::CAPACITY
                );
                let note = format!("note: `{step}` is not started: {}", error.message);
                if !ordinary && said.insert(note.clone()) {
                    app.note(&note);
                }
            }
            live.tell(app, board)
        },
    )?;
    drop(interrupts);
    let board = Board::look(files)?;
    live.tell(app, &board)?;
    live.clear()?;
    let status = show::status(context, &board)?;
    match driven {
        Driven::Settled(_) => {}
        Driven::Interrupted => {
            app.note("note: nothing new is launched; workers that run, run on");
        }
        Driven::Stopped(stopped) => {
            for worker in stopped.workers {
                if let Some(why) = worker.why {
                    app.note(&format!("note: {why}"));
                }
            }
            let id = &files.id;
            app.note(&format!(
                "note: to go on: agent-fleet fleet send WORKER TEXT --run {id}"
            ));
        }
    }
    // A script must be able to tell without reading.
    let exit = if board.run.state == RunState::Done {
        0
    } else {
        NOT_DONE
    };
    app.view_with(&status, exit)
}

/// A run that has a plan, and goes on.
fn existing(app: &App, place: &Place, id: &RunId) -> Result<RunFiles> {
    begin::refuse_others(&app.context, place, id)?;
    let board = Board::look(&place.run(id))?;
    board.plan()?;
    Ok(board.files)
}

/// A new run with the plan that is asked for; one of the name that was begun and has no plan yet gets it.
fn begun(
    app: &App,
    place: &Place,
    ground: &Ground,
    work: &str,
    arguments: &RunArguments,
) -> Result<RunFiles> {
    let context = &app.context;
    let Compiled {
        plan,
        options,
        routing,
    } = compiled(app, place, ground, work, arguments)?;
    // Nothing is begun that could not launch its first worker.
    for step in &plan.steps {
        require_registered(context, &place.root, step.assignment.provider)?;
    }
    let id = if let Some(id) = arguments.run.clone() {
        id
    } else {
        new_name(app)?
    };
    let options = Options {
        accept: Accept::Program,
        ..options
    };
    let mut board = match begin::begin(context, place, &id, options.clone(), Some(&routing)) {
        Err(error) if error.code == code::ALREADY_EXISTS => {
            let board = Board::hold(context, &place.run(&id))?;
            if board.run.state != RunState::Draft {
                return Err(error.hint(format!("agent-fleet fleet run --run {id}")));
            }
            board
        }
        begun => begun?,
    };
    begin::plan(&mut board, plan, options, &routing)?;
    Ok(board.files.clone())
}

/// The plan of a file or of words.
fn compiled(
    app: &App,
    place: &Place,
    ground: &Ground,
    work: &str,
    arguments: &RunArguments,
) -> Result<Compiled> {
    let text = if is_file(app, work) {
        if let Some(option) = only_for_words(arguments) {
            let message =
                format!("`{option}` belongs to work in words: a plan says it of each step");
            let hint = format!("agent-fleet fleet run {}", shell::quote(work));
            return Err(Error::new(code::USAGE, message).hint(hint));
        }
        load(app, place, work.as_ref())?
    } else {
        if arguments.files.is_empty() && !arguments.worktree && !arguments.investigate {
            let message = "it is not said what the work may change";
            return Err(
                Error::new(code::USAGE, message).hint("agent-fleet fleet run TEXT --worktree")
            );
        }
        let mut text = PlanText::default();
        text.steps.push(words(app, place, work, arguments)?);
        text
    };
    with_plans(place, ground, &ground.settings, |plans| {
        compile(&text, plans)
    })
}

/// Whether the work is a plan file and not words: words may end like a file's name, so one with spaces has to be there.
fn is_file(app: &App, work: &str) -> bool {
    let path = Utf8Path::new(work);
    let there = || absolute(&app.context, path.as_std_path()).is_ok_and(|path| path.is_file());
    matches!(path.extension(), Some("toml" | "json"))
        && (!work.contains(char::is_whitespace) || there())
}

/// An option that was given and says something of work in words.
fn only_for_words(arguments: &RunArguments) -> Option<&'static str> {
    [
        ("--files", !arguments.files.is_empty()),
        ("--worktree", arguments.worktree),
        ("--investigate", arguments.investigate),
        ("--tier", arguments.tier.is_some()),
    ]
    .into_iter()
    .find_map(|(option, given)| given.then_some(option))
}

/// A file as plans name it, relative to the checkout; typed by somebody who may stand in a directory of it. What lies
/// elsewhere is left as it is, for whoever checks it to refuse.
fn in_checkout(app: &App, root: &Utf8Path, file: &str) -> String {
    let whole = absolute(&app.context, file.as_ref()).unwrap_or_default();
    let mut plain = Utf8PathBuf::new();
    for part in whole.components() {
        match part {
            Utf8Component::ParentDir => {
                plain.pop();
            }
            Utf8Component::CurDir => {}
            Utf8Component::Prefix(_) | Utf8Component::RootDir | Utf8Component::Normal(_) => {
                plain.push(part);
            }
        }
    }
    match plain.strip_prefix(root) {
        Ok(inside) if !inside.as_str().is_empty() => inside.as_str().to_owned(),
        Ok(_) | Err(_) => file.to_owned(),
    }
}

fn words(app: &App, place: &Place, work: &str, arguments: &RunArguments) -> Result<StepText> {
    let mut step = StepText::new("work".parse()?, work.to_owned());
    let files = arguments.files.iter();
    step.files = files
        .map(|file| in_checkout(app, &place.root, file))
        .collect();
    step.worktree = arguments.worktree;
    step.tier = arguments.tier.or(step.tier);
    if arguments.investigate {
        step.kind = Some(crate::fleet::model::StepKind::Investigate);
    }
    Ok(step)
}
