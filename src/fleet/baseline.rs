//! What the person's commits and index were when a run began, to tell later whether somebody committed or staged.
//!
//! Covers the checkout and every submodule in it that is checked out, however deep: the commit, the branch, and
//! the whole index, so that staging a file again that was staged before is noticed. Files that are not staged are
//! none of its business.
//!
//! Limits: other branches and tags are not looked at. Whose change it was cannot be told.

use std::collections::BTreeMap;
use std::fmt;

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::git::{self, Git, shown};
use super::model::SCHEMA;
use crate::error::{Error, Result, code};
use crate::id::hex;
use crate::sys::shell;

/// A checkout's commits and indexes at one time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Baseline {
    /// Format.
    pub schema: u32,
    /// The checkout under the empty path, and its submodules by their paths in it.
    pub repositories: BTreeMap<Utf8PathBuf, Recorded>,
}

/// One repository's commit and index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// Commit that is checked out; none in a submodule without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// Branch that is checked out; none on a detached HEAD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// SHA-256 of the whole index: mode, object, stage and path of each entry.
    pub index: String,
    /// Commit that `staged` is told against.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<String>,
    /// Entries that differ from that commit: mode, object and kind by path. The rest of the index is the commit's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub staged: BTreeMap<String, String>,
}

/// Something that is not as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The submodule, or empty for the checkout itself.
    pub repository: Utf8PathBuf,
    /// What changed.
    pub what: What,
}

/// What changed in a repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum What {
    /// Another commit is checked out.
    Head {
        /// The commit then.
        before: Option<String>,
        /// The commit now.
        now: Option<String>,
    },
    /// Another branch is checked out.
    Branch {
        /// The branch then; none on a detached HEAD.
        before: Option<String>,
        /// The branch now.
        now: Option<String>,
    },
    /// Something else is staged for a path.
    Staged {
        /// The path, escaped where it is no plain text.
        path: String,
    },
    /// The index changed in a way that is no path's content: a conflict's stages, or the mark of a file to be added.
    Index,
    /// The submodule was not checked out then.
    Appeared,
    /// The submodule is not checked out any more.
    Gone,
}

impl fmt::Display for Change {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = |commit: &Option<String>| -> String {
            let commit = commit.as_deref().unwrap_or("none");
            commit.chars().take(12).collect()
        };
        let branch = |name: &Option<String>| match name {
            Some(name) => format!("branch `{name}`"),
            None => "no branch".to_owned(),
        };
        if !self.repository.as_str().is_empty() {
            write!(formatter, "submodule `{}`: ", self.repository)?;
        }
        match &self.what {
            What::Head { before, now } => {
                write!(
                    formatter,
                    "HEAD was {} and is {}",
                    short(before),
                    short(now)
                )
            }
            What::Branch { before, now } => {
                write!(
                    formatter,
                    "{} was checked out, now {}",
                    branch(before),
                    branch(now)
                )
            }
            What::Staged { path } => write!(formatter, "`{path}` was staged or unstaged"),
            What::Index => formatter.write_str("the index changed"),
            What::Appeared => formatter.write_str("was checked out"),
            What::Gone => formatter.write_str("is not checked out any more"),
        }
    }
}

impl Baseline {
    /// How things are now.
    pub fn take(git: &Git, root: &Utf8Path) -> Result<Self> {
        Self::told_against(git, root, None)
    }

    /// How things are now, in the terms of an earlier baseline, for [`changes`].
    pub fn take_again(&self, git: &Git, root: &Utf8Path) -> Result<Self> {
        Self::told_against(git, root, Some(self))
    }

    fn told_against(git: &Git, root: &Utf8Path, earlier: Option<&Self>) -> Result<Self> {
        let mut repositories = BTreeMap::new();
        let mut waiting = vec![Utf8PathBuf::new()];
        while let Some(path) = waiting.pop() {
            let directory = within(root, &path);
            let earlier = earlier.and_then(|earlier| earlier.repositories.get(&path));
            let (recorded, submodules) = record(git, &directory, earlier)?;
            for submodule in submodules {
                // One that is not checked out is an empty directory of the repository around it.
                if within(&directory, &submodule).join(".git").exists() {
                    waiting.push(within(&path, &submodule));
                }
            }
            repositories.insert(path, recorded);
        }
        Ok(Self {
            schema: SCHEMA,
            repositories,
        })
    }
}

fn within(root: &Utf8Path, path: &Utf8Path) -> Utf8PathBuf {
    // Joining an empty path would add a slash.
    if path.as_str().is_empty() {
        root.to_owned()
    } else {
        root.join(path)
    }
}

