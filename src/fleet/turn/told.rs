//! What a turn on the provider's own screen tells: its hooks' events and the end of its transcript, and nothing else.
//!
//! Nobody looks at the screen. An event says when to look and what is asked; what is true of the turn's end stands in
//! the transcript. [`draw`] is pure; [`read`] reads.
//!
//! Limits: what a rule of the provider's settings denies is not told apart from a tool that failed, so no denial is
//! known of a turn on a screen. A last line that only looks like the end is taken for it after [`HOOKS_PATIENCE`].

use std::path::PathBuf;
use std::time::Duration;

use camino::Utf8PathBuf;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::Turn;
use super::claude::UNNAMED;
use super::event::{End, Failure};
use crate::env::Context;
use crate::error::Result;
use crate::fleet::files::{LaunchFiles, names};
use crate::fleet::launch::LaunchRecord;
use crate::fleet::launch::observe::receipt;
use crate::id::ProviderKind;
use crate::provider;
use crate::provider::closing::{Command, Outcome};
use crate::provider::home::conversation::{Tail, lies_in};
use crate::quota::limit::Limit;
use crate::snapshot::evidence::{Event, Kind};
use crate::store::read as bytes;
use crate::sys::filesystem::Identity;

/// How long a CLI may take to begin, once the broker let it, before the lead is told: it shows a question that no hook
/// tells of, as about trust, a login or an update.
pub const START_PATIENCE: Duration = Duration::from_secs(20);
/// How long the hooks of a turn's end may take where the transcript does not say that they are over: they may send the
/// worker back to work. Claude Code lets one take ten minutes.
pub const HOOKS_PATIENCE: Duration = Duration::from_mins(10);
/// How long the record of a failed request may take to be written after the event that told of it.
pub const RECORD_PATIENCE: Duration = Duration::from_secs(5);

/// What is known of a turn on a screen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Told {
    /// When the broker let the provider's CLI begin; `None` before.
    pub since: Option<Timestamp>,
    /// Whether the CLI began to work.
    pub began: bool,
    /// Which permission is asked for and not answered yet: the first of the launch is 1.
    pub asked: Option<usize>,
    /// The shell commands of the turn that have ended, in order.
    pub commands: Vec<Command>,
    /// What it came to; its `end` is `None` while it goes on.
    pub turn: Turn,
    /// From when the turn's process may be ended: any time that is past where it is certain that the turn is over.
    pub over: Option<Timestamp>,
}

impl Told {
    /// Whether the CLI waits for something before it begins.
    pub fn is_start_blocked(&self, now: Timestamp) -> bool {
        let begins = self.since.map(|since| after(since, START_PATIENCE));
        !self.began && begins.is_some_and(|by| by <= now)
    }

    /// Whether the turn is over for good.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.over.is_some_and(|over| over <= now)
    }
}

fn after(at: Timestamp, span: Duration) -> Timestamp {
    at.checked_add(span).unwrap_or(Timestamp::MAX)
}

/// Reads what a launch tells. What cannot be read tells nothing.
pub fn read(context: &Context, files: &LaunchFiles, launch: &LaunchRecord) -> Told {
    let events = events(files);
    let home = Home::of(context, files);
    let transcript = home
        .as_ref()
        .and_then(|home| home.transcript(&events, launch));
    drawn(home.as_ref(), files, launch, &events, transcript)
}

fn drawn(
    home: Option<&Home>,
    files: &LaunchFiles,
    launch: &LaunchRecord,
    events: &[Event],
    transcript: Option<PathBuf>,
) -> Told {
    let tail = transcript.and_then(|path| Tail::read(&path).ok());
    let tail = home.and_then(|home| Some((home.provider, tail?)));
    let tail = tail.as_ref().map(|(provider, tail)| (*provider, tail));
    let since = home.and_then(|_| written(files));
    draw(events, tail, since, launch.at, &TimeZone::system())
}

/// When the broker's answer was written.
fn written(files: &LaunchFiles) -> Option<Timestamp> {
    let found = identity(&files.receipt().into_std_path_buf())?;
    Timestamp::from_nanosecond(found.modified).ok()
}

fn identity(path: &std::path::Path) -> Option<Identity> {
    path.metadata().ok().as_ref().map(Identity::from)
}

