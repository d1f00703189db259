//! Which checkout and which run a command is about, without starting git: routine commands only read.

use camino::{Utf8Path, Utf8PathBuf};

use super::board::{Board, load};
use super::files::{FleetFiles, RunFiles};
use super::model::Run;
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::id::fleet::{RepositoryKey, RunId};
use crate::registry::project;

/// A checkout with its runs.
#[derive(Clone, Debug)]
pub struct Place {
    /// Canonical root of the worktree.
    pub root: Utf8PathBuf,
    /// What it is known by.
    pub key: RepositoryKey,
    /// The fleet's files on this machine.
    pub files: FleetFiles,
}

impl Place {
    /// The checkout that the caller's directory is in. Refused with `workspace_invalid` outside of one.
    pub fn here(context: &Context) -> Result<Self> {
        Self::of(context, Utf8Path::new("."))
    }

    /// The checkout that a path is in.
    pub fn of(context: &Context, path: &Utf8Path) -> Result<Self> {
        let root = project::enclosing(context, path.as_std_path())?;
        Ok(Self {
            key: RepositoryKey::of(&root),
            root,
            files: FleetFiles::new(context),
        })
    }

    /// The checkout of a run.
    pub fn of_run(context: &Context, board: &Board) -> Self {
        Self {
            root: board.run.repository.clone(),
            key: board.files.repository.clone(),
            files: FleetFiles::new(context),
        }
    }

    /// A run of the checkout, which may not be there.
    pub fn run(&self, id: &RunId) -> RunFiles {
        self.files.run(&self.key, id)
    }

    /// The run that is meant: the named one, else the only one that is not over, else the newest.
    ///
    /// Refused with `not_found` when there is none, and `usage` when several are not over.
    pub fn choose(&self, named: Option<&RunId>) -> Result<RunFiles> {
        if let Some(id) = named {
            return Ok(self.run(id));
        }
        let mut open = Vec::new();
        let mut newest = None;
        for files in self.files.runs_of(&self.key)? {
            let Some(run) = load::<Run>(&files, &files.run())? else {
                continue;
            };
            if !run.state.is_final() {
                open.push(files.clone());
            }
            if newest
                .as_ref()
                .is_none_or(|(created, _)| *created < run.created)
            {
                newest = Some((run.created, files));
            }
        }
        match (open.pop(), open.is_empty(), newest) {
            (Some(only), true, _) => Ok(only),
            (Some(_), false, _) => {
                let message = "several runs of this checkout are not over";
                Err(Error::new(code::USAGE, message).hint("agent-fleet fleet list"))
            }
            (None, _, Some((_, files))) => Ok(files),
            (None, _, None) => {
                let message = format!("there is no run of `{}`", self.root);
                Err(Error::new(code::NOT_FOUND, message).hint("agent-fleet fleet run --help"))
            }
        }
    }

    /// Looks at the run that is meant.
    pub fn look(&self, named: Option<&RunId>) -> Result<Board> {
        Board::look(&self.choose(named)?)
    }
}
