//! `agent-fleet fleet hold` and `release`.

use jiff::SignedDuration;

use super::init::time;
use super::{App, Outcome, Which};
use crate::contract::fleet::lead::HoldChanged;
use crate::error::{Error, Result, code};
use crate::fleet::files::FleetFiles;
use crate::fleet::hold::{self, Hold, Scope};
use crate::fleet::locate::Place;
use crate::fleet::show;
use crate::id::fleet::StepId;

/// How much is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Width {
    /// Every launch on this machine
    Host,
    /// Every launch of this checkout
    #[value(alias = "repository")]
    Repo,
    /// Every launch of the run
    Run,
    /// Every launch of one step
    Step,
}

#[derive(Debug, clap::Args)]
pub(super) struct HoldArguments {
    /// How much is held; default the step that is named, else the run
    #[arg(long, value_enum, value_name = "host|repo|run|step")]
    scope: Option<Width>,
    /// The step
    #[arg(long, value_name = "STEP")]
    step: Option<StepId>,
    /// Why
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// For how long, such as 30m; default until it is released
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    span: Option<u64>,
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, clap::Args)]
pub(super) struct ReleaseArguments {
    /// How much is held; default the only hold that concerns the run
    #[arg(long, value_enum, value_name = "host|repo|run|step")]
    scope: Option<Width>,
    /// The step
    #[arg(long, value_name = "STEP")]
    step: Option<StepId>,
    #[command(flatten)]
    which: Which,
}

pub(super) fn hold(app: &App, arguments: &HoldArguments) -> Result<Outcome> {
    let context = &app.context;
    let width = arguments.scope.unwrap_or(match arguments.step {
        Some(_) => Width::Step,
        None => Width::Run,
    });
    let scope = scope(app, width, arguments.step.as_ref(), &arguments.which)?;
    let now = context.clock.now();
    let expires = match arguments.span {
        Some(0) => {
            let message = "a hold of no time holds nothing";
            return Err(Error::new(code::USAGE, message).hint("agent-fleet fleet hold --help"));
        }
        Some(seconds) => {
            let span = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
            let end = now.checked_add(span);
            Some(end.map_err(|_| Error::internal("a hold ends after all time"))?)
        }
        None => None,
    };
    let held = Hold {
        scope,
        reason: arguments.reason.clone(),
        by: std::process::id(),
        since: now,
        expires,
    };
    hold::hold(context, &FleetFiles::new(context), &held)?;
    app.view(&HoldChanged {
        schema: 1,
        held: true,
        hold: show::hold(held),
    })
}

pub(super) fn release(app: &App, arguments: &ReleaseArguments) -> Result<Outcome> {
    let context = &app.context;
    let files = FleetFiles::new(context);
    let width = match (arguments.scope, &arguments.step) {
        (Some(width), _) => Some(width),
        (None, Some(_)) => Some(Width::Step),
        (None, None) => None,
    };
    let scope = match width {
        Some(width) => scope(app, width, arguments.step.as_ref(), &arguments.which)?,
        None => only(app, &files, &arguments.which)?,
    };
    let released = hold::release(context, &files, &scope)?;
    app.view(&HoldChanged {
        schema: 1,
        held: false,
        hold: show::hold(released),
    })
}

/// What is meant by the words.
fn scope(app: &App, width: Width, step: Option<&StepId>, which: &Which) -> Result<Scope> {
    let usage =
        |message: &str| Error::new(code::USAGE, message).hint("agent-fleet fleet hold --help");
    if step.is_some() && width != Width::Step {
        return Err(usage("`--step` goes with `--scope step` alone"));
    }
    if width == Width::Host {
        return Ok(Scope::Host);
    }
    let place = Place::here(&app.context)?;
    let repository = place.key.clone();
    if width == Width::Repo {
        return Ok(Scope::Repository { repository });
    }
    let board = place.look(which.run.as_ref())?;
    let run = board.run.id.clone();
    if width == Width::Run {
        return Ok(Scope::Run { repository, run });
    }
    let step = step.ok_or_else(|| usage("`--scope step` needs `--step STEP`"))?;
    let step = board.step(step)?.id.clone();
    Ok(Scope::Step {
        repository,
        run,
        step,
    })
}

/// The only hold that concerns the run; outside of a checkout, that of the machine.
fn only(app: &App, files: &FleetFiles, which: &Which) -> Result<Scope> {
    let context = &app.context;
    let mut holds = hold::in_force(files, context.clock.now())?;
    let Ok(place) = Place::here(context) else {
        return Ok(Scope::Host);
    };
    let run = match place.choose(which.run.as_ref()) {
        Ok(run) => Some(run.id),
        // Holds of the checkout and the machine need no run.
        Err(error) if error.code == code::NOT_FOUND => None,
        Err(error) => return Err(error),
    };
    holds.retain(|hold| hold.scope.concerns(&place.key, run.as_ref()));
    match holds.as_slice() {
        [] => {
            Err(Error::new(code::NOT_FOUND, "nothing is held here")
                .hint("agent-fleet fleet status"))
        }
        [only] => Ok(only.scope.clone()),
        several => {
            let words: Vec<&str> = several.iter().map(|hold| hold.scope.word()).collect();
            let message = format!("several holds are in force: {}", words.join(", "));
            Err(Error::new(code::USAGE, message).hint("agent-fleet fleet release --help"))
        }
    }
}
