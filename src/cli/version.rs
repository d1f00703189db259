//! `agent-fleet version`.

use super::{App, Outcome};
use crate::contract::document::Version;
use crate::error::Result;

#[derive(Debug, clap::Args)]
pub(super) struct VersionArguments {}

pub(super) fn run(app: &App, _: VersionArguments) -> Result<Outcome> {
    app.view(&Version::THIS)
}
