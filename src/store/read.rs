//! Reading with a bound, and telling "missing" from "unreadable".

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;

use crate::error::{Error, Result, code};
use crate::sys::shell;

/// Largest state or configuration file we read, in bytes.
pub const LIMIT: u64 = 64 << 20;

/// Opens a file for reading. A pipe, which would be waited for until someone writes, is refused.
pub fn open(path: impl AsRef<Path>) -> io::Result<File> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    if file.metadata()?.file_type().is_fifo() {
        return Err(io::Error::other("it is a pipe"));
    }
    Ok(file)
}

/// What is left of an open file, at most `limit` bytes.
///
/// Room is made for all of it first: growing by doubling costs a small file half a dozen reads.
pub fn to_end(file: &File, limit: u64) -> io::Result<Vec<u8>> {
    let size = file.metadata()?.len().min(limit);
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1);
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The bytes of a file, or `None` when there is none. Anything larger than [`LIMIT`] is refused.
pub fn optional(path: impl AsRef<Path>) -> Result<Option<Vec<u8>>> {
    let path = path.as_ref();
    let file = match open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("read", path, &error)),
    };
    let bytes = to_end(&file, LIMIT + 1).map_err(|error| Error::io("read", path, &error))?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > LIMIT {
        let message = format!(
            "`{}` is larger than {} MiB and is not read",
            path.display(),
            LIMIT >> 20
        );
        let path = shell::quote(&path.display().to_string());
        return Err(Error::new(code::IO, message).hint(format!("ls -l {path}")));
    }
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::optional;

    #[test]
    fn a_pipe_is_refused_and_never_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        let permissions = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, permissions).unwrap();
        let refusal = optional(&path).unwrap_err();
        assert!(refusal.message.ends_with("it is a pipe"), "{refusal}");
        assert_eq!(optional(directory.path().join("missing")).unwrap(), None);
        assert_eq!(optional("/dev/null").unwrap(), Some(Vec::new()));
    }
}
