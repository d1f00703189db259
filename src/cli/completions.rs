//! `agent-fleet completions SHELL`.

use clap_complete::Shell;

use super::{Outcome, definition};
use crate::error::{Error, Result};

#[derive(Debug, clap::Args)]
pub(super) struct CompletionsArguments {
    /// Which shell
    shell: Shell,
}

pub(super) fn run(arguments: &CompletionsArguments) -> Result<Outcome> {
    let mut script = Vec::new();
    let mut command = definition();
    clap_complete::generate(arguments.shell, &mut command, "agent-fleet", &mut script);
    String::from_utf8(script)
        .map(Outcome::Text)
        .map_err(|_| Error::internal("the completion script is not UTF-8"))
}
