//! `agent-fleet fleet plan`, `add`, `drop` and `steer`: what is to be done, and what of it may still be changed.

use std::path::PathBuf;

use super::{App, Ground, Outcome, Which, settled};
use crate::error::{Error, Result, code};
use crate::fleet::begin::{self, refuse_over, reopen, replace_plan, settings_of};
use crate::fleet::board::Board;
use crate::fleet::forecast::forecast;
use crate::fleet::git::Git;
use crate::fleet::locate::Place;
use crate::fleet::model::StepState;
use crate::fleet::plan::add::{self, Steer};
use crate::fleet::plan::compile::{Compiled, Ground as Plans, compile};
use crate::fleet::plan::{self, text::PlanText};
use crate::fleet::reconcile::reconcile;
use crate::fleet::settings::Settings;
use crate::fleet::settings::pools::Pools;
use crate::fleet::worktree::{self, Removal};
use crate::fleet::{scope, verify};
use crate::id::fleet::StepId;

#[derive(Debug, clap::Args)]
pub(super) struct PlanArguments {
    /// The plan file
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    /// Only show who would do each step, on which account, and how long it would wait
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, clap::Args)]
pub(super) struct AddArguments {
    /// A plan file with the new steps
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, clap::Args)]
pub(super) struct DropArguments {
    /// The step
    step: StepId,
    /// Why
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Remove its worktree with everything in it; for a step that was dropped before, too
    #[arg(long)]
    discard: bool,
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, clap::Args)]
pub(super) struct SteerArguments {
    /// The step
    step: StepId,
    /// `provider P`, `model M`, `effort E`, `family F` in any number, or `reset`
    #[arg(required = true, value_name = "KEY VALUE | reset")]
    words: Vec<String>,
    #[command(flatten)]
    which: Which,
}

/// Reads a plan file of the checkout.
pub(super) fn load(app: &App, place: &Place, file: &std::path::Path) -> Result<PlanText> {
    let path = crate::registry::project::absolute(&app.context, file)?;
    plan::load(&app.context, &path, &place.root)
}

