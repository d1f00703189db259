//! What a worker in a new conversation is told of the launches before it. Pure but for reading their output.
//!
//! Derived from their output files alone: what was asked, what they said last, and which commands ended how.
//! It is at most [`LONGEST`] bytes, the newest launch first; older ones are left out whole, and said to be.
//! What workers said is quoted line by line and harmless ([`super::plain`]).

use std::collections::VecDeque;
use std::io;

use camino::Utf8Path;
use jiff::tz::TimeZone;

use super::event::{End, Event};
use super::kept::Kept;
use super::plain::{first_lines, last_lines, line};
use super::reader;
use crate::clock::Clock;
use crate::id::ProviderKind;

/// Longest handoff, in bytes.
pub const LONGEST: usize = 32 << 10;
/// Most commands of one launch: the last ones.
const COMMANDS: usize = 40;
/// Most characters of a command.
const COMMAND: usize = 200;
/// Most lines of what was asked, and of what was said last.
const LINES: usize = 60;
/// Most bytes of either.
const TEXT: usize = 6 << 10;

/// How every handoff begins.
pub const BEGINNING: &str =
    "You continue work that others began: do not redo it. Read the diff and this handoff first.";

/// One launch that came before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Past {
    number: u32,
    asked: String,
    said: Option<String>,
    commands: VecDeque<String>,
    left_out: usize,
    end: Option<End>,
    failure: Option<String>,
}

impl Past {
    /// A launch by its number and the text that it was asked with, nothing of its output read yet.
    pub fn new(number: u32, asked: &str) -> Self {
        Self {
            number,
            asked: asked.to_owned(),
            ..Self::default()
        }
    }

    /// Reads its output file; none is no error, since a launch may have been refused.
    pub fn read(
        mut self,
        provider: ProviderKind,
        output: &Utf8Path,
        clock: &Clock,
        local: &TimeZone,
    ) -> io::Result<Self> {
        let read = reader::file(provider, output, clock, local, |event| self.take(event));
        match read {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(self),
        }
    }

    /// Takes what was kept of a turn on a screen, whose output nobody has.
    #[must_use]
    pub fn kept(mut self, kept: Kept) -> Self {
        for event in kept.events() {
            self.take(event);
        }
        self
    }

    /// Takes what its output tells next.
    pub fn take(&mut self, event: Event) {
        match event {
            Event::Said(text) => self.said = Some(text),
            Event::ToolEnded {
                tool,
                status,
                failed,
                output: _,
            } if tool.is_command => {
                let how = match (status, failed) {
                    (Some(status), _) => format!("exit {status}"),
                    (None, true) => "failed".to_owned(),
                    (None, false) => "ended".to_owned(),
                };
                if self.commands.len() == COMMANDS {
                    self.commands.pop_front();
                    self.left_out += 1;
                }
                let command = line(&tool.arguments, COMMAND);
                self.commands.push_back(format!("    {how:<8} {command}\n"));
            }
            Event::Failed(failure) => {
                let limit = failure.limit.map(|limit| limit.word().to_owned());
                self.failure = Some(limit.unwrap_or(failure.word));
            }
            Event::Ended { end, answer } => {
                self.end = Some(end);
                self.said = answer.or(self.said.take());
            }
            Event::Began { .. } => self.end = None,
            Event::ToolEnded { .. }
            | Event::ToolBegan(_)
            | Event::Named(_)
            | Event::Denied(_)
            | Event::Windows { .. }
            | Event::OverageUsed
            | Event::Hitch(_) => {}
        }
    }

