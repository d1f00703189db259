//! The witness: an `flock` on a task's `.live` file that its worker's main process carries through execve.
//!
//! Held means that this process lives, whatever its pid namespace. The file is empty and opened read-only, so
//! that a child which inherits it cannot scribble on anything. Taking, probing and unlinking happen only under
//! the `leases` lock: a probe holds a shared lock for a moment and would otherwise make a taker fail.
//!
//! Limits: a process that inherits the descriptor keeps the witness held (Codex hook children do, so hooks
//! close what they inherited), and one that unlocks it drops it for all. A `.live` file that a person removes
//! while it is held counts as free.

use std::fs::File;
use std::io;
use std::os::fd::RawFd;

use camino::{Utf8Path, Utf8PathBuf};

use crate::error::{Error, Result};
use crate::id::TaskKey;
use crate::store::lock::{self, Mode};
use crate::store::read;
use crate::sys::descriptor;

/// Extension of witness files.
const EXTENSION: &str = "live";

/// A held witness. Dropping it closes this descriptor and unlocks nothing that a child inherited.
#[derive(Debug)]
pub struct Witness {
    /// `None` only where a test switched the witness off.
    file: Option<File>,
}

/// What a probe saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Probe {
    /// No process holds it.
    Free,
    /// Some process holds it.
    Held,
    /// It cannot be opened or locked.
    Unreadable,
}

/// Where a task's witness file is.
pub(super) fn path(directory: &Utf8Path, task: TaskKey) -> Utf8PathBuf {
    directory.join(format!("{}.{EXTENSION}", task.hex()))
}

/// The task whose witness file has this name.
pub(super) fn parse_name(name: &str) -> Option<TaskKey> {
    TaskKey::parse(name.strip_suffix(EXTENSION)?.strip_suffix('.')?)
}

impl Witness {
    /// Takes a task's witness; `None` when another process holds it. Only under the `leases` lock.
    pub(super) fn take(directory: &Utf8Path, task: TaskKey) -> Result<Option<Self>> {
        let path = path(directory, task);
        let file = lock::open_lifetime(&path)
            .map_err(|error| Error::io("open the witness", &path, &error))?;
        let taken = lock::try_flock(&file, Mode::Exclusive)
            .map_err(|error| Error::io("lock the witness", &path, &error))?;
        Ok(taken.then_some(Self { file: Some(file) }))
    }

    /// A witness of nothing, for tests.
    pub(super) fn pretend() -> Self {
        Self { file: None }
    }

    /// Lets the witness survive execve and returns the number of the descriptor that does. This value keeps
    /// its own descriptor, so that a failed execve can still give the witness up.
    pub fn hand_over(&self) -> io::Result<Option<RawFd>> {
        let Some(file) = &self.file else {
            return Ok(None);
        };
        descriptor::survive_exec(file.try_clone()?).map(Some)
    }

    /// Runs `body`, whose child inherits the witness: it holds it for as long as it lives, whatever becomes of us.
    pub fn lend<T>(&self, body: impl FnOnce() -> T) -> io::Result<T> {
        match &self.file {
            Some(file) => descriptor::lend(file, body),
            None => Ok(body()),
        }
    }

    /// Unlocks the witness for every process that shares it.
    pub fn give_up(self) {
        // Closing alone would leave it held while another thread is between fork and exec.
        if let Some(file) = &self.file {
            drop(lock::unlock(file));
        }
    }
}

/// Whether a task's witness is held. Only under the `leases` lock.
pub(super) fn probe(directory: &Utf8Path, task: TaskKey) -> Probe {
    let file = match read::open(path(directory, task)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Probe::Free,
        Err(_) => return Probe::Unreadable,
    };
    match lock::try_flock(&file, Mode::Shared) {
        Ok(true) => {
            drop(lock::unlock(&file));
            Probe::Free
        }
        Ok(false) => Probe::Held,
        Err(_) => Probe::Unreadable,
    }
}

#[cfg(test)]
mod tests {
    use super::{Probe, Witness, path, probe};
    use crate::id::{Task, TaskKey};
    use camino::Utf8Path;

    fn key() -> TaskKey {
        "a task".parse::<Task>().unwrap().key()
    }

    #[test]
    fn a_held_witness_is_seen_and_given_up() {
        let directory = tempfile::tempdir().unwrap();
        let at = Utf8Path::from_path(directory.path()).unwrap();
        assert_eq!(probe(at, key()), Probe::Free, "a missing file is free");
        let witness = Witness::take(at, key()).unwrap().unwrap();
        assert_eq!(probe(at, key()), Probe::Held);
        assert!(Witness::take(at, key()).unwrap().is_none(), "taken twice");
        witness.give_up();
        assert_eq!(probe(at, key()), Probe::Free);
        assert_eq!(std::fs::read(path(at, key())).unwrap(), b"");
    }

    #[test]
    fn dropping_one_descriptor_leaves_an_inherited_one_holding() {
        let directory = tempfile::tempdir().unwrap();
        let at = Utf8Path::from_path(directory.path()).unwrap();
        let witness = Witness::take(at, key()).unwrap().unwrap();
        let inherited = witness.file.as_ref().unwrap().try_clone().unwrap();
        drop(witness);
        assert_eq!(probe(at, key()), Probe::Held);
        drop(inherited);
        assert_eq!(probe(at, key()), Probe::Free);
    }
}