/// The hooks' events of a launch, oldest first.
fn events(files: &LaunchFiles) -> Vec<Event> {
    let directory = files.events().join("new");
    let names = names(&directory).unwrap_or_default();
    let mut found: Vec<Event> = names
        .iter()
        .filter_map(|name| bytes::optional(directory.join(name)).ok()?)
        .filter_map(|line| serde_json::from_slice(&line).ok())
        .collect();
    found.retain(|event| !event.foreign);
    found.sort_by_key(|event| (event.at, event.boot));
    found
}

/// Where the launch's account has its conversations.
#[derive(Debug)]
struct Home {
    provider: ProviderKind,
    path: Utf8PathBuf,
}

impl Home {
    /// Of the account that the broker gave; `None` before, or when the account is not known any more.
    fn of(context: &Context, files: &LaunchFiles) -> Option<Self> {
        let receipt = receipt(files).ok()??;
        let id = receipt.profile.filter(|_| receipt.ok)?;
        let registry = crate::snapshot::registry::load(context).ok()?;
        let profile = registry.profile(&id).ok()?;
        Some(Self {
            provider: profile.provider,
            path: profile.home.clone(),
        })
    }

    /// The transcript of the conversation that the events name last.
    fn transcript(&self, events: &[Event], launch: &LaunchRecord) -> Option<PathBuf> {
        let last = events.iter().rev().find(|event| event.session.is_some())?;
        let named = last.transcript.as_ref();
        let named = named.filter(|path| lies_in(path, &self.path) && path.is_file());
        if let Some(path) = named {
            return Some(path.clone().into_std_path_buf());
        }
        let session = last.session.as_deref()?;
        provider::of(self.provider).transcript(&self.path, &launch.workspace, session)
    }
}

/// Draws the conclusion. What was written before the last prompt is another turn's, and where no event tells of a prompt,
/// what was written before `launched`.
pub fn draw(
    events: &[Event],
    transcript: Option<(ProviderKind, &Tail)>,
    since: Option<Timestamp>,
    launched: Timestamp,
    local: &TimeZone,
) -> Told {
    let newest = |wanted: &dyn Fn(Kind) -> bool| events.iter().rev().find(|one| wanted(one.event));
    let asked_at = newest(&|kind| kind == Kind::PromptSubmit).map(|event| event.at);
    let from = asked_at.unwrap_or(launched);
    let last = newest(&|kind| kind == Kind::PromptSubmit || kind.ends_turn());
    let closing = transcript.map(|(kind, tail)| provider::of(kind).closing(tail));
    let closing = closing.unwrap_or_default();
    let is_own = |at: Option<Timestamp>| at.is_some_and(|at| at >= from);
    let mut told = Told {
        since,
        began: newest(&begins).is_some(),
        asked: None,
        commands: Vec::new(),
        turn: Turn {
            session: events.iter().rev().find_map(|event| event.session.clone()),
            ..Turn::default()
        },
        over: None,
    };
    let outcome = closing.outcome.filter(|_| is_own(closing.at));
    let answer = closing.answer.filter(|_| is_own(closing.at));
    let ended = last.filter(|event| event.event.ends_turn());
    let failed_at = ended
        .filter(|event| event.event == Kind::StopFailure)
        .map(|event| event.at);
    let later = |at: Option<Timestamp>, span| at.map(|at| after(at, span));
    let known = match (outcome, failed_at) {
        (Some(outcome), _) if closing.is_stated => Some((outcome, Some(from))),
        (Some(outcome @ Outcome::Failed { .. }), Some(_)) => Some((outcome, Some(from))),
        (Some(outcome @ Outcome::Failed { .. }), None) => {
            Some((outcome, later(closing.at, HOOKS_PATIENCE)))
        }
        (_, Some(at)) => {
            let word = ended.and_then(|event| event.reason.clone());
            let text = String::new();
            Some((
                Outcome::Failed { word, text },
                later(Some(at), RECORD_PATIENCE),
            ))
        }
        (Some(outcome), None) => {
            // Words without a word of their end: the worker may go on to a tool.
            ended.map(|event| (outcome, later(Some(event.at), HOOKS_PATIENCE)))
        }
        (None, None) => None,
    };
    if let Some((outcome, over)) = known {
        told.over = over;
        told.conclude(outcome, answer);
    }
    if let Some((kind, tail)) = transcript {
        let ending = provider::of(kind).ending(tail, local);
        told.turn.refine(&ending, from);
        told.commands = provider::of(kind).commands(tail, from);
    }
    let asks = events
        .iter()
        .filter(|one| one.event == Kind::PermissionRequest);
    let open = asks.clone().next_back().is_some_and(|ask| {
        told.turn.end.is_none() && ask.at >= from && closing.acted.is_none_or(|at| at < ask.at)
    });
    told.asked = open.then(|| asks.count());
    told
}

