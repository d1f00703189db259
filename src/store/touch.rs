//! A file whose modification time is the message.

use std::path::Path;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, utimensat};

use super::replace::create;
use crate::error::{Error, Result};

/// Creates an empty file, or sets the times of the one that is there to now. Whatever is there is not
/// opened, so a pipe or a device cannot make this wait.
pub fn touch(path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    match create(path, b"") {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        other => return other.map_err(|error| Error::io("create", path, &error)),
    }
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_NOW,
    };
    let times = Timestamps {
        last_access: now,
        last_modification: now,
    };
    utimensat(CWD, path, &times, AtFlags::empty())
        .map_err(|error| Error::io("touch", path, &error.into()))
}

#[cfg(test)]
mod tests {
    use super::touch;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn a_touched_file_is_newer_and_keeps_its_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        touch(&path).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(1))
            .unwrap();
        touch(&path).unwrap();
        let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
        assert!(modified > UNIX_EPOCH + Duration::from_secs(1000));
    }
}
