//! A checkout of its own for a step: a linked worktree of the person's repository, on a detached HEAD.
//!
//! A record beside it says what it is before anything is made, so that whatever ends the program, the next one
//! finishes it or takes it back. The person's checkout, branches and index are never touched, and worktrees that
//! are not ours are never judged: nothing is pruned.
//!
//! Limits: files that git ignores are no result, and go with the worktree. A repository inside the worktree is
//! told and never merged. Submodules are left empty.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};

use super::git::Git;
use super::model::SCHEMA;
use super::record;
use super::repository::Repository;
use super::scope::diff::Diff;
use super::tree::{self, Differing, Objects, Scratch};
use crate::clock::Clock;
use crate::crash_point;
use crate::error::{Error, Result, code};
use crate::store::directory;
use crate::sys::shell;

/// How far a worktree is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// It is being made; nobody works in it.
    Making,
    /// It is there.
    Made,
    /// It is being removed; what was in it is merged or given up.
    Removing,
}

/// What was brought to the person's checkout or to a branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Merged {
    /// Digest of the diff that was merged.
    pub digest: String,
    /// What the merge left at each path whose name is text: mode and object, or nothing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, Option<(String, String)>>,
}

/// What is written beside a worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Format.
    pub schema: u32,
    /// Canonical root of the person's checkout.
    pub repository: Utf8PathBuf,
    /// What all worktrees of the repository share.
    pub common_directory: Utf8PathBuf,
    /// Commit that it began at.
    pub base: String,
    /// How far it is.
    pub stage: Stage,
    /// The last merge of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged: Option<Merged>,
}

/// A step's worktree that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worktree {
    /// Its canonical root.
    pub root: Utf8PathBuf,
    /// What is written beside it.
    pub record: Record,
}

/// The content of a worktree.
#[derive(Debug)]
pub struct Content {
    /// As a tree.
    pub tree: String,
    /// What differs from the base.
    pub differing: Vec<Differing>,
    /// The same as text.
    pub diff: Diff,
    /// Where the tree's objects are.
    pub scratch: Scratch,
}

/// When a worktree may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Only when what is in it was merged as it is, or nothing was changed.
    Merged,
    /// Whatever is in it.
    Forced,
}

/// A worktree that is still there, for whoever cleans up.
#[derive(Debug)]
pub struct Leftover {
    /// Where it is, or was to be.
    pub root: Utf8PathBuf,
    /// What is written beside it; the refusal when that cannot be read.
    pub record: Result<Record>,
    /// Whether the directory is there.
    pub there: bool,
}

impl Worktree {
    /// Makes it, or gives back the one that was made. What was cut short before is taken back first.
    ///
    /// Refused when the place is taken by something of which there is no record, or by a worktree of another base.
    pub fn create(
        git: &Git,
        repository: &Repository,
        place: &Utf8Path,
        base: &str,
    ) -> Result<Self> {
        let name = place
            .file_name()
            .ok_or_else(|| Error::internal(format!("`{place}` has no name")))?;
        let above = place.parent().unwrap_or(place);
        directory::establish(above)?;
        let above = above
            .canonicalize_utf8()
            .map_err(|error| Error::io("find the directory", above, &error))?;
        sweep(&above, git.clock());
        let root = above.join(name);
        let commit = format!("{base}^{{commit}}");
        let base = git
            .call(&repository.root, &["rev-parse", "--verify", "--quiet"])
            .word(commit)
            .line()?;
        match record::load::<Record>(&beside(&root))? {
            Some(record) if record.stage == Stage::Made => {
                let fits = record.base == base && record.repository == repository.root;
                if !fits {
                    return Err(taken(
                        &root,
                        "a worktree of another base or checkout is there",
                    ));
                }
                return Self::there(root, record);
            }
            Some(record) => take_back(git, &root, &record)?,
            None if root.symlink_metadata().is_ok() => {
                return Err(taken(&root, "something else is there"));
            }
            None => {}
        }
        let record = Record {
            schema: SCHEMA,
            repository: repository.root.clone(),
            common_directory: repository.common_directory.clone(),
            base,
            stage: Stage::Making,
            merged: None,
        };
        let mut worktree = Self { root, record };
        worktree.write()?;
        crash_point!("worktree.making");
        git.call(
            &repository.root,
            &["worktree", "add", "--quiet", "--detach", "--"],
        )
        .word(&worktree.root)
        .word(&worktree.record.base)
        .long()
        .bytes()?;
        crash_point!("worktree.added");
        worktree.record.stage = Stage::Made;
        worktree.write()?;
        crash_point!("worktree.made");
        Ok(worktree)
    }

    /// The one that was made at a place; `None` when there is none, or none that was finished.
    pub fn open(place: &Utf8Path) -> Result<Option<Self>> {
        let root = crate::registry::path::resolved(place);
        match record::load::<Record>(&beside(&root))? {
            Some(record) if record.stage == Stage::Made => Self::there(root, record).map(Some),
            _ => Ok(None),
        }
    }

    fn there(root: Utf8PathBuf, record: Record) -> Result<Self> {
        if root.join(".git").is_file() {
            return Ok(Self { root, record });
        }
        Err(Error::new(
            code::NOT_FOUND,
            format!("the worktree `{root}` was made, and is gone or no worktree any more"),
        )
        .hint(format!(
            "git -C {} worktree list",
            shell::quote(record.repository.as_str())
        )))
    }

