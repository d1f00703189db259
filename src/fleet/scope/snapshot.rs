//! What a step's files held before its first worker began: the bytes themselves, so that what the person had
//! changed before is never taken for the worker's, and can always be had again.
//!
//! A snapshot is taken once: asking again gives the first one back. It is there when `snapshot.json` is, which
//! is written last; everything in it is synced and checked by its digest when it is read.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};

use super::path;
use super::place::{State, digest, look};
use crate::crash_point;
use crate::error::{Error, Result, code};
use crate::fleet::model::SCHEMA;
use crate::fleet::record;
use crate::store::{directory, read, replace};
use crate::sys::shell;

/// Largest file that a step may own, in bytes.
pub const LIMIT: u64 = read::LIMIT;

/// Name of the record, and of the folder with the bytes.
const RECORD: &str = "snapshot.json";
const BLOBS: &str = "blobs";

/// What was at each path of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Only absent, file and link.
    pub files: BTreeMap<Utf8PathBuf, State>,
    directory: Utf8PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Record {
    schema: u32,
    /// Of `files`, as JSON.
    sha256: String,
    files: BTreeMap<Utf8PathBuf, State>,
}

impl Snapshot {
    /// Takes it of the files as they are now, or gives back the one that was taken before.
    ///
    /// Refused, with nothing recorded, when a path holds something that no step may own.
    pub fn take(root: &Utf8Path, files: &[Utf8PathBuf], into: &Utf8Path) -> Result<Self> {
        if let Some(before) = Self::load(into)? {
            if before
                .files
                .keys()
                .ne(files.iter().collect::<std::collections::BTreeSet<_>>())
            {
                return Err(damaged(into, "is of other files than the step's"));
            }
            return Ok(before);
        }
        let blobs = into.join(BLOBS);
        directory::establish(&blobs)?;
        let mut states = BTreeMap::new();
        for path in files {
            let seen = look(root, path, LIMIT)?;
            let refused = |why: &str| Err(path::refused(path.as_str(), why));
            let sha256 = match &seen.state {
                State::Absent => None,
                State::File { sha256, .. } | State::Link { sha256, .. } => Some(sha256),
                State::Other { what } => return refused(&format!("it is {what}")),
                State::Behind { link } => {
                    return refused(&format!("`{link}` on the way is a symbolic link"));
                }
            };
            if let Some(sha256) = sha256 {
                let Some(bytes) = &seen.bytes else {
                    let most = LIMIT >> 20;
                    return refused(&format!("it is larger than {most} MiB"));
                };
                // One that is there already has these bytes; loading checks it.
                replace::establish(blobs.join(sha256), bytes)?;
            }
            states.insert(path.clone(), seen.state);
        }
        crash_point!("snapshot.blobs");
        let record = Record {
            schema: SCHEMA,
            sha256: seal(&states)?,
            files: states,
        };
        record::save(&into.join(RECORD), &record)?;
        crash_point!("snapshot.taken");
        Self::load(into)?.ok_or_else(|| damaged(into, "is gone"))
    }

    /// The one that was taken; `None` when there is none yet. Refused as damaged when any digest does not hold.
    pub fn load(from: &Utf8Path) -> Result<Option<Self>> {
        let Some(record) = record::load::<Record>(&from.join(RECORD))? else {
            return Ok(None);
        };
        if seal(&record.files)? != record.sha256 {
            return Err(damaged(from, "does not hold what was recorded"));
        }
        let snapshot = Self {
            files: record.files,
            directory: from.to_owned(),
        };
        for state in snapshot.files.values() {
            snapshot.bytes(state)?;
        }
        Ok(Some(snapshot))
    }

    /// The bytes of one of its states; `None` for nothing.
    pub fn bytes(&self, state: &State) -> Result<Option<Vec<u8>>> {
        let sha256 = match state {
            State::File { sha256, .. } | State::Link { sha256, .. } => sha256,
            State::Absent => return Ok(None),
            State::Other { .. } | State::Behind { .. } => {
                return Err(damaged(&self.directory, "holds what is no file"));
            }
        };
        // The name comes from a file, and is used as one.
        let plain = sha256.len() == 64 && sha256.bytes().all(|byte| byte.is_ascii_hexdigit());
        let found = if plain {
            read::optional(self.directory.join(BLOBS).join(sha256))?
        } else {
            None
        };
        match found {
            Some(bytes) if digest(&bytes) == *sha256 => Ok(Some(bytes)),
            _ => Err(damaged(&self.directory, "has lost a file's bytes")),
        }
    }
}

fn seal(files: &BTreeMap<Utf8PathBuf, State>) -> Result<String> {
    let text = serde_json::to_vec(files)
        .map_err(|error| Error::internal(format!("a snapshot cannot be sealed: {error}")))?;
    Ok(digest(&text))
}

fn damaged(directory: &Utf8Path, what: &str) -> Error {
    Error::new(
        code::RECORD_DAMAGED,
        format!("the snapshot in `{directory}` {what}; it is left as it is"),
    )
    .hint(format!("ls -lR {}", shell::quote(directory.as_str())))
}

