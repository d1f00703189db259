//! Telling that a worker cannot be reached: once each time, and again after it could be in between.
//!
//! An episode is an event of the ledger that nothing closes yet; it is closed by whoever finds the worker readable
//! again.

use super::board::{Board, Entry};
use super::ledger::{Episode, Kind};
use super::model::Worker;
use crate::env::Context;
use crate::error::Result;
use crate::id::fleet::WorkerId;

/// Tells of every worker whose record cannot be read, and notes those that can be again.
pub fn damaged(context: &Context, board: &mut Board) -> Result<()> {
    for (name, error) in board.damaged.clone() {
        let id = format!("{name}.damaged");
        unreachable(context, board, &id, &name, error.code.name)?;
    }
    let readable: Vec<WorkerId> = board.workers.keys().cloned().collect();
    for name in readable {
        reached(context, board, &format!("{name}.damaged"), &name)?;
    }
    Ok(())
}

/// Tells that a worker cannot be reached, once until it can be again.
pub fn unreachable(
    context: &Context,
    board: &mut Board,
    id: &str,
    worker: &WorkerId,
    why: &str,
) -> Result<()> {
    match board.ledger.episode(id) {
        Episode::Open(_) => Ok(()),
        Episode::Next(id) => board
            .tell(context, id, "unreachable", worker.as_str(), Some(why))
            .map(drop),
    }
}

/// Notes that it can be reached again, where it was told that it could not.
pub fn reached(context: &Context, board: &mut Board, id: &str, worker: &WorkerId) -> Result<()> {
    match board.ledger.episode(id) {
        Episode::Next(_) => Ok(()),
        Episode::Open(id) => board
            .note(
                context,
                Entry {
                    id: format!("{id}.over"),
                    kind: Kind::Done,
                    verb: "reach",
                    target: worker.as_str(),
                    of: Some(&id),
                    reason: None,
                },
            )
            .map(drop),
    }
}

/// Id of what tells that a worker's current launch cannot be reached.
pub fn id(worker: &Worker) -> String {
    format!("{}.{}.unreachable", worker.name, worker.launch)
}
