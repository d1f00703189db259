//! Looking at the screen of a worker, and typing at it: the viewer's side.
//!
//! A viewer is a connection to the turn's host and nothing more: killed, stopped or slow, it changes nothing. Who only
//! looks sends no key. Who types is the only one that ever does, and is at the worker's keys until the viewer is left.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::files::LaunchFiles;
use super::launch::observe::{CLAIM_PATIENCE, Seen, look};
use super::launch::{LaunchRecord, Life};
use super::model::Worker;
use super::record;
use super::screen::frame::{Frame, LONGEST};
use super::screen::picture::Purpose;
use super::screen::place::{self, ScreenRecord};
use super::turn::plain::harmless;
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::sys::console::Console;
use crate::sys::interrupt::Interrupts;
use crate::sys::socket;

/// Ctrl-C: who only looks leaves by it.
const CTRL_C: u8 = 0x03;
/// Ctrl-\: everybody leaves by it.
const CTRL_BACKSLASH: u8 = 0x1c;
/// Time between two looks at the terminal's size, and at a host that is on its way.
const POLL: Duration = Duration::from_millis(100);
/// How long a host may take for the text of its screen.
const PEEK_PATIENCE: Duration = Duration::from_secs(2);
/// Bytes drawn at once.
const PIECE: usize = 64 << 10;
/// Most bytes kept for a host that takes none; what is typed beyond them is lost.
const MOST_KEPT: usize = 64 << 10;

/// Why a screen is not looked at any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// The person left it.
    Person,
    /// The turn is over.
    Over,
}

/// Whether a worker's current launch has a screen that may be seen.
pub fn is_on_screen(files: &LaunchFiles, worker: &Worker) -> Result<bool> {
    let launch: Option<LaunchRecord> = record::load(&files.launch())?;
    Ok(worker.state.holds_slot() && launch.is_some_and(|launch| launch.is_on_screen()))
}

/// Shows a worker's screen at this terminal until the person leaves or the turn is over; `None` when it has none any
/// more.
///
/// Refused with `timeout` when it is not there in time, with `exposed` when somebody else could be at its place, and
/// with `not_found` when its host could show it nowhere.
pub fn see(
    context: &Context,
    files: &LaunchFiles,
    worker: &Worker,
    purpose: Purpose,
) -> Result<Option<Left>> {
    let Some(stream) = until_connected(context, files, worker)? else {
        return Ok(None);
    };
    let failed =
        |error: std::io::Error| Error::io("show the screen of", worker.name.as_str(), &error);
    let watch = Interrupts::watch().map_err(failed)?;
    let console = Console::take().map_err(failed)?;
    let left = show(&stream, &console, purpose, &watch);
    drop(console);
    left.map(Some).map_err(failed)
}

/// The rows of a worker's screen, harmless; `None` when it has none any more.
pub fn peek(
    context: &Context,
    files: &LaunchFiles,
    worker: &Worker,
) -> Result<Option<Vec<String>>> {
    let Found::Screen(mut stream) = connect(context, files, worker)? else {
        return Ok(None);
    };
    let read = || -> std::io::Result<String> {
        stream.set_read_timeout(Some(PEEK_PATIENCE))?;
        stream.set_write_timeout(Some(PEEK_PATIENCE))?;
        stream.write_all(&Frame::Peek.bytes())?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    // A host that is stopped, or ends just now, has nothing to show.
    let text = { read }().ok();
    Ok(text.map(|text| text.lines().map(harmless).collect()))
}

/// What there is of a screen.
enum Found {
    /// Somebody shows it.
    Screen(UnixStream),
    /// Its host is on its way, or just leaves.
    NotYet,
    /// It is over.
    Over,
}

/// Looks for the screen until its host is there; `None` when it is over.
fn until_connected(
    context: &Context,
    files: &LaunchFiles,
    worker: &Worker,
) -> Result<Option<UnixStream>> {
    let deadline = context.clock.deadline(CLAIM_PATIENCE);
    loop {
        match connect(context, files, worker)? {
            Found::Screen(stream) => return Ok(Some(stream)),
            Found::Over => return Ok(None),
            Found::NotYet if deadline.pause(POLL) => {}
            Found::NotYet => {
                let message = format!("the screen of `{}` was not there in time", worker.name);
                let hint = format!("agent-fleet fleet logs {}", worker.name);
                return Err(Error::new(code::TIMEOUT, message).hint(hint));
            }
        }
    }
}

/// Refused with `exposed` when somebody else could be there, and with `not_found` when the host could show it nowhere.
fn connect(context: &Context, files: &LaunchFiles, worker: &Worker) -> Result<Found> {
    let observed = look(files, &worker.token, context.clock.now(), || Life::Unknown)?;
    match observed.seen {
        Seen::Waiting | Seen::Overdue => return Ok(Found::NotYet),
        // With the host its terminal is gone.
        Seen::NeverStarted | Seen::Ended(_) | Seen::Unknown | Seen::Running { adopted: true } => {
            return Ok(Found::Over);
        }
        Seen::Running { adopted: false } => {}
    }
    // It is written down before the process is.
    let screen: Option<ScreenRecord> = record::load(&files.screen())?;
    let Some(screen) = screen.filter(|screen| screen.token == worker.token) else {
        let log = files.host_log();
        let message = format!(
            "the host of `{}` could show its screen nowhere; {log} says why",
            worker.name
        );
        let hint = format!("agent-fleet fleet logs {}", worker.name);
        return Err(Error::new(code::NOT_FOUND, message).hint(hint));
    };
    match place::check(&screen.socket) {
        Ok(()) => {}
        // Its directory went with a login, or it is about to be said how the turn ended.
        Err(_) if !screen.socket.exists() => return Ok(Found::NotYet),
        Err(error) => return Err(error),
    }
    match UnixStream::connect(&screen.socket) {
        Ok(stream) if socket::is_ours(&stream) => Ok(Found::Screen(stream)),
        Ok(_) => {
            let message = format!("somebody else listens at `{}`", screen.socket);
            Err(Error::new(code::EXPOSED, message).hint(format!("ls -l {}", screen.socket)))
        }
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::ConnectionRefused
            ) =>
        {
            Ok(Found::NotYet)
        }
        Err(error) => Err(Error::io("connect to", &screen.socket, &error)),
    }
}

