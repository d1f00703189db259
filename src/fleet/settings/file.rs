//! The files of policy as they lie on disk: settings, rules and templates.
//!
//! A file of a checkout is read only where it stands in the checkout itself. A link could make any file of the
//! person's part of a prompt, and that is sent to a provider.

use std::fs;
use std::io;

use camino::Utf8Path;

use super::layer::{self, Known, Layer, Whose};
use crate::env::Context;
use crate::error::{Code, Error, Result, code};
use crate::registry::file::{editor, to_json};
use crate::registry::validate::Diagnostic;
use crate::store::read;
use crate::sys::shell;

/// Where a checkout keeps its policy.
pub const DIRECTORY: &str = ".fleet";

/// Largest file that is taken, in bytes.
pub const LIMIT: usize = 1 << 20;

/// The text of a file, `None` when there is none. Links are followed.
pub fn read(context: &Context, path: &Utf8Path) -> Result<Option<String>> {
    let Some(bytes) = read::optional(path)? else {
        return Ok(None);
    };
    if bytes.len() > LIMIT {
        let message = format!(
            "`{path}` is larger than {} KiB and is not read",
            LIMIT >> 10
        );
        return Err(Error::new(code::SETTINGS_INVALID, message)
            .hint(format!("ls -l {}", shell::quote(path.as_str()))));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Some(text)),
        Err(error) => {
            let good = error.utf8_error().valid_up_to();
            let before = error.as_bytes().get(..good).unwrap_or_default();
            let problem = Diagnostic {
                line: String::from_utf8_lossy(before).matches('\n').count() + 1,
                column: 1,
                message: "the text is not UTF-8".to_owned(),
            };
            Err(refusal(context, code::SETTINGS_INVALID, path, &[problem]))
        }
    }
}

/// The text of a file of a checkout, `None` when there is none; `relative` is below its root.
///
/// Fails with `settings_invalid` when a link is on the way.
pub fn of_checkout(
    context: &Context,
    root: &Utf8Path,
    relative: &Utf8Path,
) -> Result<Option<String>> {
    let mut path = root.to_owned();
    for part in relative.components() {
        path.push(part.as_str());
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_symlink() => {
                let message = format!(
                    "`{path}` is a link, and the settings of a checkout are taken from the checkout itself"
                );
                return Err(Error::new(code::SETTINGS_INVALID, message)
                    .hint(format!("ls -l {}", shell::quote(path.as_str()))));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("read", &path, &error)),
        }
    }
    read(context, &path)
}

/// What a text says; nothing when there is no file.
pub(super) fn parse(
    context: &Context,
    path: &Utf8Path,
    text: Option<&str>,
    whose: Whose,
    known: Known<'_>,
) -> Result<Layer> {
    layer::parse(text.unwrap_or_default(), whose, known)
        .map_err(|problems| refusal(context, code::SETTINGS_INVALID, path, &problems))
}

/// The refusal of a file, with the place of its first problem and the command that opens it there.
pub fn refusal(context: &Context, code: Code, path: &Utf8Path, problems: &[Diagnostic]) -> Error {
    let first = problems.first();
    let line = first.map_or(1, |first| first.line);
    let what = first.map_or("it cannot be read", |first| &first.message);
    let more = match problems.len() {
        0 | 1 => String::new(),
        2 => " (and 1 more problem)".to_owned(),
        many => format!(" (and {} more problems)", many - 1),
    };
    Error::new(code, format!("`{path}:{line}`: {what}{more}"))
        .hint(editor(&context.variables, path, line))
        .detail("path", path.as_str())
        .detail("diagnostics", to_json(problems))
}
