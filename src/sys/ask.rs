//! Asking the person for something that nobody may see.
//!
//! From a terminal one line is read, with whatever was pasted behind it, and nothing of it is shown; from anything else
//! everything up to its end. A signal ends the wait, and the terminal shows what is typed again whatever happened.
//!
//! # Guarantees
//! - What was pasted is read or thrown away here: no line of it is left for the shell, which would keep it.
//! - A person who stopped the program and went on with it is asked again, and still nothing is shown.

use std::io::{self, Write as _};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{LocalModes, OptionalActions, Termios, isatty, tcgetattr, tcsetattr};

use super::interrupt::Interrupts;

/// Time between two looks for an interrupt.
const POLL: Duration = Duration::from_millis(100);
/// How long a terminal is quiet before a paste has come to its end: a bad line brings it in pieces.
const SETTLED: Duration = Duration::from_millis(400);

/// What was given, with its line end; at most `limit` bytes and one. `Interrupted` when the person ended it.
pub fn secret(prompt: &str, limit: usize, interrupts: &Interrupts) -> io::Result<Vec<u8>> {
    let input = rustix::stdio::stdin();
    let terminal = isatty(input);
    let silent = terminal.then(|| Silent::terminal(prompt)).transpose()?;
    let mut bytes = Vec::new();
    let mut chunk = [0; 4 << 10];
    while bytes.len() <= limit {
        if interrupts.came() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if let Some(silent) = &silent {
            silent.again()?;
        }
        let has_line = terminal && bytes.ends_with(b"\n");
        let timeout = Timespec::try_from(if has_line { SETTLED } else { POLL })
            .map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut watched = [PollFd::from_borrowed_fd(input, PollFlags::IN)];
        match poll(&mut watched, Some(&timeout)) {
            Ok(0) if has_line => break,
            Ok(0) | Err(Errno::INTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        match rustix::io::read(input, &mut chunk) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(chunk.get(..count).unwrap_or_default()),
            Err(Errno::INTR) => {}
            // The terminal went away, and its signal is on its way or was not wanted.
            Err(Errno::IO) if terminal => return Err(io::ErrorKind::Interrupted.into()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}

/// A terminal that does not show what is typed.
struct Silent<'a> {
    before: Termios,
    prompt: &'a str,
}

impl<'a> Silent<'a> {
    fn terminal(prompt: &'a str) -> io::Result<Self> {
        let before = tcgetattr(rustix::stdio::stdin())?;
        let silent = Self { before, prompt };
        silent.ask()?;
        Ok(silent)
    }

    fn ask(&self) -> io::Result<()> {
        let mut silent = self.before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        silent
            .local_modes
            .insert(LocalModes::ICANON | LocalModes::ISIG);
        // What was typed ahead was shown already; it is no answer to this.
        tcsetattr(rustix::stdio::stdin(), OptionalActions::Flush, &silent)?;
        write!(io::stderr(), "{}", self.prompt)?;
        io::stderr().flush()
    }

    /// Asks once more when the terminal shows again what is typed: a shell sets it so while we are stopped.
    fn again(&self) -> io::Result<()> {
        let now = tcgetattr(rustix::stdio::stdin())?;
        if now.local_modes.contains(LocalModes::ECHO) {
            self.ask()?;
        }
        Ok(())
    }
}

impl Drop for Silent<'_> {
    fn drop(&mut self) {
        // What is left of a paste is no command. A terminal that is gone needs none.
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Flush, &self.before);
        // The person's line end was not shown either.
        drop(writeln!(io::stderr()));
    }
}
