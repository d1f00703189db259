//! The person's terminal while something else is drawn on it, and its keys go to us one by one.
//!
//! # Guarantees
//! - What the terminal was set to, it is set to again when this is dropped, a panic included; what was typed and not
//!   read by then is thrown away, since it was not meant for the shell.
//! - What was on it before is on it afterwards: another page is drawn on.
//!
//! Limits: a process that is killed by SIGKILL puts nothing back (`reset` does).

use std::io;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};

use super::pty::Size;

/// The other page, empty.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[m\x1b[2J\x1b[H";
/// Everything that a program may have switched on is off, and the first page is back.
const LEAVE: &[u8] =
    b"\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1005l\x1b[?1006l\x1b[?2004l\x1b[?1l\x1b>\x1b[0 q\
    \x1b[m\x1b[?25h\x1b[?1049l";

/// A terminal that is drawn on.
pub struct Console {
    before: Termios,
}

impl std::fmt::Debug for Console {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Console(…)")
    }
}

impl Console {
    /// Whether there is one: standard input and output are terminals.
    pub fn is_there() -> bool {
        isatty(rustix::stdio::stdin()) && isatty(rustix::stdio::stdout())
    }

    /// Takes the terminal over: no key does anything by itself.
    pub fn take() -> io::Result<Self> {
        let before = tcgetattr(rustix::stdio::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        let console = Self { before };
        tcsetattr(rustix::stdio::stdin(), OptionalActions::Flush, &raw)?;
        console.draw(ENTER)?;
        Ok(console)
    }

    /// Draws.
    pub fn draw(&self, bytes: &[u8]) -> io::Result<()> {
        let output = rustix::stdio::stdout();
        let mut rest = bytes;
        while !rest.is_empty() {
            match rustix::io::write(output, rest) {
                Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                // Whoever shares the terminal may have made it so that nobody waits for it.
                Err(Errno::AGAIN) => {
                    let mut watched = [PollFd::from_borrowed_fd(output, PollFlags::OUT)];
                    // A signal ends the wait, and the terminal is tried again.
                    let _ = poll(&mut watched, None);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Takes the keys that were typed: how many bytes, or `None` when the terminal is gone.
    pub fn keys(&self, buffer: &mut [u8]) -> Option<usize> {
        match rustix::io::read(rustix::stdio::stdin(), buffer) {
            Ok(count @ 1..) => Some(count),
            Err(Errno::INTR | Errno::AGAIN) => Some(0),
            Ok(0) | Err(_) => None,
        }
    }

    /// Its size now; the usual one where it has none.
    pub fn size(&self) -> Size {
        let found = tcgetwinsize(rustix::stdio::stdout()).ok();
        let found = found.filter(|size| size.ws_row > 0 && size.ws_col > 0);
        found.map_or(
            Size {
                rows: 24,
                columns: 80,
            },
            |size| Size {
                rows: size.ws_row,
                columns: size.ws_col,
            },
        )
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing put back.
        drop(self.draw(LEAVE));
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Flush, &self.before);
    }
}
