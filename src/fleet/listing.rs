//! The runs of a checkout, or of the whole machine.

use super::board::Board;
use super::files::RunFiles;
use super::model::{SCHEMA, StepState};
use crate::contract::fleet::NotRead;
use crate::contract::fleet::watch::{RunList, RunRow};
use crate::error::code;

/// These runs, the newest first; one that cannot be read is named and costs the others nothing.
pub fn list(runs: &[RunFiles]) -> RunList {
    let mut list = RunList {
        schema: SCHEMA,
        runs: Vec::new(),
        not_read: Vec::new(),
    };
    for files in runs {
        match Board::look(files) {
            Ok(board) => list.runs.push(row(&board)),
            // Made by a command that was cut short before its record was there.
            Err(error) if error.code == code::NOT_FOUND => {}
            Err(error) => list.not_read.push(NotRead {
                what: files.id.to_string(),
                why: error.message,
                next: error.hint,
            }),
        }
    }
    list.runs.sort_by_key(|row| std::cmp::Reverse(row.created));
    list
}

fn row(board: &Board) -> RunRow {
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let run = &board.run;
    let verified = board
        .progress
        .values()
        .filter(|progress| progress.state == StepState::Verified);
    RunRow {
        run: run.id.clone(),
        repository: run.repository.clone(),
        state: run.state.word().to_owned(),
        reason: run.reason.clone(),
        created: run.created,
        ended: run.ended,
        steps: count(board.plan.as_ref().map_or(0, |plan| plan.steps.len())),
        verified: count(verified.count()),
        active: count(board.active().count()),
    }
}
