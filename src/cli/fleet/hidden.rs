//! The hidden verbs of a launch.

use camino::Utf8PathBuf;

use super::{App, Ground, Outcome};
use crate::error::{Error, Result};
use crate::fleet::files::{FleetFiles, RunFiles};
use crate::fleet::launch::host::{self, Hosted};
use crate::fleet::send::go_on;
use crate::fleet::tick::{Aim, tick};

#[derive(Debug, clap::Args)]
pub(super) struct LaunchDirectory {
    /// Directory of the launch
    directory: Utf8PathBuf,
}

pub(super) fn host(app: &App, arguments: LaunchDirectory) -> Result<Outcome> {
    let context = &app.context;
    let files = run_of(app, &arguments.directory)?;
    let launch = match host::host(context, arguments.directory)? {
        Hosted::Late => return Ok(Outcome::Done(0)),
        Hosted::Ended(launch, _) => launch,
    };
    // What became of it is written down at once; were this cut short, the next command would do it.
    let board = crate::fleet::board::Board::look(&files)?;
    let ground = Ground::at(app, &board.run.repository)?;
    tick(
        context,
        &files,
        &ground.settings,
        &ground.templates,
        Aim::Settle,
    )?;
    go_on(
        context,
        &files,
        &ground.settings,
        &ground.templates,
        &launch.worker,
    )?;
    Ok(Outcome::Done(0))
}

pub(super) fn turn(app: &App, arguments: LaunchDirectory) -> Result<Outcome> {
    match host::turn(&app.context, arguments.directory)? {}
}

/// The run that a launch's directory is in.
fn run_of(app: &App, directory: &Utf8PathBuf) -> Result<RunFiles> {
    let run = directory.parent().and_then(|launches| launches.parent());
    let runs = FleetFiles::new(&app.context).runs()?;
    runs.into_iter()
        .find(|files| Some(files.directory.as_path()) == run)
        .ok_or_else(|| Error::internal(format!("`{directory}` is no launch of a run")))
}
