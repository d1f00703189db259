//! `hook EVENT`: what the provider CLIs call while a worker runs.
//!
//! Each event is one line of evidence; at the end of a turn the end of its transcript is read for what the CLI
//! does not tell its hooks.
//!
//! Guarantees: nothing on stdout, no failure to the caller, no lock, no network, no provider state touched.
//! An exit status of 2 would block the model's turn and stdout would enter its context, so every fault,
//! a panic included, ends in silence. Inherited descriptors are closed first: Codex hands its own on, and
//! the worker's witness must not outlive the worker in a hook's child.
//!
//! Limits: an event that cannot be recorded (full disk, unreadable state) is lost without a word.

use std::path::{Path, PathBuf};
use std::time::Duration;

use camino::Utf8PathBuf;
use serde_json::{Map, Value};

use super::ancestry::{Binaries, belongs, look};
use super::ending;
use super::identity::Worker;
use super::statusline::windows;
use crate::env::{self, Context, World};
use crate::id::{ProviderKind, TaskKey};
use crate::provider::codex::conversation;
use crate::snapshot::evidence::{self, Event, Kind, word};
use crate::store::{maildir, touch};
use crate::sys::descriptor;

/// Most bytes read of a hook's input; a message of a megabyte is ordinary.
const INPUT_LIMIT: usize = 16 << 20;
/// How long a caller may take to write its input.
const INPUT_WAIT: Duration = Duration::from_secs(2);

/// A lease as the table has it now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Number of the grant.
    pub generation: u64,
    /// Pid and kernel start time of its process, in this pid namespace; `None` when it cannot be told here.
    pub holder: Option<(u32, u64)>,
}

/// What a hook asks of the rest of the program.
pub struct Sources<'a> {
    /// Registered provider binaries.
    pub binaries: Binaries,
    /// The home of the worker's profile, where it is known.
    pub home: Option<Utf8PathBuf>,
    /// The lease that a task has now, without a lock.
    pub lease: &'a dyn Fn(TaskKey) -> Option<Bound>,
}

impl std::fmt::Debug for Sources<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Sources")
            .field("binaries", &self.binaries)
            .field("home", &self.home)
            .finish_non_exhaustive()
    }
}

/// Records one event of the worker whose environment this is. `arguments` are the words after `hook`.
///
/// Outside a worker it does nothing. Faults are returned for tests; callers drop them.
pub fn record(
    context: &Context,
    arguments: &[std::ffi::OsString],
    sources: &Sources<'_>,
) -> Option<Event> {
    let kind = Kind::from_word(arguments.first()?.to_str()?)?;
    let worker = Worker::of(&context.variables)?;
    let payload = payload(context, kind, arguments);
    let text = |name: &str| payload.get(name).and_then(Value::as_str);
    let session = text("session_id")
        .or_else(|| text("thread-id"))
        .and_then(word);
    let holder = holder(context, &worker, sources)
        .filter(|_| kind != Kind::TurnEnd || is_conversation(sources, session.as_deref()));
    let event = Event {
        event: kind,
        at: context.clock.now(),
        boot: context.clock.boot().0,
        key: worker.task.key().hex(),
        generation: worker.generation,
        profile: worker.profile.clone(),
        pid: holder.map(|holder| holder.0),
        start: holder.map(|holder| holder.1),
        foreign: holder.is_none(),
        session,
        reason: reason(kind, &text),
        // A turn that failed on a limit may say which windows it failed on, as the status line does.
        windows: if kind == Kind::StopFailure {
            windows(&payload)
        } else {
            Vec::new()
        },
        task: Some(worker.task.clone()),
        pool: Some(worker.pool.clone()),
        workspace: Some(worker.workspace.clone()),
        resets_at: None,
        guessed: false,
        transcript: text("transcript_path")
            .filter(|path| Path::new(path).is_absolute())
            .map(Into::into),
    };
    // Evidence first: Claude does not wait for its StopFailure hook, so everything later may not happen.
    drop(evidence::append(
        &context.roots.state,
        worker.provider,
        &event,
    ));
    if holder.is_some() {
        tell(context, &event);
        drop(ending::record(context, worker.provider, &event, sources));
    }
    Some(event)
}

/// The process of the worker's lease (pid and start time), when this call came from it; `None` when it came
/// from a provider that a tool started, or the lease is gone.
pub fn holder(context: &Context, worker: &Worker, sources: &Sources<'_>) -> Option<(u32, u64)> {
    let lease = (sources.lease)(worker.task.key())?;
    let holder = lease.holder?;
    let own = lease.generation == worker.generation
        && claude_pid_agrees(context, worker.provider, holder.0)
        && belongs(parent(), holder, &sources.binaries, &look);
    own.then_some(holder)
}

