//! What hooks and status lines saw of a worker, one line per event, folded into state later.
//!
//! `state/evidence/<provider>.jsonl` is appended to by many processes without a lock: one `write(2)` per
//! line of at most 2 KiB, with a newline before and after it. Lines hold ids, the event, a reason word,
//! times and paths, never message text. A line that is short, torn or from a stranger is skipped.
//!
//! Rotation renames the file to `<provider>.<folded offset>.rotated`; a writer that had it open may still
//! append to it, so it is folded once more after a minute and then deleted. Limits: nothing is synced, and
//! a line that meets a full disk is lost.

use std::fs;
use std::io::{self, Seek as _, SeekFrom};

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::id::{PoolId, ProfileId, ProviderKind, Task};
use crate::quota::window::Window;
use crate::store::{append, directory, read, replace};

/// Size from which the file is rotated, in bytes.
pub const ROTATE_AT: u64 = 1 << 20;
/// Most bytes read in one go; what lies beyond is read by the next fold.
const READ_LIMIT: u64 = 16 << 20;
/// Longest reason word, in bytes.
const WORD_LENGTH: usize = 64;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A conversation began, continued, was cleared or compacted; the reason says which.
    SessionStart,
    /// A prompt was submitted, or queued.
    #[serde(rename = "user-prompt-submit")]
    PromptSubmit,
    /// The model's turn ended.
    Stop,
    /// The turn ended in an error; the reason word says which.
    StopFailure,
    /// The conversation's process is leaving.
    SessionEnd,
    /// The person is asked for a permission; the reason is the tool.
    PermissionRequest,
    /// The CLI wants attention; the reason is the kind of notification.
    Notification,
    /// Codex's notify program was called at the end of a turn.
    TurnEnd,
    /// The CLI was shown quota windows; the reason is where they stood, the status line when there is none.
    Windows,
}

impl Kind {
    /// Every event that `hook` takes, by its word on the command line.
    pub const HOOKS: [(&'static str, Self); 8] = [
        ("session-start", Self::SessionStart),
        ("user-prompt-submit", Self::PromptSubmit),
        ("stop", Self::Stop),
        ("stop-failure", Self::StopFailure),
        ("session-end", Self::SessionEnd),
        ("permission-request", Self::PermissionRequest),
        ("notification", Self::Notification),
        ("turn-end", Self::TurnEnd),
    ];

    /// The event that a word on the command line names.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::HOOKS
            .iter()
            .find(|(name, _)| *name == word)
            .map(|(_, kind)| *kind)
    }

    /// Whether a turn is over.
    pub fn ends_turn(self) -> bool {
        matches!(self, Self::Stop | Self::StopFailure | Self::TurnEnd)
    }
}

/// One event of a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// What happened.
    pub event: Kind,
    /// When, by the wall clock.
    pub at: Timestamp,
    /// When, in milliseconds since boot: orders the events of one lease.
    pub boot: u64,
    /// Key (64 hex) of the task whose environment the event came from.
    pub key: String,
    /// Generation of its lease.
    pub generation: u64,
    /// The leased profile.
    pub profile: ProfileId,
    /// The process the lease is bound to: pid.
    pub pid: Option<u32>,
    /// The process the lease is bound to: kernel start time.
    pub start: Option<u64>,
    /// True when the event did not come from the lease's own process, and so says nothing of the task.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub foreign: bool,
    /// The provider's id of the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// One word: how it started, which error, which notification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Quota windows that the CLI was shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<Window>,
    /// When the limit that a failed turn met is over, where that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<Timestamp>,
    /// True when that was read out of a sentence that did not say everything.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub guessed: bool,
    /// The task, unless the line would be too long with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Task>,
    /// The pool that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolId>,
    /// The workspace, unless the line would be too long with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Utf8PathBuf>,
    /// The transcript, unless the line would be too long with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transcript: Option<Utf8PathBuf>,
}

impl Event {
    /// The event as one line that fits one append: what does not fit is left out, the transcript first (it
    /// can be found again), then workspace and task.
    pub fn line(&self) -> Result<String> {
        let mut event = self.clone();
        let shorten: [fn(&mut Self); 3] = [
            |event| event.transcript = None,
            |event| event.workspace = None,
            |event| event.task = None,
        ];
        let mut shorten = shorten.iter();
        loop {
            let text = serde_json::to_string(&event)
                .map_err(|error| Error::internal(format!("cannot serialise: {error}")))?;
            if text.len() + 2 <= append::LINE_LIMIT {
                return Ok(text);
            }
            match shorten.next() {
                Some(drop_field) => drop_field(&mut event),
                None => return Err(Error::internal("an event does not fit one line")),
            }
        }
    }
}

