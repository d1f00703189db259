//! Bringing a worktree step's result to the person.
//!
//! As a patch: the files of the checkout change, its index and HEAD do not. All of it or nothing: a file that the
//! person has changed is never overwritten, and stops the whole merge with its name; what was put in place before
//! something went wrong is taken back. Merging the same result again changes nothing.
//!
//! As a branch, for those who ask: one commit by the person's own name on the commit where the worktree began, so
//! that `git merge --ff-only` takes it where nothing else happened. The checkout is not touched.
//!
//! When the checkout's HEAD has moved since, the result is merged with it as git merges commits (git 2.38 or newer);
//! what cannot be merged is named and nothing changes.

mod branch;
mod placing;
mod plan;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use camino::Utf8Path;

use self::placing::{Move, place};
use self::plan::{Change, Plan, Trees};
use super::git::{self, Git, shown};
use super::repository::Repository;
use super::tree::{self, Blob, COMMIT_MODE, EXCHANGE, Objects, Scratch, joined};
use super::worktree::{Content, Merged, Worktree};
use crate::error::{Error, Result, code};
use crate::store::directory;
use crate::sys::shell;

/// How the result is to arrive.
#[derive(Clone, Copy, Debug)]
pub enum How<'a> {
    /// As changed files in the checkout.
    Patch,
    /// As a branch with one commit.
    Branch {
        /// Its name, without `refs/heads/`.
        name: &'a str,
        /// The commit's message.
        message: &'a str,
    },
}

/// What a merge did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The checkout or the new branch has it now; the files that changed, escaped where a name is no plain text.
    Merged(Vec<String>),
    /// It was there already.
    Already,
    /// The worktree holds no change.
    Nothing,
}

/// Brings a worktree's result to its repository's checkout.
///
/// `reviewed` is the digest of the diff that was accepted: anything else in the worktree is refused.
pub fn merge(
    git: &Git,
    checkout: &Repository,
    worktree: &mut Worktree,
    reviewed: Option<&str>,
    how: How<'_>,
) -> Result<Outcome> {
    let objects = match how {
        How::Patch => Objects::Discarded,
        How::Branch { .. } => Objects::Kept,
    };
    if worktree.record.common_directory != checkout.common_directory {
        let message = format!(
            "the worktree `{}` belongs to another repository than `{}`",
            worktree.root, checkout.root
        );
        return Err(Error::new(code::REPOSITORY_INVALID, message).hint(status(&worktree.root)));
    }
    let content = worktree.content(git, objects)?;
    if reviewed.is_some_and(|reviewed| reviewed != content.diff.digest) {
        return Err(Error::new(
            code::MERGE_CONFLICT,
            format!(
                "the worktree `{}` was changed after its diff was accepted",
                worktree.root
            ),
        )
        .hint(status(&worktree.root)));
    }
    refuse_repositories(worktree, &content)?;
    let nothing = content.differing.is_empty();
    match how {
        How::Branch { name, message } => {
            if nothing {
                return Ok(Outcome::Nothing);
            }
            branch::make(git, checkout, worktree, &content, name, message)
        }
        How::Patch => {
            let had = worktree.record.merged.as_ref();
            if nothing && had.is_none_or(|merged| merged.files.is_empty()) {
                return Ok(Outcome::Nothing);
            }
            let again = had.is_some_and(|merged| {
                !merged.files.is_empty() && merged.digest == content.diff.digest
            });
            match patch(git, checkout, worktree, &content) {
                // The person went on from what was merged.
                Err(error) if again && error.code == code::MERGE_CONFLICT => Ok(Outcome::Already),
                other => other,
            }
        }
    }
}

/// A repository inside the worktree has its files in itself: a patch would name a commit that nobody else has.
fn refuse_repositories(worktree: &Worktree, content: &Content) -> Result<()> {
    let is_commit =
        |blob: &Option<Blob>| blob.as_ref().is_some_and(|blob| blob.mode == COMMIT_MODE);
    let found = content
        .differing
        .iter()
        .find(|file| is_commit(&file.new) || is_commit(&file.old));
    match found {
        None => Ok(()),
        Some(file) => Err(Error::new(
            code::MERGE_CONFLICT,
            format!(
                "`{}` in the worktree `{}` is a repository of its own, whose files cannot be merged",
                shown(&file.path),
                worktree.root
            ),
        )
        .hint(status(&worktree.root))),
    }
}

fn patch(
    git: &Git,
    checkout: &Repository,
    worktree: &mut Worktree,
    content: &Content,
) -> Result<Outcome> {
    let root = &checkout.root;
    let scratch = &content.scratch;
    // Asked for again: the person may have committed since the checkout was found.
    let head = git
        .call(root, &["rev-parse", "--verify", "HEAD^{commit}"])
        .line()?;
    let head_tree = format!("{head}^{{tree}}");
    let target = target(git, checkout, worktree, content, &head)?;
    let wanted = tree::differing(git, root, scratch, [&head_tree, &target])?;
    let trees = Trees {
        git,
        root,
        scratch,
        head: &head,
        target: &target,
    };
    let earlier = worktree.record.merged.clone().unwrap_or(Merged {
        digest: String::new(),
        files: BTreeMap::new(),
    });
    let plan = Plan::make(&trees, wanted, &earlier)?;
    let changed = plan.missing(root)?;
    let merged = Merged {
        digest: content.diff.digest.clone(),
        files: plan.left(),
    };
    let outcome = if changed.is_empty() {
        Outcome::Already
    } else {
        put(git, root, scratch, &target, &changed)?;
        Outcome::Merged(changed.iter().map(|file| shown(&file.path)).collect())
    };
    worktree.note_merged(merged)?;
    Ok(outcome)
}

