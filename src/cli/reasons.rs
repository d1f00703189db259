//! `agent-fleet reasons`.

use super::{App, Outcome};
use crate::contract::reason::{Reason as Shown, ReasonList};
use crate::error::{Error, Result, code};
use crate::reason::{self, Reason};

#[derive(Debug, clap::Args)]
pub(super) struct ReasonsArguments {
    /// Only these words; default all
    words: Vec<String>,
}

pub(super) fn run(app: &App, arguments: &ReasonsArguments) -> Result<Outcome> {
    let words = &arguments.words;
    if let Some(unknown) = words.iter().find(|word| reason::of(word).next().is_none()) {
        let shown: String = unknown.chars().take(80).collect();
        let message = format!("there is no reason word `{shown}`");
        return Err(Error::new(code::NOT_FOUND, message).hint("agent-fleet reasons"));
    }
    let wanted =
        |reason: &&Reason| words.is_empty() || words.iter().any(|word| *word == reason.word);
    app.view(&ReasonList {
        reasons: reason::ALL.iter().filter(wanted).map(shown).collect(),
    })
}

fn shown(reason: &Reason) -> Shown {
    Shown {
        group: reason.group.name(),
        word: reason.word,
        class: reason.ends.name(),
        meaning: reason.meaning,
        cure: Some(reason.cure).filter(|cure| !cure.is_empty()),
    }
}
