//! The journal: one sealed line per pending promotion, `state/transactions/<id>.json`.

use std::io;

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::beside;
use crate::id::{ProfileId, ProviderKind, hex};
use crate::store::files::Files;
use crate::store::replace::TEMPORARY_PREFIX;
use crate::store::seal;

/// SHA-256 of a file's bytes, 64 hex digits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Digest(String);

/// It becomes part of a file's name, so nothing else may pass for one.
impl TryFrom<String> for Digest {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() == 64 && text.bytes().all(hex) {
            Ok(Self(text))
        } else {
            Err("a digest has 64 hex digits")
        }
    }
}

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(hex(&Sha256::digest(bytes)))
    }

    /// The first eight digits, for file names.
    pub(super) fn short(&self) -> &str {
        self.0.get(..8).unwrap_or(&self.0)
    }
}

/// Version of an entry's format.
const VERSION: u64 = 1;

/// An entry as it is written.
#[derive(Debug, Serialize, Deserialize)]
struct Written<E> {
    version: u64,
    #[serde(flatten)]
    entry: E,
}

/// What a file turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// An entry.
    Whole(Entry),
    /// Whole, but of a later version of this program.
    Newer,
    /// No entry: its seal does not hold, or something is missing.
    Broken,
}

/// A promotion as the journal knows it. Never holds a credential, only digests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its name: `<provider>-<profile>-<time>-<process>`. An entry that cannot be read still says whom it
    /// concerns.
    pub id: String,
    /// Whose home.
    pub profile: ProfileId,
    /// Whose provider, which it fences while it is pending.
    pub provider: ProviderKind,
    /// The credential file.
    pub target: Utf8PathBuf,
    /// What it held when the promotion began; `None` when there was none.
    pub old: Option<Digest>,
    /// What it shall hold.
    pub new: Digest,
    /// When it began.
    pub at: Timestamp,
}

impl Entry {
    /// Whether it names one file, wherever the program was started.
    fn is_placed(&self) -> bool {
        let plain = |part: Utf8Component<'_>| {
            matches!(part, Utf8Component::RootDir | Utf8Component::Normal(_))
        };
        self.target.is_absolute()
            && self.target.components().all(plain)
            && self.target.file_name().is_some()
            && !self.id.contains('/')
    }

    /// The directory of the credential file.
    pub fn home(&self) -> &Utf8Path {
        self.target.parent().unwrap_or_else(|| Utf8Path::new("/"))
    }

    /// Where the new login waits, and what was in force comes out. The digests in the name tell what it is
    /// even without a journal.
    pub fn staged(&self) -> Utf8PathBuf {
        let old = self.old.as_ref().map_or("none", Digest::short);
        self.beside(&format!("{}.{old}", self.new.short()))
    }

    /// Where a file is kept that the provider wrote meanwhile.
    pub fn orphan(&self) -> Utf8PathBuf {
        self.beside("orphan")
    }

    fn beside(&self, end: &str) -> Utf8PathBuf {
        let name = format!("{}{}.{end}", beside::prefix(&self.target), self.id);
        self.home().join(name)
    }

    /// The entry's file.
    pub fn path(&self, journals: &Utf8Path) -> Utf8PathBuf {
        journals.join(format!("{}.json", self.id))
    }

    /// Writes the entry: once it has its name, it is whole and in force for good.
    pub(super) fn write(&self, files: &dyn Files, journals: &Utf8Path) -> io::Result<()> {
        let written = Written {
            version: VERSION,
            entry: self,
        };
        let text = serde_json::to_string(&written).map_err(io::Error::other)?;
        let temporary = journals.join(format!("{TEMPORARY_PREFIX}{}", self.id));
        files.create(&temporary, (seal::line(&text) + "\n").as_bytes())?;
        let named = files
            .sync(&temporary)
            .and_then(|()| files.rename(&temporary, &self.path(journals)));
        if let Err(error) = named {
            drop(files.remove(&temporary));
            return Err(error);
        }
        files.sync_directory(journals)
    }

    /// Removes the entry for good.
    pub(super) fn close(&self, files: &dyn Files, journals: &Utf8Path) -> io::Result<()> {
        match files.remove(&self.path(journals)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        files.sync_directory(journals)
    }

    /// Reads an entry back.
    pub fn parse(bytes: &[u8]) -> Parsed {
        let line = std::str::from_utf8(bytes).ok();
        let Some(text) = line.and_then(|line| seal::open(line.strip_suffix('\n')?)) else {
            return Parsed::Broken;
        };
        match serde_json::from_str::<Written<serde_json::Value>>(text) {
            Ok(written) if written.version > VERSION => Parsed::Newer,
            Ok(written) => match Self::deserialize(written.entry) {
                Ok(entry) if written.version == VERSION && entry.is_placed() => {
                    Parsed::Whole(entry)
                }
                Ok(_) | Err(_) => Parsed::Broken,
            },
            Err(_) => Parsed::Broken,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Entry, Parsed};
    use crate::store::seal;
    use serde_json::{Value, json};

    fn parsed(change: (&str, Value)) -> Parsed {
        let mut entry = json!({
            "version": 1, "id": "claude-claude-1-1796000000-42", "profile": "claude-1", "provider": "claude",
            "target": "/homes/claude-1/.credentials.json", "old": "a".repeat(64), "new": "b".repeat(64),
            "at": "2026-11-30T00:00:00Z",
        });
        entry[change.0] = change.1;
        Entry::parse((seal::line(&entry.to_string()) + "\n").as_bytes())
    }

    #[test]
    fn an_entry_that_could_lead_to_another_file_is_none() {
        let is_whole = |parsed| matches!(parsed, Parsed::Whole(_));
        assert!(is_whole(parsed(("old", Value::Null))));
        for (field, bad) in [
            ("old", json!("a/b")),
            ("new", json!(format!("../{}", "b".repeat(61)))),
            ("new", json!("B".repeat(64))),
            ("target", json!("auth.json")),
            ("target", json!("/")),
            (
                "target",
                json!("/homes/claude-1/../claude-2/.credentials.json"),
            ),
            ("id", json!("claude-claude-1/x-1-42")),
        ] {
            assert!(!is_whole(parsed((field, bad.clone()))), "{field}: {bad}");
        }
    }
}
