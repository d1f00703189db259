//! A turn on a terminal that its host owns: what the host does until the process has ended.
//!
//! The terminal is drained, kept as a screen and drawn for viewers, by one loop that waits for everything at once and
//! for nobody in particular. What is typed comes from a viewer that types, and from nowhere else.
//!
//! Limits: when the host dies its terminal hangs up, and the process with it; a headless worker outlives its host.

use std::ffi::OsString;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::LaunchRecord;
use super::mind::{Watched, complain};
use crate::clock::Deadline;
use crate::env::Context;
use crate::error::{Error, Result};
use crate::fleet::files::LaunchFiles;
use crate::fleet::model::SCHEMA;
use crate::fleet::record;
use crate::fleet::screen::picture::Screen;
use crate::fleet::screen::place::{self, ScreenRecord};
use crate::fleet::screen::viewers::{Keys, Viewers, Wishes};
use crate::sys::process;
use crate::sys::pty::{Pty, Shown, Size};
use crate::sys::spawn::Program;
use crate::sys::tend::{Exit, Tended};

/// What a screen is before somebody who types has another.
const SIZE: Size = Size {
    rows: 40,
    columns: 120,
};
/// What every program knows how to draw on.
const KIND: &str = "xterm-256color";
/// Variables that tell of the terminal that the launching command has, or had.
const OTHERS: [&str; 14] = [
    "COLUMNS",
    "ITERM_SESSION_ID",
    "KITTY_WINDOW_ID",
    "LINES",
    "STY",
    "TERM",
    "TERMCAP",
    "TERM_PROGRAM",
    "TERM_PROGRAM_VERSION",
    "TMUX",
    "TMUX_PANE",
    "VTE_VERSION",
    "WINDOWID",
    "WT_SESSION",
];
/// How long what was written may wait for more before it is drawn.
const FRAME: Duration = Duration::from_millis(16);
/// Longest wait while an end cannot be waited for together with the rest, or nobody holds the terminal.
const BLIND: Duration = Duration::from_millis(200);
/// Bytes taken from the terminal at once.
const PIECE: usize = 64 << 10;
/// Most bytes that are still drained from the terminal of a process that has ended.
const REST: usize = 1 << 20;
/// Most keys that wait for the program to take them.
const MOST_KEYS: usize = 64 << 10;

/// A turn on a terminal.
#[derive(Debug)]
pub(super) struct OnScreen {
    pty: Pty,
    child: Tended,
    ending: Option<std::os::fd::OwnedFd>,
    screen: Screen,
    /// `None` where no socket could be made: the work goes on unseen.
    viewers: Option<Viewers>,
    keys: Vec<u8>,
    hung_up: bool,
}

impl OnScreen {
    /// Starts the process, which waits until it is let on, and says where it can be seen.
    pub(super) fn start(
        context: &Context,
        files: &LaunchFiles,
        launch: &LaunchRecord,
        mut program: Program,
    ) -> Result<Self> {
        dress(&mut program.environment);
        let failed = |error: std::io::Error| Error::io("start", &program.path, &error);
        let (pty, far) = Pty::open(SIZE)
            .map_err(|error| Error::io("open a terminal at", "/dev/ptmx", &error))?;
        let child = Tended::on_terminal(&program, far).map_err(failed)?;
        let viewers = match show(context, files, launch) {
            Ok(viewers) => Some(viewers),
            Err(error) => {
                complain(
                    files,
                    &format!("its screen cannot be seen: {}", error.message),
                );
                None
            }
        };
        Ok(Self {
            ending: process::ending(child.pid()),
            pty,
            child,
            screen: Screen::new(SIZE),
            viewers,
            keys: Vec::new(),
            hung_up: false,
        })
    }

    /// The pid of its process.
    pub(super) fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Shows the screen and takes what is typed until the process has ended.
    pub(super) fn attend(mut self, context: &Context, watched: &Watched) -> std::io::Result<Exit> {
        let mut piece = vec![0; PIECE];
        let mut due: Option<Deadline> = None;
        loop {
            self.wait(due.as_ref());
            let wrote = self.drain(&mut piece)? > 0;
            let wishes = self.hear();
            self.grant(wishes)?;
            watched.typed_at(self.viewers.as_ref().is_some_and(Viewers::is_typed_at));
            if wrote {
                due.get_or_insert_with(|| context.clock.deadline(FRAME));
                self.each(|viewers, _| viewers.changed());
            }
            if let Some(exit) = self.child.ended()? {
                watched.has_ended();
                self.finish(&mut piece)?;
                return Ok(exit);
            }
            if due.is_none_or(|due| due.passed()) {
                due = None;
                self.each(Viewers::draw);
            }
            self.each(|viewers, _| viewers.send());
        }
    }

