//! Variables that a Codex worker gets on top of the scrubbed environment.

use std::ffi::OsString;

use camino::Utf8Path;

use crate::provider::LaunchFacts;

/// Names the home.
pub const HOME: &str = "CODEX_HOME";

/// What of a caller's environment would replace the login or its route, if workers saw it.
///
/// With a login in the home the `OPENAI_` names had no effect in 0.171, which other versions need not keep.
pub const AMBIENT: &[(&str, &str)] = &[
    (
        "CODEX_ACCESS_TOKEN",
        "sends this token instead of the login",
    ),
    ("CODEX_API_KEY", "bills the key's account"),
    (
        "CODEX_APP_SERVER_LOGIN_ISSUER",
        "renews the login with another server",
    ),
    (HOME, "moves the whole home"),
    (
        "CODEX_REFRESH_TOKEN_URL_OVERRIDE",
        "sends the login's refresh token to that host",
    ),
    (
        "CODEX_REVOKE_TOKEN_URL_OVERRIDE",
        "sends the login's refresh token to that host",
    ),
    (
        "CODEX_SQLITE_HOME",
        "moves the session index out of the home",
    ),
    ("OPENAI_API_KEY", "bills the key's account"),
    ("OPENAI_BASE_URL", "sends the work to another host"),
    (
        "OPENAI_FEDERATION_RULE_ID",
        "exchanges another identity for a token",
    ),
    (
        "OPENAI_IDENTITY_TOKEN_FILE",
        "exchanges another identity for a token",
    ),
    ("OPENAI_ORGANIZATION", "bills another organisation"),
    ("OPENAI_PROJECT", "bills another project"),
];

/// The variables; the caller removed everything else that names an account.
pub fn variables(facts: &LaunchFacts) -> Vec<(OsString, OsString)> {
    homes(&facts.home)
}

/// Names the home, and says that everything is to stay in it.
pub fn homes(home: &Utf8Path) -> Vec<(OsString, OsString)> {
    [
        (HOME, home.as_str()),
        // Set beside the home, so that no settings file moves the session index out of it.
        ("CODEX_SQLITE_HOME", home.as_str()),
    ]
    .map(|(name, value)| (name.into(), value.into()))
    .to_vec()
}
