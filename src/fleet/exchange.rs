//! The exchange directory `.fleet/runs/<run>/` in a worker's own workspace: prompts for it, reports from it.
//!
//! Workers may write here, so nothing in it is believed: a symbolic link on the way is refused, not followed, files
//! are read up to a bound, and what counts is the copy on the state side. The directory ignores itself
//! (`.fleet/runs/.gitignore` holds `*`), so no tracked file changes.

use std::io;

use camino::{Utf8Path, Utf8PathBuf};

use crate::error::{Error, Result, code};
use crate::id::fleet::{RunId, WorkerId};
use crate::store::replace::{Durability, replace};
use crate::store::{directory, read};
use crate::sys::shell;

/// Longest report that is read, in bytes.
pub const LONGEST_REPORT: u64 = 4 << 20;

/// The exchange of one run in one workspace.
#[derive(Clone, Debug)]
pub struct Exchange {
    workspace: Utf8PathBuf,
    run: RunId,
}

impl Exchange {
    /// In this workspace.
    pub fn new(workspace: &Utf8Path, run: &RunId) -> Self {
        Self {
            workspace: workspace.to_owned(),
            run: run.clone(),
        }
    }

    /// A worker's prompt of one launch, relative to the workspace.
    pub fn prompt(&self, worker: &WorkerId, launch: u32) -> Utf8PathBuf {
        self.relative("prompts", &format!("{worker}.{launch}.md"))
    }

    /// A worker's report, relative to the workspace.
    pub fn report(&self, worker: &WorkerId) -> Utf8PathBuf {
        self.relative("reports", &format!("{worker}.md"))
    }

    /// Something for workers to read, relative to the workspace.
    pub fn evidence(&self, name: &str) -> Utf8PathBuf {
        self.relative("evidence", name)
    }

    fn relative(&self, kind: &str, name: &str) -> Utf8PathBuf {
        Utf8PathBuf::from(format!(".fleet/runs/{}/{kind}/{name}", self.run))
    }

    /// Writes a file for workers, its directories made.
    ///
    /// Refused with `policy` when something on the way is a symbolic link.
    pub fn write(&self, relative: &Utf8Path, bytes: &[u8]) -> Result<()> {
        let ignore = Utf8Path::new(".fleet/runs/.gitignore");
        for path in [ignore, relative] {
            self.refuse_links(path)?;
            let path = self.workspace.join(path);
            if let Some(parent) = path.parent() {
                directory::ensure(parent)?;
            }
        }
        let ignored = self.workspace.join(ignore);
        if !ignored.exists() {
            replace(&ignored, b"*\n", Durability::Volatile)?;
        }
        replace(self.workspace.join(relative), bytes, Durability::Volatile)
    }

    /// Reads a file that a worker left, at most [`LONGEST_REPORT`] bytes of it; `None` when there is none, or what is
    /// there is no plain file.
    ///
    /// Refused with `policy` when something on the way is a symbolic link.
    pub fn read(&self, relative: &Utf8Path) -> Result<Option<String>> {
        self.refuse_links(relative)?;
        let path = self.workspace.join(relative);
        let failed = |error: io::Error| Error::io("read", &path, &error);
        match path.symlink_metadata() {
            Ok(found) if found.is_file() => {}
            Ok(_) => return Ok(None),
            Err(error) if is_missing(&error) => return Ok(None),
            Err(error) => return Err(failed(error)),
        }
        let file = read::open(&path).map_err(failed)?;
        let bytes = read::to_end(&file, LONGEST_REPORT).map_err(failed)?;
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Sets a worker's report aside, so that the next launch begins without one.
    pub fn set_aside(&self, worker: &WorkerId, token: &str) -> Result<()> {
        let relative = self.report(worker);
        self.refuse_links(&relative)?;
        let path = self.workspace.join(&relative);
        if !path.exists() {
            return Ok(());
        }
        let aside = self
            .workspace
            .join(self.relative("reports", &format!("{worker}.{token}.previous")));
        crate::store::replace::rename(path, aside)
    }

    fn refuse_links(&self, relative: &Utf8Path) -> Result<()> {
        let mut path = self.workspace.clone();
        for part in relative.components() {
            path.push(part.as_str());
            match path.symlink_metadata() {
                Ok(found) if found.is_symlink() => {
                    let message = format!("`{path}` is a symbolic link, which is not followed");
                    let hint = format!("ls -l {}", shell::quote(path.as_str()));
                    return Err(Error::new(code::POLICY, message).hint(hint));
                }
                Ok(_) => {}
                Err(error) if is_missing(&error) => return Ok(()),
                Err(error) => return Err(Error::io("look at", &path, &error)),
            }
        }
        Ok(())
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

#[cfg(test)]
mod tests {
    use super::Exchange;
    use crate::error::code;
    use camino::Utf8Path;

    #[test]
    fn what_is_written_is_ignored_by_git_and_links_are_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(directory.path()).unwrap();
        let exchange = Exchange::new(root, &"r".parse().unwrap());
        let worker = "w".parse().unwrap();
        let prompt = exchange.prompt(&worker, 1);
        exchange.write(&prompt, b"text").unwrap();
        let ignore = root.join(".fleet/runs/.gitignore");
        assert_eq!(std::fs::read_to_string(ignore).unwrap(), "*\n");
        assert_eq!(exchange.read(&prompt).unwrap().as_deref(), Some("text"));
        let report = exchange.report(&worker);
        assert_eq!(exchange.read(&report).unwrap(), None);
        let outside = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), root.join(".fleet/runs/r/reports")).unwrap();
        for refused in [
            exchange.write(&report, b"x").unwrap_err(),
            exchange.read(&report).unwrap_err(),
            exchange.set_aside(&worker, "t").unwrap_err(),
        ] {
            assert_eq!(refused.code, code::POLICY);
        }
        assert_eq!(outside.path().read_dir().unwrap().count(), 0);
    }
}
