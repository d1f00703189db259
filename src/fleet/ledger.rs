//! What was intended and what came of it: one line per record, appended and synced under the run's lock.
//!
//! An intent is on disk before its effect begins. The first outcome closes it, whatever is appended later. An
//! intent without an outcome keeps what it holds. A line that a killed writer tore is ended by the next one and
//! counts as none: what it was to begin had not begun. Lines that cannot be read otherwise are counted, and stop new
//! launches but no reading.

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::store::{append, read};

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Something is about to be done.
    Intent,
    /// It was done.
    Done,
    /// It was not done, or went wrong.
    Failed,
    /// What came of it cannot be told.
    Unknown,
    /// Something that a lead may want to know.
    Event,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Unique in the run; an event's says what it is about, so that it is never given twice.
    pub id: String,
    /// When.
    pub at: Timestamp,
    /// Which command wrote it, and its pid.
    pub by: String,
    /// What it is.
    pub kind: Kind,
    /// `launch`, `send`, `stop`, `recover`, or an event's word.
    pub verb: String,
    /// The worker or step.
    pub target: String,
    /// The intent that an outcome closes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// One word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A run's ledger as it was read.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Where it is.
    path: Utf8PathBuf,
    /// Every line that could be read, in order.
    pub records: Vec<Record>,
    /// Lines that could not, torn ones apart.
    pub corrupt: usize,
}

impl Ledger {
    /// Reads it; one that is not there is empty.
    pub fn load(path: &Utf8Path) -> Result<Self> {
        let bytes = read::optional(path)?.unwrap_or_default();
        let (records, corrupt) = parse(&bytes);
        Ok(Self {
            path: path.to_owned(),
            records,
            corrupt,
        })
    }

    /// Whether a record of this id is there.
    pub fn has(&self, id: &str) -> bool {
        self.records.iter().any(|record| record.id == id)
    }

    /// Intents without an outcome.
    pub fn open_intents(&self) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(|intent| {
            intent.kind == Kind::Intent
                && !self
                    .records
                    .iter()
                    .any(|record| record.of.as_deref() == Some(intent.id.as_str()))
        })
    }

    /// Appends a record and syncs it, unless one of its id is there already; false then. The run's lock is held.
    pub fn append(&mut self, record: Record) -> Result<bool> {
        if self.has(&record.id) {
            return Ok(false);
        }
        let line = serde_json::to_string(&record)
            .map_err(|error| Error::internal(format!("cannot serialise a record: {error}")))?;
        append::synced(&self.path, &line)?;
        self.records.push(record);
        Ok(true)
    }
}

/// The records of some bytes, and how many lines are none.
pub fn parse(bytes: &[u8]) -> (Vec<Record>, usize) {
    let mut records = Vec::new();
    let mut corrupt = 0;
    for line in bytes.split(|byte| *byte == b'\n') {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        match serde_json::from_slice(line) {
            Ok(record) => records.push(record),
            Err(error) if error.is_eof() => {}
            Err(_) => corrupt += 1,
        }
    }
    (records, corrupt)
}

#[cfg(test)]
mod tests {
    use super::{Kind, Ledger, Record};
    use crate::store::append;
    use camino::Utf8Path;
    use jiff::Timestamp;
    use std::io::Write as _;

    fn record(id: &str, kind: Kind, of: Option<&str>) -> Record {
        Record {
            id: id.to_owned(),
            at: Timestamp::UNIX_EPOCH,
            by: "test".to_owned(),
            kind,
            verb: "launch".to_owned(),
            target: "a".to_owned(),
            of: of.map(str::to_owned),
            reason: None,
        }
    }

    #[test]
    fn a_torn_line_costs_itself_alone_and_an_id_is_given_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(directory.path())
            .unwrap()
            .join("r/ledger.jsonl");
        let mut ledger = Ledger::load(&path).unwrap();
        assert!(ledger.append(record("1", Kind::Intent, None)).unwrap());
        assert!(!ledger.append(record("1", Kind::Intent, None)).unwrap());
        let mut torn = append::stream(&path).unwrap();
        torn.write_all(b"{\"id\":\"2\",").unwrap();
        let mut ledger = Ledger::load(&path).unwrap();
        assert_eq!((ledger.records.len(), ledger.corrupt), (1, 0));
        assert!(ledger.append(record("3", Kind::Done, Some("1"))).unwrap());
        let ledger = Ledger::load(&path).unwrap();
        assert_eq!((ledger.records.len(), ledger.corrupt), (2, 0));
        assert_eq!(super::parse(b"{\"id\":7}\nnothing of ours\n{\"id\":").1, 2);
        assert_eq!(ledger.open_intents().count(), 0);
    }

    #[test]
    fn an_intent_is_open_until_its_first_outcome() {
        let directory = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(directory.path())
            .unwrap()
            .join("ledger.jsonl");
        let mut ledger = Ledger::load(&path).unwrap();
        for id in ["1", "2"] {
            ledger.append(record(id, Kind::Intent, None)).unwrap();
        }
        ledger
            .append(record("3", Kind::Unknown, Some("2")))
            .unwrap();
        let open: Vec<&str> = ledger
            .open_intents()
            .map(|intent| intent.id.as_str())
            .collect();
        assert_eq!(open, ["1"]);
    }
}
