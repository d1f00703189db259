//! The end of every command: bytes on stdout, an error in the format asked for, an exit status.

use std::io::{self, Write as _};
use std::process::ExitCode;

use jiff::Timestamp;

use super::{ExitCodes, Global, Outcome, format};
use crate::clock::Clock;
use crate::env::{self, World};
use crate::error::{Class, Error, Result, code};
use crate::render::{self, Detail, Format};

/// How this run speaks and exits.
#[derive(Debug)]
pub(super) struct Output {
    /// Chosen format.
    pub format: Format,
    /// The moment that ages and waits are counted from.
    pub now: Timestamp,
    by_class: bool,
    detail: Detail,
}

impl Output {
    /// What can be told before the command line is understood.
    pub(super) fn before_arguments(world: &World) -> Self {
        Self {
            format: format::before_arguments(world),
            now: Clock::real().now(),
            by_class: false,
            detail: Detail::Sentence,
        }
    }

    /// What the flags and variables of an understood command line say.
    pub(super) fn settle(&mut self, world: &World, global: &Global) -> Result<()> {
        if global.verbose {
            self.detail = Detail::Everything;
        }
        self.format = format::resolve(world, global.format.map(super::FormatName::format))?;
        self.by_class = match (global.exit_codes, world.variables.text(env::EXIT_CODES)) {
            (Some(kind), _) => kind == ExitCodes::Class,
            (None, None | Some("flat")) => false,
            (None, Some("class")) => true,
            (None, Some(_)) => {
                return Err(Error::new(
                    code::USAGE,
                    format!("{} must be class or flat", env::EXIT_CODES),
                )
                .hint(format!("unset {}", env::EXIT_CODES)));
            }
        };
        Ok(())
    }

    /// Says what came out and turns it into the exit status.
    pub(super) fn finish(&self, outcome: Result<Outcome>) -> ExitCode {
        let said = outcome.and_then(|outcome| match outcome {
            Outcome::View(view) => say(view.text()).map(|()| 0),
            Outcome::Unmet(view, status) => say(view.text()).map(|()| status),
            Outcome::Text(text) => say(&text).map(|()| 0),
            Outcome::Done(status) => Ok(status),
            Outcome::Refused(error, status) => {
                self.say_error(&error);
                Ok(status)
            }
        });
        match said {
            Ok(status) => ExitCode::from(status),
            Err(error) => self.fail(&error),
        }
    }

    /// Says an error: to people on stderr, to programs on stdout.
    pub(super) fn fail(&self, error: &Error) -> ExitCode {
        self.say_error(error);
        ExitCode::from(status(error, self.by_class))
    }

    fn say_error(&self, error: &Error) {
        let text = render::error_text(error, self.now, self.format, self.detail);
        match self.format {
            // Nobody may be listening.
            Format::Human => drop(write!(anstream::stderr(), "{text}")),
            Format::Json | Format::Toon => drop(say(&text)),
        }
    }
}

/// Whether anyone was there to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// Somebody, or there was nothing to tell.
    Somebody,
    /// The reader went away.
    Nobody,
}

/// Writes to stdout. A reader that went away has all it wanted; any other failure is reported.
pub(super) fn say(text: &str) -> Result<()> {
    tell(text).map(drop)
}

/// The same, and whether anyone was there.
pub(super) fn tell(text: &str) -> Result<Told> {
    // Only pages have any, and a long answer would be searched for them letter by letter.
    if !text.contains('\u{1b}') {
        return tell_raw(text);
    }
    let mut stdout = anstream::stdout();
    told(
        stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush()),
    )
}

/// Writes to stdout as it is, control sequences of the terminal included.
pub(super) fn tell_raw(text: &str) -> Result<Told> {
    let mut stdout = io::stdout();
    told(
        stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush()),
    )
}

/// Whether what is said to stdout keeps its colours.
pub(super) fn is_styled() -> bool {
    anstream::stdout().current_choice() != anstream::ColorChoice::Never
}

fn told(written: io::Result<()>) -> Result<Told> {
    match written {
        Ok(()) => Ok(Told::Somebody),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Told::Nobody),
        Err(error) => Err(Error::io("write to", "/dev/stdout", &error)),
    }
}

/// The exit status of a refusal: 2, or 1 for a bug, or the number of the class where that was asked for.
fn status(error: &Error, by_class: bool) -> u8 {
    match error.code.class {
        Class::Internal => 1,
        class @ (Class::Refused
        | Class::Capacity
        | Class::Identity
        | Class::Busy
        | Class::System) => {
            if by_class {
                class.status()
            } else {
                2
            }
        }
    }
}
