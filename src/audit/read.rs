//! Reading the events back.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _};

use jiff::Timestamp;

use super::{cut, path, rotate};
use crate::contract::audit::{AuditEvent, AuditList};
use crate::env::Context;
use crate::error::{Error, Result};
use crate::store::append::LINE_LIMIT;
use crate::store::read;

/// Which events are wanted.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Of one task.
    pub task: Option<String>,
    /// Of one profile.
    pub profile: Option<String>,
    /// Not before.
    pub since: Option<Timestamp>,
    /// The newest so many; all when `None`.
    pub limit: Option<usize>,
}

impl Filter {
    fn admits(&self, event: &AuditEvent) -> bool {
        let is = |wanted: &Option<String>, found: &Option<String>| {
            wanted
                .as_deref()
                .is_none_or(|wanted| found.as_deref() == Some(cut(wanted).as_str()))
        };
        is(&self.task, &event.task)
            && is(&self.profile, &event.profile)
            && self.since.is_none_or(|since| event.at >= since)
    }
}

/// The events, oldest first. Lines that are none are counted and skipped.
pub fn read(context: &Context, filter: &Filter) -> Result<AuditList> {
    let mut events = VecDeque::new();
    let mut damaged = 0;
    for path in rotate::all(&path(context)) {
        let file = match read::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(Error::io("read", &path, &error)),
        };
        let failed = |error: std::io::Error| Error::io("read", &path, &error);
        let mut lines = BufReader::new(file);
        let mut line = Vec::new();
        loop {
            line.clear();
            let most = u64::try_from(LINE_LIMIT).unwrap_or(u64::MAX);
            let taken = (&mut lines).take(most).read_until(b'\n', &mut line);
            if taken.map_err(failed)? == 0 {
                break;
            }
            if line.last() != Some(&b'\n') {
                // Longer than any of ours, or the last one, torn.
                lines.skip_until(b'\n').map_err(failed)?;
            }
            let text = line.trim_ascii();
            if text.is_empty() {
                continue;
            }
            match serde_json::from_slice::<AuditEvent>(text) {
                Ok(event) if filter.admits(&event) => {
                    events.push_back(event);
                    if filter.limit.is_some_and(|limit| events.len() > limit) {
                        events.pop_front();
                    }
                }
                Ok(_) => {}
                Err(_) => damaged += 1,
            }
        }
    }
    // Writers append as they come; the times are theirs.
    let mut events = Vec::from(events);
    events.sort_by_key(|event| event.at);
    Ok(AuditList { events, damaged })
}
