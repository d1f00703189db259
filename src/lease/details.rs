//! What people want to know of a lease, in files of its own: `<task-key>.<generation>.json`.
//!
//! Written before the record that it belongs to, whole from the start, under a name that never existed (rename-over
//! would stall on a flush), and removed with it. Nothing is decided by it but the wording of a conflict: a missing or broken
//! file shows as `details lost`, never as a lost lease. After the loss of a table it names the profile of a
//! witness that is still held.

use std::collections::BTreeMap;
use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};
use crate::id::{PoolId, ProfileId, ProviderKind, Task, TaskKey};
use crate::store::replace::{self, TEMPORARY_PREFIX};
use crate::store::{directory, read};

/// Extension of both files.
pub(super) const EXTENSION: &str = "json";

/// The content of a details file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Details {
    /// Version of this shape: 1.
    pub(super) schema: u32,
    /// The task as the caller wrote it.
    pub(super) task: Task,
    /// The pool asked for.
    pub(super) pool: Option<PoolId>,
    /// The workspace; `None` for a probe.
    pub(super) workspace: Option<Utf8PathBuf>,
    /// The leased profile.
    pub(super) profile: ProfileId,
    /// Its provider.
    pub(super) provider: ProviderKind,
    /// Labels.
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
    /// When it was granted.
    pub(super) created_at: jiff::Timestamp,
}

/// Labels that came with exec, for a lease whose details file existed already.
#[derive(Debug, Serialize, Deserialize)]
struct BoundLabels {
    labels: BTreeMap<String, String>,
}

/// Where the details of a grant are.
pub(super) fn path(directory: &Utf8Path, task: TaskKey, generation: u64) -> Utf8PathBuf {
    directory.join(format!("{}.{generation}.{EXTENSION}", task.hex()))
}

fn bound_path(directory: &Utf8Path, task: TaskKey, generation: u64) -> Utf8PathBuf {
    directory.join(format!("{}.{generation}.bound.{EXTENSION}", task.hex()))
}

fn create(path: &Utf8Path, content: &impl Serialize) -> Result<()> {
    let bytes = serde_json::to_vec(content)
        .map_err(|error| Error::internal(format!("cannot serialise: {error}")))?;
    // One name for all: the `leases` lock keeps others away, and what a killed writer left is in nobody's way.
    let temporary = path.with_file_name(format!("{TEMPORARY_PREFIX}details"));
    match replace::create(&temporary, &bytes) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            directory::remove_file(&temporary)?;
            replace::create(&temporary, &bytes)
        }
        other => other,
    }
    .map_err(|error| Error::io("write", path, &error))?;
    replace::rename(&temporary, path)
}

/// Writes the details of a grant.
pub(super) fn save(directory: &Utf8Path, generation: u64, details: &Details) -> Result<()> {
    create(&path(directory, details.task.key(), generation), details)
}

/// Writes the labels that a bind added.
pub(super) fn save_labels(
    directory: &Utf8Path,
    task: TaskKey,
    generation: u64,
    labels: &BTreeMap<String, String>,
) -> Result<()> {
    let labels = labels.clone();
    create(
        &bound_path(directory, task, generation),
        &BoundLabels { labels },
    )
}

fn parse<T: for<'a> Deserialize<'a>>(path: &Utf8Path) -> Option<T> {
    serde_json::from_slice(&read::optional(path).ok()??).ok()
}

/// The details of a grant, labels of its bind included; `None` when they are lost or of another task.
pub(super) fn load(directory: &Utf8Path, task: TaskKey, generation: u64) -> Option<Details> {
    let mut details: Details = parse(&path(directory, task, generation))?;
    if let Some(bound) = parse::<BoundLabels>(&bound_path(directory, task, generation)) {
        details.labels.extend(bound.labels);
    }
    (details.task.key() == task).then_some(details)
}

/// Removes the files of a grant; one that cannot be removed is swept later.
pub(super) fn remove(directory: &Utf8Path, task: TaskKey, generation: u64) {
    for path in [
        path(directory, task, generation),
        bound_path(directory, task, generation),
    ] {
        drop(directory::remove_file(path));
    }
}

