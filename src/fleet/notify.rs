//! `on_event`: the person's own program, run for each wake event by whoever wrote the event down.
//!
//! It runs apart, for [`LONGEST`] at most, and whatever becomes of it changes nothing of the run: a failure is a
//! record of the ledger, and what the program complained of stands in `on_event.log`.
//!
//! Limits: it runs once at most. It is not run for an event whose writer was killed in the moment after it; `fleet
//! wait` gives that one all the same.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::board::{Board, Entry};
use super::files::RunFiles;
use super::ledger::{Kind, Ledger, Record};
use super::model::SCHEMA;
use super::{settings, wake};
use crate::contract::fleet::watch::Notice;
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::store::append;
use crate::sys::spawn::{Program, run_within};
use crate::sys::tend::Tended;
use crate::withheld::withhold;

/// The hidden verb that runs the program of one event.
pub const VERB: &str = "_event";
/// Longest run of a program.
pub const LONGEST: Duration = Duration::from_mins(1);
/// Most of its output that is looked at, in bytes.
const MOST: u64 = 16 << 10;

/// Starts the program of an event, if there is one. Whatever goes wrong here is nobody's business but the log's.
pub fn start(context: &Context, files: &RunFiles, record: &Record) {
    if !wake::wakes(record) {
        return;
    }
    let started = match settings::on_event(context) {
        Ok(program) if program.is_empty() => return,
        Ok(_) => launch(context, files, record),
        Err(error) => Err(error),
    };
    if let Err(error) = started {
        complain(files, &record.id, &error.message);
    }
}

fn launch(context: &Context, files: &RunFiles, record: &Record) -> Result<()> {
    let path = context
        .executable
        .clone()
        .ok_or_else(|| Error::internal("the path of this program is not known"))?;
    let words = ["fleet", VERB, files.directory.as_str(), &record.id];
    let program = Program {
        path,
        arguments: words.map(OsString::from).to_vec(),
        environment: environment(context),
        directory: None,
        input: Vec::new(),
    };
    let log = append::stream(files.event_log())?;
    let mut child =
        Tended::start(&program, log).map_err(|error| Error::io("start", &program.path, &error))?;
    // So that a long `fleet run` gathers no zombies; nobody waits for the thread.
    std::thread::spawn(move || drop(child.wait()));
    Ok(())
}

fn environment(context: &Context) -> Vec<(OsString, OsString)> {
    let variables = context.variables.iter();
    variables
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// Runs the program of an event to its end, and notes a failure.
pub fn run(context: &Context, files: &RunFiles, id: &str) -> Result<()> {
    let board = Board::look(files)?;
    let records = Ledger::load(&files.ledger())?.records;
    let Some(record) = records.iter().find(|record| record.id == id) else {
        let message = format!("the run `{}` has no event `{id}`", files.id);
        return Err(Error::new(code::NOT_FOUND, message).hint("agent-fleet fleet history"));
    };
    let Some((program, arguments)) = settings::on_event(context)?
        .split_first()
        .map(|(program, arguments)| (program.clone(), arguments.to_vec()))
    else {
        return Ok(());
    };
    let notice = Notice {
        schema: SCHEMA,
        run: board.run.id.clone(),
        repository: board.run.repository.clone(),
        event: wake::told(files, record),
    };
    let mut input = serde_json::to_vec(&notice)
        .map_err(|error| Error::internal(format!("cannot serialise an event: {error}")))?;
    input.push(b'\n');
    let program = Program {
        path: PathBuf::from(program),
        arguments: arguments.into_iter().map(OsString::from).collect(),
        environment: environment(context),
        directory: Some(board.run.repository.clone().into_std_path_buf()),
        input,
    };
    drop(board);
    let deadline = context.clock.deadline(LONGEST);
    let why = match run_within(&program, MOST, &deadline) {
        Ok(ended) if ended.status == Some(0) => return Ok(()),
        Ok(ended) => {
            let said = String::from_utf8_lossy(&ended.stderr);
            complain(files, id, said.trim());
            ended
                .status
                .map_or_else(|| "signal".to_owned(), |status| format!("exit_{status}"))
        }
        Err(error) if error.kind() == io::ErrorKind::TimedOut => "timeout".to_owned(),
        Err(error) => {
            complain(files, id, &error.to_string());
            "not_started".to_owned()
        }
    };
    let mut board = Board::hold(context, files)?;
    let entry = Entry {
        id: format!("on_event.{id}"),
        kind: Kind::Failed,
        verb: "on_event",
        target: id,
        of: None,
        reason: Some(&why),
    };
    board.note(context, entry).map(drop)
}

/// Writes a complaint down; there is nobody to tell that this failed.
fn complain(files: &RunFiles, id: &str, said: &str) {
    let first: String = withhold(said).chars().take(300).collect();
    let line = format!("{id}: {}", first.replace('\n', " "));
    drop(append::line(files.event_log(), &line));
}
