//! A terminal of our own for a program that wants one: its far end is the program's, the near end is ours.
//!
//! Nothing that waits: reading and typing take what there is and come back. When the last holder of the near end is
//! gone, however it died, the far end hangs up.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Rows and columns of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Rows.
    pub rows: u16,
    /// Columns.
    pub columns: u16,
}

/// The near end of a terminal.
#[derive(Debug)]
pub struct Pty {
    near: OwnedFd,
}

/// What a terminal had to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// So many bytes.
    Bytes(usize),
    /// Nothing now.
    Nothing,
    /// Nobody holds its far end now.
    HungUp,
}

impl Pty {
    /// A new terminal of this size, with its far end.
    pub fn open(size: Size) -> io::Result<(Self, File)> {
        let near = open_near()?;
        grantpt(&near)?;
        unlockpt(&near)?;
        let far = open_far(&near)?;
        fcntl_setfl(&near, fcntl_getfl(&near)? | OFlags::NONBLOCK)?;
        let pty = Self { near };
        pty.resize(size)?;
        Ok((pty, File::from(far)))
    }

    /// Gives it another size, and says so to the program that is in its foreground.
    pub fn resize(&self, size: Size) -> io::Result<()> {
        let size = Winsize {
            ws_row: size.rows,
            ws_col: size.columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        Ok(tcsetwinsize(&self.near, size)?)
    }

    /// Takes what the program has written.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<Shown> {
        match rustix::io::read(&self.near, buffer) {
            // `IO` is how Linux says that the far end is closed.
            Ok(0) | Err(Errno::IO) => Ok(Shown::HungUp),
            Ok(count) => Ok(Shown::Bytes(count)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(Shown::Nothing),
            Err(error) => Err(error.into()),
        }
    }

    /// Types keys; how many of the bytes were taken. Nobody misses them where nobody holds the far end.
    pub fn type_keys(&self, keys: &[u8]) -> io::Result<usize> {
        match rustix::io::write(&self.near, keys) {
            Ok(count) => Ok(count),
            Err(Errno::IO) => Ok(keys.len()),
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Pty {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.near.as_fd()
    }
}

#[cfg(target_os = "linux")]
fn open_near() -> io::Result<OwnedFd> {
    Ok(openpt(
        OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC,
    )?)
}

#[cfg(not(target_os = "linux"))]
fn open_near() -> io::Result<OwnedFd> {
    let near = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    rustix::io::fcntl_setfd(&near, rustix::io::FdFlags::CLOEXEC)?;
    Ok(near)
}

#[cfg(target_os = "linux")]
fn open_far(near: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    // Without a name: what is mounted at /dev/pts need not be where this terminal is.
    match rustix::pty::ioctl_tiocgptpeer(near, flags) {
        // Kernels that only look like Linux have no such call.
        Err(Errno::NOTTY | Errno::INVAL) => open_named(near),
        other => Ok(other?),
    }
}

#[cfg(not(target_os = "linux"))]
fn open_far(near: &OwnedFd) -> io::Result<OwnedFd> {
    open_named(near)
}

fn open_named(near: &OwnedFd) -> io::Result<OwnedFd> {
    let name = ptsname(near, Vec::new())?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(
        name.as_c_str(),
        flags,
        rustix::fs::Mode::empty(),
    )?)
}

#[cfg(test)]
mod tests {
    use super::{Pty, Shown, Size};
    use crate::clock::Clock;
    use crate::sys::spawn::Program;
    use crate::sys::tend::{Exit, Tended};
    use std::time::Duration;

    const SIZE: Size = Size {
        rows: 11,
        columns: 33,
    };

    fn shell(script: &str) -> Program {
        Program {
            path: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
            environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
            ..Program::default()
        }
    }

    /// Reads until `wanted` was shown, or the far end is closed.
    fn until(pty: &Pty, wanted: &str) -> String {
        let deadline = Clock::real().deadline(Duration::from_secs(20));
        let mut shown = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            match pty.read(&mut buffer).unwrap() {
                Shown::Bytes(count) => shown.extend_from_slice(&buffer[..count]),
                Shown::HungUp => break,
                Shown::Nothing => assert!(deadline.pause(Duration::from_millis(2))),
            }
            if !wanted.is_empty() && String::from_utf8_lossy(&shown).contains(wanted) {
                break;
            }
        }
        String::from_utf8_lossy(&shown).into_owned()
    }

    #[test]
    fn a_program_leads_the_session_of_its_terminal_and_hears_of_its_size_and_of_keys() {
        let (pty, far) = Pty::open(SIZE).unwrap();
        // The terminal that `/dev/tty` is, is the one that it has; its session is its own.
        let script = "stty size < /dev/tty; ps -o sid= -p $$ | tr -d ' '; echo $$; read word; \
                      trap 'stty size; exit 3' WINCH; echo got $word; while :; do sleep 0.02; done";
        let mut child = Tended::on_terminal(&shell(script), far).unwrap();
        let pid = child.pid().to_string();
        let shown = until(&pty, &format!("{pid}\r\n{pid}\r\n"));
        assert!(shown.starts_with("11 33\r\n"), "{shown:?}");
        assert_eq!(pty.type_keys(b"yes\r").unwrap(), 4);
        until(&pty, "got yes");
        pty.resize(Size {
            rows: 20,
            columns: 80,
        })
        .unwrap();
        let shown = until(&pty, "");
        assert!(shown.contains("20 80"), "{shown:?}");
        assert_eq!(child.wait().unwrap(), Exit::Status(3));
    }

    #[test]
    fn a_program_whose_terminal_is_gone_is_hung_up() {
        let (pty, far) = Pty::open(SIZE).unwrap();
        let mut child = Tended::on_terminal(&shell("echo on; sleep 600"), far).unwrap();
        until(&pty, "on");
        drop(pty);
        assert_eq!(child.wait().unwrap(), Exit::Signal(1));
    }
}