/// One repository, and the paths of the submodules that its index names.
fn record(
    git: &Git,
    directory: &Utf8Path,
    earlier: Option<&Recorded>,
) -> Result<(Recorded, Vec<Utf8PathBuf>)> {
    let commit = |name: &str| -> Result<Option<String>> {
        let name = format!("{name}^{{commit}}");
        let answer = git
            .call(directory, &["rev-parse", "--verify", "--quiet", &name])
            .answer()?;
        let text = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
        Ok(Some(text).filter(|text| answer.status == 0 && !text.is_empty()))
    };
    let head = commit("HEAD")?;
    let branch = git
        .call(directory, &["symbolic-ref", "--quiet", "--short", "HEAD"])
        .answer()?;
    let branch = Some(String::from_utf8_lossy(&branch.stdout).trim().to_owned())
        .filter(|name| branch.status == 0 && !name.is_empty());
    let listing = git
        .call(directory, &["ls-files", "--stage", "-z"])
        .bytes()?;
    let submodules = submodules(directory, &listing)?;
    let index = hex(&Sha256::digest(&listing));
    drop(listing);
    let against = match earlier.and_then(|earlier| earlier.against.as_deref()) {
        Some(old) => commit(old)?.or_else(|| head.clone()),
        None => head.clone(),
    };
    let known = earlier.filter(|earlier| earlier.index == index && earlier.against == against);
    let staged = match (known, &against) {
        // The same index against the same commit.
        (Some(earlier), _) => earlier.staged.clone(),
        (None, Some(against)) => staged(git, directory, against)?,
        (None, None) => BTreeMap::new(),
    };
    let recorded = Recorded {
        head,
        branch,
        index,
        against,
        staged,
    };
    Ok((recorded, submodules))
}

fn submodules(directory: &Utf8Path, listing: &[u8]) -> Result<Vec<Utf8PathBuf>> {
    let mut found = Vec::new();
    for entry in git::parts(listing).filter(|entry| entry.starts_with(b"160000 ")) {
        let path = entry.splitn(2, |byte| *byte == b'\t').nth(1);
        let path = path.unwrap_or_default();
        let path = std::str::from_utf8(path).map_err(|_| {
            Error::new(
                code::REPOSITORY_INVALID,
                format!(
                    "the submodule `{}` has a name that is not UTF-8",
                    shown(path)
                ),
            )
            .hint(format!(
                "git -C {} submodule status",
                shell::quote(directory.as_str())
            ))
        })?;
        found.push(path.into());
    }
    // A conflict names it once for each side.
    found.dedup();
    Ok(found)
}

fn staged(git: &Git, directory: &Utf8Path, against: &str) -> Result<BTreeMap<String, String>> {
    let words = [
        "diff-index",
        "--cached",
        "--raw",
        "-z",
        "--no-renames",
        "--no-abbrev",
    ];
    let listing = git.call(directory, &words).word(against).bytes()?;
    let mut staged: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut parts = git::parts(&listing);
    while let (Some(entry), Some(path)) = (parts.next(), parts.next()) {
        // `:<old mode> <mode> <old object> <object> <kind>`
        let entry = String::from_utf8_lossy(entry);
        let fields: Vec<&str> = entry.split(' ').collect();
        if let [_, mode, _, object, kind] = fields.as_slice() {
            // A conflict has several entries.
            let entries = staged.entry(shown(path)).or_default();
            entries.push(format!("{mode} {object} {kind}"));
        }
    }
    let joined = staged
        .into_iter()
        .map(|(path, entries)| (path, entries.join(";")));
    Ok(joined.collect())
}

