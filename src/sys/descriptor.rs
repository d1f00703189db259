//! File descriptors that must, or must not, outlive an execve.

use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd as _, IntoRawFd as _, OwnedFd, RawFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::pipe::PipeFlags;

use crate::clock::{Clock, Deadline};

/// Descriptors that are handed on get numbers from here, out of the way of shells and runtimes.
const HIGH: RawFd = 100;

/// Moves `file` to a high descriptor that survives execve, and leaves it open for good.
///
/// The duplicate shares the open file description, so a `flock` on `file` stays held by it.
pub fn survive_exec(file: File) -> io::Result<RawFd> {
    let high = inheritable(&file)?;
    drop(file);
    Ok(high.into_raw_fd())
}

/// A pipe that holds these bytes and nothing more; its reading end survives execve, and stays open for good.
///
/// Whoever reads it first has it to itself: a second reader finds its end. It fails when there is more than a pipe
/// takes at once.
pub fn hand_over(bytes: &[u8]) -> io::Result<RawFd> {
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    // Nobody reads yet, so a write that cannot be whole would wait for ever.
    if rustix::io::write(&writer, bytes)? != bytes.len() {
        return Err(io::ErrorKind::WriteZero.into());
    }
    drop(writer);
    rustix::fs::fcntl_setfl(&reader, rustix::fs::OFlags::empty())?;
    survive_exec(File::from(reader))
}

/// Runs `body` while every child that it starts inherits a duplicate of `file`, under a high number.
///
/// No other thread may start a process meanwhile: its child would inherit it as well.
pub fn lend<T>(file: &File, body: impl FnOnce() -> T) -> io::Result<T> {
    let lent = inheritable(file)?;
    let result = body();
    drop(lent);
    Ok(result)
}

fn inheritable(file: &File) -> io::Result<OwnedFd> {
    // A process that may not have so many descriptors takes the next one.
    let high = fcntl_dupfd_cloexec(file, HIGH).or_else(|_| fcntl_dupfd_cloexec(file, 3))?;
    fcntl_setfd(&high, FdFlags::empty())?;
    Ok(high)
}

/// Closes every descriptor from 3 up that this process inherited.
///
/// Codex passes its own descriptors, a lease's witness among them, on to hook children; a hook that left a
/// process behind would keep the lease alive. Call it first, before anything else is opened.
#[expect(
    unsafe_code,
    reason = "only a raw close can reach inherited descriptors"
)]
pub fn close_inherited() {
    for fd in open_descriptors() {
        // The listing's own descriptor is closed by now and would be closed twice.
        if rustix::io::fcntl_getfd(unsafe_borrow(fd)).is_ok() {
            // SAFETY: nothing in this process owns descriptors above 2 yet, by the contract of this function.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
        }
    }
}

/// Standard input up to its end, `limit` bytes or the deadline, whichever comes first; empty when it is a
/// terminal. A caller that never closes its end cannot make this wait.
pub fn read_input(limit: usize, deadline: &Deadline) -> Vec<u8> {
    let input = rustix::stdio::stdin();
    let mut bytes = Vec::new();
    if rustix::termios::isatty(input) {
        return bytes;
    }
    let mut chunk = [0; 16 << 10];
    while bytes.len() < limit {
        let timeout = timespec(deadline.left());
        let mut watched = [PollFd::from_borrowed_fd(input, PollFlags::IN)];
        match poll(&mut watched, Some(&timeout)) {
            Ok(1..) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Ok(0) | Err(_) => break,
        }
        match rustix::io::read(input, &mut chunk) {
            Err(rustix::io::Errno::INTR) => {}
            Ok(0) | Err(_) => break,
            Ok(count) => bytes.extend_from_slice(chunk.get(..count).unwrap_or_default()),
        }
    }
    bytes
}

/// Lets `span` pass; true, and at once, when nobody can read what is written to standard output any more.
/// Only pipes, sockets and terminals have a reader that can leave.
pub fn reader_left(span: Duration) -> bool {
    let output = rustix::stdio::stdout();
    let deadline = Clock::real().deadline(span);
    loop {
        // Nothing is waited for but the end, which is told without being asked for.
        let mut watched = [PollFd::from_borrowed_fd(output, PollFlags::empty())];
        match poll(&mut watched, Some(&timespec(deadline.left()))) {
            Ok(1..) => return true,
            Err(rustix::io::Errno::INTR) => {}
            Ok(0) => return false,
            Err(_) => {
                deadline.pause(span);
                return false;
            }
        }
    }
}

fn timespec(span: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(span.subsec_nanos()),
    }
}

/// Runs `body` while no child can inherit the descriptors from 3 up that this process was started with.
///
/// For the scripted agent's tools: the real CLIs do not pass the witness of a lease on to tools either.
pub fn withheld<T>(body: impl FnOnce() -> T) -> T {
    let passed: Vec<RawFd> = open_descriptors()
        .into_iter()
        .filter(|fd| {
            rustix::io::fcntl_getfd(unsafe_borrow(*fd))
                .is_ok_and(|flags| !flags.contains(FdFlags::CLOEXEC))
        })
        .collect();
    let mark = |flags: FdFlags| {
        for fd in &passed {
            // A descriptor that was closed meanwhile cannot be inherited either.
            let _ = fcntl_setfd(unsafe_borrow(*fd), flags);
        }
    };
    mark(FdFlags::CLOEXEC);
    let result = body();
    mark(FdFlags::empty());
    result
}

fn open_descriptors() -> Vec<RawFd> {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd").or_else(|_| std::fs::read_dir("/dev/fd"))
    else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| {
            entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
        })
        .filter(|fd| *fd > 2)
        .collect()
}

#[expect(unsafe_code, reason = "probing a descriptor number that may be closed")]
fn unsafe_borrow<'a>(fd: RawFd) -> std::os::fd::BorrowedFd<'a> {
    // SAFETY: used for one F_GETFD or F_SETFD, which reports EBADF for a closed number.
    unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) }
}
