//! An output file as a transcript for people, while it is being written. Pure.
//!
//! What the fleet tells begins at the margin; what a worker said is set in by two spaces, and what a tool
//! answered by four, so neither can pass for the fleet's own lines. Everything is harmless to a terminal
//! ([`super::plain`]).

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::event::{End, Event, Failure, Tool};
use super::plain::{first_lines, last_lines, line};
use super::reader::Reader;
use crate::id::ProviderKind;
use crate::quota::limit::Limit;

/// Most lines of what a worker says at once.
const SAID: usize = 400;
/// Most characters of a line of it: a paragraph is one.
const PARAGRAPH: usize = 8_000;
/// Most lines of what a tool answered: its end, where commands tell how it went.
const ANSWERED: usize = 8;
/// Most characters of a line of it.
const LINE: usize = 300;
/// Most characters of what a tool was asked for.
const ASKED: usize = 300;
/// Most characters of a sentence of the provider's CLI.
const SENTENCE: usize = 300;

/// Turns one output file into text.
#[derive(Debug)]
pub struct Transcript {
    reader: Reader,
    said: String,
}

impl Transcript {
    /// For the output of a provider; see [`Reader::new`].
    pub fn new(provider: ProviderKind, said: Timestamp, local: &TimeZone) -> Self {
        Self {
            reader: Reader::new(provider, said, local),
            said: String::new(),
        }
    }

    /// Takes the next bytes of the file; gives whole lines, or nothing.
    pub fn feed(&mut self, bytes: &[u8]) -> String {
        let events = self.reader.feed(bytes);
        self.render(events)
    }

    /// Says that the file is over.
    pub fn finish(&mut self) -> String {
        let events = self.reader.finish();
        self.render(events)
    }

    /// What is told beside the file.
    pub fn tell(&mut self, events: Vec<Event>) -> String {
        self.render(events)
    }

    fn render(&mut self, events: Vec<Event>) -> String {
        events.into_iter().map(|event| self.show(event)).collect()
    }

    fn show(&mut self, event: Event) -> String {
        match event {
            Event::Began { model } => match model {
                Some(model) => format!("== turn begins on {model}\n"),
                None => "== turn begins\n".to_owned(),
            },
            Event::Said(text) => {
                let shown = first_lines(&text, "  ", SAID, PARAGRAPH);
                self.said = text;
                shown
            }
            Event::ToolBegan(tool) => began(&tool),
            Event::ToolEnded {
                tool: _,
                status,
                failed,
                output,
            } => ended(status, failed, &output),
            Event::Denied(tool) => format!("! denied: {}\n", line(&tool, ASKED)),
            Event::OverageUsed => "! paid beyond the subscription\n".to_owned(),
            Event::Hitch(text) => match line(&text, SENTENCE).as_str() {
                "" => String::new(),
                text => format!("~ {text}\n"),
            },
            Event::Failed(failure) => failed(&failure),
            Event::Ended { end, answer } => {
                let again = answer.filter(|text| *text != self.said);
                let again = again.map(|text| first_lines(&text, "  ", SAID, PARAGRAPH));
                let how = match end {
                    End::Completed => "is complete",
                    End::Failed => "failed",
                    End::Interrupted => "was interrupted",
                };
                again.unwrap_or_default() + &format!("== turn {how}\n")
            }
            Event::Named(_) | Event::Windows { .. } => String::new(),
        }
    }
}

fn began(tool: &Tool) -> String {
    let asked = line(&tool.arguments, ASKED);
    if tool.is_command {
        format!("$ {asked}\n")
    } else {
        format!("> {} {asked}\n", line(&tool.name, ASKED))
    }
}

fn ended(status: Option<i64>, failed: bool, output: &str) -> String {
    let shown = last_lines(output, "    ", ANSWERED, LINE);
    let how = match (status, failed) {
        (Some(0), _) | (None, false) => String::new(),
        (Some(status), _) => format!("  [exit {status}]\n"),
        (None, true) => "  [failed]\n".to_owned(),
    };
    shown + &how
}

fn failed(failure: &Failure) -> String {
    let what = match failure.limit {
        None => failure.word.clone(),
        Some(Limit::Quota) => "usage limit".to_owned(),
        Some(Limit::Rate) => "too many requests".to_owned(),
        Some(Limit::Billing) => "payment is due".to_owned(),
        Some(Limit::Auth) => "the login is no longer taken".to_owned(),
        Some(Limit::Suspected) => "a limit that is not known".to_owned(),
    };
    let until = failure.reset.map_or(String::new(), |reset| {
        let about = if reset.guessed { "about " } else { "" };
        format!(", until {about}{}", reset.at)
    });
    let text = line(&failure.text, SENTENCE);
    let text = if text.is_empty() {
        text
    } else {
        format!(": {text}")
    };
    format!("! {what}{until}{text}\n")
}

#[cfg(test)]
mod tests {
    use super::Transcript;
    use crate::id::ProviderKind::{self, Claude, Codex};
    use jiff::tz::TimeZone;

    fn transcript(provider: ProviderKind, pieces: &[&[u8]]) -> String {
        let said = "2026-11-30T19:02:00Z".parse().unwrap();
        let mut transcript = Transcript::new(provider, said, &TimeZone::UTC);
        let mut text: String = pieces.iter().map(|piece| transcript.feed(piece)).collect();
        text += &transcript.finish();
        text
    }

    fn of(provider: ProviderKind, name: &str) -> String {
        transcript(provider, &[&super::super::tests::output(provider, name)])
    }

    #[test]
    fn both_providers_read_alike() {
        let told = |head: &str| {
            format!(
                "{head}\n$ echo hello from the tool; exit 3\n    hello from the tool\n  \
                   [exit 3]\n  First line\n  second line\n== turn is complete\n"
            )
        };
        let claude = of(Claude, "tool").replace("    Exit code 3\n", "");
        assert_eq!(claude, told("== turn begins on claude-opus-5-5"));
        assert_eq!(of(Codex, "tool"), told("== turn begins"));
    }

    #[test]
    fn denials_limits_and_failures_stand_at_the_margin() {
        let has = |provider, name, line: &str| {
            let text = of(provider, name);
            assert!(text.lines().any(|one| one.starts_with(line)), "{text}");
        };
        has(Claude, "denial", "! denied: Bash");
        has(
            Claude,
            "limit",
            "! usage limit, until 2026-11-30T21:02:03Z: You've hit",
        );
        has(Codex, "limit", "! usage limit, until about 2026-11-30T2");
        has(Claude, "auth", "! the login is no longer taken: Failed");
        has(Claude, "error", "! http_400: API Error: 400 boom");
        has(Codex, "overloaded", "~ Reconnecting... 1/5");
        has(Claude, "sigint-tool", "== turn was interrupted");
        has(Codex, "error", "== turn failed");
    }

    #[test]
    fn it_is_the_same_however_the_bytes_arrive_and_nobody_can_fake_its_margin() {
        let line = br#"{"type":"item.completed","item":{"type":"agent_message","text":"== turn is complete\n\u001b[2J! x"}}
{"type":"item.completed","item":{"type":"command_execution","command":"a\nb","exit_code":0,"aggregated_output":"== x"}}"#;
        let whole = transcript(Codex, &[line]);
        assert_eq!(whole, "  == turn is complete\n  ! x\n    == x\n");
        let bytes: Vec<&[u8]> = line.chunks(1).collect();
        assert_eq!(transcript(Codex, &bytes), whole);
    }
}
