//! Variables that a Claude Code worker gets on top of the scrubbed environment.

use std::ffi::OsString;

use super::overlay::{PROFILES, profiles};
use crate::provider::LaunchFacts;

/// Names the home. macOS keychain items are named by a hash of this very string.
pub const HOME: &str = "CLAUDE_CONFIG_DIR";

/// The variables; the caller removed everything else that names an account.
pub fn variables(facts: &LaunchFacts) -> Vec<(OsString, OsString)> {
    let nowhere = profiles(&facts.home);
    [
        (HOME, facts.home.as_str()),
        (PROFILES, nowhere.as_str()),
        // `/login` and `/logout` in a worker's terminal would change or end the leased login.
        ("DISABLE_LOGIN_COMMAND", "1"),
        ("DISABLE_LOGOUT_COMMAND", "1"),
        // A worker may not replace the binary that other workers are started from.
        ("DISABLE_AUTOUPDATER", "1"),
    ]
    .map(|(name, value)| (name.into(), value.into()))
    .to_vec()
}
