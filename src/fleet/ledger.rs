//! What was intended and what came of it: one line per record, appended and synced under the run's lock.
//!
//! An intent is on disk before its effect begins. The first outcome closes it, whatever is appended later. An
//! intent without an outcome keeps what it holds. A line that a killed writer tore is ended by the next one and
//! counts as none: what it was to begin had not begun. Lines that cannot be read otherwise are counted, and stop new
//! launches but no reading.

use std::io::{Read as _, Seek as _, SeekFrom};

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

/// One of several times that something happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Episode {
    /// It lasts: the id that it was told under.
    Open(String),
    /// It does not: the id that it is to be told under.
    Next(String),
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

    /// What is told again each time it happens anew: the record of this id that is still open, else the id of the
    /// next one. An outcome closes it.
    pub fn episode(&self, id: &str) -> Episode {
        let mut count = 0_u32;
        loop {
            let numbered = match count {
                0 => id.to_owned(),
                _ => format!("{id}.{}", count + 1),
            };
            if !self.has(&numbered) {
                return Episode::Next(numbered);
            }
            if !self.is_closed(&numbered) {
                return Episode::Open(numbered);
            }
            count += 1;
        }
    }

    fn is_closed(&self, id: &str) -> bool {
        let mut records = self.records.iter();
        records.any(|record| record.of.as_deref() == Some(id))
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

/// What was appended to a ledger after some place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tail {
    /// Every whole line that could be read, in order.
    pub records: Vec<Record>,
    /// The place behind them: where the next look begins.
    pub end: u64,
}

/// Reads what stands behind the first `offset` bytes, without the run's lock. A last line that is still being
/// written is left for the next look. An offset that is no end of a line counts as 0: the ledger is another one.
pub fn after(path: &Utf8Path, offset: u64) -> Result<Tail> {
    let failed = |error: std::io::Error| Error::io("read", path, &error);
    let mut file = match read::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Tail::default()),
        Err(error) => return Err(failed(error)),
    };
    let mut offset = offset;
    if let Some(before) = offset.checked_sub(1) {
        let mut last = [0];
        file.seek(SeekFrom::Start(before)).map_err(failed)?;
        let count = file.read(&mut last).map_err(failed)?;
        if (count, last) != (1, *b"\n") {
            offset = 0;
        }
    }
    file.seek(SeekFrom::Start(offset)).map_err(failed)?;
    let bytes = read::to_end(&file, read::LIMIT).map_err(failed)?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n');
    let whole = whole.map_or(0, |newline| newline + 1);
    let (records, _) = parse(bytes.get(..whole).unwrap_or_default());
    Ok(Tail {
        records,
        end: offset + u64::try_from(whole).unwrap_or(0),
    })
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
    use super::{Episode, Kind, Ledger, Record, after};
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
    }

    #[test]
    fn a_look_goes_on_where_the_last_one_ended_and_leaves_a_begun_line_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(directory.path())
            .unwrap()
            .join("ledger.jsonl");
        assert_eq!(after(&path, 0).unwrap(), super::Tail::default());
        let mut ledger = Ledger::load(&path).unwrap();
        ledger.append(record("1", Kind::Event, None)).unwrap();
        let first = after(&path, 0).unwrap();
        assert_eq!(first.records.len(), 1);
        assert_eq!(after(&path, first.end).unwrap().records, []);
        let mut begun = append::stream(&path).unwrap();
        begun.write_all(b"{\"id\":\"2\"").unwrap();
        assert_eq!(after(&path, first.end).unwrap().end, first.end);
        ledger.append(record("3", Kind::Event, None)).unwrap();
        let next = after(&path, first.end).unwrap();
        assert_eq!(next.records.len(), 1);
        assert_eq!(next.records[0].id, "3");
        // Not the end of a line, and beyond the end: another ledger.
        for strange in [3, 1 << 40] {
            assert_eq!(after(&path, strange).unwrap().records.len(), 2);
        }
    }

    #[test]
    fn an_episode_is_told_once_and_again_after_it_was_over() {
        let directory = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(directory.path())
            .unwrap()
            .join("ledger.jsonl");
        let mut ledger = Ledger::load(&path).unwrap();
        let next = |id: &str| Episode::Next(id.to_owned());
        assert_eq!(ledger.episode("a"), next("a"));
        ledger.append(record("a", Kind::Event, None)).unwrap();
        assert_eq!(ledger.episode("a"), Episode::Open("a".to_owned()));
        ledger.append(record("x", Kind::Done, Some("a"))).unwrap();
        assert_eq!(ledger.episode("a"), next("a.2"));
        ledger.append(record("a.2", Kind::Event, None)).unwrap();
        assert_eq!(ledger.episode("a"), Episode::Open("a.2".to_owned()));
    }
}
