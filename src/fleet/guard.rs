//! The guard of the person's HEAD and index: a fleet neither commits nor stages, so a step is accepted only while both
//! are as they were when the run began, or as a person took them for good since.
//!
//! Limits: whose change it was cannot be told, so the person's own stops acceptances too, until they say so.

use super::baseline::{Baseline, Change, changes};
use super::board::{Board, Entry};
use super::git::Git;
use super::ledger::Kind;
use super::model::StepState;
use super::record;
use super::start::refuse_inside;
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::sys::shell;

/// Reason word of a step that waits for somebody to say whose change it was.
pub const TREE_CHANGED: &str = code::TREE_CHANGED.name;
/// What the ledger's records of a tree that was taken as it is begin with.
const TAKEN: &str = "tree";

/// The tree as it is, and what is not as it was.
fn compare(context: &Context, board: &Board) -> Result<(Baseline, Vec<Change>)> {
    let before: Baseline = record::require(&board.files.baseline())?;
    let git = Git::find(&context.variables, context.clock)?;
    let now = before.take_again(&git, &board.run.repository)?;
    let found = changes(&before, &now);
    Ok((now, found))
}

/// Refuses with `tree_changed`, and every change, when HEAD or the index is not as it was; how they are otherwise.
pub fn require_unchanged(context: &Context, board: &Board) -> Result<Baseline> {
    let (now, found) = compare(context, board)?;
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    let Some(first) = found.first() else {
        return Ok(now);
    };
    let more = match found.len() {
        1 => String::new(),
        count => format!(", and {} more changes", count - 1),
    };
    let run = &board.run.id;
    let message = format!(
        "since the run `{run}` began, {first}{more}; a fleet neither commits nor stages: find out who did, and when it was you: `agent-fleet fleet check --accept --run {run}`"
    );
    let root = shell::quote(board.run.repository.as_str());
    Err(Error::new(code::TREE_CHANGED, message)
        .hint(format!("git -C {root} reflog -5"))
        .detail("changes", found))
}

/// Takes HEAD and index as they are for a held run, because a person knows whose change it was; steps that waited for
/// that are judged again. What counted before is kept with the run's receipts.
pub fn take_as_it_is(context: &Context, board: &mut Board) -> Result<Baseline> {
    refuse_inside(context)?;
    let (_, found) = compare(context, board)?;
    let before: Baseline = record::require(&board.files.baseline())?;
    let now = if found.is_empty() {
        before
    } else {
        let id = format!("{TAKEN}.{}", board.times(TAKEN) + 1);
        record::create(&board.files.receipt(&id), &before)?;
        let git = Git::find(&context.variables, context.clock)?;
        let now = Baseline::take(&git, &board.run.repository)?;
        record::save(&board.files.baseline(), &now)?;
        let run = board.run.id.clone();
        let entry = Entry {
            id,
            kind: Kind::Done,
            verb: "check",
            target: run.as_str(),
            of: None,
            reason: Some(TREE_CHANGED),
        };
        board.note(context, entry)?;
        now
    };
    let waiting = board.progress.iter().filter(|(_, progress)| {
        progress.state == StepState::Blocked && progress.reason.as_deref() == Some(TREE_CHANGED)
    });
    let waiting: Vec<_> = waiting
        .map(|(step, progress)| (step.clone(), progress.clone()))
        .collect();
    for (step, mut progress) in waiting {
        progress.state = StepState::Reported;
        progress.reason = None;
        board.save_progress(&step, progress)?;
    }
    Ok(now)
}
