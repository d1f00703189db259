//! How far each consumer of a run's events is: every event once to every consumer.
//!
//! What is given is on disk for good before it is given, and the place behind it is remembered after it was given,
//! both under the consumer's own lock. So a wait that is killed loses nothing; killed between giving and remembering,
//! the next one gives the same again, with the same ids. Several waits of one consumer share its events.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::files::RunFiles;
use super::ledger::{self, Record};
use super::model::SCHEMA;
use super::{record, wake};
use crate::clock::ROUTINE;
use crate::crash_point;
use crate::env::Context;
use crate::error::Result;
use crate::id::fleet::WorkerId;
use crate::store::append;
use crate::store::lock::{Locks, Mode, Name};

/// `consumers/<name>.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct CursorRecord {
    schema: u32,
    /// Bytes of the ledger that were given.
    offset: u64,
    /// When the last of them were.
    at: Timestamp,
}

/// What a consumer wants to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// What wakes a lead.
    Events,
    /// Every record.
    Everything,
}

impl Wanted {
    fn covers(self, record: &Record) -> bool {
        match self {
            Self::Events => wake::wakes(record),
            Self::Everything => true,
        }
    }
}

/// Whether what was given has reached somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// It has: it is not given again.
    Yes,
    /// Nobody took it.
    No,
}

/// A consumer of a run's events.
#[derive(Clone, Copy, Debug)]
pub struct Consumer<'a> {
    /// Of which run.
    pub files: &'a RunFiles,
    /// Its name.
    pub name: &'a WorkerId,
    /// What it wants.
    pub wanted: Wanted,
}

impl Consumer<'_> {
    /// Whether there is something that it was not given.
    pub fn has_some(&self) -> Result<bool> {
        Ok(!self.unseen(self.offset()?)?.0.is_empty())
    }

    /// Gives everything that it was not given yet, and remembers that it was. False, and `give` is not called, when
    /// there is nothing.
    ///
    /// Refused with `record_damaged` when it cannot be told how far it is.
    pub fn take(
        &self,
        context: &Context,
        give: impl FnOnce(&[Record]) -> Result<Given>,
    ) -> Result<bool> {
        let name = Name::Consumer(
            self.files.repository.clone(),
            self.files.id.clone(),
            self.name.clone(),
        );
        let locks = Locks::new(&context.roots.state, context.clock);
        let deadline = context.clock.deadline(ROUTINE);
        let mut guard = locks.take(&name, Mode::Exclusive, &deadline)?;
        guard.sign("fleet wait")?;
        let (records, end) = self.unseen(self.offset()?)?;
        if records.is_empty() {
            return Ok(false);
        }
        append::settle(self.files.ledger())?;
        let given = give(&records)?;
        crash_point!("consumer.given");
        if given == Given::Yes {
            let cursor = CursorRecord {
                schema: SCHEMA,
                offset: end,
                at: context.clock.now(),
            };
            record::save(&self.files.consumer(self.name), &cursor)?;
            crash_point!("consumer.remembered");
        }
        Ok(true)
    }

    fn offset(&self) -> Result<u64> {
        let cursor: Option<CursorRecord> = record::load(&self.files.consumer(self.name))?;
        Ok(cursor.map_or(0, |cursor| cursor.offset))
    }

    fn unseen(&self, offset: u64) -> Result<(Vec<Record>, u64)> {
        let tail = ledger::after(&self.files.ledger(), offset)?;
        let mut records = tail.records;
        records.retain(|record| self.wanted.covers(record));
        Ok((records, tail.end))
    }
}
