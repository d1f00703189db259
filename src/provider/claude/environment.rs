//! Variables that a Claude Code worker gets on top of the scrubbed environment.

use std::ffi::OsString;

use camino::Utf8Path;

use super::overlay::{BLANK, PROFILES, STORE, profiles};
use crate::env::Variables;
use crate::provider::LaunchFacts;

/// Names the home. macOS keychain items are named by a hash of this very string.
pub const HOME: &str = "CLAUDE_CONFIG_DIR";

/// Variables that name a directory of logins, with what another one would do.
pub const MOVED: &[(&str, &str)] = &[
    (
        PROFILES,
        "names other stored logins, which outrank the home's",
    ),
    (HOME, "moves the whole home"),
    (STORE, "takes the login of another home"),
];

/// Names the descriptor of a long-lived token. The CLI reads it to its end before it does anything else, and neither
/// variable nor descriptor reaches a tool, a hook or an MCP server (run with 2.1.332).
pub const TOKEN_DESCRIPTOR: &str = "CLAUDE_CODE_OAUTH_TOKEN_FILE_DESCRIPTOR";

/// The same for an API key.
pub const KEY_DESCRIPTOR: &str = "CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR";

/// Variables of a caller that settings cannot set, or that workers are given anew.
const CALLERS: &[(&str, &str)] = &[
    (
        "ANTHROPIC_IDENTITY_TOKEN_FILE",
        "exchanges another identity for a token",
    ),
    (KEY_DESCRIPTOR, "bills the key's account"),
    (
        "CLAUDE_CODE_OAUTH_REFRESH_TOKEN",
        "signs the home in as another account",
    ),
    (TOKEN_DESCRIPTOR, "sends this token instead of the login"),
    ("USE_LOCAL_OAUTH", "renews the login with another server"),
    ("USE_STAGING_OAUTH", "renews the login with another server"),
];

/// What of a caller's environment would replace the login, if workers saw it.
pub fn ambient() -> Vec<(&'static str, &'static str)> {
    let mut names: Vec<_> = [BLANK, MOVED, CALLERS].concat();
    names.sort_unstable();
    names
}

/// Switches that keep a worker from spending money beside the subscription, with what each is for.
pub const FRUGAL: &[(&str, &str)] = &[
    (
        "CLAUDE_CODE_DISABLE_FAST_MODE",
        "fast mode is billed apart from the subscription",
    ),
    (
        "DISABLE_EXTRA_USAGE_COMMAND",
        "`/usage-credits` buys usage and switches it on",
    ),
];

/// The variables; the caller removed everything else that names an account.
pub fn variables(facts: &LaunchFacts) -> Vec<(OsString, OsString)> {
    let nowhere = profiles(&facts.home);
    let unspent = FRUGAL.iter().filter(|_| !facts.may_spend);
    let set = [
        (HOME, facts.home.as_str()),
        (PROFILES, nowhere.as_str()),
        // `/login` and `/logout` in a worker's terminal would change or end the leased login. What is typed as
        // `/login` chooses `/design-login` then, which nothing turns off: a login for another product, beside this one.
        ("DISABLE_LOGIN_COMMAND", "1"),
        ("DISABLE_LOGOUT_COMMAND", "1"),
        // A worker may not replace the binary that other workers are started from.
        ("DISABLE_AUTOUPDATER", "1"),
    ];
    set.into_iter()
        .chain(unspent.map(|(name, _)| (*name, "1")))
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

/// Shows the whole link of a login instead of a short one; a person may want it.
const WHOLE_LINK: &str = "CLAUDE_CODE_FULL_SIGN_IN_LINK";

/// The variables for a login in this home.
pub fn login(home: &Utf8Path, variables: &Variables) -> Vec<(OsString, OsString)> {
    let nowhere = profiles(home);
    let mut set: Vec<(OsString, OsString)> = [
        (HOME, home.as_str()),
        (PROFILES, nowhere.as_str()),
        ("DISABLE_LOGOUT_COMMAND", "1"),
        ("DISABLE_AUTOUPDATER", "1"),
    ]
    .map(|(name, value)| (name.into(), value.into()))
    .to_vec();
    if let Some(value) = variables.raw(WHOLE_LINK) {
        set.push((WHOLE_LINK.into(), value.to_owned()));
    }
    set
}
