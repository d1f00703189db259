//! `turn.json`: what a turn on a screen came to, kept when its process has ended. The provider's transcript goes on with
//! later turns, and what was the end of this one cannot be read from it any more.

use serde::{Deserialize, Serialize};

use super::event::{End, Event, Failure, Tool};
use super::told::Told;
use crate::error::Result;
use crate::fleet::files::LaunchFiles;
use crate::fleet::model::SCHEMA;
use crate::fleet::record;
use crate::provider::closing;
use crate::quota::limit::Limit;
use crate::withheld::withhold;

/// Most commands that are kept.
const COMMANDS: usize = 200;
/// Most bytes of a command.
pub const COMMAND: usize = 2 << 10;

/// What is kept of a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Format.
    pub schema: u32,
    /// How it ended; `None` when it was cut off.
    pub end: Option<End>,
    /// Its final answer, without what looks like a secret.
    pub answer: Option<String>,
    /// What it failed by: one safe word.
    pub failed: Option<String>,
    /// The limit behind that.
    pub limit: Option<String>,
    /// The last commands that it ran, without what looks like a secret.
    #[serde(default)]
    pub commands: Vec<Command>,
}

/// A command of a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// The command, its first [`COMMAND`] bytes.
    pub text: String,
    /// Its exit status, where it was told.
    pub status: Option<i64>,
    /// Whether it failed, was refused or was cut off.
    pub failed: bool,
}

impl Kept {
    /// Of a turn on a screen.
    pub fn of(told: &Told) -> Self {
        let turn = &told.turn;
        let left_out = told.commands.len().saturating_sub(COMMANDS);
        let commands = told.commands.iter().skip(left_out);
        let failure = turn.failure.as_ref();
        Self {
            schema: SCHEMA,
            end: turn.end,
            answer: turn.safe_answer(),
            failed: failure.map(|failure| failure.word.clone()),
            limit: turn.limit().map(|limit| limit.word().to_owned()),
            commands: commands.map(Command::of).collect(),
        }
    }

    /// Keeps it; what was kept before stays.
    pub fn keep(&self, files: &LaunchFiles) -> Result<()> {
        record::create(&files.turn(), self).map(drop)
    }

    /// What was kept of a launch's turn.
    pub fn load(files: &LaunchFiles) -> Result<Option<Self>> {
        record::load(&files.turn())
    }

    /// The same as an output file would tell it.
    pub fn events(self) -> Vec<Event> {
        let limit = self.limit.as_deref().and_then(Limit::of_word);
        let failed = self.failed.map(|word| {
            Event::Failed(Failure {
                limit,
                reset: None,
                word,
                text: String::new(),
            })
        });
        let last = match (self.end, self.answer) {
            (Some(end), answer) => Some(Event::Ended { end, answer }),
            (None, answer) => answer.map(Event::Said),
        };
        let ran = self.commands.into_iter().flat_map(Command::events);
        ran.chain(failed).chain(last).collect()
    }
}

impl Command {
    fn of(ran: &closing::Command) -> Self {
        let text = withhold(&ran.text);
        let end = text.floor_char_boundary(COMMAND);
        Self {
            text: text.get(..end).unwrap_or_default().to_owned(),
            status: ran.status,
            failed: ran.failed,
        }
    }

    fn events(self) -> [Event; 2] {
        let tool = Tool {
            name: String::new(),
            arguments: self.text,
            is_command: true,
        };
        let ended = Event::ToolEnded {
            tool: tool.clone(),
            status: self.status,
            failed: self.failed,
            output: String::new(),
        };
        [Event::ToolBegan(tool), ended]
    }
}
