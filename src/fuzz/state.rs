//! Our own files, as another version, a power cut or somebody's editor may have left them.

use std::sync::LazyLock;
use std::time::Duration;

use camino::Utf8PathBuf;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

use super::{Ground, on_ground};
use crate::audit::{self, Filter};
use crate::error::code;
use crate::id::ProviderKind::Claude;
use crate::id::{ProfileId, Task};
use crate::snapshot::evidence::Event;
use crate::snapshot::provider::Snapshot;
use crate::snapshot::{durable as facts, evidence as events, limit, provider, session as mapping};
use crate::store::seal;
use crate::transaction::journal::{Entry, Parsed};

/// Longest that an account rests by what was read, with the jitter.
const LONGEST: SignedDuration = SignedDuration::from_hours(40 * 24 + 1);

/// The bytes as they are, and with a seal before each line, which none would have by accident.
fn sealed(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    let lines: Vec<String> = text.lines().map(seal::line).collect();
    Some(lines.join("\n") + "\n")
}

/// An entry of the journal is whole or broken, and comes back as it was; what it says lies beside its credential.
pub fn journal(bytes: &[u8]) {
    let entry = |bytes: &[u8]| {
        let Parsed::Whole(entry) = Entry::parse(bytes) else {
            return;
        };
        for path in [entry.staged(), entry.orphan()] {
            assert_eq!(path.parent(), Some(entry.home()), "{entry:?}");
            assert_ne!(path, entry.target, "{entry:?}");
        }
        assert_ne!(entry.staged(), entry.orphan(), "{entry:?}");
    };
    entry(bytes);
    if let Some(text) = sealed(bytes) {
        entry(text.as_bytes());
    }
}

fn object(bytes: &[u8]) -> Map<String, Value> {
    serde_json::from_slice(bytes).unwrap_or_default()
}

/// What was unknown in `before` is in `after`, but for the fields that were `written`.
fn kept(before: &Map<String, Value>, after: &Map<String, Value>, written: &Value) {
    for (name, value) in before {
        if written.get(name).is_none() {
            assert_eq!(after.get(name), Some(value), "`{name}` was lost");
        }
    }
}

fn event(task: &Task) -> Event {
    let text = include_str!("../../fixtures/state/v1/evidence/claude.jsonl");
    let first = text.lines().find(|line| !line.is_empty());
    let mut event: Event = serde_json::from_str(first.unwrap_or_default()).expect("a fixture");
    event.key = task.key().hex();
    event.task = Some(task.clone());
    event.generation = u64::MAX;
    event.boot = u64::MAX;
    event
}

/// A mapping that can be read moves on and keeps what it does not know; any other is left alone, by every byte.
pub fn session(bytes: &[u8]) {
    let file = object(bytes);
    let named = file.get("task").and_then(Value::as_str);
    let task: Task = named
        .and_then(|name| name.parse().ok())
        .unwrap_or_else(|| "fix the build".parse().expect("a task"));
    on_ground(|ground| {
        let state = &ground.context.roots.state;
        let path = state
            .join("sessions")
            .join(format!("{}.json", task.key().hex()));
        Ground::put(&path, bytes);
        let before = mapping::load(state, &task);
        let event = event(&task);
        let moved = mapping::apply(state, Claude, &event).expect("a home that is writable");
        let after = std::fs::read(&path).expect("a mapping stays");
        match before {
            Ok(before) => {
                assert!(before.is_some());
                if moved {
                    let known = mapping::load(state, &task).expect("what was written is read");
                    let known = known.expect("it is there");
                    assert_eq!(Some(&known.session.session_id), event.session.as_ref());
                    let written = serde_json::to_value(&known.session).unwrap_or_default();
                    let mut written = written;
                    for name in ["generation", "boot", "transcript"] {
                        written[name] = Value::Null;
                    }
                    kept(&file, &object(&after), &written);
                    assert!(
                        !mapping::apply(state, Claude, &event).expect("the same"),
                        "moved twice"
                    );
                }
            }
            Err(error) => {
                assert!(
                    [code::RECORD_DAMAGED, code::NEWER_FORMAT].contains(&error.code),
                    "{error}"
                );
                assert!(
                    !moved && after == bytes,
                    "a damaged mapping was written over"
                );
            }
        }
        drop(std::fs::remove_file(&path));
    });
}

