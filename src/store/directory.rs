//! Directories of our own.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

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
