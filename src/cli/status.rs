//! `agent-fleet status`.

use super::{App, Outcome};
use crate::error::Result;
use crate::id::PoolId;
use crate::report;

#[derive(Debug, clap::Args)]
pub(super) struct StatusArguments {
    /// Only this pool
    #[arg(long)]
    pool: Option<PoolId>,
}

pub(super) fn run(app: &App, arguments: &StatusArguments) -> Result<Outcome> {
    app.view(&report::status::status(
        &app.context,
        arguments.pool.as_ref(),
    )?)
}
