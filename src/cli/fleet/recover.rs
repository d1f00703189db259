//! `agent-fleet fleet recover`.

use std::path::PathBuf;

use super::{App, Outcome, Which};
use crate::contract::fleet::steering::RunSetAside;
use crate::error::{Error, Result, code};
use crate::fleet::locate::Place;
use crate::fleet::recover::{Alive, recover};
use crate::fleet::set_aside::set_aside;
use crate::fleet::show;
use crate::id::fleet::WorkerId;
use crate::store::read;

/// Longest evidence that is read, in bytes.
const LONGEST: u64 = 4 << 20;

#[derive(Debug, clap::Args)]
pub(super) struct RecoverArguments {
    /// The worker that is gone; needs --evidence
    #[arg(required_unless_present = "set_aside")]
    worker: Option<WorkerId>,
    /// File that says how you know: kept with the run
    #[arg(long, value_name = "FILE", required_unless_present = "set_aside")]
    evidence: Option<PathBuf>,
    /// Give it up even though its host, its process or its lease is alive
    #[arg(long)]
    even_if_alive: bool,
    /// Move a whole run out of the way whose own records cannot be read; nothing of it is deleted
    #[arg(long, requires = "run", conflicts_with_all = ["worker", "evidence"])]
    set_aside: bool,
    #[command(flatten)]
    which: Which,
}

pub(super) fn run(app: &App, arguments: &RecoverArguments) -> Result<Outcome> {
    let context = &app.context;
    let files = Place::here(context)?.choose(arguments.which.run.as_ref())?;
    let alive = if arguments.even_if_alive {
        Alive::Ignore
    } else {
        Alive::Refuse
    };
    let (worker, evidence) = match (&arguments.worker, &arguments.evidence) {
        _ if arguments.set_aside => {
            let directory = set_aside(context, &files, alive)?;
            return app.view(&RunSetAside {
                schema: 1,
                run: files.id,
                directory,
            });
        }
        (Some(worker), Some(evidence)) => (worker, evidence),
        (None, _) | (_, None) => {
            let message = "a worker and the evidence that it is gone are needed";
            let hint = "agent-fleet fleet recover --help";
            return Err(Error::new(code::USAGE, message).hint(hint));
        }
    };
    let path = crate::registry::project::absolute(context, evidence)?;
    let failed = |error: std::io::Error| Error::io("read", &path, &error);
    let file = read::open(&path).map_err(failed)?;
    let bytes = read::to_end(&file, LONGEST).map_err(failed)?;
    let evidence = String::from_utf8_lossy(&bytes);
    let board = recover(context, &files, worker, &evidence, alive)?;
    app.view(&show::status(context, &board)?)
}
