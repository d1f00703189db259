//! Whole-file replacement: a reader sees the old bytes or the new ones, never a mixture.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::lock::{self, Mode};
use super::read;
use crate::crash_point;
use crate::error::{Error, Result};

/// Whether the new bytes must survive a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// File and directory are synced: once the call returns, the new bytes are in force for good.
    Durable,
    /// Nothing is synced: a power cut may bring the old file back. For state that can be rebuilt.
    Volatile,
}

/// Prefix of temporary files; what a killed writer leaves is swept by prefix and age, once its lock is free.
pub const TEMPORARY_PREFIX: &str = ".tmp-";

/// Replaces `path` with `bytes`, 0600, through a temporary file in the same directory.
///
/// On failure the old file is untouched and the temporary one is removed.
pub fn replace(path: impl AsRef<Path>, bytes: &[u8], durability: Durability) -> Result<()> {
    let path = path.as_ref();
    let failed = |error: io::Error| Error::io("write", path, &plain(error));
    let (file, directory) = temporary(path, bytes, durability)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    crash_point!("replace.renamed");
    if durability == Durability::Durable {
        sync_directory(directory)?;
        crash_point!("replace.durable");
    }
    Ok(())
}

/// Creates `path` with `bytes`, 0600, whole and durable; false, and nothing touched, when there is one.
pub fn establish(path: impl AsRef<Path>, bytes: &[u8]) -> Result<bool> {
    let path = path.as_ref();
    let (file, directory) = temporary(path, bytes, Durability::Durable)?;
    match file.persist_noclobber(path) {
        Ok(_) => {}
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
        Err(error) => return Err(Error::io("write", path, &error.error)),
    }
    crash_point!("establish.linked");
    sync_directory(directory)?;
    Ok(true)
}

/// The failure without the name of the temporary file, which says nothing to anyone.
fn plain(error: io::Error) -> io::Error {
    match error.to_string().split_once(" at path \"") {
        Some((what, _)) => io::Error::new(error.kind(), what),
        None => error,
    }
}

fn temporary<'a>(
    path: &'a Path,
    bytes: &[u8],
    durability: Durability,
) -> Result<(tempfile::NamedTempFile, &'a Path)> {
    let failed = |error: io::Error| Error::io("write", path, &plain(error));
    let directory = path
        .parent()
        .ok_or_else(|| Error::internal(format!("`{}` has no directory", path.display())))?;
    let mut file = tempfile::Builder::new()
        .prefix(&prefix_of(path))
        .tempfile_in(directory)
        .map_err(failed)?;
    // By this a sweeper sees that its writer lives, whatever the clock says. Where there are no locks it goes by age alone.
    drop(lock::try_flock(file.as_file(), Mode::Exclusive));
    file.write_all(bytes).map_err(failed)?;
    crash_point!("replace.written");
    if durability == Durability::Durable {
        file.as_file().sync_all().map_err(failed)?;
        crash_point!("replace.synced");
    }
    Ok((file, directory))
}

/// Creates `path` with `bytes`, 0600; refuses with `AlreadyExists` in the io error when there is one.
///
/// Not synced and not atomic: for files that no one reads before another record names them.
pub fn create(path: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)
}

/// Gives a file another name in the same file system, replacing what had it. Not synced.
pub fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
    let from = from.as_ref();
    #[expect(clippy::disallowed_methods, reason = "renames belong here")]
    fs::rename(from, to).map_err(|error| Error::io("rename", from, &error))
}

/// Makes two files trade their names in one step. Not synced. Refused on file systems that cannot do it.
pub fn exchange(one: impl AsRef<Path>, other: impl AsRef<Path>) -> io::Result<()> {
    let (one, other) = (one.as_ref(), other.as_ref());
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).map_err(Into::into)
}

/// Gives a file a name that nothing has yet; refused with `AlreadyExists` when something does. Not synced.
pub fn rename_new(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    let (from, to) = (from.as_ref(), to.as_ref());
    renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE).map_err(Into::into)
}

/// Makes renames and removals in a directory survive a power cut.
pub fn sync_directory(path: &Path) -> Result<()> {
    read::open(path)
        .and_then(|file| file.sync_all())
        .map_err(|error| Error::io("sync the directory", path, &error))
}