/// Whether a turn that Codex's notify program was called for is one of a conversation. The terminal screen
/// lets the model name each conversation in a thread of its own, which has no rollout, and calls it for
/// that too (run with 0.171).
fn is_conversation(sources: &Sources<'_>, session: Option<&str>) -> bool {
    match (&sources.home, session) {
        (Some(home), Some(session)) => conversation::path(home, session).is_some(),
        _ => true,
    }
}

/// Tells whoever waits for this lease's events: the turn-end file and the maildir, where exec named them.
fn tell(context: &Context, event: &Event) {
    let place = |name| context.variables.raw(name).map(PathBuf::from);
    if let Some(path) = place(env::TURN_END).filter(|_| event.event.ends_turn()) {
        drop(touch::touch(path));
    }
    if let (Some(directory), Ok(line)) = (place(env::EVENTS), event.line()) {
        let name = format!(
            "{}.{}.{}",
            event.at.as_nanosecond(),
            std::process::id(),
            event.generation
        );
        drop(maildir::deliver(directory, &name, line.as_bytes()));
    }
}

/// The provider's JSON: Codex's notify program gets it as an argument, everything else on stdin.
fn payload(context: &Context, kind: Kind, arguments: &[std::ffi::OsString]) -> Map<String, Value> {
    let bytes = match arguments.get(1) {
        Some(argument) if kind == Kind::TurnEnd => argument.as_encoded_bytes().to_vec(),
        _ => descriptor::read_input(INPUT_LIMIT, &context.clock.deadline(INPUT_WAIT)),
    };
    let mut values = serde_json::Deserializer::from_slice(&bytes).into_iter::<Map<String, Value>>();
    values.next().and_then(Result::ok).unwrap_or_default()
}

/// The one word that says what kind of event it was.
fn reason<'a>(kind: Kind, text: &dyn Fn(&str) -> Option<&'a str>) -> Option<String> {
    let field = match kind {
        Kind::SessionStart => "source",
        Kind::StopFailure => "error",
        Kind::SessionEnd => "reason",
        Kind::PermissionRequest => "tool_name",
        Kind::Notification => "notification_type",
        Kind::PromptSubmit | Kind::Stop | Kind::TurnEnd | Kind::Windows => return None,
    };
    let found = text(field).and_then(word);
    if kind == Kind::StopFailure {
        // A failed turn always has a reason, even one that we cannot name.
        return found.or_else(|| Some("unknown".to_owned()));
    }
    found
}

/// Claude tells its hooks its own pid; where it does, it must be the lease's process.
fn claude_pid_agrees(context: &Context, provider: ProviderKind, pid: u32) -> bool {
    provider != ProviderKind::Claude
        || context
            .variables
            .text(env::CLAUDE_PID)
            .is_none_or(|text| text.parse() == Ok(pid))
}

fn parent() -> u32 {
    std::os::unix::process::parent_id()
}

/// Runs `action` so that nothing it does reaches the caller: descriptors above 2 are closed first, a panic
/// says nothing.
pub fn silently(world: &World, action: &dyn Fn(&Context)) {
    descriptor::close_inherited();
    std::panic::set_hook(Box::new(|_| {}));
    let quiet = std::panic::AssertUnwindSafe(|| {
        if let Ok(context) = Context::resolve(world, None) {
            action(&context);
        }
    });
    drop(std::panic::catch_unwind(quiet));
}

#[cfg(test)]
mod tests {
    use super::{Binaries, Bound, Sources, parent, reason, record};
    use crate::clock::Clock;
    use crate::env::{Context, Faults, Roots, Variables};
    use crate::snapshot::evidence::{self, Kind};
    use crate::sys::process;
    use camino::Utf8Path;

    fn context(root: &Utf8Path, more: &[(&str, &str)]) -> Context {
        let turn_end = root.join("turn-end");
        let events = root.join("events");
        let mut pairs = vec![
            ("AGENT_FLEET_TASK_ID", "a task"),
            ("AGENT_FLEET_PROFILE", "codex-1"),
            ("AGENT_FLEET_PROVIDER", "codex"),
            ("AGENT_FLEET_POOL", "crew"),
            ("AGENT_FLEET_WORKSPACE", "/project"),
            ("AGENT_FLEET_GENERATION", "7"),
            ("AGENT_FLEET_TURN_END", turn_end.as_str()),
            ("AGENT_FLEET_EVENTS", events.as_str()),
        ];
        pairs.extend_from_slice(more);
        Context {
            roots: Roots {
                home: root.to_owned(),
                config: root.join("accounts.toml"),
                state: root.join("state"),
                share: root.join("share"),
            },
            clock: Clock::real(),
            variables: pairs.into_iter().collect::<Variables>(),
            directory: None,
            executable: None,
            faults: Faults::default(),
            command: String::new(),
        }
    }