/// What is not as it was. `now` was taken in the terms of `before`, by [`Baseline::take_again`]. Pure.
pub fn changes(before: &Baseline, now: &Baseline) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut tell = |repository: &Utf8PathBuf, what| {
        changes.push(Change {
            repository: repository.clone(),
            what,
        });
    };
    for (path, old) in &before.repositories {
        let Some(new) = now.repositories.get(path) else {
            tell(path, What::Gone);
            continue;
        };
        if old.head != new.head {
            let (before, now) = (old.head.clone(), new.head.clone());
            tell(path, What::Head { before, now });
        }
        if old.branch != new.branch {
            let (before, now) = (old.branch.clone(), new.branch.clone());
            tell(path, What::Branch { before, now });
        }
        if old.index == new.index {
            continue;
        }
        let comparable = old.against == new.against;
        let names: std::collections::BTreeSet<&String> =
            old.staged.keys().chain(new.staged.keys()).collect();
        let differing: Vec<&String> = names
            .into_iter()
            .filter(|name| comparable && old.staged.get(*name) != new.staged.get(*name))
            .collect();
        if differing.is_empty() {
            tell(path, What::Index);
        }
        for name in differing {
            let name = name.clone();
            tell(path, What::Staged { path: name });
        }
    }
    for path in now.repositories.keys() {
        if !before.repositories.contains_key(path) {
            tell(path, What::Appeared);
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::super::checkout_tests::Checkout;
    use super::{Baseline, changes};
    use std::os::unix::ffi::OsStrExt as _;

    fn told(checkout: &Checkout, before: &Baseline) -> Vec<String> {
        // What was kept is what is compared.
        let kept = serde_json::to_string(before).unwrap();
        let before: Baseline = serde_json::from_str(&kept).unwrap();
        let now = before.take_again(&checkout.git, &checkout.root).unwrap();
        let changes = changes(&before, &now);
        changes.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn working_on_files_is_no_change() {
        let checkout = Checkout::new();
        let before = Baseline::take(&checkout.git, &checkout.root).unwrap();
        checkout.write("first", "2\n");
        checkout.write("new", "");
        assert_eq!(told(&checkout, &before), Vec::<String>::new());
        let index = std::fs::read(checkout.path(".git/index")).unwrap();
        Baseline::take(&checkout.git, &checkout.root).unwrap();
        assert_eq!(std::fs::read(checkout.path(".git/index")).unwrap(), index);
    }

    #[test]
    fn a_file_that_was_staged_and_is_staged_again_is_noticed() {
        let checkout = Checkout::new();
        checkout.write("first", "2\n");
        checkout.run(&["add", "first"]);
        let before = Baseline::take(&checkout.git, &checkout.root).unwrap();
        checkout.write("first", "3\n");
        assert!(told(&checkout, &before).is_empty());
        checkout.run(&["add", "first"]);
        assert_eq!(told(&checkout, &before), ["`first` was staged or unstaged"]);
        checkout.run(&["reset", "-q"]);
        assert_eq!(told(&checkout, &before), ["`first` was staged or unstaged"]);
    }

    #[test]
    fn a_commit_tells_the_commit_and_what_is_in_the_index() {
        let checkout = Checkout::new();
        let before = Baseline::take(&checkout.git, &checkout.root).unwrap();
        let name = std::ffi::OsStr::from_bytes(b"odd\n\xff");
        std::fs::copy(
            checkout.path("first"),
            checkout.root.as_std_path().join(name),
        )
        .unwrap();
        checkout.commit("More");
        let told = told(&checkout, &before);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("HEAD was "), "{told:?}");
        assert_eq!(told[1], "`odd\\n\\xff` was staged or unstaged");
    }

    #[test]
    fn another_branch_modes_and_marks_are_noticed() {
        let checkout = Checkout::new();
        let before = Baseline::take(&checkout.git, &checkout.root).unwrap();
        checkout.run(&["checkout", "-q", "-b", "other"]);
        let branch = ["branch `main` was checked out, now branch `other`"];
        assert_eq!(told(&checkout, &before), branch);
        checkout.run(&["checkout", "-q", "main"]);
        checkout.write("later", "");
        checkout.run(&["add", "-N", "later"]);
        assert_eq!(told(&checkout, &before).len(), 1);
        checkout.run(&["reset", "-q"]);
        checkout.run(&["update-index", "--chmod=+x", "first"]);
        assert_eq!(told(&checkout, &before), ["`first` was staged or unstaged"]);
    }

    #[test]
    fn submodules_of_submodules_are_looked_at() {
        let checkout = Checkout::new();
        let (inner, middle) = (Checkout::new(), Checkout::new());
        middle.run(&["submodule", "add", "-q", inner.root.as_str(), "in ner"]);
        middle.commit("Inner");
        checkout.run(&["submodule", "add", "-q", middle.root.as_str(), "middle"]);
        checkout.run(&["submodule", "update", "-q", "--init", "--recursive"]);
        checkout.commit("Middle");
        let before = Baseline::take(&checkout.git, &checkout.root).unwrap();
        let paths: Vec<&str> = before
            .repositories
            .keys()
            .map(|path| path.as_str())
            .collect();
        assert_eq!(paths, ["", "middle", "middle/in ner"]);
        checkout.write("middle/in ner/first", "2\n");
        assert!(told(&checkout, &before).is_empty());
        checkout.run_in(&checkout.path("middle/in ner"), &["add", "first"]);
        let staged = "submodule `middle/in ner`: `first` was staged or unstaged";
        assert_eq!(told(&checkout, &before), [staged]);
        checkout.run(&["submodule", "deinit", "-q", "-f", "middle"]);
        let gone = told(&checkout, &before);
        assert_eq!(gone.len(), 2, "{gone:?}");
        assert!(gone[0].ends_with("is not checked out any more"), "{gone:?}");
    }
}