/// A single word out of a provider's text: letters, digits, `_`, `-` and `.`, at most 64 bytes. Anything
/// else may be prose and is not kept.
pub fn word(text: &str) -> Option<String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    (!text.is_empty() && text.len() <= WORD_LENGTH && text.bytes().all(plain))
        .then(|| text.to_owned())
}

/// The evidence file of a provider.
pub fn path(state: &Utf8Path, provider: ProviderKind) -> Utf8PathBuf {
    state.join("evidence").join(format!("{provider}.jsonl"))
}

/// Names that were too long for a line, kept beside the evidence until the mapping has them.
#[derive(Debug, Serialize, Deserialize)]
struct LongNames {
    task: Option<Task>,
    workspace: Option<Utf8PathBuf>,
}

fn long_names(state: &Utf8Path, event: &Event) -> Utf8PathBuf {
    let name = format!("{}.{}.names", event.key, event.generation);
    state.join("evidence").join(name)
}

/// Fills in what a session start had no room for on its line.
pub fn complete(state: &Utf8Path, event: &mut Event) {
    if event.task.is_some() && event.workspace.is_some() {
        return;
    }
    let bytes = read::optional(long_names(state, event)).ok().flatten();
    if let Some(names) = bytes.and_then(|bytes| serde_json::from_slice::<LongNames>(&bytes).ok()) {
        event.task = names.task;
        event.workspace = names.workspace;
    }
}

/// Forgets the long names of an event once its mapping has them.
pub fn settle(state: &Utf8Path, event: &Event) -> Result<()> {
    directory::remove_file(long_names(state, event))
}

/// Appends one event; takes no lock and syncs nothing. A session start whose names are too long for a line
/// leaves them in a file of their own first.
pub fn append(state: &Utf8Path, provider: ProviderKind, event: &Event) -> Result<()> {
    let path = path(state, provider);
    let line = event.line()?;
    let fits = event
        .workspace
        .as_ref()
        .is_none_or(|_| line.contains("\"workspace\":"));
    if !fits && event.event == Kind::SessionStart {
        let names = LongNames {
            task: event.task.clone(),
            workspace: event.workspace.clone(),
        };
        let bytes = serde_json::to_vec(&names)
            .map_err(|error| Error::internal(format!("cannot serialise: {error}")))?;
        directory::ensure(state.join("evidence"))?;
        // The same lease says the same again: the file that is there will do.
        drop(replace::create(long_names(state, event), &bytes));
    }
    match append::line(&path, &line) {
        Err(_) if !path.exists() => {
            directory::ensure(state.join("evidence"))?;
            append::line(&path, &line)
        }
        other => other,
    }
}

/// The events from `offset` on, and the offset after the last whole line. Lines that cannot be parsed are
/// skipped; a last line without its newline is left for the next read. A missing file is empty.
pub fn read_from(path: &Utf8Path, offset: u64) -> Result<(Vec<Event>, u64)> {
    let failed = |error: &io::Error| Error::io("read", path, error);
    let mut file = match read::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), 0)),
        Err(error) => return Err(failed(&error)),
    };
    let size = file.metadata().map_err(|error| failed(&error))?.len();
    // A file shorter than what was folded of it is another file: rotation came between.
    let offset = if offset > size { 0 } else { offset };
    let bytes = file
        .seek(SeekFrom::Start(offset))
        .and_then(|_| read::to_end(&file, READ_LIMIT))
        .map_err(|error| failed(&error))?;
    let whole = match bytes.iter().rposition(|byte| *byte == b'\n') {
        Some(at) => at + 1,
        // No line is that long: waiting for its end would keep all later ones from being read.
        None if bytes.len() as u64 == READ_LIMIT => bytes.len(),
        None => 0,
    };
    let events = bytes
        .get(..whole)
        .unwrap_or_default()
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect();
    let next = offset + u64::try_from(whole).unwrap_or(0);
    Ok((events, next))
}

/// A rotated file, with the offset up to which it was folded before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotated {
    /// Where it is.
    pub path: Utf8PathBuf,
    /// Where its last fold ended.
    pub offset: u64,
    /// When it was renamed, in seconds since 1970.
    pub since: i64,
}