    fn sources(bound: &dyn Fn(crate::id::TaskKey) -> Option<Bound>) -> Sources<'_> {
        Sources {
            binaries: Binaries::default(),
            home: None,
            lease: bound,
        }
    }

    const NOTIFY: [&str; 2] = [
        "turn-end",
        r#"{"type":"agent-turn-complete","thread-id":"0199-x","last-assistant-message":"secret prose"}"#,
    ];

    #[test]
    fn an_own_event_is_recorded_told_and_holds_no_message_text() {
        let directory = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(directory.path()).unwrap();
        let start = process::status(parent()).unwrap().unwrap().start;
        let lease = |_| {
            Some(Bound {
                generation: 7,
                holder: Some((parent(), start)),
            })
        };
        let event = record(
            &context(root, &[]),
            &NOTIFY.map(Into::into),
            &sources(&lease),
        )
        .unwrap();
        assert!(!event.foreign);
        assert_eq!(event.session.as_deref(), Some("0199-x"));
        let file = evidence::path(&root.join("state"), crate::id::ProviderKind::Codex);
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(!text.contains("prose"), "{text}");
        assert_eq!(evidence::read_from(&file, 0).unwrap().0, [event]);
        assert!(root.join("turn-end").exists());
        assert_eq!(
            std::fs::read_dir(root.join("events/new")).unwrap().count(),
            1
        );
    }

    #[test]
    fn a_turn_of_the_thread_that_names_conversations_is_foreign() {
        let directory = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(directory.path()).unwrap();
        let start = process::status(parent()).unwrap().unwrap().start;
        let lease = |_| {
            Some(Bound {
                generation: 7,
                holder: Some((parent(), start)),
            })
        };
        let mut sources = sources(&lease);
        sources.home = Some(root.join("home"));
        let event = || record(&context(root, &[]), &NOTIFY.map(Into::into), &sources).unwrap();
        assert!(event().foreign);
        assert!(!root.join("turn-end").exists());
        let day = root.join("home/sessions/2030/01/01");
        std::fs::create_dir_all(&day).unwrap();
        crate::store::replace::create(day.join("rollout-x-0199-x.jsonl"), b"").unwrap();
        assert!(!event().foreign);
    }

    #[test]
    fn a_foreign_event_is_recorded_as_such_and_told_to_nobody() {
        let directory = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(directory.path()).unwrap();
        let start = process::status(parent()).unwrap().unwrap().start;
        let other_process = |_| {
            Some(Bound {
                generation: 7,
                holder: Some((parent(), start + 1)),
            })
        };
        let other_lease = |_| {
            Some(Bound {
                generation: 8,
                holder: Some((parent(), start)),
            })
        };
        let none = |_| None;
        let leases: [&dyn Fn(crate::id::TaskKey) -> Option<Bound>; 3] =
            [&other_process, &other_lease, &none];
        for lease in leases {
            let event = record(
                &context(root, &[]),
                &NOTIFY.map(Into::into),
                &sources(lease),
            );
            assert!(event.unwrap().foreign);
        }
        assert!(!root.join("turn-end").exists());
        assert!(!root.join("events").exists());
    }

    #[test]
    fn outside_a_worker_and_on_unknown_words_nothing_happens() {
        let directory = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(directory.path()).unwrap();
        let none = |_| None;
        let outside = context(root, &[("AGENT_FLEET_TASK_ID", "")]);
        assert_eq!(
            record(&outside, &NOTIFY.map(Into::into), &sources(&none)),
            None
        );
        let odd = context(root, &[("AGENT_FLEET_GENERATION", "x")]);
        assert_eq!(record(&odd, &NOTIFY.map(Into::into), &sources(&none)), None);
        let unknown = ["later-event".into()];
        assert_eq!(record(&context(root, &[]), &unknown, &sources(&none)), None);
        assert!(!root.join("state").exists());
    }

    #[test]
    fn a_failed_turn_always_has_a_reason_word() {
        let limit = |name: &str| (name == "error").then_some("rate_limit");
        assert_eq!(
            reason(Kind::StopFailure, &limit).as_deref(),
            Some("rate_limit")
        );
        let prose = |name: &str| (name == "error").then_some("You hit your limit");
        assert_eq!(
            reason(Kind::StopFailure, &prose).as_deref(),
            Some("unknown")
        );
        assert_eq!(reason(Kind::Stop, &limit), None);
    }
}
