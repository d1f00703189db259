//! A worker's transcript, from one launch to the next, also while it is being written.
//!
//! The output files are read and nothing else: any number of people can look on, and none of them can be noticed by
//! the worker.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom};
use std::time::Duration;

use camino::Utf8Path;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::board::Board;
use super::files::RunFiles;
use super::history;
use super::model::{StepState, Worker};
use super::turn::kept::Kept;
use super::turn::plain::last_lines;
use super::turn::transcript::Transcript;
use super::vigil::Vigil;
use crate::contract::fleet::watch::{LaunchRow, LogLine};
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::id::ProviderKind;
use crate::id::fleet::WorkerId;
use crate::store::read;
use crate::sys::changes::Came;

/// Bytes read at once.
const PIECE: usize = 64 << 10;
/// How far from the end of an output a peek begins to read, in bytes.
const PEEKED: u64 = 4 << 20;
/// Longest line of what a provider's CLI complained of, in bytes.
const COMPLAINT: usize = 400;
/// Most lines of it.
const COMPLAINTS: usize = 8;
/// Longest sleep: nothing has to be seen that does not show in the files.
const LONGEST_SLEEP: Duration = Duration::from_hours(1);

/// Until when a worker is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// What is there now.
    Now,
    /// The launch that runs has ended.
    Parked,
    /// Its step is over, or the run is.
    Over,
}

/// What is to be shown.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Whose.
    pub worker: WorkerId,
    /// From which launch; `None` is the current one.
    pub first: Option<u32>,
    /// Only that one.
    pub only: bool,
    /// Until when.
    pub until: Until,
}

/// Whether anyone still reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// Somebody.
    Reads,
    /// Nobody.
    Left,
}

/// Tells a worker's transcript, some lines at a time.
pub fn follow(
    context: &Context,
    files: &RunFiles,
    wish: &Wish,
    tell: &mut dyn FnMut(&[LogLine]) -> Result<Reader>,
) -> Result<()> {
    let mut vigil = Vigil::of(context, files);
    let mut shown: Option<Shown> = None;
    loop {
        let mut board = vigil.look()?;
        let mut worker = board.worker(&wish.worker)?.clone();
        if shown.is_none() {
            let number = first(wish, &worker)?;
            shown = Some(Shown::of(context, &board, &worker, number)?);
            vigil.also(&worker, number);
            // What was written before it was watched is read below.
            board = vigil.look()?;
            worker = board.worker(&wish.worker)?.clone();
        }
        let Some(current) = &mut shown else { continue };
        let number = current.number;
        // Looked at before the bytes: what a launch wrote that is over is all there.
        let is_over = number < worker.launch || !worker.state.holds_slot();
        let mut lines = current.more(files)?;
        if is_over || wish.until == Until::Now {
            lines.extend(current.end(&board, is_over)?);
        }
        if !lines.is_empty() && tell(&lines)? == Reader::Left {
            return Ok(());
        }
        if is_over && number < worker.launch && !wish.only {
            let next = number + 1;
            shown = Some(Shown::of(context, &board, &worker, next)?);
            vigil.also(&worker, next);
            continue;
        }
        let enough = match wish.until {
            Until::Now => true,
            Until::Parked => is_over,
            Until::Over => is_over && (wish.only || nothing_follows(&board, &worker)),
        };
        if enough || vigil.wait(&board, LONGEST_SLEEP) == Came::ReaderLeft {
            return Ok(());
        }
    }
}

/// Whether a worker without a process gets none any more.
fn nothing_follows(board: &Board, worker: &Worker) -> bool {
    board.run.state.is_final()
        || match board.progress_of(&worker.step).state {
            StepState::Verified | StepState::Dropped | StepState::Skipped | StepState::Failed => {
                true
            }
            StepState::Pending
            | StepState::Ready
            | StepState::Running
            | StepState::Reported
            | StepState::Checking
            | StepState::Blocked
            | StepState::ChangesRequested => false,
        }
}

fn first(wish: &Wish, worker: &Worker) -> Result<u32> {
    let first = wish.first.unwrap_or(worker.launch);
    if (1..=worker.launch).contains(&first) {
        return Ok(first);
    }
    let name = &worker.name;
    let message = format!("the worker `{name}` has no launch {first}");
    Err(Error::new(code::NOT_FOUND, message).hint(format!("agent-fleet fleet history {name}")))
}

/// The last lines of the current launch.
pub fn peek(context: &Context, board: &Board, worker: &Worker, most: usize) -> Result<Vec<String>> {
    let mut shown = Shown::of(context, board, worker, worker.launch)?;
    shown.begun = true;
    shown.skip_to(&board.files, PEEKED)?;
    let mut lines = shown.more(&board.files)?;
    lines.extend(shown.rest());
    let from = lines.len().saturating_sub(most);
    Ok(lines
        .split_off(from)
        .into_iter()
        .map(|line| line.text)
        .collect())
}

/// A launch whose output is shown.
#[derive(Debug)]
struct Shown {
    worker: WorkerId,
    number: u32,
    row: LaunchRow,
    transcript: Transcript,
    output: Option<File>,
    begun: bool,
    ended: bool,
}

