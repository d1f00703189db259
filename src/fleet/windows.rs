//! The quota windows that a turn's CLI was shown, handed to the broker when the turn is over.
//!
//! They go where those of hooks and status lines go: into the broker's evidence, for the profile that the broker's own
//! receipt names, and as old as they were read. Nothing of the conversation goes along, and telling the same again
//! changes nothing. Limits: what cannot be written is lost; no run depends on it.

use super::launch::observe::Observed;
use super::model::Worker;
use super::turn::Turn;
use crate::env::Context;
use crate::snapshot::evidence::{Event, Kind, word};
use crate::snapshot::limit;
use crate::worker::statusline::record_windows;

/// Hands over what a turn that has ended was shown.
pub fn tell(context: &Context, worker: &Worker, observed: &Observed, turn: &Turn) {
    if let Some(event) = event(context, worker, observed, turn) {
        drop(record_windows(context, worker.assignment.provider, &event));
    }
}

/// The evidence; none without windows, or when the broker gave the launch no profile.
fn event(context: &Context, worker: &Worker, observed: &Observed, turn: &Turn) -> Option<Event> {
    let receipt = observed.receipt.as_ref().filter(|receipt| receipt.ok)?;
    if turn.windows.is_empty() {
        return None;
    }
    let child = observed.started.as_ref().map(|started| &started.child);
    // Without a time of their own they came with the first answer: not before the launch.
    let read = turn.windows_at.unwrap_or(observed.launch.at);
    Some(Event {
        event: Kind::Windows,
        at: read.min(context.clock.now()),
        boot: context.clock.boot().0,
        key: worker.task.key().hex(),
        generation: receipt.generation?,
        profile: receipt.profile.clone()?,
        pid: child.map(|child| child.pid),
        start: child.map(|child| child.start),
        foreign: false,
        session: turn.session.as_deref().and_then(word),
        reason: Some(limit::source(&turn.windows, turn.limit()).to_owned()),
        windows: turn.windows.clone(),
        resets_at: None,
        guessed: false,
        task: None,
        pool: None,
        workspace: None,
        transcript: None,
    })
}

#[cfg(test)]
mod tests {
    use super::{event, tell};
    use crate::clock::Clock;
    use crate::env::{Context, Faults};
    use crate::fleet::launch::LaunchRecord;
    use crate::fleet::launch::observe::{Observed, Seen};
    use crate::fleet::model::{Mode, WorkerState};
    use crate::fleet::trial;
    use crate::fleet::turn::Turn;
    use crate::id::ProviderKind::Claude;
    use crate::quota::window::{Kind, Window};
    use crate::snapshot::evidence;
    use crate::worker::receipt::Receipt;
    use jiff::{SignedDuration, Timestamp};

    fn context(state: &str) -> Context {
        let mut roots = trial::roots();
        roots.state = state.into();
        Context {
            roots,
            clock: Clock::real(),
            variables: Vec::<(&str, &str)>::new().into_iter().collect(),
            directory: None,
            executable: None,
            faults: Faults::default(),
            command: String::new(),
        }
    }

    fn observed(began: Timestamp, receipt: Option<Receipt>) -> Observed {
        Observed {
            seen: Seen::Ended(None),
            launch: LaunchRecord {
                schema: 1,
                worker: "one".parse().unwrap(),
                number: 1,
                token: "t".to_owned(),
                arguments: Vec::new(),
                workspace: "/project".into(),
                prompt_digest: String::new(),
                environment_digest: String::new(),
                at: began,
                boot: String::new(),
                mode: Mode::Headless,
                before: None,
            },
            started: None,
            receipt,
        }
    }

    fn turn(windows_at: Option<Timestamp>) -> Turn {
        Turn {
            session: Some("a session with a word for people".to_owned()),
            answer: Some("prose".to_owned()),
            windows: vec![Window {
                id: "five_hour".to_owned(),
                kind: Kind::Session,
                scope: None,
                remaining_percent: 60.0,
                resets_at: None,
            }],
            windows_at,
            ..Turn::default()
        }
    }

    #[test]
    fn windows_are_told_of_the_receipts_profile_as_old_as_they_are_and_without_a_word_beside() {
        let directory = tempfile::tempdir().unwrap();
        let context = context(directory.path().to_str().unwrap());
        let plan = trial::plan(
            "[[step]]\nid = \"one\"\nkind = \"investigate\"\ntext = \"t\"\n",
            &["claude:crew"],
            "",
        )
        .unwrap();
        let assignment = &plan.plan.steps[0].assignment;
        let worker = trial::worker("one", WorkerState::Running, assignment);
        let now = context.clock.now();
        let before = |seconds| now - SignedDuration::from_secs(seconds);
        let receipt = Receipt::launched(&"claude-1".parse().unwrap(), 7);
        let seen = observed(before(60), Some(receipt.clone()));
        let told = |turn: &Turn| event(&context, &worker, &seen, turn).unwrap();

        let timed = told(&turn(Some(before(20))));
        assert_eq!((timed.at, timed.generation), (before(20), 7));
        assert_eq!(timed.profile.as_str(), "claude-1");
        assert_eq!(told(&turn(None)).at, before(60), "not before the launch");
        let ahead = now + SignedDuration::from_hours(9);
        assert!(
            told(&turn(Some(ahead))).at < ahead,
            "nobody can know it yet"
        );

        for none in [
            event(&context, &worker, &observed(before(60), None), &turn(None)),
            event(&context, &worker, &seen, &Turn::default()),
            event(
                &context,
                &worker,
                &observed(
                    before(60),
                    Some(Receipt {
                        ok: false,
                        ..receipt
                    }),
                ),
                &turn(None),
            ),
        ] {
            assert_eq!(none, None);
        }

        let file = evidence::path(&context.roots.state, Claude);
        for _ in 0..2 {
            tell(&context, &worker, &seen, &turn(Some(before(20))));
        }
        let (lines, _) = evidence::read_from(&file, 0).unwrap();
        assert_eq!(lines.len(), 1, "told again it is the same: {lines:?}");
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(
            !text.contains("prose") && !text.contains("people"),
            "{text}"
        );
    }
}
