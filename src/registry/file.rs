//! The registry file as it lies on disk: found, read and judged, never changed here.

use std::fs;
use std::io;

use camino::Utf8Path;

use super::validate::{self, Diagnostic, Invalid, Parsed};
use crate::env::{Context, Roots, Variables};
use crate::error::{Error, Result, code};
use crate::store::read;
use crate::sys::filesystem::Identity;
use crate::sys::shell;

/// The text of the registry and the file it came from.
#[derive(Clone, Debug)]
pub struct Source {
    /// The whole text.
    pub text: String,
    /// The file before it was read: a change during the read shows as another identity afterwards.
    pub identity: Identity,
}

/// What the registry file is now; follows links. Fails with `config_missing` when there is none.
pub fn identity(roots: &Roots) -> Result<Identity> {
    let path = &roots.config;
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => Ok(Identity::from(&metadata)),
        Ok(_) => Err(
            Error::new(code::IO, format!("the registry `{path}` is not a file"))
                .hint(format!("ls -ld {}", shell::quote(path.as_str()))),
        ),
        // `init` would find something there, and never writes where a link leads.
        Err(error) if error.kind() == io::ErrorKind::NotFound && leads_nowhere(path) => {
            let message =
                format!("the registry `{path}` is a link, and there is nothing where it leads");
            Err(Error::new(code::CONFIG_MISSING, message)
                .hint(format!("ls -l {}", shell::quote(path.as_str())))
                .detail("path", path.as_str()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Error::new(
            code::CONFIG_MISSING,
            format!("there is no registry at `{path}`"),
        )
        .hint("agent-fleet init")
        .detail("path", path.as_str())),
        Err(error) => Err(Error::io("read the registry", path, &error)),
    }
}

/// Whether a path is a link to something that is not there.
fn leads_nowhere(path: &Utf8Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink())
}

/// Reads the registry's text.
pub fn read(context: &Context) -> Result<Source> {
    let path = &context.roots.config;
    let identity = identity(&context.roots)?;
    let Some(bytes) = read::optional(path)? else {
        // Removed between the two calls.
        return Err(Error::io(
            "read the registry",
            path,
            &io::ErrorKind::NotFound.into(),
        ));
    };
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Source { text, identity }),
        Err(error) => {
            let good = error.utf8_error().valid_up_to();
            let before = error.as_bytes().get(..good).unwrap_or_default();
            let diagnostic = Diagnostic {
                line: String::from_utf8_lossy(before).matches('\n').count() + 1,
                column: 1,
                message: "the text is not UTF-8".to_owned(),
            };
            Err(invalid(context, &[diagnostic]))
        }
    }
}

/// Judges a text as the registry at the configured path.
pub fn parse(context: &Context, text: &str) -> Result<Parsed> {
    validate::parse(text, &context.roots).map_err(|problem| match problem {
        Invalid::Newer(version) => newer(&context.roots.config, version),
        Invalid::Problems(diagnostics) => invalid(context, &diagnostics),
    })
}

fn newer(path: &Utf8Path, version: i64) -> Error {
    Error::new(
        code::NEWER_FORMAT,
        format!(
            "the registry `{path}` has version {version} and was made by a newer agent-fleet; this one reads version {}",
            super::schema::VERSION
        ),
    )
    .hint("agent-fleet version")
    .detail("path", path.as_str())
}

fn invalid(context: &Context, diagnostics: &[Diagnostic]) -> Error {
    let path = &context.roots.config;
    let first = diagnostics.first();
    let count = match diagnostics.len() {
        1 => "1 problem".to_owned(),
        many => format!("{many} problems"),
    };
    let what = first.map_or_else(String::new, |first| {
        format!(
            ": line {}, column {}: {}",
            first.line, first.column, first.message
        )
    });
    Error::new(
        code::CONFIG_INVALID,
        format!("the registry `{path}` has {count}{what}"),
    )
    .hint(editor(
        &context.variables,
        path,
        first.map_or(1, |first| first.line),
    ))
    .detail("path", path.as_str())
    .detail("diagnostics", to_json(diagnostics))
}

/// Diagnostics as data.
pub fn to_json(diagnostics: &[Diagnostic]) -> serde_json::Value {
    diagnostics
        .iter()
        .map(|found| {
            serde_json::json!({
                "line": found.line, "column": found.column, "message": found.message,
            })
        })
        .collect()
}

/// The command that opens a file at a line.
pub fn editor(variables: &Variables, path: &Utf8Path, line: usize) -> String {
    let named = ["VISUAL", "EDITOR"]
        .iter()
        .find_map(|name| variables.text(name))
        .unwrap_or("vi");
    let path = shell::quote(path.as_str());
    let program = named.split_whitespace().next().unwrap_or(named);
    let name = program.rsplit('/').next().unwrap_or(program);
    if ["vi", "vim", "nvim", "nano", "emacs", "emacsclient", "micro"].contains(&name) {
        format!("{named} +{line} {path}")
    } else {
        format!("{named} {path}")
    }
}
