//! Reading with a bound, and telling "missing" from "unreadable".

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use crate::error::{Error, Result, code};
use crate::sys::shell;

/// Largest state or configuration file we read, in bytes.
pub const LIMIT: u64 = 64 << 20;

/// The bytes of a file, or `None` when there is none. Anything larger than [`LIMIT`] is refused.
pub fn optional(path: impl AsRef<Path>) -> Result<Option<Vec<u8>>> {
    let path = path.as_ref();
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("read", path, &error)),
    };
    let mut bytes = Vec::new();
    let count = file
        .take(LIMIT + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Error::io("read", path, &error))?;
    if u64::try_from(count).unwrap_or(u64::MAX) > LIMIT {
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