    /// What is in it.
    pub fn content(&self, git: &Git, objects: Objects) -> Result<Content> {
        let above = self.root.parent().unwrap_or(&self.root);
        let scratch = Scratch::new(above, &self.record.common_directory, objects)?;
        let base = &self.record.base;
        let tree = tree::of_checkout(git, &self.root, base, &scratch)?;
        let differing = tree::differing(git, &self.root, &scratch, [base, &tree])?;
        let diff = tree::told(git, &self.root, &scratch, base, &tree, &differing)?;
        Ok(Content {
            tree,
            differing,
            diff,
            scratch,
        })
    }

    /// What its worker changed: everything that differs from the base, committed there or not, and new files that
    /// are not ignored.
    pub fn diff(&self, git: &Git) -> Result<Diff> {
        Ok(self.content(git, Objects::Discarded)?.diff)
    }

    /// Writes down that its content was merged.
    pub fn note_merged(&mut self, merged: Merged) -> Result<()> {
        self.record.merged = Some(merged);
        self.write()
    }

    fn write(&self) -> Result<()> {
        record::save(&beside(&self.root), &self.record)
    }
}

/// Removes the worktree at a place, finished or not. True when there was one.
///
/// Refused, and nothing touched, when it holds something that was not merged and `removal` is not forced.
pub fn remove(git: &Git, place: &Utf8Path, removal: Removal) -> Result<bool> {
    let root = crate::registry::path::resolved(place);
    let Some(mut record) = record::load::<Record>(&beside(&root))? else {
        return Ok(false);
    };
    let there = root.symlink_metadata().is_ok();
    if record.stage == Stage::Made && there && removal == Removal::Merged {
        let worktree = Worktree::there(root.clone(), record.clone())?;
        let diff = worktree.diff(git)?;
        let merged = record.merged.as_ref().map(|merged| &merged.digest);
        if !diff.is_empty() && merged != Some(&diff.digest) {
            let files: Vec<&str> = diff.files.iter().map(String::as_str).take(5).collect();
            let message = format!(
                "the worktree `{root}` holds changes that were not merged, in `{}`{}",
                files.join("`, `"),
                if diff.files.len() > files.len() {
                    " and more"
                } else {
                    ""
                }
            );
            return Err(Error::new(code::WORKTREE_UNMERGED, message)
                .hint(format!("git -C {} status", shell::quote(root.as_str()))));
        }
    }
    record.stage = Stage::Removing;
    record::save(&beside(&root), &record)?;
    crash_point!("worktree.removing");
    take_back(git, &root, &record)?;
    Ok(true)
}

/// Every worktree below a directory that holds `<run>/<step>`, in order; those that are being made or removed, too.
pub fn leftovers(below: &Utf8Path) -> Vec<Leftover> {
    let mut found: Vec<Leftover> = entries(below)
        .iter()
        .filter(|run| run.is_dir())
        .flat_map(|run| entries(run))
        .filter_map(|path| {
            let name = path.file_name()?.strip_suffix(".json")?;
            let root = path.with_file_name(name);
            let named = !name.is_empty() && !name.starts_with('.');
            named.then(|| Leftover {
                record: record::require(&beside(&root)),
                there: root.symlink_metadata().is_ok(),
                root,
            })
        })
        .collect();
    found.sort_by(|one, other| one.root.cmp(&other.root));
    found
}

/// Undoes what was made, however far it came; done twice it is the same.
fn take_back(git: &Git, root: &Utf8Path, record: &Record) -> Result<()> {
    if root.symlink_metadata().is_ok() {
        directory::remove_all(root)?;
    }
    crash_point!("worktree.emptied");
    // Git forgets a worktree whose directory is gone; without the repository there is nobody to forget it.
    if record.repository.join(".git").exists() {
        let listing = git
            .call(&record.repository, &["worktree", "list", "--porcelain"])
            .bytes()?;
        let line = format!("worktree {root}");
        if listing
            .split(|byte| *byte == b'\n')
            .any(|one| one == line.as_bytes())
        {
            // Twice: one that was cut short is still locked.
            let words = ["worktree", "remove", "--force", "--force", "--"];
            git.call(&record.repository, &words).word(root).bytes()?;
        }
    }
    crash_point!("worktree.forgotten");
    directory::remove_file(beside(root))
}

fn beside(root: &Utf8Path) -> Utf8PathBuf {
    let name = root.file_name().unwrap_or_default();
    root.with_file_name(format!("{name}.json"))
}

fn taken(root: &Utf8Path, what: &str) -> Error {
    Error::new(
        code::ALREADY_EXISTS,
        format!("the worktree `{root}` cannot be made: {what}"),
    )
    .hint(format!("ls -la {}", shell::quote(root.as_str())))
}

/// Removes the scratch directories that ended programs left beside a run's worktrees: those older than an hour, which
/// no call of git lasts.
pub(super) fn sweep(run: &Utf8Path, clock: &Clock) {
    let now = clock.now().as_second();
    let old = |path: &Utf8Path| {
        fs::symlink_metadata(path)
            .is_ok_and(|found| found.is_dir() && now.saturating_sub(found.mtime()) > 3600)
    };
    for path in entries(run) {
        let name = path.file_name().unwrap_or_default();
        if name.starts_with(tree::TEMPORARY) && old(&path) {
            // Someone else may be at it.
            drop(directory::remove_all(&path));
        }
    }
}

fn entries(directory: &Utf8Path) -> Vec<Utf8PathBuf> {
    let found = directory.read_dir_utf8().into_iter().flatten().flatten();
    found.map(|entry| entry.path().to_owned()).collect()
}