/// The task key and generation that a details file's name stands for.
pub(super) fn parse_name(name: &str) -> Option<(TaskKey, u64)> {
    let stem = name.strip_suffix(".json")?;
    let stem = stem.strip_suffix(".bound").unwrap_or(stem);
    let (key, generation) = stem.split_once('.')?;
    Some((TaskKey::parse(key)?, generation.parse().ok()?))
}

/// Digest of the terms that a task's lease is sticky to.
pub(super) fn terms(workspace: Option<&Utf8Path>, pool: Option<&PoolId>) -> [u8; 16] {
    let mut digest = Sha256::new();
    for part in [workspace.map(Utf8Path::as_str), pool.map(PoolId::as_str)] {
        // A length before each part keeps two lists of parts from running together.
        let length = part.map_or(u64::MAX, |text| text.len() as u64);
        digest.update(length.to_le_bytes());
        digest.update(part.unwrap_or_default());
    }
    let mut short = [0; 16];
    short.copy_from_slice(&digest.finalize()[..16]);
    short
}

#[cfg(test)]
mod tests {
    use super::{Details, load, parse_name, path, remove, save, save_labels, terms};
    use crate::id::{ProviderKind, Task};
    use camino::Utf8Path;
    use std::collections::BTreeMap;

    fn details() -> Details {
        Details {
            schema: 1,
            task: "fix \"it\" / ../ü".parse().unwrap(),
            pool: Some("crew".parse().unwrap()),
            workspace: Some("/w s".into()),
            profile: "claude-1".parse().unwrap(),
            provider: ProviderKind::Claude,
            labels: BTreeMap::from([("a".to_owned(), "1".to_owned())]),
            created_at: "2030-01-02T03:04:05Z".parse().unwrap(),
        }
    }

    #[test]
    fn labels_of_the_bind_join_those_of_the_grant() {
        let directory = tempfile::tempdir().unwrap();
        let at = Utf8Path::from_path(directory.path()).unwrap();
        let mut expected = details();
        let key = expected.task.key();
        save(at, 7, &expected).unwrap();
        let more = BTreeMap::from([("b".to_owned(), "2".to_owned())]);
        for _ in 0..2 {
            save_labels(at, key, 7, &more).unwrap();
        }
        expected.labels.extend(more);
        assert_eq!(load(at, key, 7), Some(expected));
        assert_eq!(load(at, key, 8), None, "another generation's details");
        remove(at, key, 7);
        assert_eq!(std::fs::read_dir(at).unwrap().count(), 0, "a file stayed");
    }

    #[test]
    fn broken_or_foreign_details_are_lost_not_believed() {
        let directory = tempfile::tempdir().unwrap();
        let at = Utf8Path::from_path(directory.path()).unwrap();
        let other: Task = "other".parse().unwrap();
        save(at, 7, &details()).unwrap();
        let foreign = path(at, other.key(), 7);
        std::fs::copy(path(at, details().task.key(), 7), &foreign).unwrap();
        assert_eq!(load(at, other.key(), 7), None);
        std::os::unix::fs::symlink("/dev/null", path(at, other.key(), 8)).unwrap();
        assert_eq!(load(at, other.key(), 8), None);
    }

    #[test]
    fn names_are_read_back() {
        let key = details().task.key();
        let name = path(Utf8Path::new("/x"), key, 9);
        assert_eq!(parse_name(name.file_name().unwrap()), Some((key, 9)));
        let bound = format!("{}.9.bound.json", key.hex());
        assert_eq!(parse_name(&bound), Some((key, 9)));
        for bad in ["table", "epoch", "x.9.json", &format!("{}.json", key.hex())] {
            assert_eq!(parse_name(bad), None, "{bad}");
        }
    }

    #[test]
    fn terms_do_not_run_together() {
        let pool = |name: &str| Some(name.parse().unwrap());
        let of = |workspace: Option<&str>, name: Option<&str>| {
            terms(workspace.map(Utf8Path::new), name.and_then(pool).as_ref())
        };
        assert_ne!(of(Some("/a"), Some("b")), of(Some("/ab"), None));
        assert_ne!(of(Some("/a"), None), of(None, Some("a")));
        assert_eq!(of(Some("/a"), Some("b")), of(Some("/a"), Some("b")));
    }
}
