//! Asking the person for something that nobody may see.
//!
//! From a terminal one line is read, and nothing of it is shown; from anything else everything up to its end. A
//! signal ends the wait, and the terminal shows what is typed again whatever happened.

use std::io::{self, Write as _};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{LocalModes, OptionalActions, Termios, isatty, tcgetattr, tcsetattr};

use super::interrupt::Interrupts;

/// Time between two looks for an interrupt.
const POLL: Duration = Duration::from_millis(100);

/// What was given, with its line end; at most `limit` bytes and one. `Interrupted` when the person ended it.
pub fn secret(prompt: &str, limit: usize, interrupts: &Interrupts) -> io::Result<Vec<u8>> {
    let input = rustix::stdio::stdin();
    let terminal = isatty(input);
    let _silent = if terminal {
        let silent = Silent::terminal()?;
        write!(io::stderr(), "{prompt}")?;
        io::stderr().flush()?;
        Some(silent)
    } else {
        None
    };
    let mut bytes = Vec::new();
    let mut chunk = [0; 4 << 10];
    let timeout = Timespec {
        tv_sec: 0,
        tv_nsec: i64::from(POLL.subsec_nanos()),
    };
    while bytes.len() <= limit && !(terminal && bytes.ends_with(b"\n")) {
        if interrupts.came() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let mut watched = [PollFd::from_borrowed_fd(input, PollFlags::IN)];
        match poll(&mut watched, Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        match rustix::io::read(input, &mut chunk) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(chunk.get(..count).unwrap_or_default()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}

/// A terminal that does not show what is typed.
struct Silent(Termios);

impl Silent {
    fn terminal() -> io::Result<Self> {
        let input = rustix::stdio::stdin();
        let before = tcgetattr(input)?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        silent
            .local_modes
            .insert(LocalModes::ICANON | LocalModes::ISIG);
        // What was typed ahead was shown already; it is no answer to this.
        tcsetattr(input, OptionalActions::Flush, &silent)?;
        Ok(Self(before))
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        // A terminal that is gone needs none.
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Drain, &self.0);
        // The person's line end was not shown either.
        drop(writeln!(io::stderr()));
    }
}
