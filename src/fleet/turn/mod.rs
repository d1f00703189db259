//! One turn of a worker: how it is asked for, and what tells of it afterwards: its output file, or where it has the
//! provider's own screen its hooks and its transcript ([`told`]).
//!
//! A turn's end is judged from three things alone: how the process ended, what tells of it, and the report; never
//! from a screen, and never from what a worker or a tool printed.
//!
//! Guarantees: any bytes can be read, in bounded memory; what is not known is `None`, never a guess.
//! Limits: what a provider's CLI leaves out of its output is not known here; `codex.rs` says what that is.

pub mod arguments;
mod claude;
mod codex;
pub mod event;
pub mod handoff;
pub mod judge;
pub mod kept;
pub mod lines;
pub mod plain;
pub mod reader;
pub mod told;
pub mod transcript;

#[cfg(test)]
mod tests;

use std::io;

use camino::Utf8Path;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use self::event::{End, Event, Failure};
use self::reader::Reader;
use crate::clock::Clock;
use crate::id::ProviderKind;
use crate::provider;
use crate::provider::home::conversation::Tail;
use crate::quota::limit::{Ending, Limit};
use crate::quota::window::Window;
use crate::withheld::withhold;

pub use self::arguments::{arguments, permissions, pointer};
pub use self::claude::{NO_CONVERSATION, UNNAMED};
pub use self::judge::{Ended, ExitFacts, FailedBy, judge};

/// Longest final answer that is kept, in bytes; what is beyond is cut off, and said to be.
pub const ANSWER: usize = 1 << 20;
/// Most names of denied tools.
const DENIED: usize = 64;

/// What is told of a turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turn {
    /// The provider's conversation.
    pub session: Option<String>,
    /// The final answer; blank ones are none.
    pub answer: Option<String>,
    /// Tools that were not allowed to work, each once, in order.
    pub denied: Vec<String>,
    /// What it failed by.
    pub failure: Option<Failure>,
    /// The account's windows as the server sent them last.
    pub windows: Vec<Window>,
    /// When it did. `None` beside windows: with its first answer, so when the process was started is near
    /// and not too late.
    pub windows_at: Option<Timestamp>,
    /// A request was answered beyond the subscription, and is paid for.
    pub overage_used: bool,
    /// How it ended; `None` when nothing says that it did.
    pub end: Option<End>,
}

impl Turn {
    /// Reads an output file.
    pub fn read(
        provider: ProviderKind,
        output: &Utf8Path,
        clock: &Clock,
        local: &TimeZone,
    ) -> io::Result<Self> {
        let mut turn = Self::default();
        reader::file(provider, output, clock, local, |event| turn.take(event))?;
        Ok(turn)
    }

    /// The same from bytes that were read already.
    pub fn of(provider: ProviderKind, output: &[u8], said: Timestamp, local: &TimeZone) -> Self {
        let mut reader = Reader::new(provider, said, local);
        let mut turn = Self::default();
        let mut events = reader.feed(output);
        events.extend(reader.finish());
        for event in events {
            turn.take(event);
        }
        turn
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Named(session) => self.session = Some(session),
            Event::Began { .. } => {
                self.end = None;
                self.failure = None;
                self.answer = None;
            }
            Event::Said(text) => self.say(&text),
            Event::Denied(tool) => {
                if self.denied.len() < DENIED && !self.denied.contains(&tool) {
                    self.denied.push(tool);
                }
            }
            Event::Windows { windows, at } => {
                self.windows = windows;
                self.windows_at = at;
            }
            Event::OverageUsed => self.overage_used = true,
            Event::Failed(failure) => self.failure = Some(failure),
            Event::Ended { end, answer } => {
                self.end = Some(end);
                if let Some(answer) = answer {
                    self.say(&answer);
                }
            }
            Event::ToolBegan(_) | Event::ToolEnded { .. } | Event::Hitch(_) => {}
        }
    }

    fn say(&mut self, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        let end = text.floor_char_boundary(ANSWER);
        let mut kept = text.get(..end).unwrap_or_default().to_owned();
        if end < text.len() {
            kept.push_str("\n[cut off here]\n");
        }
        self.answer = Some(kept);
    }

    /// Sharpens a failed turn by what the end of its transcript says, which is more exact: the limit's reset
    /// for Codex, and the windows. `began` is when the turn's process was started: an older record is not
    /// this turn's.
    pub fn refine(&mut self, ending: &Ending, began: Timestamp) {
        let is_own = |at: Option<Timestamp>| at.is_some_and(|at| at >= began);
        if is_own(ending.windows_at) && self.windows.is_empty() {
            self.windows.clone_from(&ending.windows);
            self.windows_at = ending.windows_at;
        }
        let Some(failure) = self.failure.as_mut().filter(|_| is_own(ending.at)) else {
            return;
        };
        self.overage_used |= ending.overage_used;
        failure.limit = ending.limit.or(failure.limit);
        if failure.limit == Some(Limit::Quota) {
            let exact = ending.reset.filter(|reset| !reset.guessed);
            failure.reset = exact.or(failure.reset).or(ending.reset);
        }
    }

    /// The same from the conversation's transcript in the home of the account that it ran on; nothing when
    /// there is none. `known` is the conversation that it went on with, for a turn that names none.
    pub fn refine_by_transcript(
        &mut self,
        provider: ProviderKind,
        home: &Utf8Path,
        workspace: &Utf8Path,
        known: Option<&str>,
        began: Timestamp,
        local: &TimeZone,
    ) {
        let provider = provider::of(provider);
        let session = self.session.as_deref().or(known);
        let path = session.and_then(|session| provider.transcript(home, workspace, session));
        let tail = path.and_then(|path| Tail::read(&path).ok());
        if let Some(tail) = tail {
            self.refine(&provider.ending(&tail, local), began);
        }
    }

    /// The limit that it ended on.
    pub fn limit(&self) -> Option<Limit> {
        self.failure.as_ref()?.limit
    }

    /// The final answer without what looks like a token, a key or an address: for files that other workers read.
    pub fn safe_answer(&self) -> Option<String> {
        self.answer
            .as_deref()
            .map(|text| withhold(text).into_owned())
    }
}
