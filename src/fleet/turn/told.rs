//! What a turn on the provider's own screen tells: its hooks' events and the end of its transcript, and nothing else.
//!
//! Nobody looks at the screen. An event only says when to look; what is true stands in the transcript.

use jiff::Timestamp;

use super::Turn;
use crate::env::Context;
use crate::error::Result;
use crate::fleet::files::LaunchFiles;
use crate::fleet::launch::LaunchRecord;

/// What is known of a turn on a screen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Told {
    /// When the broker let the provider's CLI begin; `None` before.
    pub since: Option<Timestamp>,
    /// Whether the CLI began to work on its prompt.
    pub began: bool,
    /// Which permission is asked for and not answered yet: the first is 1.
    pub asked: Option<usize>,
    /// What it came to; its `end` is `None` while it goes on.
    pub turn: Turn,
}

/// Reads what a launch tells.
pub fn read(_context: &Context, _files: &LaunchFiles, _launch: &LaunchRecord) -> Result<Told> {
    Ok(Told::default())
}

/// Who looks again only when something has changed.
#[derive(Debug)]
pub struct Listener<'a> {
    files: &'a LaunchFiles,
    launch: &'a LaunchRecord,
}

/// What a listener heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Nothing that anybody has to know.
    Nothing,
    /// The run's records are to be brought up to date: it cannot begin, began after all, or asks for a permission.
    News,
    /// The turn is over, and the process may be ended.
    Over,
}

impl<'a> Listener<'a> {
    /// Of this launch.
    pub fn new(files: &'a LaunchFiles, launch: &'a LaunchRecord) -> Self {
        Self { files, launch }
    }

    /// Looks again; cheap enough for several times a second.
    pub fn hear(&mut self, context: &Context) -> Result<Heard> {
        read(context, self.files, self.launch).map(|_| Heard::Nothing)
    }
}
