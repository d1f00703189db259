//! Claude's own lock on `.claude.json`.
//!
//! Claude Code locks the file the way proper-lockfile does: it makes the directory `.claude.json.lock`,
//! renews its time while it works, and takes one over that is older than 10 s. We hold it for milliseconds
//! and never take a live one over.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};

use crate::clock::{Clock, Deadline};
use crate::error::{Error, Result, code};
use crate::sys::shell;

/// Age from which a lock's holder is gone, in seconds: what Claude itself goes by.
const STALE: i64 = 10;

/// The held lock; the directory is removed when it is dropped.
#[must_use = "the lock is released as soon as the guard is dropped"]
#[derive(Debug)]
pub(super) struct ConfigLock {
    path: Utf8PathBuf,
}

impl ConfigLock {
    /// Takes the lock of a home's `.claude.json`, waiting for a live holder until the deadline.
    pub(super) fn take(home: &Utf8Path, clock: &Clock, deadline: &Deadline) -> Result<Self> {
        let path = home.join(".claude.json.lock");
        loop {
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self { path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::io("make the lock", &path, &error)),
            }
            let age = fs::symlink_metadata(&path)
                .map(|found| clock.now().as_second().saturating_sub(found.mtime()));
            if age.is_ok_and(|age| age > STALE) {
                // Only an empty directory goes; someone may have taken it over first.
                drop(fs::remove_dir(&path));
            }
            if !deadline.pause(Duration::from_millis(20)) {
                let message = format!("Claude Code holds its lock `{path}`");
                return Err(Error::new(code::LOCK_TIMEOUT, message)
                    .hint(format!("ls -ld {}", shell::quote(path.as_str())))
                    .detail("path", path.as_str()));
            }
        }
    }
}

impl Drop for ConfigLock {
    fn drop(&mut self) {
        // A lock that is gone already was taken over as stale: nothing of ours is left.
        drop(fs::remove_dir(&self.path));
    }
}

#[cfg(test)]
mod tests {
    use super::ConfigLock;
    use crate::clock::Clock;
    use crate::error::code;
    use camino::Utf8Path;
    use std::time::Duration;

    #[test]
    fn a_live_lock_is_waited_for_and_never_stolen() {
        let directory = tempfile::tempdir().unwrap();
        let home = Utf8Path::from_path(directory.path()).unwrap();
        let clock = Clock::real();
        let held = ConfigLock::take(home, &clock, &clock.deadline(Duration::ZERO)).unwrap();
        let error = ConfigLock::take(home, &clock, &clock.deadline(Duration::from_millis(60)));
        assert_eq!(error.unwrap_err().code, code::LOCK_TIMEOUT);
        assert!(home.join(".claude.json.lock").is_dir());
        drop(held);
        assert!(!home.join(".claude.json.lock").exists());
        drop(ConfigLock::take(home, &clock, &clock.deadline(Duration::ZERO)).unwrap());
    }

    #[test]
    fn a_stale_lock_is_taken_over() {
        let directory = tempfile::tempdir().unwrap();
        let home = Utf8Path::from_path(directory.path()).unwrap();
        std::fs::create_dir(home.join(".claude.json.lock")).unwrap();
        let later = Clock::moved("+12");
        let deadline = later.deadline(Duration::from_secs(5));
        drop(ConfigLock::take(home, &later, &deadline).unwrap());
        assert!(!home.join(".claude.json.lock").exists());
    }
}
