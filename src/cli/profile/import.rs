//! `agent-fleet profile import FILE`.

use std::path::PathBuf;

use super::{App, Outcome};
use crate::error::Result;
use crate::import;
use crate::registry::project;

#[derive(Debug, clap::Args)]
pub(super) struct ImportArguments {
    /// Another tool's list: claude-swap's sequence.json, codex-auth's registry.json, ccs's profiles.json, or an
    /// accounts.toml
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(super) fn run(app: &App, arguments: &ImportArguments) -> Result<Outcome> {
    let file = project::absolute(&app.context, &arguments.file)?;
    app.view(&import::import(&app.context, file)?)
}
