//! `agent-fleet init`.

use super::{App, Outcome};
use crate::error::Result;
use crate::id::ProviderKind;
use crate::import;
use crate::registry::init::{self, Counts};

#[derive(Debug, clap::Args)]
pub(super) struct InitArguments {
    /// Profiles of Claude Code to make
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100))]
    claude: u32,
    /// Profiles of Codex to make
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100))]
    codex: u32,
    /// Profiles of the built-in scripted provider to make, for trying things
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100))]
    scripted: u32,
    /// Look for logins of the CLIs and of other tools, and add a disabled profile for each; no login is copied.
    /// Works on a registry that is there already, too
    #[arg(long)]
    import: bool,
}

pub(super) fn run(app: &App, arguments: &InitArguments) -> Result<Outcome> {
    let counts = Counts(
        [
            (ProviderKind::Claude, arguments.claude),
            (ProviderKind::Codex, arguments.codex),
            (ProviderKind::Scripted, arguments.scripted),
        ]
        .into_iter()
        .collect(),
    );
    if arguments.import {
        return app.view(&import::survey(&app.context, &counts)?);
    }
    app.view(&init::init(&app.context, &counts)?)
}