    fn each(&mut self, act: impl FnOnce(&mut Viewers, &Screen)) {
        if let Some(viewers) = &mut self.viewers {
            act(viewers, &self.screen);
        }
    }

    /// Waits until something can be done.
    fn wait(&self, due: Option<&Deadline>) {
        let span = match due {
            Some(due) => Some(due.left()),
            None if self.ending.is_none() || self.hung_up => Some(BLIND),
            None => None,
        };
        let timeout = span.map(|span| Timespec {
            tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(span.subsec_nanos()),
        });
        let mut watched: Vec<PollFd<'_>> = Vec::new();
        if !self.hung_up {
            let mut flags = PollFlags::IN;
            if !self.keys.is_empty() {
                flags |= PollFlags::OUT;
            }
            watched.push(PollFd::new(&self.pty, flags));
        }
        watched.extend(
            self.ending
                .iter()
                .map(|one| PollFd::new(one, PollFlags::IN)),
        );
        if let Some(viewers) = &self.viewers {
            let all = viewers.watched(self.room()).into_iter();
            watched.extend(all.map(|(one, flags)| PollFd::from_borrowed_fd(one, flags)));
        }
        // A signal is no reason to end: whoever stops a worker signals the worker.
        let _ = poll(&mut watched, timeout.as_ref());
    }

    /// Whether more keys can be taken.
    fn room(&self) -> Keys {
        if self.keys.len() < MOST_KEYS {
            Keys::Taken
        } else {
            Keys::Later
        }
    }

    /// Takes what the terminal shows; how much it was.
    fn drain(&mut self, piece: &mut [u8]) -> std::io::Result<usize> {
        let shown = self.pty.read(piece)?;
        self.hung_up = shown == Shown::HungUp;
        let Shown::Bytes(count) = shown else {
            return Ok(0);
        };
        self.screen.feed(piece.get(..count).unwrap_or_default());
        Ok(count)
    }

    fn hear(&mut self) -> Wishes {
        let room = self.room();
        let viewers = self.viewers.as_mut();
        viewers.map_or_else(Wishes::default, |viewers| viewers.hear(&self.screen, room))
    }

    /// Does what a person who types wants.
    fn grant(&mut self, wishes: Wishes) -> std::io::Result<()> {
        if let Some(size) = wishes.size.filter(|size| *size != self.screen.size()) {
            self.pty.resize(size)?;
            self.screen.resize(size);
            self.each(|viewers, _| viewers.changed());
        }
        self.keys.extend(wishes.keys);
        if !self.keys.is_empty() && !self.hung_up {
            let taken = self.pty.type_keys(&self.keys)?;
            self.keys.drain(..taken);
        }
        Ok(())
    }

    /// The last of the screen, for whoever can take it at once.
    fn finish(&mut self, piece: &mut [u8]) -> std::io::Result<()> {
        let mut rest = 0;
        while rest < REST {
            match self.drain(piece)? {
                0 => break,
                count => rest += count,
            }
        }
        self.each(|viewers, screen| {
            viewers.changed();
            viewers.draw(screen);
        });
        Ok(())
    }
}

/// Lets viewers come, and writes down where.
fn show(context: &Context, files: &LaunchFiles, launch: &LaunchRecord) -> Result<Viewers> {
    let socket = place::prepare(context, &launch.token)?;
    let label = format!("{}, launch {}", launch.worker, launch.number);
    let viewers = Viewers::listen(socket.clone(), label)
        .map_err(|error| Error::io("listen at", &socket, &error))?;
    let record = ScreenRecord {
        schema: SCHEMA,
        token: launch.token.clone(),
        socket,
    };
    record::save(&files.screen(), &record)?;
    Ok(viewers)
}

/// What the process is told of its terminal is true of this one.
fn dress(environment: &mut Vec<(OsString, OsString)>) {
    environment.retain(|(name, _)| OTHERS.iter().all(|other| name != other));
    environment.push(("TERM".into(), KIND.into()));
}
