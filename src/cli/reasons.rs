//! `agent-fleet reasons`.

use super::{App, Outcome};
use crate::contract::reason::{Reason as Shown, ReasonList};
use crate::error::{Class, Error, Result, code};
use crate::reason::{self, Ends, Group, Reason};

#[derive(Debug, clap::Args)]
pub(super) struct ReasonsArguments {
    /// Only these words; default all
    words: Vec<String>,
}

pub(super) fn run(app: &App, arguments: &ReasonsArguments) -> Result<Outcome> {
    let reasons = if arguments.words.is_empty() {
        reason::ALL.iter().map(shown).collect()
    } else {
        let each = arguments.words.iter().map(|word| rows(word));
        each.collect::<Result<Vec<_>>>()?.concat()
    };
    app.view(&ReasonList { reasons })
}

/// The rows of a word. Any error code may be the reason of a refused profile, so one that has no row of its own is
/// told by the meaning of the code.
fn rows(word: &str) -> Result<Vec<Shown>> {
    let listed: Vec<Shown> = reason::of(word).map(shown).collect();
    if !listed.is_empty() {
        return Ok(listed);
    }
    let Some((code, meaning)) = code::ALL.iter().find(|(code, _)| code.name == word) else {
        let word: String = word.chars().take(80).collect();
        let message = format!("there is no reason word `{word}`");
        return Err(Error::new(code::NOT_FOUND, message).hint("agent-fleet reasons"));
    };
    let ends = match code.class {
        Class::Capacity | Class::Busy => Ends::Time,
        Class::Refused | Class::Identity | Class::System | Class::Internal => Ends::Person,
    };
    Ok(vec![Shown {
        group: Group::Refused.name(),
        word: code.name,
        class: ends.name(),
        meaning,
        cure: None,
    }])
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