/// The rotated files of a provider, oldest first.
pub fn rotated(state: &Utf8Path, provider: ProviderKind) -> Vec<Rotated> {
    use std::os::unix::fs::MetadataExt as _;
    let directory = state.join("evidence");
    let Ok(entries) = fs::read_dir(&directory) else {
        return Vec::new();
    };
    let prefix = format!("{provider}.");
    let mut found: Vec<Rotated> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let offset = name
                .strip_prefix(&prefix)?
                .strip_suffix(".rotated")?
                .parse()
                .ok()?;
            Some(Rotated {
                path: directory.join(&name),
                offset,
                since: entry.metadata().ok()?.ctime(),
            })
        })
        .collect();
    found.sort_by_key(|file| file.since);
    found
}

/// The name under which a file folded up to `offset` is kept for its last fold.
pub fn rotated_path(state: &Utf8Path, provider: ProviderKind, offset: u64) -> Utf8PathBuf {
    state
        .join("evidence")
        .join(format!("{provider}.{offset}.rotated"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{Event, Kind, append, path, read_from, word};
    use crate::id::{ProviderKind, Task};
    use crate::store::append::{LINE_LIMIT, line};
    use camino::Utf8Path;

    pub(crate) fn event(task: &str, kind: Kind, generation: u64, boot: u64) -> Event {
        let task: Task = task.parse().unwrap();
        Event {
            event: kind,
            at: "2030-01-02T03:04:05Z".parse().unwrap(),
            boot,
            key: task.key().hex(),
            generation,
            profile: "codex-1".parse().unwrap(),
            pid: Some(7),
            start: Some(9),
            foreign: false,
            session: Some("0199-session".to_owned()),
            reason: Some("startup".to_owned()),
            windows: Vec::new(),
            resets_at: None,
            guessed: false,
            task: Some(task),
            pool: Some("crew".parse().unwrap()),
            workspace: Some("/project".into()),
            transcript: None,
        }
    }

    #[test]
    fn events_come_back_and_torn_or_strange_lines_are_skipped() {
        let directory = tempfile::tempdir().unwrap();
        let state = Utf8Path::from_path(directory.path()).unwrap();
        let file = path(state, ProviderKind::Codex);
        let first = event("a", Kind::SessionStart, 1, 1);
        append(state, ProviderKind::Codex, &first).unwrap();
        line(&file, "{\"event\":\"session-start\",\"at\":\"20").unwrap();
        line(&file, "not json").unwrap();
        let (events, offset) = read_from(&file, 0).unwrap();
        assert_eq!(events, [first]);
        let second = event("a", Kind::Stop, 1, 2);
        append(state, ProviderKind::Codex, &second).unwrap();
        let (events, end) = read_from(&file, offset).unwrap();
        assert_eq!(events, [second]);
        assert_eq!(end, std::fs::metadata(&file).unwrap().len());
        let (events, _) = read_from(&file, end + 1).unwrap();
        assert_eq!(events.len(), 2, "a shorter file is read from its beginning");
    }

    #[test]
    fn a_last_line_without_its_newline_is_left_for_the_next_read() {
        let directory = tempfile::tempdir().unwrap();
        let file = Utf8Path::from_path(directory.path()).unwrap().join("x");
        let text = event("a", Kind::Stop, 1, 2).line().unwrap();
        #[expect(clippy::disallowed_methods, reason = "test data")]
        std::fs::write(&file, &text).unwrap();
        assert_eq!(read_from(&file, 0).unwrap(), (Vec::new(), 0));
        line(&file, &text).unwrap();
        assert_eq!(read_from(&file, 0).unwrap().0.len(), 2);
    }

    #[test]
    fn a_long_task_and_workspace_still_fit_one_line() {
        let mut long = event(&"\u{1F980}".repeat(512), Kind::SessionStart, 1, 1);
        long.workspace = Some(format!("/{}", "w".repeat(900)).into());
        long.transcript = Some(format!("/{}", "t".repeat(900)).into());
        let text = long.line().unwrap();
        assert!(text.len() + 2 <= LINE_LIMIT);
        let back: Event = serde_json::from_str(&text).unwrap();
        assert_eq!((back.session, back.task), (long.session, None));
        let mut plain = event(&"x".repeat(512), Kind::SessionStart, 1, 1);
        plain.workspace = Some(format!("/{}", "w".repeat(500)).into());
        plain.transcript = Some(format!("/{}", "t".repeat(900)).into());
        let back: Event = serde_json::from_str(&plain.line().unwrap()).unwrap();
        assert_eq!(back.task, plain.task);
        assert_eq!(back.workspace, plain.workspace);
        assert_eq!(back.transcript, None);
    }

    #[test]
    fn prose_is_no_word() {
        assert_eq!(word("rate_limit").as_deref(), Some("rate_limit"));
        for prose in ["", "You hit your limit", "a\nb", &"x".repeat(65)] {
            assert_eq!(word(prose), None, "kept {prose:?}");
        }
    }
}
