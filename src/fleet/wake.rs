//! Which records of a ledger wake a lead, and how they are told.

use super::files::RunFiles;
use super::ledger::{Kind, Record};
use super::show;
use crate::contract::fleet::watch::WakeEvent;
use crate::id::fleet::WorkerId;

/// What a lead or the program itself decided: it wakes nobody who did not ask for every change.
const QUIET: &[&str] = &["merged", "reopened", "verified"];

/// Whether a record wakes whoever waits.
pub fn wakes(record: &Record) -> bool {
    record.kind == Kind::Event && !QUIET.contains(&record.verb.as_str())
}

/// A record as it is told.
pub fn told(files: &RunFiles, record: &Record) -> WakeEvent {
    let launch = launch_of(record);
    let worker: Option<WorkerId> = record.target.parse().ok();
    let report = worker
        .zip(launch)
        .filter(|_| record.kind == Kind::Event && record.verb == "report")
        .map(|(worker, launch)| files.launch(&worker, launch).report());
    let kind = match record.kind {
        Kind::Intent => "intent",
        Kind::Done => "done",
        Kind::Failed => "failed",
        Kind::Unknown => "unknown",
        Kind::Event => "event",
    };
    WakeEvent {
        id: record.id.clone(),
        at: record.at,
        event: record.verb.clone(),
        kind: kind.to_owned(),
        target: record.target.clone(),
        launch,
        reason: record.reason.clone(),
        status: report.as_deref().map(show::said_of_itself),
        path: report,
    }
}

/// The number in `<worker>.<launch>.…` and `<verb>.<worker>.<launch>…`.
fn launch_of(record: &Record) -> Option<u32> {
    let mut words = record.id.split('.');
    words.find(|word| *word == record.target)?;
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{launch_of, wakes};
    use crate::fleet::ledger::{Kind, Record};
    use jiff::Timestamp;

    fn record(id: &str, kind: Kind, verb: &str, target: &str) -> Record {
        Record {
            id: id.to_owned(),
            at: Timestamp::UNIX_EPOCH,
            by: "test".to_owned(),
            kind,
            verb: verb.to_owned(),
            target: target.to_owned(),
            of: None,
            reason: None,
        }
    }

    #[test]
    fn events_wake_and_what_was_decided_or_done_does_not() {
        assert!(wakes(&record("a.1.report", Kind::Event, "report", "a")));
        assert!(wakes(&record("a.1.new", Kind::Event, "word_of_later", "a")));
        assert!(!wakes(&record("x.verified", Kind::Event, "verified", "a")));
        assert!(!wakes(&record("launch.a.1", Kind::Intent, "launch", "a")));
    }

    #[test]
    fn a_launch_is_known_by_the_id() {
        let of = |id: &str, target: &str| launch_of(&record(id, Kind::Event, "report", target));
        assert_eq!(of("a.2.report", "a"), Some(2));
        assert_eq!(of("launch.a-review.3.done", "a-review"), Some(3));
        assert_eq!(of("run.done", "r"), None);
        assert_eq!(of("7.1.report", "7"), Some(1));
        assert_eq!(of("a.damaged.2", "a"), None);
    }
}
