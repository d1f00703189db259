//! A maildir: one file per message, seen whole or not at all.

use std::path::Path;

use super::directory;
use super::replace::{create, rename};
use crate::error::{Error, Result};

/// Delivers one message: written below `tmp`, then renamed into `new`. `name` must be unique in the
/// directory. Missing directories are made. Not synced.
pub fn deliver(maildir: impl AsRef<Path>, name: &str, bytes: &[u8]) -> Result<()> {
    let maildir = maildir.as_ref();
    let (staged, delivered) = (
        maildir.join("tmp").join(name),
        maildir.join("new").join(name),
    );
    for directory in ["tmp", "new"] {
        directory::ensure(maildir.join(directory))?;
    }
    create(&staged, bytes).map_err(|error| Error::io("write", &staged, &error))?;
    rename(staged, delivered)
}

#[cfg(test)]
mod tests {
    use super::deliver;

    #[test]
    fn a_message_arrives_whole_and_leaves_nothing_behind() {
        let directory = tempfile::tempdir().unwrap();
        deliver(directory.path(), "1.a", b"one").unwrap();
        assert_eq!(
            std::fs::read(directory.path().join("new/1.a")).unwrap(),
            b"one"
        );
        assert_eq!(
            std::fs::read_dir(directory.path().join("tmp"))
                .unwrap()
                .count(),
            0
        );
    }
}
