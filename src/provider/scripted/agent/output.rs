//! What the agent shows: plain text, or one JSON object a line.

use std::io::{self, Write as _};

use serde_json::{Value, json};

/// Where a turn's output goes and in which form.
#[derive(Debug)]
pub(super) enum Output {
    /// Plain text.
    Text,
    /// One JSON object a line: `--output-format stream-json`.
    Stream,
}

impl Output {
    /// A reader that went away does not stop the agent.
    fn line(text: &str) {
        let mut stdout = io::stdout().lock();
        drop(writeln!(stdout, "{text}").and_then(|()| stdout.flush()));
    }

    /// Something that only machines care about.
    pub(super) fn event(&self, event: &Value) {
        match self {
            Self::Text => {}
            Self::Stream => Self::line(&event.to_string()),
        }
    }

    /// The agent's words.
    pub(super) fn say(&self, text: &str) {
        match self {
            Self::Text => Self::line(text),
            Self::Stream => Self::line(&json!({"type": "assistant", "text": text}).to_string()),
        }
    }

    /// Why the agent cannot go on.
    pub(super) fn fail(&self, message: &str) {
        self.event(&json!({"type": "error", "message": message}));
        drop(writeln!(io::stderr(), "scripted: {message}"));
    }

    /// Asks for the next prompt.
    pub(super) fn prompt() {
        let mut stdout = io::stdout().lock();
        drop(write!(stdout, "scripted> ").and_then(|()| stdout.flush()));
    }
}
