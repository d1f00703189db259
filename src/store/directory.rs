//! Directories of our own.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use super::replace::sync_directory;
use crate::error::{Error, Result};

/// Creates a directory and its missing parents, each 0700. One that exists is left as it is.
pub fn ensure(path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| Error::io("create the directory", path, &error))
}

/// The same, and every name that was made survives a power cut: a file is lost with the directory that it is in.
pub fn establish(path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    let missing = missing(path);
    ensure(path)?;
    for parent in missing.iter().filter_map(|made| made.parent()) {
        sync_directory(parent)?;
    }
    Ok(())
}

/// The directory and those above it that are not there, the topmost first.
fn missing(path: &Path) -> Vec<&Path> {
    let above = path.ancestors().take_while(|path| !path.exists());
    let mut missing: Vec<&Path> = above.collect();
    missing.reverse();
    missing
}

/// Removes a file; one that is already gone is not an error.
pub fn remove_file(path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("remove", path, &error))
        }
        _ => Ok(()),
    }
}

/// Removes a directory that is empty; anything else is refused and left as it is.
pub fn remove_empty(path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    fs::remove_dir(path).map_err(|error| Error::io("remove", path, &error))
}

/// Removes a directory of our own with everything in it; links in it are removed, not followed.
pub fn remove_all(path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    fs::remove_dir_all(path).map_err(|error| Error::io("remove", path, &error))
}

#[cfg(test)]
mod tests {
    use super::{establish, missing};

    #[test]
    fn every_directory_that_is_to_be_made_is_known_before_and_there_after() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let path = root.join("a/b/c");
        let all = ["a", "a/b", "a/b/c"].map(|part| root.join(part));
        assert_eq!(missing(&path), all);
        establish(&path).unwrap();
        assert!(missing(&path).is_empty() && path.is_dir());
        establish(&path).unwrap();
        super::super::replace::create(root.join("file"), b"").unwrap();
        assert!(establish(root.join("file/x")).is_err());
    }
}
