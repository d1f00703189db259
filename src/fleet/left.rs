//! What a launch that ended left behind: its turn, as the provider tells it, and its report.

use jiff::tz::TimeZone;

use super::board::Board;
use super::exchange::Exchange;
use super::launch::observe::Observed;
use super::model::{Role, Worker};
use super::turn::kept::Kept;
use super::turn::{Turn, told};
use crate::crash_point;
use crate::env::Context;
use crate::error::{Error, Result};
use crate::store::replace::{Durability, replace};
use crate::withheld::withhold;

/// What a launch's output says, sharpened by the end of the provider's own transcript; of one on a screen, what it told,
/// which is kept.
pub fn turn(
    context: &Context,
    board: &Board,
    worker: &Worker,
    observed: &Observed,
) -> Result<Turn> {
    let files = board.files.launch(&worker.name, worker.launch);
    if observed.launch.is_on_screen() {
        let told = told::read(context, &files, &observed.launch);
        Kept::of(&told).keep(&files)?;
        crash_point!("left.kept");
        return Ok(told.turn);
    }
    let output = files.output();
    let kind = worker.assignment.provider;
    let local = TimeZone::system();
    let mut turn = match Turn::read(kind, &output, &context.clock, &local) {
        Ok(turn) => turn,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Turn::default(),
        Err(error) => return Err(Error::io("read", &output, &error)),
    };
    let profile = observed.profile().or_else(|| worker.profile.clone());
    if let Some(profile) = profile
        && let Ok(registry) = crate::snapshot::registry::load(context)
        && let Ok(profile) = registry.profile(&profile)
    {
        let (workspace, began) = (&observed.launch.workspace, observed.launch.at);
        let known = worker.session.as_deref();
        turn.refine_by_transcript(kind, &profile.home, workspace, known, began, &local);
    }
    Ok(turn)
}

/// The report of a launch, copied to the state side once: what the worker wrote, or its final answer. A reviewer's is
/// its final answer alone.
pub fn report(
    context: &Context,
    board: &Board,
    worker: &Worker,
    turn: &Turn,
) -> Result<Option<String>> {
    let kept = board.files.launch(&worker.name, worker.launch).report();
    if let Some(bytes) = crate::store::read::optional(&kept)? {
        return Ok(Some(String::from_utf8_lossy(&bytes).into_owned()));
    }
    let step = board.step(&worker.step)?;
    let exchange = Exchange::new(&board.workspace(context, step), &board.run.id);
    let written = match worker.role {
        // A link in its place is the worker's doing: it has no report then.
        Role::Implementation => exchange
            .read(&exchange.report(&worker.name))
            .unwrap_or(None),
        Role::Review => None,
    };
    let written = written.filter(|text| !text.trim().is_empty());
    let Some(report) = written.or_else(|| turn.safe_answer()) else {
        return Ok(None);
    };
    let report = withhold(&report).into_owned();
    replace(&kept, report.as_bytes(), Durability::Durable)?;
    Ok(Some(report))
}