/// The tree that the checkout is to have: HEAD with the worktree's changes.
fn target(
    git: &Git,
    checkout: &Repository,
    worktree: &Worktree,
    content: &Content,
    head: &str,
) -> Result<String> {
    let root = &checkout.root;
    let call = |words: &[&str]| content.scratch.call(git, root, words);
    let base = &worktree.record.base;
    let tree_of = |commit: &str| {
        let name = format!("{commit}^{{tree}}");
        git.call(root, &["rev-parse", "--verify"]).word(name).line()
    };
    let (head_tree, base_tree) = (tree_of(head)?, tree_of(base)?);
    if head_tree == base_tree {
        return Ok(content.tree.clone());
    }
    // Commits that nobody sees, so that the base of the merge is the step's and not what history would say.
    let commit = |tree: &str, parent: Option<&str>| {
        let mut call = call(&["commit-tree", "-m", "merge"]).word(tree);
        if let Some(parent) = parent {
            call = call.word("-p").word(parent);
        }
        let call = call
            .variable("GIT_AUTHOR_NAME", "agent-fleet")
            .variable("GIT_AUTHOR_EMAIL", "agent-fleet@localhost")
            .variable("GIT_COMMITTER_NAME", "agent-fleet")
            .variable("GIT_COMMITTER_EMAIL", "agent-fleet@localhost");
        call.line()
    };
    let begin = commit(&base_tree, None)?;
    let theirs = commit(&head_tree, Some(&begin))?;
    let ours = commit(&content.tree, Some(&begin))?;
    let words = [
        "merge-tree",
        "--write-tree",
        "--name-only",
        "--no-messages",
        "-z",
    ];
    let merging = call(&words).word(&theirs).word(&ours);
    let answer = merging.answer()?;
    let mut parts = git::parts(&answer.stdout);
    let tree = parts.next().unwrap_or_default();
    match answer.status {
        0 => Ok(String::from_utf8_lossy(tree).into_owned()),
        1 => {
            let files: BTreeSet<String> = parts.map(shown).collect();
            Err(conflict(root, "was changed by later commits, too,", files))
        }
        _ if answer.said("usage: git merge-tree") => Err(Error::new(
            code::MERGE_CONFLICT,
            format!("HEAD of `{root}` moved since the step began, and this git is too old to merge with it: 2.38 or newer can"),
        )
        .hint("git --version")),
        _ => Err(merging.refusal(&answer)),
    }
}

/// Writes the new files beside the checkout's, as git would write them, and gives them their names.
fn put(
    git: &Git,
    root: &Utf8Path,
    scratch: &Scratch,
    target: &str,
    changes: &[Change],
) -> Result<()> {
    let staging = staging(root)?;
    let call = |words: &[&str]| scratch.call(git, root, words);
    call(&["read-tree"]).word(target).bytes()?;
    let come = changes.iter().filter(|change| change.target.is_some());
    let written = call(&["checkout-index", "-z", "--stdin"])
        .word(format!("--prefix={}/", staging.join("new")))
        .input(joined(come.map(|change| change.path.as_slice())))
        .bytes();
    let moves = changes.iter().map(|change| Move {
        path: OsStr::from_bytes(&change.path).into(),
        before: change.seen.clone(),
        comes: change.target.is_some(),
    });
    let placed = written.and_then(|_| place(root, &staging, moves.collect()));
    match placed {
        Ok(()) => directory::remove_all(&staging),
        Err(failure) => {
            // What could not be taken back is still in there.
            if !failure.details.contains_key("kept") {
                directory::remove_all(&staging)?;
            }
            Err(failure)
        }
    }
}

/// A new directory in the exchange, which is on the checkout's file system and ignored by git.
fn staging(root: &Utf8Path) -> Result<camino::Utf8PathBuf> {
    let exchange = root.join(EXCHANGE);
    directory::establish(&exchange)?;
    if exchange.canonicalize_utf8().ok().as_ref() != Some(&exchange) {
        let message = format!("`{exchange}` leads through a symbolic link");
        return Err(Error::new(code::REPOSITORY_INVALID, message)
            .hint(format!("ls -ld {}", shell::quote(exchange.as_str()))));
    }
    crate::store::replace::establish(exchange.join(".gitignore"), b"*\n")?;
    let made = tempfile::Builder::new()
        .prefix(".merge-")
        .tempdir_in(&exchange)
        .map_err(|error| Error::io("make a directory in", &exchange, &error))?;
    camino::Utf8PathBuf::from_path_buf(made.keep())
        .map_err(|_| Error::internal("a temporary directory is not UTF-8"))
}

fn status(root: &Utf8Path) -> String {
    format!("git -C {} status", shell::quote(root.as_str()))
}

/// The refusal that names the files.
fn conflict(root: &Utf8Path, what: &str, files: BTreeSet<String>) -> Error {
    const NAMED: usize = 10;
    let count = files.len();
    let named: Vec<&str> = files.iter().map(String::as_str).take(NAMED).collect();
    let more = if count > NAMED { " and more" } else { "" };
    Error::new(
        code::MERGE_CONFLICT,
        format!(
            "nothing was merged into `{root}`: `{}`{more} {what} and would be overwritten",
            named.join("`, `")
        ),
    )
    .hint(status(root))
    .detail("files", files.into_iter().collect::<Vec<_>>())
}