    fn text(&self) -> String {
        let how = match (self.end, &self.failure) {
            (_, Some(word)) => format!("failed: {word}"),
            (Some(End::Completed), None) => "came to its end".to_owned(),
            (Some(End::Failed), None) => "failed".to_owned(),
            (Some(End::Interrupted), None) => "was interrupted".to_owned(),
            (None, None) => "was cut off".to_owned(),
        };
        let mut text = format!("\n## Launch {}, which {how}\n", self.number);
        if !self.asked.trim().is_empty() {
            text += "\nIt was asked:\n\n";
            text += &first_lines(head(&self.asked), "> ", LINES, TEXT);
        }
        if !self.commands.is_empty() {
            text += "\nCommands that it ran";
            if self.left_out > 0 {
                let left_out = format!(" ({} earlier ones are left out)", self.left_out);
                text += &left_out;
            }
            text += ":\n\n";
            text.extend(self.commands.iter().map(String::as_str));
        }
        match &self.said {
            Some(said) if !said.trim().is_empty() => {
                text += "\nIt said last:\n\n";
                text += &last_lines(tail(said), "> ", LINES, TEXT);
            }
            Some(_) | None => text += "\nIt said nothing.\n",
        }
        text
    }
}

fn head(text: &str) -> &str {
    text.get(..text.floor_char_boundary(TEXT))
        .unwrap_or_default()
}

fn tail(text: &str) -> &str {
    let from = text.len().saturating_sub(TEXT);
    text.get(text.ceil_char_boundary(from)..)
        .unwrap_or_default()
}

/// The handoff from launches in the order in which they were made.
pub fn handoff(past: &[Past]) -> String {
    let mut text = format!("{BEGINNING}\n");
    let note = |left: usize| format!("\n{left} earlier launches are left out.\n");
    let room = LONGEST - note(usize::MAX).len();
    for (index, launch) in past.iter().enumerate().rev() {
        let more = launch.text();
        if text.len() + more.len() > room {
            text += &note(index + 1);
            break;
        }
        text += &more;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{BEGINNING, LONGEST, Past, handoff};
    use crate::fleet::turn::reader::Reader;
    use crate::fleet::turn::tests::output;
    use crate::id::ProviderKind::{self, Claude, Codex};
    use jiff::tz::TimeZone;

    fn past(number: u32, asked: &str, provider: ProviderKind, bytes: &[u8]) -> Past {
        let mut past = Past::new(number, asked);
        let said = "2026-11-30T19:02:00Z".parse().unwrap();
        let mut reader = Reader::new(provider, said, &TimeZone::UTC);
        let mut events = reader.feed(bytes);
        events.extend(reader.finish());
        for event in events {
            past.take(event);
        }
        past
    }

    #[test]
    fn it_tells_what_was_asked_done_and_said_newest_first() {
        let first = past(
            1,
            "Fix the lexer\nand test it",
            Claude,
            &output(Claude, "tool"),
        );
        let second = past(2, "go on", Codex, &output(Codex, "limit"));
        let text = handoff(&[first, second]);
        assert_eq!(text.lines().next(), Some(BEGINNING));
        for part in [
            "## Launch 2, which failed: quota",
            "It said nothing.",
            "## Launch 1, which came to its end",
            "> Fix the lexer\n> and test it\n",
            "    exit 3   echo hello from the tool; exit 3\n",
            "> First line\n> second line\n",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert!(text.find("Launch 2") < text.find("Launch 1"));
    }

    #[test]
    fn it_is_bounded_whatever_was_done() {
        let said = "word ".repeat(5_000);
        let mut lines = String::new();
        for number in 0..200 {
            let command = serde_json::json!({"type": "item.completed", "item": {"type": "command_execution",
                    "command": format!("{number} {said}"), "exit_code": number}});
            lines += &command.to_string();
            lines.push('\n');
        }
        lines += &serde_json::json!({"type": "item.completed", "item": {"type": "agent_message", "text": said}}).to_string();
        let one = past(30, &said, Codex, lines.as_bytes());
        let many = vec![one; 30];
        let text = handoff(&many);
        assert!(text.len() <= LONGEST, "{}", text.len());
        assert!(text.contains("Launch 30, which was cut off"), "{text}");
        assert!(text.contains("(160 earlier ones are left out)"));
        assert!(text.ends_with(" earlier launches are left out.\n"));
        assert_eq!(handoff(&[]), format!("{BEGINNING}\n"));
    }
}
