//! Who a process is, and whether it lives.
//!
//! A process is named by its pid and its kernel start time, so a reused pid is another process. `ps`, time
//! zones, locales and host names play no part.

use std::fs;
use std::io;
use std::path::PathBuf;

/// What the kernel says of a pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Kernel start time: clock ticks since boot (Linux, `/proc/<pid>/stat` field 22).
    pub start: u64,
    /// Parent pid.
    pub parent: u32,
    /// Dead but not yet waited for, its last thread included: until that one has ended, files stay open.
    pub zombie: bool,
}

/// Looks a pid up; `None` when there is no such process.
#[cfg(target_os = "linux")]
pub fn status(pid: u32) -> io::Result<Option<Status>> {
    let text = match fs::read(format!("/proc/{pid}/stat")) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        // ESRCH: the process ended between open and read.
        Err(error) if error.raw_os_error() == Some(3) => return Ok(None),
        Err(error) => return Err(error),
    };
    parse_stat(&text)
        .map(Some)
        .ok_or_else(|| io::Error::other(format!("cannot parse /proc/{pid}/stat")))
}

/// Parses a stat line; the command name may hold spaces and parentheses, so fields count from its end.
#[cfg(target_os = "linux")]
fn parse_stat(text: &[u8]) -> Option<Status> {
    let end = text.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(text.get(end + 2..)?).ok()?;
    let mut fields = rest.split(' ');
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    // Field 20 of the line is the sixteenth after the parent (field 4), field 22 the second after that.
    let threads: u32 = fields.nth(15)?.parse().ok()?;
    let start = fields.nth(1)?.trim().parse().ok()?;
    Some(Status {
        start,
        parent,
        // A first thread that ended before the others is shown as a zombie while they run.
        zombie: matches!(state, "Z" | "X" | "x") && threads <= 1,
    })
}

/// This process: pid and kernel start time.
pub fn current() -> io::Result<(u32, u64)> {
    let pid = std::process::id();
    match status(pid)? {
        Some(status) => Ok((pid, status.start)),
        None => Err(io::Error::other("this process has no /proc entry")),
    }
}

/// The kernel's random id of this boot.
#[cfg(target_os = "linux")]
pub fn boot_id() -> io::Result<[u8; 16]> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    uuid::Uuid::parse_str(text.trim())
        .map(uuid::Uuid::into_bytes)
        .map_err(io::Error::other)
}

/// Inode of this process's pid namespace: pids of another one mean nothing here.
#[cfg(target_os = "linux")]
pub fn pid_namespace() -> io::Result<u64> {
    let link = fs::read_link("/proc/self/ns/pid")?;
    let text = link.to_string_lossy();
    text.trim_start_matches("pid:[")
        .trim_end_matches(']')
        .parse()
        .map_err(|_| io::Error::other(format!("cannot parse pid namespace `{text}`")))
}

/// True when `/proc` was mounted in this process's pid namespace, so that pids in it are ours.
#[cfg(target_os = "linux")]
pub fn proc_shows_us() -> bool {
    fs::read_link("/proc/self")
        .is_ok_and(|link| link.to_str() == Some(std::process::id().to_string().as_str()))
}

/// The executable of a process; a replaced binary keeps its old path, without the kernel's ` (deleted)`.
#[cfg(target_os = "linux")]
pub fn executable(pid: u32) -> Option<PathBuf> {
    let link = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let text = link.to_str()?;
    Some(PathBuf::from(
        text.strip_suffix(" (deleted)").unwrap_or(text),
    ))
}

