//! The hidden verbs of a launch.

use camino::{Utf8Path, Utf8PathBuf};

use super::{App, Ground, Outcome};
use crate::error::{Error, Result};
use crate::fleet::files::{FleetFiles, RunFiles};
use crate::fleet::launch::host::{self, Hosted};
use crate::fleet::send::go_on;
use crate::fleet::{notify, tick};

#[derive(Debug, clap::Args)]
pub(super) struct LaunchDirectory {
    /// Directory of the launch
    directory: Utf8PathBuf,
}

#[derive(Debug, clap::Args)]
pub(super) struct EventArguments {
    /// Directory of the run
    directory: Utf8PathBuf,
    /// The event
    id: String,
}

pub(super) fn host(app: &App, arguments: LaunchDirectory) -> Result<Outcome> {
    let context = &app.context;
    let files = run_of(app, &arguments.directory)?;
    let launch = match host::host(context, &files, arguments.directory)? {
        Hosted::Late => return Ok(Outcome::Done(0)),
        Hosted::Ended(launch, _) => launch,
    };
    // What became of it is written down at once; were this cut short, the next command would do it.
    let board = tick::settle(context, &files)?;
    let worker = board.workers.get(&launch.worker);
    if worker.is_some_and(|worker| !worker.queue.is_empty()) {
        let ground = Ground::at(app, &board.run.repository)?;
        let (settings, templates) = (&ground.settings, &ground.templates);
        go_on(context, &files, settings, templates, &launch.worker)?;
    }
    Ok(Outcome::Done(0))
}

pub(super) fn turn(app: &App, arguments: LaunchDirectory) -> Result<Outcome> {
    match host::turn(&app.context, arguments.directory)? {}
}

pub(super) fn event(app: &App, arguments: &EventArguments) -> Result<Outcome> {
    let files = run_at(app, Some(&arguments.directory))?;
    notify::run(&app.context, &files, &arguments.id)?;
    Ok(Outcome::Done(0))
}

/// The run that a launch's directory is in.
fn run_of(app: &App, directory: &Utf8Path) -> Result<RunFiles> {
    run_at(app, directory.parent().and_then(Utf8Path::parent))
}

fn run_at(app: &App, directory: Option<&Utf8Path>) -> Result<RunFiles> {
    let runs = FleetFiles::new(&app.context).runs()?;
    runs.into_iter()
        .find(|files| Some(files.directory.as_path()) == directory)
        .ok_or_else(|| Error::internal("a directory was given that is no run's"))
}
