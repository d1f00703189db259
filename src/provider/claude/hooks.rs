//! The hooks and the status line that a Claude home calls.

use camino::Utf8Path;

use crate::provider::home::hooks::Hook;
use crate::sys::shell;

const fn hook(event: &'static str, verb: &'static str) -> Hook {
    Hook {
        event,
        verb,
        timeout: 10,
    }
}

/// Every event that Claude Code has a hook for and that says something about a lease.
pub const HOOKS: [Hook; 7] = [
    hook("SessionStart", "session-start"),
    hook("UserPromptSubmit", "user-prompt-submit"),
    hook("Stop", "stop"),
    hook("StopFailure", "stop-failure"),
    hook("SessionEnd", "session-end"),
    hook("PermissionRequest", "permission-request"),
    hook("Notification", "notification"),
];

/// The status line's command. It names the home, where the person's own command was put aside.
pub fn status_line(program: &Utf8Path, home: &Utf8Path) -> String {
    format!(
        "{} statusline --home {}",
        shell::quote(program.as_str()),
        shell::quote(home.as_str())
    )
}

/// Whether a status line command is ours, under whatever path this program had.
pub fn is_our_status_line(command: &str) -> bool {
    command
        .split_once(" statusline --home ")
        .is_some_and(|(program, _)| program.trim_end_matches('\'').ends_with("/agent-fleet"))
}
