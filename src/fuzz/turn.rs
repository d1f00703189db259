//! What both CLIs print in a headless turn, as their workers' output files hold it.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use crate::fleet::turn::event::Event;
use crate::fleet::turn::handoff::{LONGEST, Past, handoff};
use crate::fleet::turn::reader::Reader;
use crate::fleet::turn::transcript::Transcript;
use crate::fleet::turn::{ExitFacts, Turn, judge};
use crate::id::ProviderKind;
use crate::snapshot::evidence::word;

const SAID: Timestamp = Timestamp::UNIX_EPOCH;

fn turn(kind: ProviderKind, bytes: &[u8]) -> Turn {
    let found = Turn::of(kind, bytes, SAID, &TimeZone::UTC);
    for window in &found.windows {
        let left = window.remaining_percent;
        assert!((0.0..=100.0).contains(&left), "{window:?}");
    }
    let mut words: Vec<&String> = found.denied.iter().collect();
    if let Some(failure) = &found.failure {
        assert!(
            failure.reset.is_none() || failure.limit.is_some(),
            "{found:?}"
        );
        words.push(&failure.word);
    }
    assert!(words.iter().all(|one| word(one).is_some()), "{found:?}");
    for exit in [
        ExitFacts::Status(0),
        ExitFacts::Status(1),
        ExitFacts::Unknown,
    ] {
        let ended = judge(exit, &found, None, false);
        let until = ended.held_until();
        assert!(until.is_none() || found.failure.is_some(), "{ended:?}");
    }
    found
}

/// Bytes that arrive one by one tell the same, and what is made of them for people is harmless and bounded.
fn shown(kind: ProviderKind, bytes: &[u8]) {
    let mut whole = Reader::new(kind, SAID, &TimeZone::UTC);
    let mut events = whole.feed(bytes);
    events.extend(whole.finish());
    let mut pieces = Reader::new(kind, SAID, &TimeZone::UTC);
    let mut again: Vec<Event> = Vec::new();
    for piece in bytes.chunks(7) {
        again.extend(pieces.feed(piece));
    }
    again.extend(pieces.finish());
    assert_eq!(events, again);
    let mut transcript = Transcript::new(kind, SAID, &TimeZone::UTC);
    let text = transcript.feed(bytes) + &transcript.finish();
    let mut past = Past::new(1, &String::from_utf8_lossy(bytes));
    for event in events {
        past.take(event);
    }
    let handed = handoff(&[past]);
    assert!(handed.len() <= LONGEST);
    let acts = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\t');
    assert!(!text.chars().chain(handed.chars()).any(acts), "{text}");
}

/// Whether some line of these bytes is such a record, read without the product's own code.
fn any(bytes: &[u8], is: impl Fn(&Value) -> bool) -> bool {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    lines.any(|line| {
        serde_json::from_str(&String::from_utf8_lossy(line)).is_ok_and(|line| is(&line))
    })
}

fn silent(kind: ProviderKind, lines: &[Value]) {
    for line in lines {
        let found = turn(kind, line.to_string().as_bytes());
        assert_eq!((&found.failure, found.end), (&None, None), "{line}");
        assert!(
            found.denied.is_empty() && found.windows.is_empty(),
            "{line}"
        );
    }
}

/// Claude's stream: only its own records end a turn, deny a tool or tell of a limit.
pub fn turn_claude(bytes: &[u8]) {
    let kind = ProviderKind::Claude;
    let found = turn(kind, bytes);
    let failed = |line: &Value| line["is_api_error_message"] == true || line["type"] == "result";
    assert!(found.failure.is_none() || any(bytes, failed), "{found:?}");
    let over = |line: &Value| line["type"] == "result";
    assert!(found.end.is_none() || any(bytes, over), "{found:?}");
    shown(kind, bytes);
    let prose = String::from_utf8_lossy(bytes);
    silent(
        kind,
        &[
            json!({"type": "assistant", "message": {"content": [{"type": "text", "text": prose},
                {"type": "tool_use", "name": "Bash", "input": {"command": prose}}]}}),
            json!({"type": "user", "message": {"content": [{"type": "tool_result", "content": prose}]}}),
            json!({"type": "system", "subtype": "hook_response", "stdout": prose}),
        ],
    );
}

/// Codex's events: only the end of a turn that failed is a failure.
pub fn turn_codex(bytes: &[u8]) {
    let kind = ProviderKind::Codex;
    let found = turn(kind, bytes);
    let failed = |line: &Value| line["type"] == "turn.failed";
    assert!(found.failure.is_none() || any(bytes, failed), "{found:?}");
    let over = |line: &Value| failed(line) || line["type"] == "turn.completed";
    assert!(found.end.is_none() || any(bytes, over), "{found:?}");
    shown(kind, bytes);
    let prose = String::from_utf8_lossy(bytes);
    let item = |item: Value| json!({"type": "item.completed", "item": item});
    silent(
        kind,
        &[
            item(json!({"type": "agent_message", "text": prose})),
            item(
                json!({"type": "command_execution", "command": prose, "aggregated_output": prose}),
            ),
            json!({"type": "error", "message": prose}),
        ],
    );
}