/// A snapshot of which any part can be read comes back as it was, and what it says of profiles can be asked about.
pub fn snapshot(bytes: &[u8]) {
    let path = Utf8PathBuf::from("/state/snapshot/claude");
    let check = |bytes: &[u8]| {
        let Ok(parsed) = provider::parse(Some(bytes), &path) else {
            return;
        };
        let again = provider::serialize(&parsed.snapshot, parsed.profiles);
        let again = again.expect("what was read can be written");
        let again =
            provider::parse(Some(again.as_bytes()), &path).expect("what was written is read");
        assert!(again.whole, "what was written is whole");
        assert_eq!(
            format!("{:?}", again.snapshot),
            format!("{:?}", parsed.snapshot)
        );
        for state in parsed.snapshot.states.values() {
            for now in [Timestamp::MIN, *NOW, Timestamp::MAX] {
                let rest = state.rest(now);
                assert!(rest.is_none_or(|rest| rest.until > now), "{rest:?}");
            }
        }
    };
    check(bytes);
    if let Some(text) = sealed(bytes) {
        check(text.as_bytes());
    }
}

static NOW: LazyLock<Timestamp> =
    LazyLock::new(|| Timestamp::from_second(1_796_000_000).expect("a time of our days"));

/// Facts of a profile that can be read keep what is unknown when they change; others are left alone and named.
pub fn durable(bytes: &[u8]) {
    let profile: ProfileId = "claude-1".parse().expect("an id");
    on_ground(|ground| {
        let context = &ground.context;
        let path = facts::path(context, profile.as_str());
        clear(ground);
        Ground::put(&path, bytes);
        let deadline = context.clock.deadline(Duration::from_secs(5));
        let before = facts::inspect(context, &profile);
        let drained = crate::snapshot::hold::drain(context, Claude, &profile, "fuzzed", &deadline);
        let after = std::fs::read(&path).expect("facts stay");
        match before {
            Ok(()) => {
                let mut written =
                    serde_json::to_value(facts::load(context, &profile).expect("readable"))
                        .unwrap_or_default();
                for name in ["version", "profile", "provider"] {
                    written[name] = Value::Null;
                }
                if drained.is_ok() {
                    kept(&object(bytes), &object(&after), &written);
                    let durable = facts::load(context, &profile).expect("what was written is read");
                    assert_eq!(durable.drain.expect("it was drained").reason, "fuzzed");
                } else {
                    assert_eq!(after, bytes, "refused, and written all the same");
                }
            }
            Err(damage) => {
                assert!(damage.is_unreadable());
                assert!(drained.is_err(), "a damaged record was changed");
                assert_eq!(after, bytes, "a damaged record was written over");
            }
        }
    });
}

/// Takes away what the input before left.
fn clear(ground: &Ground) {
    for below in ["profiles", "snapshot", "audit.jsonl"] {
        let path = ground.context.roots.state.join(below);
        drop(std::fs::remove_dir_all(&path));
        drop(std::fs::remove_file(&path));
    }
}

/// Evidence is read up to its last whole line and no further, and moves a profile to rests that end.
pub fn evidence(bytes: &[u8]) {
    on_ground(|ground| {
        let path = ground.context.roots.state.join("fuzzed.jsonl");
        Ground::put(&path, bytes);
        let (found, end) = events::read_from(&path, 0).expect("a file that is there");
        let whole = bytes
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        assert_eq!(end, u64::try_from(whole).expect("a short file"));
        let (none, again) = events::read_from(&path, end).expect("a file that is there");
        assert_eq!((none.len(), again), (0, end), "read twice");
        let mut snapshot = Snapshot::default();
        for event in &found {
            if let Ok(line) = event.line() {
                assert!(line.len() < 2048 && !line.contains('\n'));
                let again: Event = serde_json::from_str(&line).expect("a line is read back");
                assert_eq!(
                    (&again.key, again.generation),
                    (&event.key, event.generation)
                );
            }
            for _ in 0..2 {
                limit::apply_event(&mut snapshot, event, *NOW);
            }
        }
        for state in snapshot.states.values() {
            let rests = [&state.cooldown, &state.durable.cooldown];
            for rest in rests.into_iter().flatten() {
                let ends = rest.until.duration_since(*NOW);
                assert!(ends <= LONGEST, "{rest:?}");
            }
        }
    });
}

/// Every line of the audit is an event or damaged, and what is told is in order.
pub fn audit(bytes: &[u8]) {
    on_ground(|ground| {
        let context = &ground.context;
        Ground::put(&context.roots.state.join("audit.jsonl"), bytes);
        let all = audit::read(context, &Filter::default()).expect("a file that is there");
        let lines = bytes.split(|byte| *byte == b'\n');
        let told = lines.filter(|line| !line.trim_ascii().is_empty()).count();
        let read = u64::try_from(all.events.len()).unwrap_or(u64::MAX) + all.damaged;
        assert_eq!(read, u64::try_from(told).unwrap_or(u64::MAX));
        assert!(all.events.is_sorted_by_key(|event| event.at));
        let newest = Filter {
            limit: Some(1),
            ..Filter::default()
        };
        let one = audit::read(context, &newest).expect("a file that is there");
        assert_eq!(one.events.len(), all.events.len().min(1));
    });
}
