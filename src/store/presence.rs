//! Files that stand for a living process.
//!
//! The process holds an `flock` on its file from before the file has its name until it ends, however it ends. A file
//! whose lock is free is what a killed process left: it is removed by whoever sees it. Names are never used
//! twice, so the file that is removed is the one that was looked at, and none of this needs another lock.
//!
//! A file has a stamp, rewritten in place as often as its owner likes, and one sealed line of text. Nothing is
//! synced: no process survives a power cut.
//!
//! Limits: a reader may meet a line while it is rewritten; it looks a few times, then takes it as not readable.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::lock::{self, Mode};
use super::read;
use super::replace::{self, TEMPORARY_PREFIX};
use super::{directory, seal};
use crate::clock::Clock;
use crate::error::{Error, Result};

/// The stamp: sixteen hexadecimal digits and a newline.
const STAMP: usize = 17;
/// Looks at a line that is being rewritten, and the pause between.
const READS: u32 = 5;
const READ_PAUSE: Duration = Duration::from_millis(1);
/// Longest line that is read, in bytes.
const LONGEST: u64 = 1 << 20;

/// This process's file; removed when dropped.
#[must_use = "the file is removed as soon as this is dropped"]
#[derive(Debug)]
pub struct Presence {
    file: File,
    path: PathBuf,
}

/// Another process's file, kept open.
#[derive(Debug)]
pub struct Seen {
    file: File,
    /// Its name in the directory.
    pub name: String,
}

impl Presence {
    /// Makes the file `name`, which nobody may have used before, in a directory made if it is missing.
    pub fn announce(
        folder: impl AsRef<Path>,
        name: &str,
        stamp: u64,
        text: &str,
        clock: &Clock,
    ) -> Result<Self> {
        let folder = folder.as_ref();
        directory::ensure(folder)?;
        replace::sweep(folder, clock);
        let path = folder.join(name);
        let failed = |error: io::Error| Error::io("write", &path, &error);
        let mut file = tempfile::Builder::new()
            .prefix(TEMPORARY_PREFIX)
            .tempfile_in(folder)
            .map_err(failed)?;
        lock::try_flock(file.as_file(), Mode::Exclusive).map_err(failed)?;
        file.write_all(format!("{stamp:016x}\n{}\n", seal::line(text)).as_bytes())
            .map_err(failed)?;
        let file = file
            .persist_noclobber(&path)
            .map_err(|error| failed(error.error))?;
        Ok(Self { file, path })
    }

    /// Rewrites the stamp.
    pub fn stamp(&self, stamp: u64) -> Result<()> {
        self.file
            .write_all_at(format!("{stamp:016x}\n").as_bytes(), 0)
            .map_err(|error| Error::io("write", &self.path, &error))
    }

    /// Rewrites the line.
    pub fn say(&self, text: &str) -> Result<()> {
        // What a longer line leaves behind the newline is not read.
        self.file
            .write_all_at(format!("{}\n", seal::line(text)).as_bytes(), STAMP as u64)
            .map_err(|error| Error::io("write", &self.path, &error))
    }

    /// The name of its file.
    pub fn name(&self) -> &str {
        self.path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default()
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        // What cannot be removed is swept by the next one who looks, once the lock is free.
        drop(directory::remove_file(&self.path));
        drop(lock::unlock(&self.file));
    }
}

impl Seen {
    /// The stamp as it is now.
    pub fn stamp(&self) -> Option<u64> {
        let mut bytes = [0; STAMP];
        self.file.read_exact_at(&mut bytes, 0).ok()?;
        let text = std::str::from_utf8(&bytes).ok()?.strip_suffix('\n')?;
        u64::from_str_radix(text, 16).ok()
    }

    /// The line as it is now; `None` when it cannot be read.
    pub fn text(&self, clock: &Clock) -> Option<String> {
        for look in 1..=READS {
            let size = self.file.metadata().ok()?.len().min(LONGEST);
            let mut bytes = vec![0; usize::try_from(size).ok()?.saturating_sub(STAMP)];
            if self.file.read_exact_at(&mut bytes, STAMP as u64).is_ok()
                && let Ok(text) = std::str::from_utf8(&bytes)
                && let Some(text) = text.lines().next().and_then(seal::open)
            {
                return Some(text.to_owned());
            }
            if look < READS {
                clock.pause(READ_PAUSE);
            }
        }
        None
    }
}

