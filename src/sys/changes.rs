//! Waiting for files to change and processes to end, together and without looking again and again.
//!
//! Directories are watched from the moment they are named, so whoever names them first and looks afterwards misses
//! nothing. Processes are watched only during one wait.
//!
//! Limits: where files cannot be watched (another system than Linux, or the person's inotify instances are used up),
//! a wait ends after [`WITHOUT_NOTICE`] at the latest, so that its caller looks again.

use std::path::Path;
use std::time::Duration;

/// Longest wait where a change of files is not noticed.
pub const WITHOUT_NOTICE: Duration = Duration::from_secs(1);

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// A file changed, a process ended, or a signal came.
    Change,
    /// Nothing within the span.
    Nothing,
    /// Nobody can read what is written to standard output any more.
    ReaderLeft,
}

#[cfg(target_os = "linux")]
pub use linux::Changes;
#[cfg(not(target_os = "linux"))]
pub use other::Changes;

#[cfg(target_os = "linux")]
mod linux {
    use std::os::fd::{AsFd as _, OwnedFd};

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
    use rustix::io::Errno;
    use rustix::process::{Pid, PidfdFlags, pidfd_open};

    use super::{Came, Duration, Path, WITHOUT_NOTICE};

    /// Directories whose files are watched.
    #[derive(Debug)]
    pub struct Changes {
        files: Option<OwnedFd>,
    }

    impl Changes {
        /// Of no directory yet.
        pub fn watch() -> Self {
            Self {
                files: init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok(),
            }
        }

        /// Watches the files of a directory from now on; one that is watched already, or is not there, is left as
        /// it is.
        pub fn also(&mut self, directory: impl AsRef<Path>) {
            let wanted = WatchFlags::MODIFY
                | WatchFlags::CREATE
                | WatchFlags::MOVED_TO
                | WatchFlags::DELETE
                | WatchFlags::ONLYDIR;
            let added = match &self.files {
                Some(files) => add_watch(files, directory.as_ref(), wanted).map(drop),
                None => return,
            };
            // Whatever else keeps it from being watched: the wait looks again then.
            if !matches!(added, Ok(()) | Err(Errno::NOENT)) {
                self.files = None;
            }
        }

        /// Lets `span` pass, or less: until a watched file changed since the last wait, or one of these processes
        /// has ended.
        pub fn wait(&mut self, pids: &[u32], span: Duration) -> Came {
            let mut processes = Vec::new();
            for pid in pids {
                let pid = i32::try_from(*pid).ok().and_then(Pid::from_raw);
                match pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())) {
                    Some(Ok(process)) => processes.push(process),
                    // It has ended meanwhile.
                    None | Some(Err(Errno::SRCH)) => return Came::Change,
                    Some(Err(_)) => self.files = None,
                }
            }
            let span = match self.files {
                Some(_) => span,
                None => span.min(WITHOUT_NOTICE),
            };
            let timeout = Timespec {
                tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: i64::from(span.subsec_nanos()),
            };
            let output = rustix::stdio::stdout();
            let mut watched = vec![PollFd::from_borrowed_fd(output, PollFlags::empty())];
            let descriptors = processes.iter().chain(&self.files);
            watched.extend(
                descriptors.map(|one| PollFd::from_borrowed_fd(one.as_fd(), PollFlags::IN)),
            );
            let came = match poll(&mut watched, Some(&timeout)) {
                Ok(0) => return Came::Nothing,
                Ok(_) => watched
                    .first()
                    .is_some_and(|output| !output.revents().is_empty()),
                Err(_) => false,
            };
            if came {
                return Came::ReaderLeft;
            }
            self.forget();
            Came::Change
        }

        /// Forgets what was noticed, so that only what comes later ends the next wait.
        fn forget(&self) {
            let mut noticed = [0; 4096];
            if let Some(files) = &self.files {
                while matches!(rustix::io::read(files, &mut noticed), Ok(1..)) {}
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    use super::{Came, Duration, Path, WITHOUT_NOTICE};

    #[derive(Debug)]
    pub struct Changes;

    impl Changes {
        pub fn watch() -> Self {
            Self
        }
        pub fn also(&mut self, _: impl AsRef<Path>) {}
        pub fn wait(&mut self, _: &[u32], span: Duration) -> Came {
            if super::super::descriptor::reader_left(span.min(WITHOUT_NOTICE)) {
                Came::ReaderLeft
            } else {
                Came::Nothing
            }
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::{Came, Changes};
    use crate::store::append;
    use std::time::Duration;

    const LONG: Duration = Duration::from_mins(1);

    #[test]
    fn a_change_before_the_wait_ends_it_and_is_told_once() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("ledger");
        let mut changes = Changes::watch();
        changes.also(directory.path());
        changes.also(directory.path().join("not/there"));
        append::synced(&file, "one").unwrap();
        assert_eq!(changes.wait(&[], LONG), Came::Change);
        assert_eq!(changes.wait(&[], Duration::ZERO), Came::Nothing);
        append::synced(&file, "two").unwrap();
        assert_eq!(changes.wait(&[std::process::id()], LONG), Came::Change);
    }

    #[test]
    fn a_process_that_is_gone_is_noticed_at_once() {
        let mut changes = Changes::watch();
        assert_eq!(changes.wait(&[u32::MAX >> 1], LONG), Came::Change);
    }
}
