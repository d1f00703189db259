//! `agent-fleet which`.

use super::{App, Outcome};
use crate::error::Result;
use crate::worker::which;

#[derive(Debug, clap::Args)]
pub(super) struct WhichArguments {}

pub(super) fn run(app: &App, _: &WhichArguments) -> Result<Outcome> {
    app.view(&which::which(&app.context)?)
}
