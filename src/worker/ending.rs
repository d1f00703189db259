//! What the transcript says at the end of a turn, recorded as evidence beside the hook's own event.
//!
//! A hook is told little: Claude's `StopFailure` has one word for several limits and no reset, Codex fires no
//! hook of its own for a failed turn. Windows and resets stand in the transcript, whose bounded end is read
//! here. What is not written down yet, or what a hook that was cut short did not come to read, is read again
//! when the lease's end is noticed or its profile is about to be chosen.

use std::path::PathBuf;

use jiff::SignedDuration;
use jiff::tz::TimeZone;

use super::hook::Sources;
use super::statusline::record_windows;
use crate::env::Context;
use crate::error::Result;
use crate::id::ProviderKind;
use crate::provider;
use crate::provider::home::conversation::{Tail, lies_in};
use crate::quota::limit::Ending;
use crate::snapshot::evidence::{self, Event, Kind};
use crate::snapshot::limit;

/// How long before the end of a turn its windows are told at most: nothing was used in between.
const SAME_TURN: SignedDuration = SignedDuration::from_secs(10);

/// Records what the transcript says at an event that ends a turn; nothing for other events.
pub(super) fn record(
    context: &Context,
    provider: ProviderKind,
    event: &Event,
    sources: &Sources<'_>,
) -> Result<()> {
    let Some(tail) = transcript(provider, event, sources).and_then(|path| Tail::read(&path).ok())
    else {
        return Ok(());
    };
    let ending = provider::of(provider).ending(&tail, &TimeZone::system());
    for told in told(event, &ending) {
        if told.event == Kind::Windows {
            record_windows(context, provider, &told)?;
        } else {
            evidence::append(&context.roots.state, provider, &told)?;
        }
    }
    Ok(())
}

/// The transcript to look at: the event's own, or for Codex's notify program, which is not told, the one of the
/// conversation it names. Only one in the leased home speaks for the leased account.
fn transcript(provider: ProviderKind, event: &Event, sources: &Sources<'_>) -> Option<PathBuf> {
    let over = matches!(
        event.event,
        Kind::Stop | Kind::StopFailure | Kind::TurnEnd | Kind::SessionEnd
    );
    let home = sources.home.as_ref().filter(|_| over)?;
    match (&event.transcript, &event.session, &event.workspace) {
        (Some(path), _, _) => lies_in(path, home).then(|| path.clone().into_std_path_buf()),
        (None, Some(session), Some(workspace)) => {
            provider::of(provider).transcript(home, workspace, session)
        }
        (None, _, _) => None,
    }
}

/// The events that an ending makes beside the one that it was noticed at. A turn that ended well is told by its
/// windows alone: its last line may not be written yet, and the one before it is history.
fn told(event: &Event, ending: &Ending) -> Vec<Event> {
    let mut told = Vec::new();
    if let Some(at) = ending.windows_at {
        let same_turn = event.at.duration_since(at) <= SAME_TURN;
        told.push(Event {
            event: Kind::Windows,
            at: if same_turn { at.max(event.at) } else { at },
            reason: Some(limit::source(&ending.windows, ending.limit).to_owned()),
            windows: ending.windows.clone(),
            task: None,
            pool: None,
            workspace: None,
            transcript: None,
            ..event.clone()
        });
    }
    let failed = !matches!(event.event, Kind::Stop | Kind::TurnEnd);
    if let (Some(limit), Some(at), true) = (ending.limit, ending.at, failed) {
        told.push(Event {
            event: Kind::StopFailure,
            at,
            reason: Some(limit.word().to_owned()),
            windows: ending.windows.clone(),
            resets_at: ending.reset.map(|reset| reset.at),
            guessed: ending.reset.is_some_and(|reset| reset.guessed),
            ..event.clone()
        });
    }
    told
}

#[cfg(test)]
mod tests {
    use super::{told, transcript};
    use crate::id::ProviderKind::Codex;
    use crate::quota::limit::{Ending, Limit, Reset};
    use crate::quota::window::{Kind as WindowKind, Window};
    use crate::snapshot::evidence::Kind::{
        Notification, SessionEnd, Stop, StopFailure, TurnEnd, Windows,
    };
    use crate::snapshot::evidence::tests::event;
    use crate::worker::ancestry::Binaries;
    use crate::worker::hook::Sources;
    use camino::Utf8Path;
    use jiff::SignedDuration;

    fn ending(seconds_ago: i64) -> Ending {
        let now = event("t", Stop, 1, 1).at;
        let at = now - SignedDuration::from_secs(seconds_ago);
        Ending {
            limit: Some(Limit::Quota),
            at: Some(at),
            reset: Some(Reset {
                at: now + SignedDuration::from_hours(1),
                guessed: true,
            }),
            windows: vec![Window {
                id: "five_hour".to_owned(),
                kind: WindowKind::Session,
                scope: None,
                remaining_percent: 0.0,
                resets_at: None,
            }],
            windows_at: Some(at),
            overage_used: false,
        }
    }

    #[test]
    fn a_failed_turn_tells_its_windows_and_its_limit() {
        let end = event("t", SessionEnd, 1, 1);
        let found = told(&end, &ending(3));
        let [windows, limit] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!((windows.event, windows.at), (Windows, end.at));
        assert_eq!(windows.reason.as_deref(), Some("limit"));
        assert_eq!(limit.event, StopFailure);
        assert_eq!(limit.at, end.at - SignedDuration::from_secs(3));
        assert_eq!(limit.reason.as_deref(), Some("quota"));
        assert!(limit.guessed && limit.resets_at.is_some());
        let old = told(&end, &ending(3600));
        assert_eq!(old[0].at, end.at - SignedDuration::from_secs(3600));
    }

    #[test]
    fn a_turn_that_ended_well_tells_no_limit_of_an_earlier_one() {
        for kind in [Stop, TurnEnd] {
            let found = told(&event("t", kind, 1, 1), &ending(3));
            assert_eq!(found.len(), 1);
            assert_eq!(found[0].event, Windows);
        }
        assert_eq!(told(&event("t", Stop, 1, 1), &Ending::default()), []);
    }

    #[test]
    fn only_a_transcript_in_the_leased_home_is_looked_at() {
        let sources = Sources {
            binaries: Binaries::default(),
            home: Some("/home/a".into()),
            lease: &|_| None,
        };
        let at = |kind, path: &str| {
            let mut event = event("t", kind, 1, 1);
            event.transcript = Some(Utf8Path::new(path).to_owned());
            transcript(Codex, &event, &sources).is_some()
        };
        assert!(at(Stop, "/home/a/sessions/x.jsonl"));
        assert!(!at(Stop, "/home/ab/sessions/x.jsonl"));
        assert!(!at(Stop, "/home/a/../b/sessions/x.jsonl"));
        assert!(!at(Stop, "/tmp/x.jsonl"));
        assert!(!at(Notification, "/home/a/sessions/x.jsonl"));
    }
}
