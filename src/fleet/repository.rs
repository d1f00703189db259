//! The checkout that a run works in, known by its canonical root.
//!
//! However it is spelt or linked to, one checkout has one root and so one key. Refused are directories without a
//! repository, bare repositories, and repositories without a commit: nothing could be compared with.

use camino::{Utf8Path, Utf8PathBuf};

use super::git::Git;
use crate::error::{Error, Result, code};
use crate::id::fleet::RepositoryKey;
use crate::sys::shell;

/// A checkout with at least one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    /// Canonical root of the worktree.
    pub root: Utf8PathBuf,
    /// What it is known by.
    pub key: RepositoryKey,
    /// Canonical directory of this worktree's own git files.
    pub git_directory: Utf8PathBuf,
    /// Canonical directory that all worktrees of the repository share.
    pub common_directory: Utf8PathBuf,
    /// Commit that is checked out.
    pub head: String,
}

impl Repository {
    /// Finds the checkout that a directory is in.
    pub fn find(git: &Git, start: &Utf8Path) -> Result<Self> {
        let start = start
            .canonicalize_utf8()
            .map_err(|error| Error::io("find the directory", start, &error))?;
        let asked = [
            "rev-parse",
            "--is-bare-repository",
            "--is-inside-work-tree",
            "--absolute-git-dir",
            "--git-common-dir",
        ];
        let call = git.call(&start, &asked).looking_above();
        let answer = call.answer()?;
        if answer.status != 0 {
            return Err(if answer.said("not a git repository") {
                outside(&start)
            } else {
                // Another reason, such as a foreign owner, is git's to tell.
                call.refusal(&answer)
            });
        }
        let text = String::from_utf8(answer.stdout)
            .map_err(|_| refused(&start, "has a path that is not UTF-8"))?;
        let mut lines = text.lines();
        let mut next = || lines.next().unwrap_or_default();
        let (bare, inside, own, common) = (next(), next(), next(), next());
        if bare == "true" {
            return Err(refused(
                &start,
                "is a bare repository, which has no files to work on",
            ));
        }
        if inside != "true" {
            return Err(refused(
                &start,
                "is inside the `.git` directory and not in a checkout",
            ));
        }
        let top = ["rev-parse", "--show-toplevel"];
        let top = git.call(&start, &top).looking_above().line()?;
        let root = canonical(top.as_str().into())?;
        let git_directory = canonical(own.into())?;
        // It is relative to where git was asked, except where it is not.
        let common_directory = canonical(&start.join(common))?;
        let head = ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"];
        let head = git.call(&root, &head).answer()?;
        if head.status != 0 {
            return Err(Error::new(
                code::REPOSITORY_INVALID,
                format!("the repository at `{root}` has no commit yet: a fleet compares with one"),
            )
            .hint(format!(
                "git -C {} commit --allow-empty -m 'Begin'",
                shell::quote(root.as_str())
            )));
        }
        let head = String::from_utf8_lossy(&head.stdout).trim().to_owned();
        Ok(Self {
            key: RepositoryKey::of(&root),
            root,
            git_directory,
            common_directory,
            head,
        })
    }
}

fn canonical(path: &Utf8Path) -> Result<Utf8PathBuf> {
    path.canonicalize_utf8()
        .map_err(|error| Error::io("find the directory", path, &error))
}

fn outside(start: &Utf8Path) -> Error {
    refused(start, "is in no git repository")
        .hint(format!("git -C {} init", shell::quote(start.as_str())))
}

fn refused(start: &Utf8Path, what: &str) -> Error {
    Error::new(code::REPOSITORY_INVALID, format!("`{start}` {what}")).hint("cd /path/to/a/checkout")
}

#[cfg(test)]
mod tests {
    use super::super::checkout_tests::Checkout;
    use super::Repository;
    use crate::error::code;
    use camino::Utf8Path;

    #[test]
    fn a_checkout_has_one_key_however_it_is_reached() {
        let checkout = Checkout::new();
        checkout.write("a/b/file", "");
        let find = |path: &Utf8Path| Repository::find(&checkout.git, path).unwrap();
        let found = find(&checkout.root);
        assert_eq!(found.root, checkout.root);
        assert_eq!(found.common_directory, checkout.root.join(".git"));
        let link = checkout.beside("link");
        std::os::unix::fs::symlink(&checkout.root, &link).unwrap();
        for path in ["", "a", "a/b", "a/../a/b/.", "./"] {
            assert_eq!(find(&checkout.root.join(path)), found, "{path}");
            assert_eq!(find(&link.join(path)), found, "{path}");
        }
    }

    #[test]
    fn a_linked_worktree_is_a_checkout_of_its_own_in_the_same_repository() {
        let checkout = Checkout::new();
        let linked = checkout.beside("linked");
        checkout.run(&["worktree", "add", "-q", "--detach", linked.as_str()]);
        let main = Repository::find(&checkout.git, &checkout.root).unwrap();
        let other = Repository::find(&checkout.git, &linked).unwrap();
        assert_ne!(main.key, other.key);
        assert_eq!(main.common_directory, other.common_directory);
        assert_ne!(main.git_directory, other.git_directory);
    }

    #[test]
    fn where_there_is_nothing_to_work_on_it_is_said() {
        let checkout = Checkout::new();
        let refusal = |path: &Utf8Path| {
            let refusal = Repository::find(&checkout.git, path).unwrap_err();
            assert_eq!(refusal.code, code::REPOSITORY_INVALID, "{refusal}");
            assert!(refusal.hint.is_some());
            refusal.message
        };
        let place = checkout.beside("place");
        std::fs::create_dir(&place).unwrap();
        assert!(refusal(&place).contains("in no git repository"));
        checkout.run(&["init", "-q", place.as_str()]);
        assert!(refusal(&place).contains("no commit yet"));
        let bare = checkout.beside("bare");
        checkout.run(&["init", "-q", "--bare", bare.as_str()]);
        assert!(refusal(&bare).contains("bare repository"));
        assert!(refusal(&checkout.root.join(".git/refs")).contains("inside"));
    }
}
