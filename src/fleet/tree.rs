//! Contents of checkouts as git trees, made with an index and objects of our own: the person's index is neither
//! read for what is in the files nor written.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;

use camino::{Utf8Path, Utf8PathBuf};

use super::git::{self, Call, Git, shown};
use super::scope::diff::Diff;
use crate::error::{Error, Result};

/// Longest text of a diff, in bytes; above it only names and objects are told.
pub const TEXT_LIMIT: u64 = 8 << 20;

/// Where workers and the fleet exchange files: never part of a result.
pub const EXCHANGE: &str = ".fleet/runs";

/// Prefix of our own short-lived directories.
pub const TEMPORARY: &str = ".tmp-";

/// Mode of an entry that names a commit of another repository.
pub const COMMIT_MODE: &str = "160000";

/// Where new objects go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objects {
    /// Away with the scratch.
    Discarded,
    /// Into the repository, where they stay for as long as something names them.
    Kept,
}

/// An index, and where asked for a place for objects, that are gone when this is dropped.
#[derive(Debug)]
pub struct Scratch {
    /// Removes it.
    _directory: tempfile::TempDir,
    path: Utf8PathBuf,
    alternates: Option<OsString>,
}

impl Scratch {
    /// One below `parent`, for the repository with this common directory.
    pub fn new(parent: &Utf8Path, common: &Utf8Path, objects: Objects) -> Result<Self> {
        let failed = |error: &io::Error| Error::io("make a directory in", parent, error);
        let made = tempfile::Builder::new()
            .prefix(TEMPORARY)
            .tempdir_in(parent)
            .map_err(|error| failed(&error))?;
        let path = Utf8PathBuf::from_path_buf(made.path().to_owned())
            .map_err(|_| Error::internal("a temporary directory is not UTF-8"))?;
        let alternates = match objects {
            Objects::Kept => None,
            Objects::Discarded => {
                crate::store::directory::ensure(path.join("objects"))?;
                // Quoted, since a colon would separate.
                let named = common.join("objects");
                let quoted = named.as_str().replace('\\', r"\\").replace('"', r#"\""#);
                Some(format!("\"{quoted}\"").into())
            }
        };
        Ok(Self {
            _directory: made,
            path,
            alternates,
        })
    }

    /// A file of it.
    pub fn file(&self, name: &str) -> Utf8PathBuf {
        self.path.join(name)
    }

    /// A call that uses this index and these objects.
    pub fn call<'a>(&self, git: &'a Git, root: &'a Utf8Path, words: &[&str]) -> Call<'a> {
        let call = git
            .call(root, words)
            .variable("GIT_INDEX_FILE", self.file("index"))
            .long();
        match &self.alternates {
            None => call,
            Some(alternates) => call
                .variable("GIT_OBJECT_DIRECTORY", self.file("objects"))
                .variable("GIT_ALTERNATE_OBJECT_DIRECTORIES", alternates),
        }
    }
}

/// What a path holds in a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// As git writes it: `100644`, `100755`, `120000` or [`COMMIT_MODE`].
    pub mode: String,
    /// Name of the object.
    pub object: String,
}

/// A path that differs between two trees; `None` where it is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Differing {
    /// As git has it: any bytes but zero.
    pub path: Vec<u8>,
    /// In the first tree.
    pub old: Option<Blob>,
    /// In the second.
    pub new: Option<Blob>,
}

/// Puts the files of a checkout into a tree: what differs from `base`, untracked files that are not ignored, and
/// ignored ones that were committed or staged there; not what is exchanged with the fleet.
pub fn of_checkout(git: &Git, root: &Utf8Path, base: &str, scratch: &Scratch) -> Result<String> {
    let call = |words: &[&str]| scratch.call(git, root, words);
    call(&["read-tree"]).word(base).bytes()?;
    call(&["-c", "core.safecrlf=false", "add", "-A"]).bytes()?;
    // Its own index knows what it keeps although it is ignored.
    let own = git
        .call(root, &["diff-index", "--cached", "--name-only", "-z"])
        .word("--no-renames")
        .word("--diff-filter=A")
        .word(base)
        .long()
        .bytes()?;
    let kept: Vec<&[u8]> = git::parts(&own)
        .filter(|path| is_plain_file(root, path))
        .collect();
    let update = ["update-index", "-z", "--add", "--replace", "--stdin"];
    if !kept.is_empty() {
        call(&update).input(joined(kept)).bytes()?;
    }
    let quiet = ["diff-index", "--cached", "--quiet"];
    let exchanged = call(&quiet).word(base).word("--").word(EXCHANGE).answer()?;
    if exchanged.status != 0 {
        let now = call(&["ls-files", "-z", "--", EXCHANGE]).bytes()?;
        let away = ["update-index", "-z", "--force-remove", "--stdin"];
        call(&away).input(now).bytes()?;
        let then = call(&["ls-tree", "-r", "-z", "--full-tree"])
            .word(base)
            .word(EXCHANGE)
            .bytes()?;
        call(&["update-index", "-z", "--index-info"])
            .input(then)
            .bytes()?;
    }
    call(&["write-tree"]).line()
}