/// The files of living processes in a directory, sorted by name; removes what the dead left.
pub fn present(folder: impl AsRef<Path>) -> Result<Vec<Seen>> {
    let folder = folder.as_ref();
    let failed = |error: io::Error| Error::io("read", folder, &error);
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        let Some(name) = name.to_str() else {
            continue;
        };
        let path = folder.join(name);
        if name.starts_with(TEMPORARY_PREFIX) {
            sweep_unborn(&path);
            continue;
        }
        // One that cannot be opened was removed meanwhile, or is not ours.
        let Ok(file) = read::open(&path) else {
            continue;
        };
        match lock::try_flock(&file, Mode::Shared) {
            Ok(true) => {
                drop(directory::remove_file(&path));
                drop(lock::unlock(&file));
            }
            Ok(false) => found.push(Seen {
                file,
                name: name.to_owned(),
            }),
            Err(error) => return Err(Error::io("lock", &path, &error)),
        }
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

/// Removes a file whose owner was killed before it had its name. Owners lock before they write the first byte, so one
/// that is empty may be about to be locked.
fn sweep_unborn(path: &Path) {
    let Ok(file) = read::open(path) else { return };
    let has_bytes = file.metadata().is_ok_and(|found| found.len() > 0);
    if has_bytes && lock::try_flock(&file, Mode::Shared).is_ok_and(|free| free) {
        drop(directory::remove_file(path));
        drop(lock::unlock(&file));
    }
}

#[cfg(test)]
mod tests {
    use super::{Presence, present};
    use crate::clock::Clock;

    fn names(directory: &tempfile::TempDir) -> Vec<String> {
        let seen = present(directory.path()).unwrap();
        seen.into_iter().map(|seen| seen.name).collect()
    }

    #[test]
    fn a_presence_is_seen_with_what_it_says_until_it_is_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let clock = Clock::real();
        let announce = |name| Presence::announce(directory.path(), name, 7, "hello", &clock);
        let (later, earlier) = (announce("b").unwrap(), announce("a").unwrap());
        assert_eq!(names(&directory), ["a", "b"]);
        let seen = present(directory.path()).unwrap().remove(1);
        assert_eq!(
            (seen.stamp(), seen.text(&clock).as_deref()),
            (Some(7), Some("hello"))
        );
        later.stamp(9).unwrap();
        later.say("he").unwrap();
        assert_eq!(
            (seen.stamp(), seen.text(&clock).as_deref()),
            (Some(9), Some("he"))
        );
        assert!(announce("a").is_err(), "a name was taken twice");
        drop(earlier);
        assert_eq!(names(&directory), ["b"]);
    }

    #[test]
    fn what_the_dead_left_is_swept_and_what_is_not_ours_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let clock = Clock::real();
        std::fs::create_dir(directory.path().join("folder")).unwrap();
        let left = directory.path().join("left");
        let unborn = [".tmp-killed", ".tmp-about-to-be-locked"];
        let unborn = unborn.map(|name| directory.path().join(name));
        for (path, bytes) in [&left, &unborn[0], &unborn[1]].into_iter().zip([9, 3, 0]) {
            super::replace::create(path, &b"000000007\n"[..bytes]).unwrap();
        }
        let torn = Presence::announce(directory.path(), "torn", 1, "x", &clock).unwrap();
        torn.file.set_len(3).unwrap();
        let seen = present(directory.path()).unwrap();
        assert!(!left.exists(), "a free ticket stayed");
        let there = unborn.map(|path| path.exists());
        assert_eq!(there, [false, true]);
        let torn = seen.iter().find(|seen| seen.name == "torn").unwrap();
        assert_eq!((torn.stamp(), torn.text(&clock)), (None, None));
    }
}
