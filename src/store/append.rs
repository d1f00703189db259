//! Appending: lines that many processes add without a lock, lines that are synced, and output of programs.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::owner;
use crate::crash_point;
use crate::error::{Error, Result};

/// Longest line, in bytes: short enough that one `write(2)` of an append is never interleaved.
pub const LINE_LIMIT: usize = 2048;

/// Appends one line with one write, a newline before and after it, so that a torn line of a writer that
/// was killed cannot swallow this one. Not synced: the line may be lost in a power cut.
pub fn line(path: impl AsRef<Path>, text: &str) -> Result<()> {
    let path = path.as_ref();
    let failed = |error: std::io::Error| owner::refused("append to", path, &error);
    if text.len() + 2 > LINE_LIMIT || text.contains('\n') {
        return Err(Error::internal(format!(
            "a line of {} bytes does not fit one append",
            text.len()
        )));
    }
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600);
    let mut file = owner::open(&mut options, path).map_err(failed)?;
    file.write_all(format!("\n{text}\n").as_bytes())
        .map_err(failed)
}

/// Appends one line of any length and syncs it; the caller holds a lock that keeps other writers out. A line that a
/// killed writer tore is ended first. Once this returns, the line is there for good.
pub fn synced(path: impl AsRef<Path>, text: &str) -> Result<()> {
    let path = path.as_ref();
    let failed = |error: std::io::Error| owner::refused("append to", path, &error);
    let known = path.exists();
    let parent = path.parent().filter(|_| !known);
    if let Some(parent) = parent {
        super::directory::establish(parent)?;
    }
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o600);
    let mut file = owner::open(&mut options, path).map_err(failed)?;
    let mut last = [b'\n'];
    if file.metadata().map_err(failed)?.len() > 0 {
        file.seek(SeekFrom::End(-1)).map_err(failed)?;
        file.read_exact(&mut last).map_err(failed)?;
    }
    let torn = if last == *b"\n" { "" } else { "\n" };
    file.write_all(format!("{torn}{text}\n").as_bytes())
        .map_err(failed)?;
    crash_point!("append.written");
    file.sync_data().map_err(failed)?;
    if let Some(parent) = parent {
        super::replace::sync_directory(parent)?;
    }
    crash_point!("append.synced");
    Ok(())
}

/// Makes sure that what is in a file now survives a power cut, whoever wrote it.
pub fn settle(path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    super::read::open(path)
        .and_then(|file| file.sync_data())
        .map_err(|error| Error::io("sync", path, &error))
}

/// Opens a file that a program's output goes to, 0600; what is there stays.
pub fn stream(path: impl AsRef<Path>) -> Result<File> {
    let path = path.as_ref();
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600);
    owner::open(&mut options, path).map_err(|error| owner::refused("write", path, &error))
}
