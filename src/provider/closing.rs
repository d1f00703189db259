//! What the end of a transcript says of the last turn in it: what the terminal screens of the CLIs tell nowhere else.

use jiff::Timestamp;

/// How the last turn of a transcript stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Closing {
    /// How it came out; `None` while it goes on.
    pub outcome: Option<Outcome>,
    /// When the line was written that says so.
    pub at: Option<Timestamp>,
    /// Whether that line is the provider's own word that the turn is over. Else it only looks so, and could go on.
    pub is_stated: bool,
    /// What the worker said last in it, when it is over.
    pub answer: Option<String>,
    /// When the newest line was written that only comes once a tool was let or not let to work.
    pub acted: Option<Timestamp>,
}

/// How a turn came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// To its end.
    Completed,
    /// A request failed for good.
    Failed {
        /// One safe word: the provider's own, where it has one.
        word: Option<String>,
        /// What people were shown; may hold anything.
        text: String,
    },
    /// Somebody interrupted it.
    Interrupted,
}

/// A shell command that a worker ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The command.
    pub text: String,
    /// Its exit status, where it was told.
    pub status: Option<i64>,
    /// Whether it failed, was refused or was cut off.
    pub failed: bool,
}