#[cfg(test)]
mod tests {
    use super::super::super::checkout_tests::Checkout;
    use super::super::place::State;
    use super::Snapshot;
    use crate::error::code;
    use crate::store::replace::{Durability, replace};
    use camino::Utf8PathBuf;
    use std::os::unix::fs::symlink;

    fn files(names: &[&str]) -> Vec<Utf8PathBuf> {
        names.iter().map(Utf8PathBuf::from).collect()
    }

    #[test]
    fn bytes_modes_links_and_absence_are_kept() {
        let checkout = Checkout::new();
        checkout.write("a/odd", b"\xff\0\r\n");
        checkout.executable("a/odd");
        symlink("/etc/passwd", checkout.path("link")).unwrap();
        let into = checkout.beside("snapshot");
        let owned = files(&["a/odd", "link", "later"]);
        let taken = Snapshot::take(&checkout.root, &owned, &into).unwrap();
        let state = |path: &str| &taken.files[camino::Utf8Path::new(path)];
        assert_eq!(*state("later"), State::Absent);
        assert!(matches!(
            state("a/odd"),
            State::File {
                executable: true,
                size: 4,
                ..
            }
        ));
        let bytes = |path| taken.bytes(state(path)).unwrap();
        assert_eq!(bytes("a/odd").unwrap(), b"\xff\0\r\n");
        assert_eq!(bytes("link").unwrap(), b"/etc/passwd");
        assert_eq!(bytes("later"), None);
        assert_eq!(Snapshot::load(&into).unwrap().unwrap(), taken);
    }

    #[test]
    fn it_is_taken_once_and_kept_through_every_later_launch() {
        let checkout = Checkout::new();
        let into = checkout.beside("snapshot");
        let owned = files(&["first"]);
        let taken = Snapshot::take(&checkout.root, &owned, &into).unwrap();
        checkout.write("first", "half done\n");
        let again = Snapshot::take(&checkout.root, &owned, &into).unwrap();
        assert_eq!(again, taken);
        let other = Snapshot::take(&checkout.root, &files(&["other"]), &into).unwrap_err();
        assert_eq!(other.code, code::RECORD_DAMAGED);
    }

    #[test]
    fn one_that_was_cut_short_is_taken_again() {
        let checkout = Checkout::new();
        let into = checkout.beside("snapshot");
        std::fs::create_dir_all(into.join("blobs")).unwrap();
        assert_eq!(Snapshot::load(&into).unwrap(), None);
        // The bytes of an end before the record was written, and a temporary file.
        let old = super::digest(b"1\n");
        crate::store::replace::create(into.join("blobs").join(&old), b"1\n").unwrap();
        crate::store::replace::create(into.join("blobs/.tmp-x"), b"1").unwrap();
        checkout.write("first", "2\n");
        let taken = Snapshot::take(&checkout.root, &files(&["first"]), &into).unwrap();
        let state = taken.files.values().next().unwrap();
        assert_eq!(taken.bytes(state).unwrap().unwrap(), b"2\n");
    }

    #[test]
    fn what_was_changed_afterwards_is_refused_and_left_alone() {
        let checkout = Checkout::new();
        let into = checkout.beside("snapshot");
        Snapshot::take(&checkout.root, &files(&["first"]), &into).unwrap();
        let record = into.join("snapshot.json");
        let blob = into.join("blobs").join(super::digest(b"1\n"));
        let refusal = || Snapshot::load(&into).unwrap_err().code;
        let change = |path: &Utf8PathBuf, text: &str| {
            let old = std::fs::read(path).unwrap();
            replace(path, text.as_bytes(), Durability::Volatile).unwrap();
            old
        };
        let old = change(&blob, "2\n");
        assert_eq!(refusal(), code::RECORD_DAMAGED);
        replace(&blob, &old, Durability::Volatile).unwrap();
        assert!(Snapshot::load(&into).is_ok());
        let text = std::fs::read_to_string(&record).unwrap();
        change(
            &record,
            &text.replace("\"executable\":false", "\"executable\":true"),
        );
        assert_eq!(refusal(), code::RECORD_DAMAGED);
        change(&record, &text.replace("\"schema\":1", "\"schema\":2"));
        assert_eq!(refusal(), code::NEWER_FORMAT);
        change(&record, &text[..40]);
        assert_eq!(refusal(), code::RECORD_DAMAGED);
    }

    #[test]
    fn what_no_step_may_own_is_refused_before_anything_is_recorded() {
        let checkout = Checkout::new();
        checkout.write("real/file", "");
        symlink("real", checkout.path("way")).unwrap();
        for bad in ["real", "way/file"] {
            let into = checkout.beside("snapshot");
            let refusal = Snapshot::take(&checkout.root, &files(&[bad]), &into).unwrap_err();
            assert_eq!(refusal.code, code::SCOPE_INVALID);
            assert_eq!(Snapshot::load(&into).unwrap(), None);
        }
    }
}