/// How the temporary files of `path` begin.
fn prefix_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    format!("{TEMPORARY_PREFIX}{name}-")
}

/// Removes the temporary files that killed writers of `path` left, however old. Only for who holds the lock under
/// which alone `path` is replaced.
pub fn sweep_of(path: impl AsRef<Path>) {
    let path = path.as_ref();
    let prefix = prefix_of(path);
    let entries = path.parent().and_then(|folder| fs::read_dir(folder).ok());
    for entry in entries.into_iter().flatten().flatten() {
        let name = entry.file_name();
        // Those of `a-b` begin as those of `a` do.
        let random = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if name
            .to_string_lossy()
            .strip_prefix(&prefix)
            .is_some_and(random)
        {
            drop(fs::remove_file(entry.path()));
        }
    }
}

/// Removes what [`litter`] finds in `directory`.
pub fn sweep(directory: &Path, clock: &crate::clock::Clock) {
    for (path, _) in litter(directory, clock) {
        // Someone else may have swept it first.
        drop(fs::remove_file(path));
    }
}

/// Temporary files in `directory` that are older than an hour and that no living writer holds, each with its age in
/// seconds; sorted. The age alone proves nothing: a clock that was set, or a machine that slept, makes it.
pub fn litter(directory: &Path, clock: &crate::clock::Clock) -> Vec<(std::path::PathBuf, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    const HOUR: u64 = 3600;
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let now = clock.now().as_second();
    let mut found: Vec<_> = entries
        .flatten()
        .filter(|entry| {
            let name = entry.file_name();
            name.to_str()
                .is_some_and(|name| name.starts_with(TEMPORARY_PREFIX))
        })
        .filter_map(|entry| {
            let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
            let age = u64::try_from(now.saturating_sub(metadata.mtime())).unwrap_or(0);
            (age > HOUR && is_free(&entry.path())).then(|| (entry.path(), age))
        })
        .collect();
    found.sort_unstable();
    found
}

/// Whether nobody has a file locked.
fn is_free(path: &Path) -> bool {
    let Ok(file) = read::open(path) else {
        // Nobody can be told from here, as before there were locks.
        return true;
    };
    let free = lock::try_flock(&file, Mode::Shared);
    let held = matches!(free, Ok(false));
    drop(lock::unlock(&file));
    !held
}

#[cfg(test)]
mod tests {
    use super::{Durability, create, establish, litter, replace, sweep_of, temporary};
    use crate::clock::Clock;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn the_new_file_is_private_and_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        replace(&path, b"one", Durability::Durable).unwrap();
        replace(&path, b"two", Durability::Volatile).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(
            std::fs::read_dir(directory.path()).unwrap().count(),
            1,
            "a temporary file stayed"
        );
    }

    #[test]
    fn a_temporary_file_whose_writer_lives_is_no_litter_however_old_the_clock_makes_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        let (file, _) = temporary(&path, b"x", Durability::Volatile).unwrap();
        let ahead = Clock::moved("+86400");
        assert_eq!(litter(directory.path(), &ahead), []);
        drop(file.keep().unwrap());
        assert_eq!(litter(directory.path(), &ahead).len(), 1);
        assert_eq!(litter(directory.path(), &Clock::real()), []);
    }

    #[test]
    fn what_killed_writers_of_a_file_left_is_swept_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let files = [
            "a",
            ".tmp-a-x1",
            ".tmp-a-y2",
            ".tmp-a-b-x1",
            ".tmp-a",
            "a-x1",
        ];
        for name in files {
            create(path(name), b"x").unwrap();
        }
        sweep_of(path("a"));
        let there = files.map(|name| path(name).exists());
        assert_eq!(there, [true, false, false, true, true, true]);
    }

    #[test]
    fn establish_never_overwrites_and_leaves_no_temporary_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        assert!(establish(&path, b"one").unwrap());
        assert!(!establish(&path, b"two").unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn create_never_overwrites() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        create(&path, b"one").unwrap();
        assert_eq!(
            create(&path, b"two").unwrap_err().kind(),
            std::io::ErrorKind::AlreadyExists
        );
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
    }
}
