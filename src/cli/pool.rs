//! `agent-fleet pool list`.

use super::{App, Outcome};
use crate::error::Result;
use crate::registry::profiles;
use crate::snapshot;

#[derive(Debug, clap::Args)]
pub(super) struct PoolArguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// List the pools and who is in them
    List,
}

pub(super) fn run(app: &App, arguments: &PoolArguments) -> Result<Outcome> {
    match arguments.verb {
        Verb::List => app.view(&profiles::pools(&snapshot::registry::load(&app.context)?)),
    }
}
