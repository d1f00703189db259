//! Folding evidence into state: new lines move session mappings and the provider's snapshot forward.
//!
//! A fold runs under the provider's snapshot lock. Everything it does may be done twice: when it dies
//! between the mappings and the snapshot, the next fold reads the same lines again and changes nothing.

use camino::Utf8Path;

use super::evidence::{self, Event};
use super::provider::{self, Snapshot};
use super::{limit, session};
use crate::clock::{Clock, Deadline};
use crate::env::Context;
use crate::error::Result;
use crate::id::ProviderKind;
use crate::store::directory;
use crate::store::replace::rename;

/// How long a rotated file may still be written to by those who had it open, in seconds.
const LINGER: i64 = 60;

/// Whether there is evidence beyond what was folded: one `stat`.
pub fn is_due(state: &Utf8Path, provider: ProviderKind, folded: u64) -> bool {
    let size = std::fs::metadata(evidence::path(state, provider)).map_or(0, |file| file.len());
    size != folded
}

/// Folds all new evidence of a provider into its session mappings and its snapshot.
pub fn fold(context: &Context, kind: ProviderKind, deadline: &Deadline) -> Result<()> {
    let state = &context.roots.state;
    provider::update(context, kind, deadline, |snapshot| {
        let folded = snapshot.evidence_offset;
        let now = context.clock.now();
        let mut each = |event: &Event| limit::apply_event(snapshot, event, now);
        let end = advance(state, &context.clock, kind, folded, &mut each)?;
        snapshot.evidence_offset = end;
        Ok(())
    })
}

/// Folds what is new, whoever wrote it; writes nothing when there is nothing new.
pub fn settle(context: &Context, kind: ProviderKind, deadline: &Deadline) -> Result<()> {
    let state = &context.roots.state;
    let folded = provider::load(context, kind)?.evidence_offset;
    if is_due(state, kind, folded) || !evidence::rotated(state, kind).is_empty() {
        fold(context, kind, deadline)?;
    }
    Ok(())
}

/// The snapshot of a provider with all evidence folded in; takes its lock only when there is new evidence.
pub fn load(context: &Context, kind: ProviderKind, deadline: &Deadline) -> Result<Snapshot> {
    let snapshot = provider::load(context, kind)?;
    if !is_due(&context.roots.state, kind, snapshot.evidence_offset) {
        return Ok(snapshot);
    }
    fold(context, kind, deadline)?;
    provider::load(context, kind)
}

