//! No secret outside homes: the search for tokens, keys and e-mail addresses in everything that the programs of a test
//! wrote, printed, or were started with.
//!
//! Every login, key and address of a test carries one of [`MARKS`]. Provider homes may hold them, and so may what
//! plays a provider's server; nothing else may.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// By which a secret of a test is known.
const MARKS: &[&str] = &[
    "synthetic-",
    "scripted-access-",
    "scripted-refresh-",
    // The lab's: access, refresh, key, and the signature of every JWT.
    "sk-ant-oat01-",
    "sk-ant-ort01-",
    "sk-ant-api03-",
    "sk-LAB",
    "rt_LAB",
    "user-LAB",
    "bGFiLXNpZ25hdHVyZS1ub3QtcmVhbA",
    "@lab.invalid",
    "@example.invalid",
];

/// The credential files by which a provider home is known.
const CREDENTIALS: &[&str] = &["login.json", "auth.json", ".credentials.json"];

/// Claude Code's notes, which it keeps beside its home as well.
const CLAUDE_NOTES: &str = ".claude.json";

/// The first secret's mark in these bytes.
pub(crate) fn mark(bytes: &[u8]) -> Option<&'static str> {
    let text = String::from_utf8_lossy(bytes);
    MARKS.iter().copied().find(|mark| text.contains(mark))
}

/// Fails when a secret was printed.
#[track_caller]
pub(crate) fn none_in(what: &str, bytes: &[u8]) {
    let found = mark(bytes);
    assert!(
        found.is_none() || std::thread::panicking(),
        "a secret (`{}…`) is in {what}: {}",
        found.unwrap_or_default(),
        String::from_utf8_lossy(bytes)
    );
}

/// Fails when a program is to be started with a secret among its words, unless it plays a provider's own CLI.
#[track_caller]
pub(crate) fn none_in_words(command: &Command) {
    if command
        .get_args()
        .next()
        .is_some_and(|verb| verb == "scripted-agent")
    {
        return;
    }
    for word in command.get_args() {
        none_in("the words of a command", word.as_encoded_bytes());
    }
}

/// The files in parts of a world that hold a secret, or have one in their name, and may not. `known` are files with
/// secrets that the test itself wrote: each may stay as it is.
pub(crate) fn below(
    root: &Path,
    parts: &[&str],
    known: &BTreeMap<PathBuf, Vec<u8>>,
) -> Vec<String> {
    let mut found = Vec::new();
    let parts = parts.iter().map(|part| (root.join(part), Place::Open));
    let mut folders: Vec<_> = parts.collect();
    while let Some((folder, place)) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            let mut place = place;
            if kind.is_dir() && name != ".git" {
                place = place.of(root, &path);
                folders.push((path.clone(), place));
            }
            // In a home only this is ours; what a home is called is its person's affair.
            let is_ours = place == Place::Open || name == "agent-fleet.json";
            if !is_ours || name == CLAUDE_NOTES {
                continue;
            }
            let bytes = if kind.is_file() {
                std::fs::read(&path).unwrap_or_default()
            } else {
                Vec::new()
            };
            if known.get(&path) == Some(&bytes) || bytes.starts_with(b"\x7fELF") {
                continue;
            }
            let here = mark(&bytes).or_else(|| mark(name.as_encoded_bytes()));
            found.extend(here.map(|mark| format!("{} holds `{mark}…`", path.display())));
        }
    }
    found.sort();
    found
}

/// What a directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// No secret may be here.
    Open,
    /// A provider's.
    Provider,
}

impl Place {
    /// What a directory in this one is.
    fn of(self, root: &Path, path: &Path) -> Self {
        let relative = path.strip_prefix(root).unwrap_or(path);
        let words: Vec<_> = relative.iter().filter_map(|word| word.to_str()).collect();
        let is_home = CREDENTIALS.iter().any(|file| path.join(file).exists());
        let is_provider = match words[..] {
            // A home that holds no login any more, or not yet.
            ["share", "accounts", _, _] | ["state", "staging", _, "home"]
            // Where we keep what we were given.
            | ["state", "credentials"]
            // What plays the server.
            | ["service"] | ["share", "scripted"] => true,
            _ => self == Self::Provider || is_home,
        };
        if is_provider {
            Self::Provider
        } else {
            Self::Open
        }
    }
}