/// Whether a path is a file or a link, reached through no link.
pub fn is_plain_file(root: &Utf8Path, path: &[u8]) -> bool {
    use super::scope::place::{State, look};
    look(root, OsStr::from_bytes(path), 0)
        .is_ok_and(|seen| matches!(seen.state, State::File { .. } | State::Link { .. }))
}

/// Paths as git reads them.
pub fn joined<'a>(paths: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for path in paths {
        bytes.extend_from_slice(path);
        bytes.push(0);
    }
    bytes
}

/// What differs between two trees, by path.
pub fn differing(
    git: &Git,
    root: &Utf8Path,
    scratch: &Scratch,
    trees: [&str; 2],
) -> Result<Vec<Differing>> {
    let words = [
        "diff-tree",
        "-r",
        "--raw",
        "-z",
        "--no-renames",
        "--no-abbrev",
    ];
    let [one, other] = trees;
    let listing = scratch
        .call(git, root, &words)
        .word(one)
        .word(other)
        .bytes()?;
    Ok(raw(&listing))
}

/// Reads git's raw listing of differences.
pub fn raw(listing: &[u8]) -> Vec<Differing> {
    let mut found = Vec::new();
    let mut parts = git::parts(listing);
    while let (Some(entry), Some(path)) = (parts.next(), parts.next()) {
        // `:<old mode> <new mode> <old object> <new object> <kind>`
        let entry = String::from_utf8_lossy(entry);
        let fields: Vec<&str> = entry.trim_start_matches(':').split(' ').collect();
        let blob = |mode: &str, object: &str| {
            (mode != "000000").then(|| Blob {
                mode: mode.to_owned(),
                object: object.to_owned(),
            })
        };
        if let [old_mode, new_mode, old, new, _] = fields.as_slice() {
            found.push(Differing {
                path: path.to_vec(),
                old: blob(old_mode, old),
                new: blob(new_mode, new),
            });
        }
    }
    found
}

/// The differences as text. Each file's objects are named in full, so the digest holds every byte of them even
/// where they are not shown.
pub fn told(
    git: &Git,
    root: &Utf8Path,
    scratch: &Scratch,
    base: &str,
    tree: &str,
    differing: &[Differing],
) -> Result<Diff> {
    let files: Vec<String> = differing.iter().map(|file| shown(&file.path)).collect();
    if files.is_empty() {
        return Ok(Diff::of(String::new(), files));
    }
    let words = [
        "diff-tree",
        "-r",
        "-p",
        "-U3",
        "--full-index",
        "--no-renames",
        "--no-ext-diff",
        "--no-textconv",
        "--no-color",
        "--src-prefix=a/",
        "--dst-prefix=b/",
    ];
    let patch = scratch.call(git, root, &words).word(base).word(tree);
    let text = match patch.answer_within(TEXT_LIMIT)? {
        Some(answer) if answer.status == 0 => String::from_utf8_lossy(&answer.stdout).into_owned(),
        Some(answer) => return Err(patch.refusal(&answer)),
        None => listed(differing),
    };
    Ok(Diff::of(text, files))
}

fn listed(differing: &[Differing]) -> String {
    let name = |blob: &Option<Blob>| match blob {
        Some(blob) => format!("{} {}", blob.mode, blob.object),
        None => "absent".to_owned(),
    };
    let most = TEXT_LIMIT >> 20;
    let mut lines = vec![format!(
        "The changes are longer than {most} MiB and are not shown: before, after, name"
    )];
    lines.extend(differing.iter().map(|file| {
        let (old, new) = (name(&file.old), name(&file.new));
        format!("{old}, {new}, {}", shown(&file.path))
    }));
    lines.join("\n") + "\n"
}
