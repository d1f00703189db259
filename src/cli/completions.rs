//! `agent-fleet completions SHELL`.

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::{Arguments, Outcome};
use crate::error::{Error, Result};

#[derive(Debug, clap::Args)]
pub(super) struct CompletionsArguments {
    /// Which shell
    shell: Shell,
}

pub(super) fn run(arguments: &CompletionsArguments) -> Result<Outcome> {
    let mut script = Vec::new();
    let mut command = Arguments::command();
    clap_complete::generate(arguments.shell, &mut command, "agent-fleet", &mut script);
    String::from_utf8(script)
        .map(Outcome::Text)
        .map_err(|_| Error::internal("the completion script is not UTF-8"))
}