/// Reads everything beyond `folded`, moves session mappings, hands each event to `each`, and returns the
/// new offset. Rotates a file that has grown beyond [`evidence::ROTATE_AT`], and folds rotated files for
/// the last time. The caller holds the provider's snapshot lock and saves the offset.
pub fn advance(
    state: &Utf8Path,
    clock: &Clock,
    provider: ProviderKind,
    folded: u64,
    each: &mut dyn FnMut(&Event),
) -> Result<u64> {
    let mut take = |path: &Utf8Path, mut offset: u64| -> Result<u64> {
        loop {
            let (events, end) = evidence::read_from(path, offset)?;
            for event in &events {
                session::apply(state, provider, event)?;
                each(event);
            }
            if end == offset {
                return Ok(end);
            }
            offset = end;
        }
    };
    for old in evidence::rotated(state, provider) {
        if clock.now().as_second().saturating_sub(old.since) >= LINGER {
            take(&old.path, old.offset)?;
            directory::remove_file(&old.path)?;
        }
    }
    let path = evidence::path(state, provider);
    let end = take(&path, folded)?;
    if end < evidence::ROTATE_AT {
        return Ok(end);
    }
    rename(&path, evidence::rotated_path(state, provider, end))?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::{advance, is_due};
    use crate::clock::Clock;
    use crate::id::{ProviderKind::Codex, Task};
    use crate::quota::window::{Kind as WindowKind, Window};
    use crate::snapshot::durable;
    use crate::snapshot::evidence::Kind::{SessionStart, Stop, StopFailure};
    use crate::snapshot::evidence::tests::event;
    use crate::snapshot::evidence::{self, ROTATE_AT, append};
    use crate::snapshot::provider::tests::World;
    use crate::snapshot::session;
    use camino::Utf8Path;
    use jiff::SignedDuration;
    use std::io::Write as _;

    fn fold(state: &Utf8Path, clock: &Clock, folded: u64) -> (u64, Vec<u64>) {
        let mut seen = Vec::new();
        let end = advance(state, clock, Codex, folded, &mut |event| {
            seen.push(event.boot);
        });
        (end.unwrap(), seen)
    }

    #[test]
    fn each_event_is_folded_once_and_moves_its_mapping() {
        let directory = tempfile::tempdir().unwrap();
        let state = Utf8Path::from_path(directory.path()).unwrap();
        let clock = Clock::real();
        assert!(!is_due(state, Codex, 0));
        append(state, Codex, &event("a", SessionStart, 1, 1)).unwrap();
        assert!(is_due(state, Codex, 0));
        let (end, seen) = fold(state, &clock, 0);
        assert_eq!(seen, [1]);
        assert!(!is_due(state, Codex, end));
        append(state, Codex, &event("a", Stop, 1, 2)).unwrap();
        assert_eq!(fold(state, &clock, end).1, [2]);
        let record = session::require(state, &"a".parse().unwrap()).unwrap();
        assert_eq!(record.session.session_event_seq, 1);
    }

    #[test]
    fn what_a_late_writer_adds_to_a_rotated_file_is_folded_before_it_goes() {
        let directory = tempfile::tempdir().unwrap();
        let state = Utf8Path::from_path(directory.path()).unwrap();
        let clock = Clock::real();
        let line = event("a", Stop, 1, 1).line().unwrap();
        let count = ROTATE_AT / (line.len() as u64 + 2) + 1;
        let file = evidence::path(state, Codex);
        std::fs::create_dir(file.parent().unwrap()).unwrap();
        let bulk = format!("\n{line}\n").repeat(usize::try_from(count).unwrap());
        crate::store::replace::create(&file, bulk.as_bytes()).unwrap();
        let (end, seen) = fold(state, &clock, 0);
        assert_eq!((end, seen.len() as u64), (0, count));
        assert!(!file.exists());
        let rotated = evidence::rotated(state, Codex);
        assert_eq!(rotated.len(), 1);
        let late = event("a", SessionStart, 1, 2).line().unwrap();
        crate::store::append::line(&rotated[0].path, &late).unwrap();
        assert_eq!(
            fold(state, &clock, 0).1,
            [0; 0],
            "folded before writers are gone"
        );
        let later = Clock::moved("+61");
        assert_eq!(fold(state, &later, 0).1, [2]);
        assert!(evidence::rotated(state, Codex).is_empty());
        assert!(
            session::load(state, &"a".parse().unwrap())
                .unwrap()
                .is_some()
        );
    }

    #[test]
    fn a_limit_of_a_profile_with_a_damaged_record_keeps_no_sibling_from_its_news() {
        let world = World::new();
        let (context, deadline) = (&world.context, world.deadline());
        let state = &context.roots.state;
        let file = durable::path(context, "codex-1");
        world.write(&file, "{\"version\":1,");
        let mut billing = event("a", StopFailure, 1, 1);
        billing.reason = Some("billing_error".to_owned());
        let mut quota = event("a", StopFailure, 1, 2);
        quota.reason = Some("usage_limit_reached".to_owned());
        let reset = context.clock.now() + SignedDuration::from_hours(48);
        quota.at = context.clock.now();
        quota.windows = vec![Window {
            id: "weekly".to_owned(),
            kind: WindowKind::Weekly,
            scope: None,
            remaining_percent: 0.0,
            resets_at: Some(reset),
        }];
        let mut sibling = event("b", StopFailure, 2, 3);
        sibling.reason = Some("billing_error".to_owned());
        sibling.profile = "codex-2".parse().unwrap();
        for event in [&billing, &quota, &sibling] {
            append(state, Codex, event).unwrap();
        }
        let snapshot = super::load(context, Codex, &deadline).unwrap();
        assert!(snapshot.damaged.contains_key("codex-1"));
        assert!(snapshot.states["codex-2"].durable.billing_block.is_some());
        let kept = snapshot.states["codex-1"].cooldown.as_ref().unwrap();
        assert_eq!(kept.until, reset, "the stated reset was forgotten");
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(
            text, "{\"version\":1,",
            "the damaged record was overwritten"
        );
    }

    #[test]
    fn a_mapping_that_cannot_be_opened_keeps_no_other_task_from_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let state = Utf8Path::from_path(directory.path()).unwrap();
        let key = "a".parse::<Task>().unwrap().key().hex();
        let record = state.join("sessions").join(format!("{key}.json"));
        std::fs::create_dir_all(&record).unwrap();
        append(state, Codex, &event("a", SessionStart, 1, 1)).unwrap();
        append(state, Codex, &event("b", SessionStart, 2, 2)).unwrap();
        assert_eq!(fold(state, &Clock::real(), 0).1, [1, 2]);
        assert!(session::require(state, &"b".parse().unwrap()).is_ok());
        assert!(record.is_dir());
    }

    #[test]
    fn what_follows_a_line_that_never_ends_is_folded() {
        let directory = tempfile::tempdir().unwrap();
        let state = Utf8Path::from_path(directory.path()).unwrap();
        let clock = Clock::real();
        append(state, Codex, &event("a", Stop, 1, 1)).unwrap();
        let file = evidence::path(state, Codex);
        let mut garbage = std::fs::OpenOptions::new()
            .append(true)
            .open(&file)
            .unwrap();
        for _ in 0..20 {
            garbage.write_all(&vec![b'x'; 1 << 20]).unwrap();
        }
        append(state, Codex, &event("a", SessionStart, 1, 2)).unwrap();
        assert_eq!(fold(state, &clock, 0).1, [1, 2]);
    }
}