/// What plans of the checkout are compiled against.
pub(super) fn with_plans<T>(
    place: &Place,
    ground: &Ground,
    settings: &Settings,
    then: impl FnOnce(Plans<'_>) -> Result<T>,
) -> Result<T> {
    let pools = Pools::of(&ground.registry);
    let file = |text: &str| scope::place::check(&place.root, text);
    then(Plans {
        settings,
        pools: &pools,
        file: &file,
        case: scope::place::case(&place.root),
    })
}

pub(super) fn run(app: &App, arguments: &PlanArguments) -> Result<Outcome> {
    let context = &app.context;
    let place = Place::here(context)?;
    let ground = Ground::of(app, &place)?;
    let text = load(app, &place, &arguments.file)?;
    let named = arguments.which.run.as_ref();
    let compiled =
        |settings: &Settings| with_plans(&place, &ground, settings, |plans| compile(&text, plans));
    if arguments.dry_run {
        // A plan can be tried before there is a run for it.
        let settings = match place.look(named) {
            Ok(board) if !board.run.state.is_final() => settings_of(&ground.settings, &board.run),
            Ok(_) => ground.settings.clone(),
            Err(error) if error.code == code::NOT_FOUND && named.is_none() => {
                ground.settings.clone()
            }
            Err(error) => return Err(error),
        };
        let Compiled { plan, .. } = compiled(&settings)?;
        let here = (place.root.as_path(), scope::place::case(&place.root));
        return app.view(&forecast(context, &app.store()?, here, &plan)?);
    }
    let files = place.choose(named)?;
    let mut board = Board::hold(context, &files)?;
    let Compiled {
        plan,
        options,
        routing,
    } = compiled(&settings_of(&ground.settings, &board.run))?;
    begin::plan(&mut board, plan, options, &routing)?;
    drop(board);
    settled(app, &files, &ground)
}

pub(super) fn add(app: &App, arguments: &AddArguments) -> Result<Outcome> {
    let context = &app.context;
    let place = Place::here(context)?;
    let ground = Ground::of(app, &place)?;
    let text = load(app, &place, &arguments.file)?;
    let files = place.choose(arguments.which.run.as_ref())?;
    let mut board = Board::hold(context, &files)?;
    reconcile(context, &mut board)?;
    refuse_over(&board)?;
    let settings = settings_of(&ground.settings, &board.run);
    let grown = with_plans(&place, &ground, &settings, |plans| {
        let run = (&settings.options, &settings.routing);
        add::add(board.plan()?, &board.progress, &text, run, plans)
    })?;
    replace_plan(&mut board, grown)?;
    drop(board);
    settled(app, &files, &ground)
}

pub(super) fn drop_step(app: &App, arguments: &DropArguments) -> Result<Outcome> {
    let context = &app.context;
    let place = Place::here(context)?;
    let ground = Ground::of(app, &place)?;
    let id = &arguments.step;
    if arguments.reason.trim().is_empty() {
        let message = format!("it is not said why `{id}` is dropped");
        return Err(Error::new(code::USAGE, message).hint("agent-fleet fleet drop --help"));
    }
    let files = place.choose(arguments.which.run.as_ref())?;
    let mut board = Board::hold(context, &files)?;
    reconcile(context, &mut board)?;
    let step = board.step(id)?.clone();
    let again = board.progress_of(id).state == StepState::Dropped && arguments.discard;
    if !again {
        let reason = arguments.reason.trim();
        let dropped = add::drop(board.plan()?, &board.progress, id, reason)?;
        verify::require_idle(&board, id)?;
        match reopen(context, &mut board) {
            // What was stopped stays stopped, with one step less.
            Err(error) if error.code != code::RUN_OVER => return Err(error),
            Err(_) | Ok(()) => {}
        }
        board.save_progress(id, dropped)?;
    }
    let root = board.workspace(context, &step);
    if step.worktree && arguments.discard {
        let git = Git::find(&context.variables, context.clock)?;
        worktree::remove(&git, &root, Removal::Forced)?;
    } else if step.worktree && root.exists() {
        app.note(&format!(
            "note: what the step did is kept in {root}; --discard removes it"
        ));
    }
    drop(board);
    settled(app, &files, &ground)
}

pub(super) fn steer(app: &App, arguments: &SteerArguments) -> Result<Outcome> {
    let context = &app.context;
    let place = Place::here(context)?;
    let ground = Ground::of(app, &place)?;
    let to = wish(&arguments.words)?;
    let files = place.choose(arguments.which.run.as_ref())?;
    let mut board = Board::hold(context, &files)?;
    reconcile(context, &mut board)?;
    refuse_over(&board)?;
    let settings = settings_of(&ground.settings, &board.run);
    let steered = with_plans(&place, &ground, &settings, |plans| {
        let id = &arguments.step;
        add::steer(
            board.plan()?,
            &board.progress,
            id,
            to,
            &settings.routing,
            plans,
        )
    })?;
    replace_plan(&mut board, steered)?;
    drop(board);
    settled(app, &files, &ground)
}

/// What the words of `steer` ask for.
fn wish(words: &[String]) -> Result<Steer> {
    let usage =
        |message: String| Error::new(code::USAGE, message).hint("agent-fleet fleet steer --help");
    let mut to = Steer::default();
    if let [only] = words
        && only == "reset"
    {
        return Ok(to);
    }
    for pair in words.chunks(2) {
        let [key, value] = pair else {
            return Err(usage(format!("`{}` has no value", pair.join(" "))));
        };
        match key.as_str() {
            "provider" => to.provider = Some(value.parse()?),
            "model" => to.model = Some(value.clone()),
            "effort" => to.effort = Some(value.clone()),
            "family" => to.family = Some(value.clone()),
            _ => {
                let wanted = "`provider`, `model`, `effort`, `family` or `reset`";
                return Err(usage(format!("a step is steered by {wanted}, not `{key}`")));
            }
        }
        if value.trim().is_empty() {
            return Err(usage(format!("`{key}` has no value")));
        }
    }
    Ok(to)
}
