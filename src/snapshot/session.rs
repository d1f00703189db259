//! The sticky mapping from a task to the provider's conversation, one file per task.
//!
//! `state/sessions/<task-key>.json` is a [`Session`] with a few fields of our own beside it: the generation
//! and boot time of the event that moved it last, and the transcript. Only [`apply`] moves a mapping, and
//! only forward, so folding the same evidence twice changes nothing. Fields of a newer version survive. A
//! file that cannot be read is never overwritten: its task is refused by name until it is removed.
//!
//! Limits: mappings are folded on the way to a lease, which waits for no disk, so a power cut may bring an
//! older one back or lose one that was never moved again. The conversation itself is the provider's file.

use std::fs;
use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::{Map, Value};

use super::evidence::{self, Event, Kind};
use crate::contract::session::Session;
use crate::error::{Code, Error, Refusal, Result, code};
use crate::id::{ProviderKind, Task, TaskKey};
use crate::store::replace::{Durability, replace};
use crate::store::{directory, read};
use crate::sys::shell;

/// Version of the file's shape.
const SCHEMA: u32 = 2;

/// A mapping with what only we need to know of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The mapping.
    pub session: Session,
    /// Generation of the lease whose event moved it last.
    pub generation: u64,
    /// Boot time of that event, in milliseconds.
    pub boot: u64,
    /// The transcript that the event named.
    pub transcript: Option<Utf8PathBuf>,
    /// Everything in the file, fields of newer versions included.
    file: Map<String, Value>,
}

/// Why a task has no usable mapping.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// There is none.
    #[error("no recorded provider session for task: {0}")]
    Missing(Task),
    /// Its file cannot be read.
    #[error("the session record `{path}` cannot be read and is left alone: {reason}")]
    Damaged {
        /// The file.
        path: Utf8PathBuf,
        /// What is wrong with it.
        reason: String,
        /// Whose it is, when that is known.
        task: Option<Task>,
    },
    /// A newer version wrote it.
    #[error("the session record `{path}` was made by a newer agent-fleet (format {schema})")]
    Newer {
        /// The file.
        path: Utf8PathBuf,
        /// Its version.
        schema: u64,
    },
}

impl Refusal for SessionError {
    fn code(&self) -> Code {
        match self {
            Self::Missing(_) => code::NOT_FOUND,
            Self::Damaged { .. } => code::RECORD_DAMAGED,
            Self::Newer { .. } => code::NEWER_FORMAT,
        }
    }
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Missing(_) => "agent-fleet session list".to_owned(),
            Self::Damaged {
                task: Some(task), ..
            } => format!(
                "agent-fleet session remove {}",
                shell::option("--task", task.as_str())
            ),
            Self::Damaged {
                path, task: None, ..
            } => {
                format!("mv {0} {0}.damaged", shell::quote(path.as_str()))
            }
            Self::Newer { .. } => "agent-fleet version".to_owned(),
        })
    }
    fn details(&self) -> Map<String, Value> {
        match self {
            Self::Missing(_) => Map::new(),
            Self::Damaged { path, .. } | Self::Newer { path, .. } => {
                Map::from_iter([("path".to_owned(), Value::from(path.as_str()))])
            }
        }
    }
}

fn path(state: &Utf8Path, key: &str) -> Utf8PathBuf {
    state.join("sessions").join(format!("{key}.json"))
}

/// The mapping of a task, or `None` when there is none.
pub fn load(state: &Utf8Path, task: &Task) -> Result<Option<Record>> {
    read_record(&path(state, &task.key().hex()), Some(task))
}

/// The mapping of the task with this key, whose name is not known.
pub fn of_key(state: &Utf8Path, key: TaskKey) -> Result<Option<Record>> {
    read_record(&path(state, &key.hex()), None)
}

/// The mapping of a task that must have one.
pub fn require(state: &Utf8Path, task: &Task) -> Result<Record> {
    load(state, task)?.ok_or_else(|| SessionError::Missing(task.clone()).into())
}

fn read_record(path: &Utf8Path, task: Option<&Task>) -> Result<Option<Record>> {
    let Some(bytes) = read::optional(path)? else {
        return Ok(None);
    };
    let damaged = |reason: String| {
        let path = path.to_owned();
        SessionError::Damaged {
            path,
            reason,
            task: task.cloned(),
        }
    };
    let file: Map<String, Value> =
        serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    match file.get("schema").and_then(Value::as_u64) {
        Some(schema) if schema > u64::from(SCHEMA) => {
            let path = path.to_owned();
            return Err(SessionError::Newer { path, schema }.into());
        }
        _ => {}
    }
    let session: Session = serde_json::from_value(Value::Object(file.clone()))
        .map_err(|error| damaged(error.to_string()))?;
    if path.file_stem() != Some(&session.task.key().hex()) {
        return Err(damaged("it names another task than its file".to_owned()).into());
    }
    let number = |name: &str| file.get(name).and_then(Value::as_u64).unwrap_or(0);
    let transcript = file.get("transcript").and_then(Value::as_str);
    Ok(Some(Record {
        generation: number("generation"),
        boot: number("boot"),
        transcript: transcript.map(Utf8PathBuf::from),
        session,
        file,
    }))
}

