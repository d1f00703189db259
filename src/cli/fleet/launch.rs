//! `agent-fleet fleet launch`.

use super::{App, Ground, Outcome, Which};
use crate::contract::fleet::lead::{LaunchRow, LaunchRows};
use crate::error::{Error, Result};
use crate::fleet::board::Board;
use crate::fleet::engage;
use crate::fleet::locate::Place;
use crate::fleet::model::Role;
use crate::fleet::tick::{Aim, tick};
use crate::id::fleet::StepId;

#[derive(Debug, clap::Args)]
pub(super) struct LaunchArguments {
    /// The step; one that failed or is blocked is tried again
    #[arg(required_unless_present = "ready")]
    step: Option<StepId>,
    /// Launch a reviewer of what the step changed
    #[arg(long, requires = "step")]
    review: bool,
    /// Launch whatever can be launched now, the heaviest first
    #[arg(long, conflicts_with = "step")]
    ready: bool,
    #[command(flatten)]
    which: Which,
}

pub(super) fn run(app: &App, arguments: &LaunchArguments) -> Result<Outcome> {
    let context = &app.context;
    let place = Place::here(context)?;
    let ground = Ground::of(app, &place)?;
    let files = place.choose(arguments.which.run.as_ref())?;
    let mut rows = Vec::new();
    if let Some(step) = &arguments.step {
        let role = if arguments.review {
            Role::Review
        } else {
            Role::Implementation
        };
        let (settings, templates) = (&ground.settings, &ground.templates);
        let launched = engage::launch(context, &files, settings, templates, step, role)?;
        rows.push(LaunchRow {
            worker: Some(launched.worker),
            launch: Some(launched.number),
            ..row("launched", step)
        });
    } else {
        Board::look(&files)?.plan()?;
        let (settings, templates) = (&ground.settings, &ground.templates);
        let ticked = tick(context, &files, settings, templates, Aim::Advance)?;
        let board = Board::look(&files)?;
        let skipped = |step: &StepId, error: Error| LaunchRow {
            code: Some(error.code.name.to_owned()),
            why: Some(error.message),
            retry_at: error.retry_at,
            ..row("skipped", step)
        };
        for (name, mut host) in ticked.launched {
            let worker = board.worker(&name)?;
            rows.push(match host.settle_in(context) {
                Ok(()) => LaunchRow {
                    worker: Some(name),
                    launch: Some(worker.launch),
                    ..row("launched", &worker.step)
                },
                Err(error) => skipped(&worker.step, error),
            });
        }
        let refused = ticked.refused.into_iter();
        rows.extend(refused.map(|(step, error)| skipped(&step, error)));
    }
    app.view(&LaunchRows {
        schema: 1,
        run: files.id,
        rows,
    })
}

fn row(outcome: &str, step: &StepId) -> LaunchRow {
    LaunchRow {
        outcome: outcome.to_owned(),
        step: step.clone(),
        worker: None,
        launch: None,
        code: None,
        why: None,
        retry_at: None,
    }
}