/// Processes that we may look into whose environment has this variable with exactly this value, children of
/// the process that it was made for included. A process that ends meanwhile is left out.
#[cfg(target_os = "linux")]
pub fn carrying(variable: &str, value: &str) -> io::Result<Vec<u32>> {
    let wanted = format!("{variable}={value}").into_bytes();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let carries = |environment: Vec<u8>| {
            environment
                .split(|byte| *byte == 0)
                .any(|variable| variable == wanted)
        };
        if fs::read(format!("/proc/{pid}/environ")).is_ok_and(carries) {
            found.push(pid);
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// The kernel's own number of a process, unique while this boot lasts; `None` before Linux 6.9.
#[cfg(target_os = "linux")]
pub fn unique(pid: u32) -> Option<u64> {
    use rustix::fs::{fstat, fstatfs};
    const PIDFS: u32 = 0x5049_4446;
    let descriptor = open_pid(pid).ok()?;
    let kind = u32::try_from(fstatfs(&descriptor).ok()?.f_type).ok()?;
    (kind == PIDFS).then_some(())?;
    Some(fstat(&descriptor).ok()?.st_ino)
}

/// Whether the process with this pid and unique number has ended, its last thread included. Three times
/// cheaper than [`status`].
#[cfg(target_os = "linux")]
pub fn has_ended(pid: u32, unique: u64) -> io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::io::Errno;
    let descriptor = match open_pid(pid) {
        Ok(descriptor) => descriptor,
        // No such process, or the pid is now that of a thread.
        Err(Errno::SRCH | Errno::INVAL | Errno::NOENT) => return Ok(true),
        Err(error) => return Err(error.into()),
    };
    if rustix::fs::fstat(&descriptor)?.st_ino != unique {
        return Ok(true);
    }
    let mut watched = [PollFd::new(&descriptor, PollFlags::IN)];
    Ok(poll(&mut watched, Some(&Timespec::default()))? == 1)
}

#[cfg(target_os = "linux")]
fn open_pid(pid: u32) -> rustix::io::Result<std::os::fd::OwnedFd> {
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pidfd_open(pid.ok_or(rustix::io::Errno::SRCH)?, PidfdFlags::empty())
}

/// Waits until a process ends or `span` has passed; true when it ended. Uses a pidfd, so no polling.
#[cfg(target_os = "linux")]
pub fn wait_end(pid: u32, span: std::time::Duration) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return true;
    };
    let Ok(descriptor) = pidfd_open(pid, PidfdFlags::empty()) else {
        return true;
    };
    let timeout = Timespec {
        tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(span.subsec_nanos()),
    };
    let mut watched = [PollFd::new(&descriptor, PollFlags::IN)];
    matches!(poll(&mut watched, Some(&timeout)), Ok(1))
}

/// What becomes readable when a process has ended; `None` where there is no such thing, or the process is gone.
#[cfg(target_os = "linux")]
pub fn ending(pid: u32) -> Option<std::os::fd::OwnedFd> {
    open_pid(pid).ok()
}

/// What becomes readable when a process has ended; `None` where there is no such thing, or the process is gone.
#[cfg(not(target_os = "linux"))]
pub fn ending(_: u32) -> Option<std::os::fd::OwnedFd> {
    None
}

/// Processes whose end can be waited for together.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub struct Endings(Vec<std::os::fd::OwnedFd>);

#[cfg(target_os = "linux")]
impl Endings {
    /// Of these processes; those that have ended already, or cannot be watched, are left out.
    pub fn of(pids: impl IntoIterator<Item = u32>) -> Self {
        let open = |pid| open_pid(pid).ok();
        Self(pids.into_iter().filter_map(open).collect())
    }