/// Every mapping, sorted by task, and what is wrong with those that cannot be read.
pub fn list(state: &Utf8Path) -> Result<(Vec<Session>, Vec<Error>)> {
    let directory = state.join("sessions");
    let entries = match fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok((Vec::new(), Vec::new()));
        }
        Err(error) => return Err(Error::io("list", &directory, &error)),
    };
    let (mut sessions, mut damaged) = (Vec::new(), Vec::new());
    for entry in entries.flatten() {
        let Ok(path) = Utf8PathBuf::from_path_buf(entry.path()) else {
            continue;
        };
        let hidden = path.file_name().is_none_or(|name| name.starts_with('.'));
        if hidden || path.extension() != Some("json") {
            continue;
        }
        match read_record(&path, None) {
            Ok(Some(record)) => sessions.push(record.session),
            Ok(None) => {}
            Err(error) => damaged.push(error),
        }
    }
    sessions.sort_by(|a, b| a.task.cmp(&b.task));
    damaged.sort_by(|a, b| a.message.cmp(&b.message));
    Ok((sessions, damaged))
}

/// Forgets the mapping of a task, a damaged one too; false when there was none. The conversation itself
/// stays in its home.
pub fn remove(state: &Utf8Path, task: &Task) -> Result<bool> {
    let path = path(state, &task.key().hex());
    let existed = path.exists();
    directory::remove_file(&path)?;
    Ok(existed)
}

/// Moves a task's mapping forward by one event; true when it moved.
///
/// Foreign events, events other than session starts, and events older than the mapping move nothing. A
/// mapping that cannot be read is left alone, and so moves nothing either.
pub fn apply(state: &Utf8Path, provider: ProviderKind, event: &Event) -> Result<bool> {
    if event.foreign || event.event != Kind::SessionStart {
        return Ok(false);
    }
    let path = path(state, &event.key);
    // Its own task is refused by name; the other tasks of the provider must not wait for it to be settled.
    let Ok(previous) = read_record(&path, None) else {
        return Ok(false);
    };
    let mut event = event.clone();
    evidence::complete(state, &mut event);
    let Some(next) = advance(previous, provider, &event) else {
        return Ok(false);
    };
    save(&path, next)?;
    evidence::settle(state, &event)?;
    Ok(true)
}

fn advance(previous: Option<Record>, provider: ProviderKind, event: &Event) -> Option<Record> {
    let (sequence, file) = match previous {
        Some(record) if (event.generation, event.boot) <= (record.generation, record.boot) => {
            return None;
        }
        Some(record) => (record.session.session_event_seq, record.file),
        None => (0, Map::new()),
    };
    let task = event
        .task
        .clone()
        .filter(|task| task.key().hex() == event.key)?;
    Some(Record {
        session: Session {
            schema: SCHEMA,
            task,
            profile: event.profile.clone(),
            provider,
            pool: event.pool.clone()?,
            workspace: event.workspace.clone()?,
            session_id: event.session.clone()?,
            session_event_seq: sequence.saturating_add(1),
            updated_at: event.at,
        },
        generation: event.generation,
        boot: event.boot,
        transcript: event.transcript.clone(),
        file,
    })
}

fn save(path: &Utf8Path, record: Record) -> Result<()> {
    let internal = |error: serde_json::Error| Error::internal(format!("cannot serialise: {error}"));
    let mut file = record.file;
    let Value::Object(session) = serde_json::to_value(&record.session).map_err(internal)? else {
        return Err(Error::internal("a session is not an object"));
    };
    file.extend(session);
    file.insert("generation".to_owned(), record.generation.into());
    file.insert("boot".to_owned(), record.boot.into());
    let transcript = record.transcript.map(Utf8PathBuf::into_string);
    file.insert("transcript".to_owned(), transcript.into());
    let bytes = serde_json::to_vec(&file).map_err(internal)?;
    if let Some(parent) = path.parent() {
        directory::ensure(parent)?;
    }
    replace(path, &bytes, Durability::Volatile)
}

#[cfg(test)]
mod tests {
    use super::{SessionError, apply, list, load, path, remove, require};
    use crate::error::code;
    use crate::id::{ProviderKind, Task};
    use crate::snapshot::evidence::Kind::{SessionStart, Stop};
    use crate::snapshot::evidence::tests::event;
    use crate::snapshot::evidence::{self, Event};
    use crate::store::replace::{Durability, replace};
    use camino::Utf8Path;

    fn moved(state: &Utf8Path, event: &Event) -> bool {
        apply(state, ProviderKind::Codex, event).unwrap()
    }

    fn world() -> (tempfile::TempDir, camino::Utf8PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let state = Utf8Path::from_path(directory.path()).unwrap().to_owned();
        (directory, state)
    }

