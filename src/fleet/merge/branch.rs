//! A worktree's result as a branch with one commit, by the person's own name.

use super::{Outcome, status};
use crate::error::{Error, Result, code};
use crate::fleet::git::Git;
use crate::fleet::repository::Repository;
use crate::fleet::worktree::{Content, Merged, Worktree};
use crate::sys::shell;

/// Makes it; one with this very content is left as it is, any other is refused.
pub(super) fn make(
    git: &Git,
    checkout: &Repository,
    worktree: &mut Worktree,
    content: &Content,
    name: &str,
    message: &str,
) -> Result<Outcome> {
    let root = &checkout.root;
    let full = format!("refs/heads/{name}");
    let valid = git.call(root, &["check-ref-format"]).word(&full).answer()?;
    if valid.status != 0 || name.starts_with('-') || name == "HEAD" {
        return Err(
            Error::new(code::USAGE, format!("`{name}` cannot be a branch's name"))
                .hint("git help check-ref-format"),
        );
    }
    let base = worktree.record.base.clone();
    let has = git
        .call(root, &["rev-parse", "--verify", "--quiet"])
        .word(&full)
        .answer()?;
    let merged = Merged {
        digest: content.diff.digest.clone(),
        files: worktree
            .record
            .merged
            .clone()
            .map(|merged| merged.files)
            .unwrap_or_default(),
    };
    if has.status == 0 {
        let of = |what: &str| {
            let words = ["rev-parse", "--verify", "--quiet"];
            let answer = git
                .call(root, &words)
                .word(format!("{full}{what}"))
                .answer();
            answer.map(|answer| String::from_utf8_lossy(&answer.stdout).trim().to_owned())
        };
        if of("^{tree}")? == content.tree && of("^1")? == base {
            worktree.note_merged(merged)?;
            return Ok(Outcome::Already);
        }
        let command = format!(
            "git -C {} log -1 {}",
            shell::quote(root.as_str()),
            shell::quote(name)
        );
        return Err(Error::new(
            code::ALREADY_EXISTS,
            format!("the branch `{name}` is there already, with something else on it"),
        )
        .hint(command));
    }
    let commit = git
        .call(root, &["commit-tree", "-F", "-", "-p"])
        .word(&base)
        .word(&content.tree)
        .input(message.as_bytes().to_vec());
    let answer = commit.answer()?;
    if answer.said("tell me who you are") || answer.said("empty ident name") {
        return Err(Error::new(
            code::GIT_FAILED,
            format!("git does not know whose name the commit in `{root}` is to carry"),
        )
        .hint("git config --global user.name"));
    }
    if answer.status != 0 {
        return Err(commit.refusal(&answer));
    }
    let commit = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
    // Only if nobody made one of that name meanwhile.
    let none = "0".repeat(commit.len());
    git.call(root, &["update-ref", "--no-deref"])
        .word(&full)
        .word(&commit)
        .word(none)
        .bytes()
        .map_err(|error| error.hint(status(root)))?;
    worktree.note_merged(merged)?;
    Ok(Outcome::Merged(content.diff.files.clone()))
}
