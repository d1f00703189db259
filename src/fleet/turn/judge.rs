//! What a turn's end means for its worker. Pure.
//!
//! Success is a claim that needs everything at once: the provider's own last word that the turn was
//! completed, an exit status of 0 or one that nobody could see, no denied tool, and a report or a final
//! answer. Claude ends with status 0 and `success` when its tools were denied and when it was interrupted,
//! and Codex ends with 1 for a limit and for SIGINT alike, so neither the status nor the last word is enough.

use jiff::Timestamp;

use super::Turn;
use super::claude::NO_CONVERSATION;
use super::event::{End, Failure};
use crate::quota::limit::{Limit, Reset};

/// SIGINT: how a turn is interrupted.
const SIGINT: i32 = 2;
/// A status above this is how a CLI that catches a signal tells of it.
const BY_SIGNAL: i32 = 128;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitFacts {
    /// By itself, with this status.
    Status(i32),
    /// By this signal.
    Signal(i32),
    /// It is gone, and nobody saw how.
    Unknown,
}

/// What a turn's end means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It did what it was asked for, and says so.
    Succeeded,
    /// A limit ended it; until when, where it is known.
    Limited {
        /// Which kind; never [`Limit::Auth`].
        kind: Limit,
        /// When it is over; never for [`Limit::Billing`], which a person ends.
        until: Option<Reset>,
    },
    /// It came to its end without what these tools would have done.
    Denied {
        /// The tools, as the provider calls them.
        tools: Vec<String>,
    },
    /// Somebody interrupted or stopped it before its end.
    Interrupted,
    /// It failed.
    Failed {
        /// By what.
        by: FailedBy,
        /// One safe word more: the provider's own for a failed request, `status_N` or `signal_N`.
        detail: Option<String>,
    },
}

impl Ended {
    /// Until when nothing is to be expected of the account, where that is known.
    pub fn held_until(&self) -> Option<Timestamp> {
        match self {
            Self::Limited { until, .. } => until.map(|reset| reset.at),
            Self::Succeeded | Self::Denied { .. } | Self::Interrupted | Self::Failed { .. } => None,
        }
    }
}

/// What a turn failed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailedBy {
    /// The server no longer takes the login.
    LoginLost,
    /// The conversation that was to be continued is not there.
    SessionLost,
    /// A request failed for good.
    Request,
    /// A signal that nobody here sent ended the process.
    Killed,
    /// The process ended with another status than 0 after all was said.
    Status,
    /// The output stops before the turn's end.
    Unfinished,
    /// It came to its end and left neither report nor answer.
    Silent,
}

impl FailedBy {
    /// Every one of them.
    pub const ALL: [Self; 7] = [
        Self::LoginLost,
        Self::SessionLost,
        Self::Request,
        Self::Killed,
        Self::Status,
        Self::Unfinished,
        Self::Silent,
    ];

    /// The reason word.
    pub fn word(self) -> &'static str {
        match self {
            Self::LoginLost => "login_lost",
            Self::SessionLost => "session_lost",
            Self::Request => "request_failed",
            Self::Killed => "killed",
            Self::Status => "exit_status",
            Self::Unfinished => "turn_unfinished",
            Self::Silent => "no_answer",
        }
    }
}

/// Judges a turn. `report` is the text of the report that it left, `stop_asked` whether this process was
/// asked to end.
///
/// Evidence of a limit or a lost login comes first, since it is true of the account whatever else happened;
/// a turn that was completed before a stop reached it is judged as if none had been asked for.
pub fn judge(exit: ExitFacts, turn: &Turn, report: Option<&str>, stop_asked: bool) -> Ended {
    if let Some(failure) = &turn.failure
        && let Some(ended) = by_account(failure)
    {
        return ended;
    }
    match turn.end {
        Some(End::Interrupted) => Ended::Interrupted,
        Some(End::Completed) => completed(exit, turn, report, stop_asked),
        Some(End::Failed) if turn.failure.is_some() => failed(turn.failure.as_ref()),
        Some(End::Failed) | None => unfinished(exit, turn, stop_asked),
    }
}

fn by_account(failure: &Failure) -> Option<Ended> {
    let detail = Some(failure.word.clone());
    Some(match failure.limit? {
        Limit::Auth => Ended::Failed {
            by: FailedBy::LoginLost,
            detail,
        },
        kind @ Limit::Billing => Ended::Limited { kind, until: None },
        kind @ (Limit::Quota | Limit::Rate | Limit::Suspected) => Ended::Limited {
            kind,
            until: failure.reset,
        },
    })
}

fn completed(exit: ExitFacts, turn: &Turn, report: Option<&str>, stop_asked: bool) -> Ended {
    let fault = match exit {
        ExitFacts::Status(0) | ExitFacts::Unknown => None,
        ExitFacts::Status(_) | ExitFacts::Signal(_) if stop_asked => None,
        ExitFacts::Status(status) => Some((FailedBy::Status, format!("status_{status}"))),
        ExitFacts::Signal(signal) => Some((FailedBy::Killed, format!("signal_{signal}"))),
    };
    if let Some((by, detail)) = fault {
        let detail = Some(detail);
        return Ended::Failed { by, detail };
    }
    if !turn.denied.is_empty() {
        let tools = turn.denied.clone();
        return Ended::Denied { tools };
    }
    let reported = report.is_some_and(|text| !text.trim().is_empty());
    if reported || turn.answer.is_some() {
        return Ended::Succeeded;
    }
    Ended::Failed {
        by: FailedBy::Silent,
        detail: None,
    }
}

fn failed(failure: Option<&Failure>) -> Ended {
    let word = failure.map(|failure| failure.word.clone());
    let by = match word.as_deref() {
        Some(NO_CONVERSATION) => FailedBy::SessionLost,
        Some(_) | None => FailedBy::Request,
    };
    Ended::Failed { by, detail: word }
}

/// Nothing says that the turn came to its end.
fn unfinished(exit: ExitFacts, turn: &Turn, stop_asked: bool) -> Ended {
    let signal = match exit {
        ExitFacts::Signal(signal) => Some(signal),
        ExitFacts::Status(status) if status > BY_SIGNAL => Some(status - BY_SIGNAL),
        ExitFacts::Status(_) | ExitFacts::Unknown => None,
    };
    if stop_asked || signal == Some(SIGINT) {
        return Ended::Interrupted;
    }
    if let Some(signal) = signal {
        return Ended::Failed {
            by: FailedBy::Killed,
            detail: Some(format!("signal_{signal}")),
        };
    }
    if turn.failure.is_some() {
        return failed(turn.failure.as_ref());
    }
    let detail = match exit {
        ExitFacts::Status(status) => Some(format!("status_{status}")),
        ExitFacts::Signal(_) | ExitFacts::Unknown => None,
    };
    Ended::Failed {
        by: FailedBy::Unfinished,
        detail,
    }
}