impl Shown {
    fn of(context: &Context, board: &Board, worker: &Worker, number: u32) -> Result<Self> {
        let row = history::row(board, &worker.name, number)?;
        let provider = row.provider.unwrap_or(worker.assignment.provider);
        let output = board.files.launch(&worker.name, number).output();
        Ok(Self {
            worker: worker.name.clone(),
            number,
            transcript: transcript(context, provider, &output),
            row,
            output: None,
            begun: false,
            ended: false,
        })
    }

    fn line(&self, what: &str, text: String) -> LogLine {
        LogLine {
            worker: self.worker.clone(),
            launch: self.number,
            what: what.to_owned(),
            text,
        }
    }

    fn lines(&self, text: &str) -> Vec<LogLine> {
        let lines = text.lines();
        lines
            .map(|line| self.line("line", line.to_owned()))
            .collect()
    }

    /// Opens the output once it is there.
    fn open(&mut self, files: &RunFiles) -> Result<Option<&mut File>> {
        if self.output.is_none() {
            let path = files.launch(&self.worker, self.number).output();
            self.output = match read::open(&path) {
                Ok(file) => Some(file),
                Err(error) if error.kind() == ErrorKind::NotFound => None,
                Err(error) => return Err(Error::io("read", &path, &error)),
            };
        }
        Ok(self.output.as_mut())
    }

    /// Leaves out all but about the last `most` bytes. The line that this cuts is none, and tells nothing.
    fn skip_to(&mut self, files: &RunFiles, most: u64) -> Result<()> {
        let path = files.launch(&self.worker, self.number).output();
        let failed = |error: std::io::Error| Error::io("read", &path, &error);
        if let Some(file) = self.open(files)? {
            let size = file.metadata().map_err(failed)?.len();
            let from = SeekFrom::Start(size.saturating_sub(most));
            file.seek(from).map_err(failed)?;
        }
        Ok(())
    }

    /// What was written since.
    fn more(&mut self, files: &RunFiles) -> Result<Vec<LogLine>> {
        let mut found = Vec::new();
        if !self.begun {
            self.begun = true;
            let by = self.row.provider.map(|provider| format!(" by {provider}"));
            let text = format!(
                "-- launch {} of {}{}, {}",
                self.number,
                self.worker,
                by.unwrap_or_default(),
                self.row.began
            );
            found.push(self.line("began", text));
        }
        let path = files.launch(&self.worker, self.number).output();
        let mut piece = vec![0; PIECE];
        loop {
            let count = match self.open(files)? {
                None => 0,
                Some(file) => match file.read(&mut piece) {
                    Ok(count) => count,
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    Err(error) => return Err(Error::io("read", &path, &error)),
                },
            };
            if count == 0 {
                return Ok(found);
            }
            let text = self.transcript.feed(piece.get(..count).unwrap_or_default());
            found.extend(self.lines(&text));
        }
    }

    /// What a last line without its end tells.
    fn rest(&mut self) -> Vec<LogLine> {
        let text = self.transcript.finish();
        self.lines(&text)
    }

    /// What the provider's CLI wrote to its error output, its end.
    fn complaints(&self, files: &RunFiles) -> Result<Vec<LogLine>> {
        let path = files.launch(&self.worker, self.number).errors();
        let complaints = read::optional(&path)?.unwrap_or_default();
        let complaints = String::from_utf8_lossy(&complaints).into_owned();
        let mut found = Vec::new();
        if !complaints.trim().is_empty() {
            found.push(self.line("line", "! its error output ends:".to_owned()));
            found.extend(self.lines(&last_lines(&complaints, "    ", COMPLAINTS, COMPLAINT)));
        }
        Ok(found)
    }

    /// Closes the transcript, once: with how the launch ended, when it did.
    fn end(&mut self, board: &Board, is_over: bool) -> Result<Vec<LogLine>> {
        if self.ended {
            return Ok(Vec::new());
        }
        self.ended = true;
        let mut found = self.rest();
        if !is_over {
            return Ok(found);
        }
        if let Some(kept) = Kept::load(&board.files.launch(&self.worker, self.number))? {
            let text = self.transcript.tell(kept.events());
            found.extend(self.lines(&text));
        }
        let row = history::row(board, &self.worker, self.number)?;
        // Which account it is on is said there every time.
        if row.status != Some(0) {
            found.extend(self.complaints(&board.files)?);
        }
        let how = match (&row.reason, row.status, row.signal) {
            (Some(reason), ..) => format!(" ({reason})"),
            (None, Some(0), _) | (None, None, None) => String::new(),
            (None, Some(status), _) => format!(" (exit {status})"),
            (None, None, Some(signal)) => format!(" (signal {signal})"),
        };
        let on = row.profile.map(|profile| format!(" on {profile}"));
        let text = format!(
            "-- launch {} of {}{} ended: {}{how}",
            self.number,
            self.worker,
            on.unwrap_or_default(),
            row.outcome
        );
        found.push(self.line("ended", text));
        Ok(found)
    }
}

fn transcript(context: &Context, provider: ProviderKind, output: &Utf8Path) -> Transcript {
    let modified = output.metadata().and_then(|found| found.modified()).ok();
    let said = modified.and_then(|time| Timestamp::try_from(time).ok());
    let said = said.unwrap_or_else(|| context.clock.now());
    Transcript::new(provider, said, &TimeZone::system())
}
