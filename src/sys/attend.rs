//! Running a program for the person at the terminal.
//!
//! It has the person's standard input and the terminal itself, so that it can ask, show a code and be interrupted.
//! What it prints goes to standard error: standard output is for our own answer. It is never killed: one that stays
//! after an interrupt is asked to end, and waited for.

use std::io;
use std::os::fd::AsFd as _;
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcsetattr};

use super::interrupt::Interrupts;
use super::spawn::{self, Program};
use crate::clock::Clock;

/// How long an interrupted program has to end by itself: the terminal told it too.
const GRACE: Duration = Duration::from_secs(2);
/// Time between two looks.
const POLL: Duration = Duration::from_millis(20);

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attended {
    /// By itself, with this status; `None` when a signal ended it.
    Ended(Option<i32>),
    /// After the person interrupted it.
    Interrupted,
}

/// Whether a person can type something.
pub fn is_at_terminal() -> bool {
    isatty(rustix::stdio::stdin())
}

/// Runs a program to its end. Its `input` is not used: it reads ours.
pub fn attend(program: &Program, interrupts: &Interrupts, clock: Clock) -> io::Result<Attended> {
    let terminal = Terminal::keep();
    let mut child = start(program)?;
    let ended = wait(&mut child, interrupts, clock);
    terminal.restore();
    let status = ended?;
    Ok(if interrupts.came() {
        Attended::Interrupted
    } else {
        Attended::Ended(status)
    })
}

fn start(program: &Program) -> io::Result<Child> {
    let mut command = spawn::command(program);
    command
        .stdin(Stdio::inherit())
        .stdout(Stdio::from(io::stderr().as_fd().try_clone_to_owned()?))
        .stderr(Stdio::inherit());
    command.spawn()
}

fn wait(child: &mut Child, interrupts: &Interrupts, clock: Clock) -> io::Result<Option<i32>> {
    let mut grace = None;
    let mut asked = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.code());
        }
        if interrupts.came() && !asked {
            let grace = grace.get_or_insert_with(|| clock.deadline(GRACE));
            if grace.passed() {
                let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
                if let Some(pid) = pid {
                    // One that has just ended is reaped by the next look.
                    let _ = kill_process(pid, Signal::TERM);
                }
                asked = true;
            }
        }
        clock.pause(POLL);
    }
}

/// The settings of the person's terminal, which a program that is interrupted may leave changed.
pub struct Terminal(Option<Termios>);

impl std::fmt::Debug for Terminal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Terminal(…)")
    }
}

impl Terminal {
    /// Keeps the settings as they are; nothing without a terminal.
    pub fn keep() -> Self {
        let stdin = io::stdin();
        Self(isatty(&stdin).then(|| tcgetattr(&stdin).ok()).flatten())
    }

    /// Puts them back.
    pub fn restore(self) {
        if let Some(settings) = self.0 {
            // A terminal that is gone needs none.
            let _ = tcsetattr(io::stdin(), OptionalActions::Drain, &settings);
        }
    }
}
