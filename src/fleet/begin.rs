//! Beginning a run: its name, its options, its plan and what the checkout was when it began.

use super::baseline::Baseline;
use super::board::{Board, unconfirmed};
use super::git::Git;
use super::locate::Place;
use super::model::{Options, Plan, Run, RunState, SCHEMA};
use super::reconcile::reconcile;
use super::record;
use super::repository::Repository;
use super::settings::Settings;
use super::settings::route::Routing;
use super::start::refuse_inside;
use super::stop::STOP_RUN;
use crate::clock::ROUTINE;
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::id::fleet::{RepositoryKey, RunId, WorkerId};
use crate::store::directory;
use crate::store::lock::{Guard, Locks, Mode, Name};

/// What the ledger's records of a run that goes on after its end begin with.
pub const REOPENED: &str = "run.reopened";

/// Begins a run without a plan.
///
/// Refused with `already_exists`, or with `run_active` while another run of the checkout has a worker that may still
/// run.
pub fn begin(
    context: &Context,
    place: &Place,
    id: &RunId,
    options: Options,
    routing: Option<&Routing>,
) -> Result<Board> {
    refuse_inside(context)?;
    let _guard = alone(context, &place.key)?;
    let files = place.run(id);
    if files.run().exists() {
        let message = format!("there is a run `{id}` of `{}` already", place.root);
        let hint = format!("agent-fleet fleet resume {id}");
        return Err(Error::new(code::ALREADY_EXISTS, message).hint(hint));
    }
    refuse_others(context, place, id)?;
    let git = Git::find(&context.variables, context.clock)?;
    let repository = Repository::find(&git, &place.root)?;
    let baseline = Baseline::take(&git, &repository.root)?;
    record::save(&files.baseline(), &baseline)?;
    let run = Run {
        schema: SCHEMA,
        id: id.clone(),
        repository: place.root.clone(),
        options,
        routing: routing.map(ToString::to_string),
        state: RunState::Draft,
        reason: None,
        plan: None,
        created: context.clock.now(),
        ended: None,
    };
    Board::create(context, &files, &run)
}

/// The checkout's own lock: while it is held no run of it begins and none launches.
pub fn alone(context: &Context, repository: &RepositoryKey) -> Result<Guard> {
    let locks = Locks::new(&context.roots.state, context.clock);
    let deadline = context.clock.deadline(ROUTINE);
    let name = Name::Repository(repository.clone());
    locks.take(&name, Mode::Exclusive, &deadline)
}

/// Refuses while another run of the checkout has a worker that may still run, after bringing that run up to date.
pub fn refuse_others(context: &Context, place: &Place, but: &RunId) -> Result<()> {
    let Some((run, _)) = unconfirmed(&place.files, &place.key, but)? else {
        return Ok(());
    };
    let mut other = Board::hold(context, &place.run(&run))?;
    reconcile(context, &mut other)?;
    drop(other);
    match unconfirmed(&place.files, &place.key, but)? {
        None => Ok(()),
        Some((run, worker)) => Err(active(&run, &worker)),
    }
}

/// The refusal for another run's worker that may still run.
pub(super) fn active(run: &RunId, worker: &WorkerId) -> Error {
    let message =
        format!("the run `{run}` of this checkout has a worker `{worker}` that may still run");
    let hint = format!("agent-fleet fleet stop {worker} --run {run}");
    Error::new(code::RUN_ACTIVE, message).hint(hint)
}

/// The settings as they hold for a run: its own word over theirs.
pub fn settings_of(settings: &Settings, run: &Run) -> Settings {
    let own = run.routing.as_deref().and_then(|text| text.parse().ok());
    Settings {
        options: run.options.clone(),
        routing: own.unwrap_or_else(|| settings.routing.clone()),
        ..settings.clone()
    }
}

/// Gives a held run its plan. It can be replaced until the first launch.
pub fn plan(board: &mut Board, plan: Plan, options: Options, routing: &Routing) -> Result<()> {
    refuse_over(board)?;
    if !board.workers.is_empty() || !board.damaged.is_empty() {
        let message = format!(
            "the plan of run `{}` is frozen: workers were launched",
            board.run.id
        );
        return Err(Error::new(code::STEP_NOT_READY, message).hint("agent-fleet fleet add --help"));
    }
    replace_plan(board, plan)?;
    let run = Run {
        options,
        routing: Some(routing.to_string()),
        state: RunState::Planned,
        ..board.run.clone()
    };
    board.save_run(run)
}

/// Refuses a change of the plan of a run that is over; what is left of one that failed is launched again instead.
pub fn refuse_over(board: &Board) -> Result<()> {
    if !board.run.state.is_final() {
        return Ok(());
    }
    Err(over(board))
}

fn over(board: &Board) -> Error {
    let message = format!(
        "the run `{}` has ended: it is {}",
        board.run.id, board.run.state
    );
    Error::new(code::RUN_OVER, message).hint("agent-fleet fleet init --help")
}

/// Takes back the end of a held run, because a lead goes on with one of its steps. Nothing for one that goes on.
///
/// Refused with `run_over` when somebody stopped it: that is not taken back.
pub fn reopen(context: &Context, board: &mut Board) -> Result<()> {
    if board.ledger.has(STOP_RUN) {
        return Err(over(board));
    }
    if !board.run.state.is_final() {
        return Ok(());
    }
    let number = board.times(REOPENED) + 1;
    let id = format!("{REOPENED}.{number}");
    let run = board.run.id.clone();
    board.tell(context, id, "reopened", run.as_str(), None)?;
    directory::remove_file(board.files.result())?;
    let run = Run {
        state: RunState::Running,
        reason: None,
        ended: None,
        ..board.run.clone()
    };
    board.save_run(run)
}

/// Replaces the plan of a held run; what may change in it is the caller's to know.
pub fn replace_plan(board: &mut Board, plan: Plan) -> Result<()> {
    record::save(&board.files.plan(), &plan)?;
    let digest = record::digest(&plan)?;
    board.plan = Some(plan);
    let run = Run {
        plan: Some(digest),
        ..board.run.clone()
    };
    board.save_run(run)
}
