//! Variables that a Codex worker gets on top of the scrubbed environment.

use std::ffi::OsString;

use crate::provider::LaunchFacts;

/// Names the home.
pub const HOME: &str = "CODEX_HOME";

/// The variables; the caller removed everything else that names an account.
pub fn variables(facts: &LaunchFacts) -> Vec<(OsString, OsString)> {
    [
        (HOME, facts.home.as_str()),
        // Set beside the home, so that no settings file moves the session index out of it.
        ("CODEX_SQLITE_HOME", facts.home.as_str()),
    ]
    .map(|(name, value)| (name.into(), value.into()))
    .to_vec()
}
