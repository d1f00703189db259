//! `agent-fleet scripted-agent`: this program as the built-in provider's CLI.

use std::ffi::OsString;

use super::{App, Outcome};
use crate::provider::scripted::agent;

pub(super) use crate::provider::scripted::VERB;

#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub(super) struct AgentArguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

pub(super) fn run(app: &App, arguments: &AgentArguments) -> Outcome {
    Outcome::Done(agent::run(&app.context, &arguments.arguments))
}
