//! Running the hooks of the home's settings.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value};

use super::super::home::{self, HOOK_TIMEOUT};
use crate::env::Context;
use crate::sys::spawn::{self, Ended, Program};

/// The environment that children get: the agent's own.
pub(super) fn environment(context: &Context) -> Vec<(OsString, OsString)> {
    context
        .variables
        .iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// Runs a shell command in the workspace to its end.
pub(super) fn shell(
    context: &Context,
    workspace: &Path,
    command: &str,
    input: Vec<u8>,
    limit: Duration,
) -> std::io::Result<Ended> {
    let program = Program {
        path: "/bin/sh".into(),
        arguments: vec!["-c".into(), command.into()],
        environment: environment(context),
        directory: Some(workspace.to_owned()),
        input,
    };
    spawn::run(&program, &context.clock.deadline(limit))
}

/// Fires an event: every command that the settings have for it, with the payload on standard input.
/// Returns what went wrong, one line each; a hook never stops the agent.
pub(super) fn fire(
    context: &Context,
    workspace: &Path,
    settings: &Map<String, Value>,
    event: &str,
    payload: &Value,
) -> Vec<String> {
    let mut problems = Vec::new();
    for command in home::commands(settings, event) {
        let input = payload.to_string().into_bytes();
        let limit = Duration::from_secs(HOOK_TIMEOUT);
        match shell(context, workspace, command, input, limit) {
            Ok(ended) if ended.status == Some(0) && ended.stdout.is_empty() => {}
            Ok(ended) => problems.push(format!(
                "hook {event} ended with {:?} and {} bytes of output",
                ended.status,
                ended.stdout.len()
            )),
            Err(error) => problems.push(format!("hook {event} did not run: {error}")),
        }
    }
    problems
}