fn show(
    mut stream: &UnixStream,
    console: &Console,
    purpose: Purpose,
    watch: &Interrupts,
) -> std::io::Result<Left> {
    stream.set_nonblocking(true)?;
    let mut size = console.size();
    let first = match purpose {
        Purpose::Look => Frame::Look(size),
        Purpose::Type => Frame::Type(size),
    };
    let mut kept = first.bytes();
    let mut piece = vec![0; PIECE];
    let mut keys = vec![0; LONGEST];
    loop {
        let now = console.size();
        if now != size && kept.len() < MOST_KEPT {
            size = now;
            kept.extend(Frame::Resized(size).bytes());
        }
        let [is_typed, has_come] = wait(stream, !kept.is_empty());
        if watch.came() {
            return Ok(Left::Person);
        }
        if is_typed {
            let count = console.keys(&mut keys);
            let typed = keys.get(..count.unwrap_or(0)).unwrap_or_default();
            let leaves = |key: &u8| match purpose {
                Purpose::Look => matches!(*key, CTRL_C | CTRL_BACKSLASH),
                Purpose::Type => *key == CTRL_BACKSLASH,
            };
            if count.is_none() || typed.iter().any(leaves) {
                return Ok(Left::Person);
            }
            if purpose == Purpose::Type && !typed.is_empty() && kept.len() < MOST_KEPT {
                kept.extend(Frame::Keys(typed.to_vec()).bytes());
            }
        }
        if !kept.is_empty() {
            match stream.write(&kept) {
                Ok(count) => drop(kept.drain(..count)),
                Err(error) if is_later(&error) => {}
                // What it sent before it went is still shown.
                Err(_) => kept.clear(),
            }
        }
        if !has_come {
            continue;
        }
        match stream.read(&mut piece) {
            Ok(0) => return Ok(Left::Over),
            Ok(count) => console.draw(piece.get(..count).unwrap_or_default())?,
            Err(error) if is_later(&error) => {}
            Err(_) => return Ok(Left::Over),
        }
    }
}

fn is_later(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Waits for keys and for the host; whether there is something of each. A signal ends the wait.
fn wait(stream: &UnixStream, is_sending: bool) -> [bool; 2] {
    let timeout = Timespec {
        tv_sec: 0,
        tv_nsec: i64::from(POLL.subsec_nanos()),
    };
    let mut host = PollFlags::IN;
    if is_sending {
        host |= PollFlags::OUT;
    }
    let mut watched = [
        PollFd::from_borrowed_fd(rustix::stdio::stdin(), PollFlags::IN),
        PollFd::new(stream, host),
    ];
    if poll(&mut watched, Some(&timeout)).is_err() {
        return [false; 2];
    }
    let [keys, host] = watched.map(|one| one.revents());
    [!keys.is_empty(), !(host - PollFlags::OUT).is_empty()]
}
