//! What an output file tells, in our words: the same for every provider.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::quota::limit::{Limit, Reset};
use crate::quota::window::Window;

/// One thing that an output file tells.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The provider's id of the conversation.
    Named(String),
    /// Work on a prompt begins.
    Began {
        /// The model, where this names it.
        model: Option<String>,
    },
    /// The worker's own words to whoever started it.
    Said(String),
    /// A tool begins its work.
    ToolBegan(Tool),
    /// A tool has ended.
    ToolEnded {
        /// Which one.
        tool: Tool,
        /// Exit status of a command, where it was told.
        status: Option<i64>,
        /// Whether it failed, was refused or was cut off.
        failed: bool,
        /// What it answered.
        output: String,
    },
    /// A tool was not allowed to work.
    Denied(String),
    /// The account's quota windows, as the server sent them with an answer.
    Windows {
        /// Every one that it named.
        windows: Vec<Window>,
        /// When the line before was written; `None` when none before has a time.
        at: Option<Timestamp>,
    },
    /// A request was answered beyond the subscription, and is paid for.
    OverageUsed,
    /// The CLI tells people of a hitch that it deals with itself.
    Hitch(String),
    /// A request failed for good.
    Failed(Failure),
    /// Work on the prompt is over.
    Ended {
        /// In which way.
        end: End,
        /// The final answer, where this tells it; else it is what was said last.
        answer: Option<String>,
    },
}

/// One use of a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tool {
    /// The tool, as the provider calls it.
    pub name: String,
    /// What it was asked for: the command, or the file, or all that it was given.
    pub arguments: String,
    /// Whether `arguments` is a shell command.
    pub is_command: bool,
}

/// Why a turn failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The limit behind it, if it is one.
    pub limit: Option<Limit>,
    /// When that is over, where it was told.
    pub reset: Option<Reset>,
    /// One safe word: the provider's own, or ours where it has none.
    pub word: String,
    /// What people were shown; may hold anything.
    pub text: String,
}

/// How work on a prompt ended, by the provider's own last word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// To its end.
    Completed,
    /// By a failure.
    Failed,
    /// Somebody interrupted it.
    Interrupted,
}
