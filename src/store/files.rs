//! The few file operations that promotion is made of, behind a trait.
//!
//! [`Disk`] does them for real. Tests replay the same callers over a model that loses what was not synced,
//! so each operation says what a power cut may undo.

use std::fmt::Debug;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;

use camino::Utf8Path;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::read;

/// Largest file that is promoted, in bytes; real credentials have a few thousand.
pub const LIMIT: u64 = 1 << 20;

/// File operations without hidden steps: each is one change that is there or not.
pub trait Files: Debug {
    /// The bytes of a file; `None` when there is none. A pipe or a file above [`LIMIT`] is refused.
    fn read(&self, path: &Utf8Path) -> io::Result<Option<Vec<u8>>>;

    /// Creates a file, 0600; refused when the name is taken. Neither bytes nor name are synced. On failure
    /// nothing stays.
    fn create(&self, path: &Utf8Path, bytes: &[u8]) -> io::Result<()>;

    /// Makes a file's bytes survive a power cut.
    fn sync(&self, path: &Utf8Path) -> io::Result<()>;

    /// Makes names given and taken in a directory survive a power cut.
    fn sync_directory(&self, path: &Utf8Path) -> io::Result<()>;

    /// Gives a file another name in its directory; refused when that is taken. Not synced.
    fn rename(&self, from: &Utf8Path, to: &Utf8Path) -> io::Result<()>;

    /// Makes two files of one directory trade their names, in one step that no reader sees half. Not synced.
    fn exchange(&self, one: &Utf8Path, other: &Utf8Path) -> io::Result<()>;

    /// Removes a file. Not synced.
    fn remove(&self, path: &Utf8Path) -> io::Result<()>;
}

/// The files of this machine.
#[derive(Clone, Copy, Debug)]
pub struct Disk;

impl Files for Disk {
    fn read(&self, path: &Utf8Path) -> io::Result<Option<Vec<u8>>> {
        let file = match read::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let bytes = read::to_end(&file, LIMIT + 1)?;
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > LIMIT {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(Some(bytes))
    }

    fn create(&self, path: &Utf8Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        file.write_all(bytes).inspect_err(|_| {
            drop(fs::remove_file(path));
        })
    }

    fn sync(&self, path: &Utf8Path) -> io::Result<()> {
        read::open(path)?.sync_all()
    }

    fn sync_directory(&self, path: &Utf8Path) -> io::Result<()> {
        read::open(path)?.sync_all()
    }

    fn rename(&self, from: &Utf8Path, to: &Utf8Path) -> io::Result<()> {
        named(from, to, RenameFlags::NOREPLACE)
    }

    fn exchange(&self, one: &Utf8Path, other: &Utf8Path) -> io::Result<()> {
        named(one, other, RenameFlags::EXCHANGE)
    }

    fn remove(&self, path: &Utf8Path) -> io::Result<()> {
        fs::remove_file(path)
    }
}

/// A file system that cannot do it says so; there is no other way to do it that loses nothing.
fn named(from: &Utf8Path, to: &Utf8Path, flags: RenameFlags) -> io::Result<()> {
    renameat_with(CWD, from.as_str(), CWD, to.as_str(), flags).map_err(Into::into)
}

#[cfg(test)]
mod tests {
    use super::{Disk, Files as _};
    use camino::Utf8PathBuf;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    fn directory() -> (tempfile::TempDir, Utf8PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from_path_buf(directory.path().to_owned()).unwrap();
        (directory, path)
    }

    #[test]
    fn names_are_traded_with_their_files_and_never_taken_from_another() {
        let (_kept, path) = directory();
        let (one, other) = (path.join("one"), path.join("other"));
        Disk.create(&one, b"1").unwrap();
        Disk.create(&other, b"2").unwrap();
        let inode = std::fs::metadata(&one).unwrap().ino();
        Disk.exchange(&one, &other).unwrap();
        assert_eq!(std::fs::metadata(&other).unwrap().ino(), inode);
        assert_eq!(Disk.read(&one).unwrap().unwrap(), b"2");
        assert_eq!(
            Disk.rename(&one, &other).unwrap_err().kind(),
            std::io::ErrorKind::AlreadyExists
        );
        assert_eq!(
            Disk.exchange(&one, &path.join("missing"))
                .unwrap_err()
                .kind(),
            std::io::ErrorKind::NotFound
        );
    }

    #[test]
    fn a_file_is_private_and_created_once() {
        let (_kept, path) = directory();
        let file = path.join("a");
        Disk.create(&file, b"1").unwrap();
        assert_eq!(
            std::fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert!(Disk.create(&file, b"2").is_err());
        assert_eq!(Disk.read(&file).unwrap().unwrap(), b"1");
        assert_eq!(Disk.read(&path.join("missing")).unwrap(), None);
    }
}
