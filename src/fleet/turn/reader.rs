//! Bytes of an output file in, [`Event`]s out: one reader for every provider.
//!
//! Whatever the bytes are, it never fails: a line that is no JSON object, or one of a kind that nobody here
//! knows, tells nothing.

use std::io::{self, Read as _};

use camino::Utf8Path;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;

use super::claude::Claude;
use super::codex;
use super::event::Event;
use super::lines::Lines;
use crate::clock::Clock;
use crate::id::ProviderKind;
use crate::store::read;

/// Bytes read at once.
const PIECE: usize = 64 << 10;

/// Reads one output file, from its beginning.
#[derive(Debug)]
pub struct Reader {
    lines: Lines,
    meaning: Meaning,
}

/// What the lines mean.
#[derive(Debug)]
struct Meaning {
    provider: ProviderKind,
    claude: Claude,
    said: Timestamp,
    local: TimeZone,
}

impl Reader {
    /// A reader of a provider's output. `said` is when its lines were written, for those that do not say it
    /// themselves and name a time of day; `local` the zone in which the CLI writes times for people.
    pub fn new(provider: ProviderKind, said: Timestamp, local: &TimeZone) -> Self {
        Self {
            lines: Lines::default(),
            meaning: Meaning {
                provider,
                claude: Claude::default(),
                said,
                local: local.clone(),
            },
        }
    }

    /// Takes the next bytes and gives what the lines that they end tell.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        let Self { lines, meaning } = self;
        lines.feed(bytes, |line| meaning.line(line, &mut events));
        events
    }

    /// Says that the file is over and gives what a last line without newline tells.
    pub fn finish(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        let Self { lines, meaning } = self;
        lines.finish(|line| meaning.line(line, &mut events));
        events
    }
}

impl Meaning {
    fn line(&mut self, line: &[u8], events: &mut Vec<Event>) {
        // Invalid bytes inside a text must not take the whole line away.
        let text = String::from_utf8_lossy(line);
        let Ok(value) = serde_json::from_str::<Value>(&text) else {
            return;
        };
        match self.provider {
            ProviderKind::Codex => codex::read(&value, self.said, &self.local, events),
            ProviderKind::Claude | ProviderKind::Scripted => {
                self.claude.read(&value, self.said, &self.local, events);
            }
        }
    }
}

/// Reads a whole output file; `take` gets what it tells, in order.
pub fn file(
    provider: ProviderKind,
    output: &Utf8Path,
    clock: &Clock,
    local: &TimeZone,
    mut take: impl FnMut(Event),
) -> io::Result<()> {
    let mut file = read::open(output)?;
    let modified = file.metadata()?.modified().ok();
    let said = modified.and_then(|time| Timestamp::try_from(time).ok());
    let mut reader = Reader::new(provider, said.unwrap_or_else(|| clock.now()), local);
    let mut piece = vec![0; PIECE];
    loop {
        let count = match file.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let bytes = piece.get(..count).unwrap_or_default();
        reader.feed(bytes).into_iter().for_each(&mut take);
    }
    reader.finish().into_iter().for_each(take);
    Ok(())
}