/// Whether an event only comes once the CLI works.
fn begins(kind: Kind) -> bool {
    match kind {
        Kind::SessionStart
        | Kind::PromptSubmit
        | Kind::Stop
        | Kind::StopFailure
        | Kind::PermissionRequest
        | Kind::TurnEnd => true,
        Kind::SessionEnd | Kind::Notification | Kind::Windows => false,
    }
}

impl Told {
    fn conclude(&mut self, outcome: Outcome, answer: Option<String>) {
        if let Some(answer) = answer {
            self.turn.say(&answer);
        }
        self.turn.end = Some(match outcome {
            Outcome::Completed => End::Completed,
            Outcome::Interrupted => End::Interrupted,
            Outcome::Failed { word, text } => {
                self.turn.failure = Some(Failure {
                    limit: word.as_deref().and_then(Limit::of_word),
                    reset: None,
                    word: word.unwrap_or_else(|| UNNAMED.to_owned()),
                    text,
                });
                End::Failed
            }
        });
    }
}

/// Who looks again only when something has changed: the host of a turn on a screen.
#[derive(Debug)]
pub struct Listener<'a> {
    files: &'a LaunchFiles,
    launch: &'a LaunchRecord,
    home: Option<Home>,
    transcript: Option<PathBuf>,
    seen: Option<Seen>,
    told: Told,
    news: News,
}

/// What a look costs little to compare.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    events: usize,
    receipt: Option<Identity>,
    transcript: Option<Identity>,
}

/// What the lead has to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct News {
    start_blocked: bool,
    asked: Option<usize>,
}

/// What a listener heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Nothing that anybody has to know.
    Nothing,
    /// The run's records are to be brought up to date: it cannot begin, began after all, or a permission is asked for or
    /// was answered.
    News,
    /// The turn is over, and its process may be ended.
    Over,
}

impl<'a> Listener<'a> {
    /// Of this launch.
    pub fn new(files: &'a LaunchFiles, launch: &'a LaunchRecord) -> Self {
        Self {
            files,
            launch,
            home: None,
            transcript: None,
            seen: None,
            told: Told::default(),
            news: News::default(),
        }
    }

    /// Looks again; a few looks at names and sizes when nothing has changed.
    pub fn hear(&mut self, context: &Context) -> Result<Heard> {
        let seen = Seen {
            events: names(&self.files.events().join("new"))?.len(),
            receipt: identity(self.files.receipt().as_std_path()),
            transcript: self.transcript.as_deref().and_then(identity),
        };
        if self.seen.as_ref() != Some(&seen) {
            self.look(context, &seen);
            self.seen = Some(seen);
        }
        let now = context.clock.now();
        if self.told.is_over(now) {
            return Ok(Heard::Over);
        }
        let news = News {
            start_blocked: self.told.is_start_blocked(now),
            asked: self.told.asked,
        };
        if news == self.news {
            return Ok(Heard::Nothing);
        }
        self.news = news;
        Ok(Heard::News)
    }

    fn look(&mut self, context: &Context, seen: &Seen) {
        let events = events(self.files);
        if self.home.is_none() {
            self.home = Home::of(context, self.files);
        }
        let before = self.seen.as_ref().map(|before| before.events);
        if self.transcript.is_none() || before != Some(seen.events) {
            let home = self.home.as_ref();
            self.transcript = home.and_then(|home| home.transcript(&events, self.launch));
        }
        let transcript = self.transcript.clone();
        self.told = drawn(
            self.home.as_ref(),
            self.files,
            self.launch,
            &events,
            transcript,
        );
    }
}

#[cfg(test)]
#[path = "told_tests.rs"]
mod tests;
