//! What both CLIs write down: how a conversation ended, and until when a limit lasts.

use jiff::tz::{TimeZone, offset};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{Ground, on_ground};
use crate::id::ProviderKind;
use crate::provider;
use crate::provider::closing::{Closing, Outcome};
use crate::provider::home::conversation::Tail;
use crate::quota::limit::Ending;
use crate::quota::reset;
use crate::snapshot::evidence::word;

/// No window is longer than a month.
const LONGEST: SignedDuration = SignedDuration::from_hours(40 * 24);

fn ending(kind: ProviderKind, bytes: &[u8]) -> Ending {
    on_ground(|ground| {
        let path = ground.context.roots.state.join("transcript.jsonl");
        Ground::put(&path, bytes);
        let tail = Tail::read(path.as_std_path()).expect("a file that was just written");
        let found = provider::of(kind).ending(&tail, &TimeZone::UTC);
        for window in &found.windows {
            assert!(
                (0.0..=100.0).contains(&window.remaining_percent),
                "{window:?}"
            );
        }
        assert!(
            found.windows_at.is_none() || !found.windows.is_empty(),
            "{found:?}"
        );
        assert!(found.reset.is_none() || found.limit.is_some(), "{found:?}");
        closing(kind, &tail);
        found
    })
}

/// How the last turn stands, and what it ran.
fn closing(kind: ProviderKind, tail: &Tail) -> Closing {
    let found = provider::of(kind).closing(tail);
    let said = found.answer.is_some() || found.is_stated;
    assert!(found.outcome.is_some() || !said, "{found:?}");
    if let Some(Outcome::Failed {
        word: Some(one), ..
    }) = &found.outcome
    {
        assert_eq!(word(one).as_ref(), Some(one));
    }
    let all = provider::of(kind).commands(tail, Timestamp::MIN);
    let none = provider::of(kind).commands(tail, Timestamp::MAX);
    assert!(none.is_empty() && all.iter().all(|one| !one.failed || one.status != Some(0)));
    found
}

/// The newest line that `is` admits, read without the product's own code.
fn newest(bytes: &[u8], is: impl Fn(&Value) -> bool) -> Option<Value> {
    let lines = bytes.rsplit(|byte| *byte == b'\n');
    let mut values = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    values.find(|value| is(value))
}

fn silent(kind: ProviderKind, lines: &[Value]) {
    let text: Vec<String> = lines.iter().map(Value::to_string).collect();
    let found = ending(kind, (text.join("\n") + "\n").as_bytes());
    assert_eq!(found.limit, None, "prose became a limit: {found:?}");
    assert_eq!(found.reset, None, "prose became a reset: {found:?}");
    assert!(!found.overage_used && found.windows.is_empty(), "{found:?}");
    on_ground(|ground| {
        let path = ground.context.roots.state.join("transcript.jsonl");
        let tail = Tail::read(path.as_std_path()).expect("a file that was just written");
        let found = closing(kind, &tail).outcome;
        assert!(
            matches!(found, None | Some(Outcome::Completed)),
            "prose ended a turn: {found:?}"
        );
    });
}

/// Claude's transcript: only the record of a failed request is a limit, whatever a worker or a tool prints.
pub fn transcript_claude(bytes: &[u8]) {
    let kind = ProviderKind::Claude;
    let found = ending(kind, bytes);
    let last = newest(bytes, |line| line["type"] == "assistant");
    let failed = last.is_some_and(|line| line["isApiErrorMessage"] == true);
    assert!(failed || found == Ending::default(), "{found:?}");
    let prose = String::from_utf8_lossy(bytes);
    silent(
        kind,
        &[
            json!({"type": "user", "isApiErrorMessage": true, "message": {"content": prose}}),
            json!({"type": "assistant", "message": {"content": [
                {"type": "text", "text": prose}, {"type": "tool_use", "input": {"command": prose}}]}}),
            json!({"type": "user", "toolUseResult": prose, "message": {"content": [
                {"type": "tool_result", "content": prose}]}}),
            json!({"type": "system", "content": prose}),
        ],
    );
}

/// Codex's rollout: only the end of a turn that failed is a limit.
pub fn transcript_codex(bytes: &[u8]) {
    let kind = ProviderKind::Codex;
    let found = ending(kind, bytes);
    let ends =
        |line: &Value| line["type"] == "event_msg" && line["payload"]["type"] == "task_complete";
    let last = newest(bytes, ends);
    let failed = last.is_some_and(|line| !line["payload"]["error"].is_null());
    assert!(failed || found.limit.is_none(), "{found:?}");
    let prose = String::from_utf8_lossy(bytes);
    let item = |payload: Value| json!({"type": "response_item", "payload": payload});
    let event = |payload: Value| json!({"type": "event_msg", "payload": payload});
    silent(
        kind,
        &[
            item(
                json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": prose}]}),
            ),
            item(json!({"type": "function_call_output", "output": prose})),
            event(json!({"type": "agent_message", "message": prose})),
            event(json!({"type": "user_message", "message": prose})),
            event(json!({"type": "error", "message": prose})),
            event(json!({"type": "task_complete", "last_agent_message": prose, "error": null})),
        ],
    );
}

/// A sentence names a reset that lies ahead of it and at most forty days, or none.
///
/// The first eight bytes are when it was said, the ninth the zone of whoever said it.
pub fn reset_text(bytes: &[u8]) {
    let Some((said, rest)) = bytes.split_first_chunk::<8>() else {
        return;
    };
    let Some((zone, text)) = rest.split_first() else {
        return;
    };
    let text = String::from_utf8_lossy(text);
    let span = Timestamp::MAX.as_second() - Timestamp::MIN.as_second();
    let any = i64::from_le_bytes(*said).rem_euclid(span) + Timestamp::MIN.as_second();
    let usual = 1_796_000_000 + i64::from_le_bytes(*said).rem_euclid(100_000_000);
    for said in [any, usual] {
        let said = Timestamp::from_second(said).expect("between the first and the last");
        let local = match zone % 5 {
            0 => TimeZone::UTC,
            1 => TimeZone::get("America/Santiago").unwrap_or(TimeZone::UTC),
            2 => TimeZone::get("Europe/Vienna").unwrap_or(TimeZone::UTC),
            3 => TimeZone::fixed(offset(14)),
            _ => TimeZone::unknown(),
        };
        let Some(reset) = reset::reset(&text, said, &local) else {
            continue;
        };
        let ahead = reset.at.duration_since(said);
        assert!(
            ahead > SignedDuration::ZERO && ahead <= LONGEST,
            "{text}: {ahead}"
        );
    }
}