    #[test]
    fn a_mapping_moves_forward_only_and_folding_twice_changes_nothing() {
        let (_keep, state) = world();
        let task: Task = "a".parse().unwrap();
        let first = event("a", SessionStart, 5, 100);
        let mut cleared = event("a", SessionStart, 5, 200);
        cleared.session = Some("after-clear".to_owned());
        assert!(moved(&state, &first));
        assert!(moved(&state, &cleared));
        assert!(!moved(&state, &first), "an older event moved it back");
        assert!(!moved(&state, &cleared), "the same event counted twice");
        assert!(
            !moved(&state, &event("a", SessionStart, 4, 900)),
            "an older lease moved it"
        );
        let session = load(&state, &task).unwrap().unwrap().session;
        assert_eq!(
            (session.session_id.as_str(), session.session_event_seq),
            ("after-clear", 2)
        );
        assert!(
            moved(&state, &event("a", SessionStart, 6, 1)),
            "a later lease starts afresh"
        );
    }

    #[test]
    fn foreign_and_other_events_move_nothing() {
        let (_keep, state) = world();
        let mut foreign = event("a", SessionStart, 5, 1);
        foreign.foreign = true;
        assert!(!moved(&state, &foreign));
        assert!(!moved(&state, &event("a", Stop, 5, 1)));
        let error = require(&state, &"a".parse().unwrap()).unwrap_err();
        assert_eq!(error.message, "no recorded provider session for task: a");
        assert_eq!(error.code, code::NOT_FOUND);
    }

    #[test]
    fn a_damaged_mapping_is_never_overwritten_and_is_named() {
        let (_keep, state) = world();
        assert!(moved(&state, &event("b", SessionStart, 1, 1)));
        assert!(moved(&state, &event("it's", SessionStart, 1, 1)));
        let task: Task = "it's".parse().unwrap();
        let file = path(&state, &task.key().hex());
        replace(&file, b"{\"schema\":2,", Durability::Volatile).unwrap();
        assert!(!moved(&state, &event("it's", SessionStart, 9, 9)));
        assert_eq!(std::fs::read(&file).unwrap(), b"{\"schema\":2,");
        let error = load(&state, &task).unwrap_err();
        assert_eq!(error.code, code::RECORD_DAMAGED);
        assert_eq!(
            error.hint.as_deref(),
            Some(r"agent-fleet session remove --task 'it'\''s'")
        );
        let (sessions, damaged) = list(&state).unwrap();
        assert_eq!((sessions.len(), damaged.len()), (1, 1));
        assert!(remove(&state, &task).unwrap());
        assert!(!remove(&state, &task).unwrap());
    }

    #[test]
    fn a_count_that_cannot_grow_stops_no_mapping() {
        let (_keep, state) = world();
        let task: Task = "a".parse().unwrap();
        assert!(moved(&state, &event("a", SessionStart, 1, 1)));
        let file = path(&state, &task.key().hex());
        let text = std::fs::read_to_string(&file).unwrap();
        let most = format!("\"session_event_seq\":{}", u64::MAX);
        let full = text.replace("\"session_event_seq\":1", &most);
        assert_ne!(full, text);
        replace(&file, full.as_bytes(), Durability::Volatile).unwrap();
        assert!(moved(&state, &event("a", SessionStart, 2, 2)));
        let session = load(&state, &task).unwrap().unwrap().session;
        assert_eq!(session.session_event_seq, u64::MAX);
    }

    #[test]
    fn a_newer_format_is_refused_and_unknown_fields_survive() {
        let (_keep, state) = world();
        let task: Task = "a".parse().unwrap();
        assert!(moved(&state, &event("a", SessionStart, 1, 1)));
        let file = path(&state, &task.key().hex());
        let text = std::fs::read_to_string(&file).unwrap();
        let extended = text.replacen('{', "{\"later\":{\"x\":1},", 1);
        replace(&file, extended.as_bytes(), Durability::Volatile).unwrap();
        assert!(moved(&state, &event("a", SessionStart, 1, 2)));
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains("\"later\":{\"x\":1}"), "{text}");
        let newer = text.replace("\"schema\":2", "\"schema\":3");
        replace(&file, newer.as_bytes(), Durability::Volatile).unwrap();
        assert_eq!(load(&state, &task).unwrap_err().code, code::NEWER_FORMAT);
        assert!(!moved(&state, &event("a", SessionStart, 9, 9)));
    }

    #[test]
    fn names_too_long_for_a_line_still_reach_the_mapping() {
        let (_keep, state) = world();
        let name = "\u{1F980}".repeat(512);
        let start = event(&name, SessionStart, 1, 1);
        evidence::append(&state, ProviderKind::Codex, &start).unwrap();
        let file = evidence::path(&state, ProviderKind::Codex);
        let read = evidence::read_from(&file, 0).unwrap().0;
        assert_eq!(read[0].task, None);
        assert!(moved(&state, &read[0]));
        let record = require(&state, &name.parse().unwrap()).unwrap();
        assert_eq!(record.session.workspace, "/project");
        let left = std::fs::read_dir(state.join("evidence")).unwrap().count();
        assert_eq!(left, 1, "the long names were not settled");
        let stranger: Task = "b".parse().unwrap();
        assert_eq!(
            require(&state, &stranger).unwrap_err().message,
            SessionError::Missing(stranger).to_string()
        );
    }
}
