//! What a merge is to change, and whether anything of the person's is in its way.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use camino::Utf8Path;

use super::conflict;
use crate::error::Result;
use crate::fleet::git::{Call, Git, shown};
use crate::fleet::scope::place::{State, look};
use crate::fleet::tree::{self, Blob, Differing, Scratch, joined};
use crate::fleet::worktree::Merged;

/// What each path that matters is in the end, at HEAD, and now.
pub(super) struct Plan {
    files: Vec<Planned>,
}

struct Planned {
    path: Vec<u8>,
    /// What it is to be.
    target: Option<Blob>,
    /// What it may be now without anything being lost: HEAD's, and what an earlier merge left.
    known: Vec<Option<Blob>>,
    /// What git says it is now.
    now: Option<Blob>,
    /// What is there now, byte for byte.
    seen: State,
}

/// A path whose content is to change.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) path: Vec<u8>,
    pub(super) target: Option<Blob>,
    pub(super) seen: State,
}

/// What a plan is made from.
#[derive(Clone, Copy)]
pub(super) struct Trees<'a> {
    pub(super) git: &'a Git,
    pub(super) root: &'a Utf8Path,
    pub(super) scratch: &'a Scratch,
    /// Commit that the checkout is at.
    pub(super) head: &'a str,
    /// What it is to have.
    pub(super) target: &'a str,
}

impl Trees<'_> {
    fn call(&self, words: &[&str]) -> Call<'_> {
        self.scratch.call(self.git, self.root, words)
    }
}

impl Plan {
    pub(super) fn make(
        trees: &Trees<'_>,
        wanted: Vec<Differing>,
        earlier: &Merged,
    ) -> Result<Self> {
        let earlier: BTreeMap<&[u8], Option<Blob>> = earlier
            .files
            .iter()
            .map(|(path, left)| {
                let left = left.as_ref().map(|(mode, object)| Blob {
                    mode: mode.clone(),
                    object: object.clone(),
                });
                (path.as_bytes(), left)
            })
            .collect();
        let mut wanted: BTreeMap<Vec<u8>, (Option<Blob>, Option<Blob>)> = wanted
            .into_iter()
            .map(|file| (file.path, (file.old, file.new)))
            .collect();
        // What an earlier merge changed and this one does not: both trees have the same there.
        for path in earlier.keys() {
            if !wanted.contains_key(*path) {
                let same = in_tree(trees, path)?;
                wanted.insert(path.to_vec(), (same.clone(), same));
            }
        }
        // Looked at before git does, so that an edit in between is an edit afterwards.
        let mut seen = BTreeMap::new();
        for path in wanted.keys() {
            seen.insert(
                path.clone(),
                look(trees.root, OsStr::from_bytes(path), 0)?.state,
            );
        }
        let now = hashed(trees, &seen)?;
        let files = wanted
            .into_iter()
            .map(|(path, (head, target))| Planned {
                now: match now.get(&path) {
                    Some(differs) => differs.clone(),
                    None => head.clone(),
                },
                known: std::iter::once(head)
                    .chain(earlier.get(path.as_slice()).cloned())
                    .collect(),
                seen: seen.remove(&path).unwrap_or(State::Absent),
                target,
                path,
            })
            .collect();
        Ok(Self { files })
    }

    /// The paths that are not yet what they are to be; refused when one of them holds what is known to nobody.
    pub(super) fn missing(&self, root: &Utf8Path) -> Result<Vec<Change>> {
        let missing = || self.files.iter().filter(|file| file.now != file.target);
        let in_the_way: BTreeSet<String> = missing()
            .filter(|file| !file.known.contains(&file.now) || self.is_behind(file))
            .map(|file| shown(&file.path))
            .collect();
        if !in_the_way.is_empty() {
            return Err(conflict(
                root,
                "has changes that are not committed",
                in_the_way,
            ));
        }
        let change = |file: &Planned| Change {
            path: file.path.clone(),
            target: file.target.clone(),
            seen: file.seen.clone(),
        };
        Ok(missing().map(change).collect())
    }

    /// Whether the way leads through a link that stays.
    fn is_behind(&self, file: &Planned) -> bool {
        let State::Behind { link } = &file.seen else {
            return false;
        };
        let goes = |other: &Planned| {
            other.path == link.as_str().as_bytes() && other.target.is_none() && other.now.is_some()
        };
        !self.files.iter().any(goes)
    }

    /// What the merge leaves at each path whose name is text.
    pub(super) fn left(&self) -> BTreeMap<String, Option<(String, String)>> {
        let left = |file: &Planned| {
            let name = String::from_utf8(file.path.clone()).ok()?;
            let blob = file.target.as_ref();
            Some((
                name,
                blob.map(|blob| (blob.mode.clone(), blob.object.clone())),
            ))
        };
        self.files.iter().filter_map(left).collect()
    }
}

fn in_tree(trees: &Trees<'_>, path: &[u8]) -> Result<Option<Blob>> {
    let listing = trees
        .call(&["ls-tree", "-z", "--full-tree"])
        .word(trees.target)
        .word(OsStr::from_bytes(path))
        .bytes()?;
    // `<mode> <kind> <object>\t<path>`
    let entry = String::from_utf8_lossy(&listing);
    let mut fields = entry.split(['\t', ' ']);
    match (fields.next(), fields.next(), fields.next()) {
        (Some(mode), Some("blob"), Some(object)) => Ok(Some(Blob {
            mode: mode.to_owned(),
            object: object.to_owned(),
        })),
        _ => Ok(None),
    }
}

/// Paths whose content in the checkout is not HEAD's, with what git makes of it.
fn hashed(
    trees: &Trees<'_>,
    seen: &BTreeMap<Vec<u8>, State>,
) -> Result<BTreeMap<Vec<u8>, Option<Blob>>> {
    let call = |words: &[&str]| trees.call(words);
    call(&["read-tree"]).word(trees.head).bytes()?;
    let is_there = |state: &State| matches!(state, State::File { .. } | State::Link { .. });
    let some = |there: bool| {
        let some = seen
            .iter()
            .filter(move |(_, state)| is_there(state) == there);
        joined(some.map(|(path, _)| path.as_slice()))
    };
    call(&["update-index", "-z", "--force-remove", "--stdin"])
        .input(some(false))
        .bytes()?;
    let words = [
        "-c",
        "core.safecrlf=false",
        "update-index",
        "-z",
        "--add",
        "--remove",
        "--replace",
        "--stdin",
    ];
    call(&words).input(some(true)).bytes()?;
    let words = [
        "diff-index",
        "--cached",
        "--raw",
        "-z",
        "--no-renames",
        "--no-abbrev",
    ];
    let listing = call(&words).word(trees.head).bytes()?;
    let differing = tree::raw(&listing);
    Ok(differing
        .into_iter()
        .map(|file| (file.path, file.new))
        .collect())
}
