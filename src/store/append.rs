//! Lines that many processes append without a lock.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::owner;
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
