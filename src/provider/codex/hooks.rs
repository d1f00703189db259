//! The hooks and the notify program that a Codex home calls.

use camino::Utf8Path;

use crate::provider::home::hooks::Hook;

const fn hook(event: &'static str, verb: &'static str, timeout: u64) -> Hook {
    Hook {
        event,
        verb,
        timeout,
    }
}

/// The events that Codex has a hook for and that say something about a lease. It has none for a usage limit.
pub const HOOKS: [Hook; 5] = [
    hook("SessionStart", "session-start", 10),
    hook("UserPromptSubmit", "user-prompt-submit", 10),
    hook("Stop", "stop", 10),
    // Codex clamps this one to 3 s and makes the trust hash with the clamped value.
    hook("SessionEnd", "session-end", 3),
    hook("PermissionRequest", "permission-request", 10),
];

/// The hooks file, below the home.
pub const FILE: &str = "hooks.json";

/// The notify program: it needs no trust, so a turn's end is told even when the hooks are not run. Codex
/// calls it for conversations that it has with itself too.
pub fn notify(program: &Utf8Path) -> [&str; 3] {
    [program.as_str(), "hook", "turn-end"]
}

/// Whether a notify program is ours, under whatever path this program had.
pub fn is_our_notify(words: &[&str]) -> bool {
    matches!(words, [program, "hook", "turn-end"] if program.ends_with("/agent-fleet"))
}