    /// Lets `span` pass; true, and at once, when one of the processes has ended. A signal ends the wait too.
    pub fn wait(&self, span: std::time::Duration) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let timeout = Timespec {
            tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(span.subsec_nanos()),
        };
        let watch = |descriptor| PollFd::new(descriptor, PollFlags::IN);
        let mut watched: Vec<_> = self.0.iter().map(watch).collect();
        matches!(poll(&mut watched, Some(&timeout)), Ok(1..))
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    //! macOS through `ps` is ruled out (locale, one-second resolution); `proc_pidinfo` needs libc bindings
    //! that nobody has run yet, so liveness is reported as unreadable, which keeps every slot.
    use super::{PathBuf, Status, io};
    fn unsupported<T>() -> io::Result<T> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "process identity is not implemented on this platform",
        ))
    }
    pub fn status(_: u32) -> io::Result<Option<Status>> {
        unsupported()
    }
    pub fn boot_id() -> io::Result<[u8; 16]> {
        unsupported()
    }
    pub fn pid_namespace() -> io::Result<u64> {
        unsupported()
    }
    pub fn proc_shows_us() -> bool {
        false
    }
    pub fn unique(_: u32) -> Option<u64> {
        None
    }
    pub fn has_ended(_: u32, _: u64) -> io::Result<bool> {
        unsupported()
    }
    pub fn executable(_: u32) -> Option<PathBuf> {
        None
    }
    pub fn carrying(_: &str, _: &str) -> io::Result<Vec<u32>> {
        unsupported()
    }
    pub fn wait_end(_: u32, span: std::time::Duration) -> bool {
        crate::clock::Clock::real().pause(span);
        false
    }
    #[derive(Debug)]
    pub struct Endings;
    impl Endings {
        pub fn of(_: impl IntoIterator<Item = u32>) -> Self {
            Self
        }
        pub fn wait(&self, span: std::time::Duration) -> bool {
            crate::clock::Clock::real().pause(span);
            false
        }
    }
}
#[cfg(not(target_os = "linux"))]
pub use other::{
    Endings, boot_id, carrying, executable, has_ended, pid_namespace, proc_shows_us, status,
    unique, wait_end,
};

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::{Endings, carrying, current, has_ended, parse_stat, status, unique};
    use std::io::{Read as _, Write as _};
    use std::time::Duration;

    #[test]
    fn a_command_name_with_parentheses_does_not_shift_the_fields() {
        let line = b"12 (a) b) (c) S 7 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1000 2 18446744073709551615";
        let status = parse_stat(line).unwrap();
        assert_eq!(
            (status.start, status.parent, status.zombie),
            (98765, 7, false)
        );
    }

    #[test]
    fn a_zombie_with_running_threads_has_not_ended() {
        let line = |threads: u32| format!("12 (a) Z 7{} {threads} 0 98765", " 0".repeat(15));
        assert!(parse_stat(line(1).as_bytes()).unwrap().zombie);
        assert!(!parse_stat(line(2).as_bytes()).unwrap().zombie);
    }

    #[test]
    fn a_process_is_known_by_its_unique_number() {
        let pid = std::process::id();
        let Some(own) = unique(pid) else { return };
        assert!(!has_ended(pid, own).unwrap());
        assert!(has_ended(pid, own - 1).unwrap(), "a reused pid");
        assert!(has_ended(u32::MAX >> 1, own).unwrap(), "no such pid");
    }

    #[test]
    fn a_process_is_found_by_a_variable_that_it_was_started_with() {
        let mark = format!("mark-{}", std::process::id());
        #[expect(clippy::disallowed_methods, reason = "a process to be found")]
        let mut child = std::process::Command::new("cat")
            .env("AGENT_FLEET_TEST_MARK", &mark)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // The kernel shows the variables a moment after the program has begun: it runs once it answers.
        let mut answer = [0];
        child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        child
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut answer)
            .unwrap();
        let found = carrying("AGENT_FLEET_TEST_MARK", &mark);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found.unwrap(), [child.id()]);
        assert_eq!(
            carrying("AGENT_FLEET_TEST_MARK", &mark[1..]).unwrap(),
            [0; 0]
        );
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a process that ends")]
    fn the_end_of_any_watched_process_ends_the_wait() {
        let sleep = || {
            let mut command = std::process::Command::new("sleep");
            command.arg("600").spawn().unwrap()
        };
        let (mut one, mut other) = (sleep(), sleep());
        let endings = Endings::of([one.id(), other.id(), u32::MAX >> 1]);
        assert!(!endings.wait(Duration::from_millis(1)));
        other.kill().unwrap();
        assert!(endings.wait(Duration::from_mins(1)), "nobody noticed");
        one.kill().unwrap();
        for mut child in [one, other] {
            child.wait().unwrap();
        }
        assert!(!Endings::of([u32::MAX >> 1]).wait(Duration::ZERO));
    }

    #[test]
    fn this_process_lives_and_pid_max_does_not() {
        let (pid, start) = current().unwrap();
        assert_eq!(status(pid).unwrap().unwrap().start, start);
        assert_eq!(status(u32::MAX >> 1).unwrap(), None);
    }
}
