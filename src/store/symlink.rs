//! Symbolic links that change their target in one step.

use std::io;
use std::path::Path;

use super::replace::{TEMPORARY_PREFIX, rename};
use crate::error::{Error, Result};

/// Makes `link` a symbolic link to `target`, replacing what had that name. Whoever looks sees the old
/// target or the new one. Not synced.
pub fn replace(target: impl AsRef<Path>, link: impl AsRef<Path>) -> Result<()> {
    let link = link.as_ref();
    let failed = |error: &io::Error| Error::io("make the link", link, error);
    let directory = link
        .parent()
        .ok_or_else(|| Error::internal(format!("`{}` has no directory", link.display())))?;
    let staged = tempfile::Builder::new()
        .prefix(TEMPORARY_PREFIX)
        .make_in(directory, |path| {
            std::os::unix::fs::symlink(target.as_ref(), path)
        })
        .map_err(|error| failed(&error))?;
    rename(staged.path(), link)?;
    // It has another name now: there is nothing left to remove.
    staged
        .into_temp_path()
        .keep()
        .map(drop)
        .map_err(|error| failed(&error.error))
}

#[cfg(test)]
mod tests {
    use super::replace;

    #[test]
    fn a_link_changes_its_target_and_leaves_nothing_behind() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("link");
        replace("/one", &link).unwrap();
        replace("/two", &link).unwrap();
        assert_eq!(
            std::fs::read_link(&link).unwrap(),
            std::path::Path::new("/two")
        );
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
