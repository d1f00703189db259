//! `agent-fleet fleet init`.

use super::{App, Ground, Outcome, settled};
use crate::error::Result;
use crate::fleet::begin;
use crate::fleet::locate::Place;
use crate::fleet::model::{Accept, Going, OnFailure, ReviewMode};
use crate::fleet::settings::choices::{Choices, WANTED_DURATION, seconds};
use crate::fleet::settings::route::Routing;
use crate::id::fleet::RunId;

#[derive(Debug, clap::Args)]
pub(super) struct InitArguments {
    /// Name of the run; default the date and time
    #[arg(value_name = "RUN")]
    run: Option<RunId>,
    /// Most workers with a process at once
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=100))]
    max_parallel: Option<u32>,
    /// Which steps another model family has to review: off, cross-heavy or cross-all
    #[arg(long, value_name = "WHICH")]
    review: Option<ReviewMode>,
    /// Who says that a step is done: lead or program
    #[arg(long, value_name = "WHO")]
    accept: Option<Accept>,
    /// What a failed step means for the rest: stop or continue
    #[arg(long, value_name = "WHAT")]
    on_failure: Option<OnFailure>,
    /// Most launches of a step that count as attempts
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=20))]
    max_attempts: Option<u32>,
    /// How work goes on after a usage limit: fresh or sticky
    #[arg(long = "continue", value_name = "HOW")]
    going: Option<Going>,
    /// Longest wait for a reset that keeps the conversation, such as 20m
    #[arg(long, value_name = "TIME", value_parser = time)]
    sticky_max: Option<u64>,
    /// Which providers may be used: auto, single:PROVIDER or agents=PROVIDER,PROVIDER:MODEL,…
    #[arg(long)]
    routing: Option<Routing>,
}

/// A time to wait, in seconds.
pub(super) fn time(text: &str) -> Result<u64, String> {
    seconds(text).ok_or_else(|| format!("it {WANTED_DURATION}"))
}

pub(super) fn run(app: &App, arguments: InitArguments) -> Result<Outcome> {
    let context = &app.context;
    let place = Place::here(context)?;
    let ground = Ground::of(app, &place)?;
    let choices = Choices {
        max_parallel: arguments.max_parallel,
        review: arguments.review,
        accept: arguments.accept,
        on_failure: arguments.on_failure,
        max_attempts: arguments.max_attempts,
        going: arguments.going,
        sticky_max_seconds: arguments.sticky_max,
        routing: arguments.routing,
    };
    let options = choices.options(&ground.settings.options);
    let id = match arguments.run {
        Some(id) => id,
        None => new_name(app)?,
    };
    let board = begin::begin(context, &place, &id, options, choices.routing.as_ref())?;
    let files = board.files.clone();
    drop(board);
    settled(app, &files, &ground)
}

/// A name for a run that was given none.
pub(super) fn new_name(app: &App) -> Result<RunId> {
    let now = app.context.clock.now().strftime("%Y%m%d-%H%M%S");
    Ok(now.to_string().parse()?)
}
