//! `agent-fleet fleet stop`.

use std::time::Duration;

use super::{App, Outcome, Which as WhichRun};
use crate::contract::fleet::steering::{FleetStopped, StoppedRun};
use crate::error::{Error, Result, code};
use crate::fleet::board::Board;
use crate::fleet::files::FleetFiles;
use crate::fleet::locate::Place;
use crate::fleet::start::refuse_inside;
use crate::fleet::stop::{Force, Which, failed, stop};
use crate::id::fleet::WorkerId;

#[derive(Debug, clap::Args)]
pub(super) struct StopArguments {
    /// The workers
    #[arg(
        value_name = "WORKER",
        required_unless_present_any = ["all", "host"],
        conflicts_with_all = ["all", "host"]
    )]
    workers: Vec<WorkerId>,
    /// Every worker of the run; the run is over then
    #[arg(long)]
    all: bool,
    /// Every worker of every run on this machine; the runs are over then
    #[arg(long, conflicts_with = "run")]
    host: bool,
    /// How long each may take to end after it was asked
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 10,
        value_parser = clap::value_parser!(u64).range(0..=600)
    )]
    timeout: u64,
    /// Kill those that do not end in that time, with the programs that they started
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    which: WhichRun,
}

pub(super) fn run(app: &App, arguments: &StopArguments) -> Result<Outcome> {
    let context = &app.context;
    refuse_inside(context)?;
    let force = Force {
        timeout: Duration::from_secs(arguments.timeout),
        force: arguments.force,
    };
    let mut note = |text: &str| app.note(text);
    let runs = if arguments.host {
        everywhere(app, force)?
    } else {
        let place = Place::here(context)?;
        let files = place.choose(arguments.which.run.as_ref())?;
        let which = if arguments.all {
            Which::All
        } else {
            Which::Named(&arguments.workers)
        };
        vec![stop(context, &files, which, force, &mut note)?]
    };
    let stopped = FleetStopped::of(runs);
    let status = u8::from(!stopped.confirmed);
    app.view_with(&stopped, status)
}

/// Stops every run that is not over or has a worker that may run; one that cannot be read costs the others nothing.
fn everywhere(app: &App, force: Force) -> Result<Vec<StoppedRun>> {
    let context = &app.context;
    let mut runs = Vec::new();
    for files in FleetFiles::new(context).runs()? {
        let stopped = Board::look(&files).and_then(|board| {
            if board.run.state.is_final() && board.active().next().is_none() {
                return Ok(None);
            }
            stop(context, &files, Which::All, force, &mut |text| {
                app.note(text);
            })
            .map(Some)
        });
        match stopped {
            Ok(Some(stopped)) => runs.push(stopped),
            Ok(None) => {}
            // Made by a command that was cut short before its record was there.
            Err(Error { code: found, .. }) if found == code::NOT_FOUND => {}
            Err(error) => runs.push(failed(&files, &error)),
        }
    }
    Ok(runs)
}
