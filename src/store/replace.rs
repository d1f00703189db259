//! Whole-file replacement: a reader sees the old bytes or the new ones, never a mixture.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

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

/// Prefix of temporary files; what a killed writer leaves is swept by prefix and age.
pub const TEMPORARY_PREFIX: &str = ".tmp-";

/// Replaces `path` with `bytes`, 0600, through a temporary file in the same directory.
///
/// On failure the old file is untouched and the temporary one is removed.
pub fn replace(path: impl AsRef<Path>, bytes: &[u8], durability: Durability) -> Result<()> {
    let path = path.as_ref();
    let failed = |error: io::Error| Error::io("write", path, &error);
    let directory = path
        .parent()
        .ok_or_else(|| Error::internal(format!("`{}` has no directory", path.display())))?;
    let mut file = tempfile::Builder::new()
        .prefix(TEMPORARY_PREFIX)
        .tempfile_in(directory)
        .map_err(failed)?;
    file.write_all(bytes).map_err(failed)?;
    crash_point!("replace.written");
    if durability == Durability::Durable {
        file.as_file().sync_all().map_err(failed)?;
        crash_point!("replace.synced");
    }
    file.persist(path).map_err(|error| failed(error.error))?;
    crash_point!("replace.renamed");
    if durability == Durability::Durable {
        sync_directory(directory)?;
        crash_point!("replace.durable");
    }
    Ok(())
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

/// Renames a file that cannot be used, so that it is kept but no longer in the way. Not synced.
#[expect(clippy::disallowed_methods, reason = "this is store")]
pub fn set_aside(path: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    fs::rename(path, to).map_err(|error| Error::io("set aside", path, &error))
}

/// Makes renames and removals in a directory survive a power cut.
pub fn sync_directory(path: &Path) -> Result<()> {
    File::open(path)
        .and_then(|file| file.sync_all())
        .map_err(|error| Error::io("sync the directory", path, &error))
}

/// Removes temporary files in `directory` that are older than an hour: their writers are gone.
pub fn sweep(directory: &Path, clock: &crate::clock::Clock) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    let hour_ago = clock.now().as_second() - 3600;
    for entry in entries.flatten() {
        let ours = entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.starts_with(TEMPORARY_PREFIX));
        let old = entry.metadata().is_ok_and(|metadata| {
            use std::os::unix::fs::MetadataExt as _;
            metadata.is_file() && metadata.mtime() < hour_ago
        });
        if ours && old {
            // Someone else may have swept it first.
            drop(fs::remove_file(entry.path()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Durability, create, replace};
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
