//! Provider processes that live in a home, as the provider's own files and the kernel's locks name them.
//!
//! Claude Code publishes `sessions/<pid>.json` for each of its processes and `daemon.lock` for its daemon;
//! Codex holds locks in `thread-writer-locks/` and `tmp/arg0*/` and keeps `app-server-daemon/*.pid` (run with
//! 2.1.332 and 0.171.0). A file alone proves nothing, since a killed process leaves it behind: a process is
//! believed when pid and kernel start time are those of a living one. Nothing is started, connected to or
//! locked, and only ids, times and pids are taken from these files: names in them may hold prompts.
//!
//! Limits: a process in its first half second has published nothing yet. What lives in another pid namespace
//! is named as such for Claude and not seen for Codex.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use serde_json::Value;

use crate::store::read;
use crate::sys::process;

/// Largest file that is read, in bytes; real ones have some hundred.
const LIMIT: u64 = 1 << 20;

/// What a process is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// It talks to the model, or is about to.
    Session,
    /// It serves other processes, with the login that it began with.
    Daemon,
    /// It replaces the daemon after an update, and outlives it.
    Updater,
}

/// Whether a process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Pid and start time are those of a living process.
    Alive,
    /// Its pid means nothing here, or the kernel would not say.
    Unknown,
}

/// A provider process in a home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inhabitant {
    /// Its pid, in its own namespace.
    pub pid: u32,
    /// Its kernel start time, in clock ticks since boot.
    pub start: Option<u64>,
    /// What it is there for.
    pub role: Role,
    /// The conversation that it writes.
    pub session: Option<String>,
    /// When it began.
    pub since: Option<Timestamp>,
    /// Whether it lives.
    pub life: Life,
}

/// Everybody who lives in a home.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inhabitants {
    /// Sorted by pid; those that are known to be gone are left out.
    pub found: Vec<Inhabitant>,
    /// Where somebody may be published that could not be read.
    pub unreadable: Vec<Utf8PathBuf>,
}

/// From where processes are judged.
#[derive(Clone, Debug)]
pub struct Host {
    /// The kernel's id of this boot, 32 hex digits.
    pub boot: Option<String>,
    /// Our pid namespace, when `/proc` shows that namespace.
    pub namespace: Option<u64>,
}

impl Host {
    /// Looks around once per command.
    pub fn look() -> Self {
        let shown = process::proc_shows_us();
        Self {
            boot: process::boot_id().ok().map(|id| crate::id::hex(&id)),
            namespace: shown.then(process::pid_namespace).and_then(Result::ok),
        }
    }

    /// Whether a process lives; `None` when it is gone or its pid is another's now. `namespace` is the one its
    /// pid belongs to, where that is known.
    pub fn sight(&self, pid: u32, start: Option<u64>, namespace: Option<u64>) -> Option<Life> {
        let Some(ours) = self.namespace else {
            return Some(Life::Unknown);
        };
        if namespace.is_some_and(|theirs| theirs != ours) {
            return Some(Life::Unknown);
        }
        match process::status(pid) {
            Ok(Some(found)) if found.zombie => None,
            Ok(Some(found)) if start.is_none_or(|start| start == found.start) => Some(Life::Alive),
            Ok(_) => None,
            Err(_) => Some(Life::Unknown),
        }
    }
}

impl Inhabitants {
    /// Takes a process unless it is known to be gone. One that is there already keeps its first role and gains
    /// what was not known of it.
    pub fn take(&mut self, host: &Host, one: Inhabitant, namespace: Option<u64>) {
        let Some(life) = host.sight(one.pid, one.start, namespace) else {
            return;
        };
        match self.found.iter_mut().find(|known| known.pid == one.pid) {
            Some(known) => {
                known.session = known.session.take().or(one.session);
                known.since = known.since.or(one.since);
            }
            None => self.found.push(Inhabitant { life, ..one }),
        }
        self.found.sort_by_key(|one| one.pid);
    }

    /// The JSON object of a file that may publish somebody; nothing when there is none.
    pub fn published(&mut self, path: &Utf8Path) -> Option<Value> {
        let file = match read::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
            Err(_) => {
                self.unreadable.push(path.to_owned());
                return None;
            }
        };
        let bytes = read::to_end(&file, LIMIT).ok();
        // Torn while it is being written: its process publishes itself again a moment later.
        let value: Option<Value> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        if value.is_none() {
            self.unreadable.push(path.to_owned());
        }
        value
    }

    /// The names in a directory, sorted; nothing when there is none.
    pub fn names(&mut self, path: &Utf8Path) -> Vec<String> {
        let entries = match fs::read_dir(path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
            Err(_) => {
                self.unreadable.push(path.to_owned());
                return Vec::new();
            }
        };
        let mut names: Vec<String> = entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort_unstable();
        names
    }
}

/// When a file was last written.
pub fn written(path: &Utf8Path) -> Option<Timestamp> {
    let seconds = fs::symlink_metadata(path).ok()?.mtime();
    Timestamp::from_second(seconds).ok()
}

/// A number that is written as one or as text.
pub fn number(value: &Value) -> Option<u64> {
    value
        .as_u64()
        .or_else(|| value.as_str().and_then(|text| text.parse().ok()))
}

/// A pid.
pub fn pid(value: &Value) -> Option<u32> {
    number(value).and_then(|number| u32::try_from(number).ok())
}
