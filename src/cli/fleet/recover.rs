//! `agent-fleet fleet recover`.

use std::path::PathBuf;

use super::{App, Outcome, Which};
use crate::error::{Error, Result};
use crate::fleet::locate::Place;
use crate::fleet::recover::{Alive, recover};
use crate::fleet::show;
use crate::id::fleet::WorkerId;
use crate::store::read;

/// Longest evidence that is read, in bytes.
const LONGEST: u64 = 4 << 20;

#[derive(Debug, clap::Args)]
pub(super) struct RecoverArguments {
    /// The worker that is gone
    worker: WorkerId,
    /// File that says how you know: kept with the run
    #[arg(long, value_name = "FILE")]
    evidence: PathBuf,
    /// Give it up even though its host, its process or its lease is alive
    #[arg(long)]
    even_if_alive: bool,
    #[command(flatten)]
    which: Which,
}

pub(super) fn run(app: &App, arguments: &RecoverArguments) -> Result<Outcome> {
    let context = &app.context;
    let files = Place::here(context)?.choose(arguments.which.run.as_ref())?;
    let path = crate::registry::project::absolute(context, &arguments.evidence)?;
    let failed = |error: std::io::Error| Error::io("read", &path, &error);
    let file = read::open(&path).map_err(failed)?;
    let bytes = read::to_end(&file, LONGEST).map_err(failed)?;
    let evidence = String::from_utf8_lossy(&bytes);
    let alive = if arguments.even_if_alive {
        Alive::Ignore
    } else {
        Alive::Refuse
    };
    let board = recover(context, &files, &arguments.worker, &evidence, alive)?;
    app.view(&show::status(context, &board)?)
}
