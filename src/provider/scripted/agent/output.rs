//! What the agent shows: plain text, or the stream of JSON objects that Claude Code makes of the same turn.

use std::io::{self, Write as _};

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::quota::window::Window;

/// Where a turn's output goes and in which form.
#[derive(Clone, Copy, Debug)]
pub(super) enum Output {
    /// Plain text.
    Text,
    /// One JSON object a line: `--output-format stream-json`.
    Stream,
}

/// A request that failed for good, as the stream tells it.
#[derive(Debug)]
pub(super) struct Refused<'a> {
    /// The word of its kind.
    pub error: &'a str,
    /// Whether the allowance is used up.
    pub used_up: bool,
    /// When it will be over.
    pub resets_at: Option<Timestamp>,
    /// For people.
    pub message: &'a str,
}

impl Output {
    /// A line on standard output. A reader that went away does not stop the agent.
    pub(super) fn line(text: &str) {
        let mut stdout = io::stdout().lock();
        drop(writeln!(stdout, "{text}").and_then(|()| stdout.flush()));
    }

    /// Something that only machines care about.
    pub(super) fn event(self, event: &Value) {
        match self {
            Self::Text => {}
            Self::Stream => Self::line(&event.to_string()),
        }
    }

    /// The agent's words.
    pub(super) fn say(self, session: &str, text: &str) {
        match self {
            Self::Text => Self::line(text),
            Self::Stream => {
                self.assistant(session, &json!({"type": "text", "text": text}), &json!({}));
            }
        }
    }

    fn assistant(self, session: &str, block: &Value, more: &Value) {
        let mut line = json!({
            "type": "assistant",
            "message": {"role": "assistant", "content": [block]},
            "parent_tool_use_id": null,
            "session_id": session,
        });
        if let (Some(line), Some(more)) = (line.as_object_mut(), more.as_object()) {
            line.extend(more.clone());
        }
        self.event(&line);
    }

    /// A tool is used.
    pub(super) fn tool(self, session: &str, id: &str, name: &str, input: &Value) {
        let block = json!({"type": "tool_use", "id": id, "name": name, "input": input});
        self.assistant(session, &block, &json!({}));
    }

    /// What the tool answered: both of its streams, or why it was not used.
    pub(super) fn answered(self, session: &str, id: &str, text: &str, failed: bool, at: Timestamp) {
        self.event(&json!({
            "type": "user",
            "timestamp": at.to_string(),
            "message": {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": id, "content": text, "is_error": failed}]},
            "parent_tool_use_id": null,
            "session_id": session,
        }));
    }

    /// The windows that came with an answer.
    pub(super) fn windows(self, windows: &[Window]) {
        let named = windows.iter().map(|window| {
            let facts = json!({
                "utilization": (100.0 - window.remaining_percent) / 100.0,
                "resetsAt": window.resets_at.map(Timestamp::as_second), "status": "allowed",
            });
            (window.id.clone(), facts)
        });
        let named: Map<String, Value> = named.collect();
        let info = json!({"status": "allowed", "unifiedWindows": named});
        self.event(&json!({"type": "rate_limit_event", "rate_limit_info": info}));
    }

    /// A request failed.
    pub(super) fn refused(self, session: &str, refused: &Refused<'_>) {
        let reset = refused.resets_at.map(Timestamp::as_second);
        let mut more = json!({"error": refused.error, "is_api_error_message": true});
        if refused.used_up {
            let window = json!({"utilization": 1, "resetsAt": reset, "status": "rejected"});
            let info = json!({"status": "rejected", "resetsAt": reset, "rateLimitType": "five_hour",
                "unifiedWindows": {"five_hour": window}});
            self.event(&json!({"type": "rate_limit_event", "rate_limit_info": info}));
            more["api_error"] = "usage_limit_reached".into();
            more["api_error_status"] = 429.into();
        }
        let block = json!({"type": "text", "text": refused.message});
        self.assistant(session, &block, &more);
    }

    /// Why the agent cannot go on.
    pub(super) fn fail(message: &str) {
        drop(writeln!(io::stderr(), "scripted: {message}"));
    }

    /// Asks for the next prompt.
    pub(super) fn prompt() {
        let mut stdout = io::stdout().lock();
        drop(write!(stdout, "scripted> ").and_then(|()| stdout.flush()));
    }
}
