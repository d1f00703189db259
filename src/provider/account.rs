//! What is read of a provider's login: which file, what it says, whom it claims to be, what the server says.

use camino::Utf8Path;

use super::scripted::Scripted;
use super::{Fetched, Login, LoginError, Provider as _, Want, claude, codex};
use crate::clock::Deadline;
use crate::env::Context;
use crate::id::ProviderKind;
use crate::identity::fingerprint::Account;
use crate::registry::schema::ProviderSettings;
use crate::store::read;

/// The credential file of a provider, relative to the home.
pub(crate) fn credential_file(provider: ProviderKind) -> &'static str {
    match provider {
        ProviderKind::Claude => claude::login::FILE,
        ProviderKind::Codex => codex::login::FILE,
        ProviderKind::Scripted => Scripted.credential_file(),
    }
}

/// The variable that names a provider's home.
pub(crate) fn home_variable(provider: ProviderKind) -> &'static str {
    match provider {
        ProviderKind::Claude => "CLAUDE_CONFIG_DIR",
        ProviderKind::Codex => "CODEX_HOME",
        ProviderKind::Scripted => Scripted.home_variable(),
    }
}

/// Reads a credential file's bytes.
pub(crate) fn parse_login(provider: ProviderKind, bytes: &[u8]) -> Result<Login, LoginError> {
    match provider {
        ProviderKind::Claude => claude::login::parse(bytes),
        ProviderKind::Codex => codex::login::parse(bytes),
        ProviderKind::Scripted => Scripted.parse_login(bytes),
    }
}

/// Asks the provider's server with the login's own token.
pub(crate) fn fetch(
    context: &Context,
    settings: &ProviderSettings,
    login: &Login,
    want: Want,
    deadline: &Deadline,
) -> Fetched {
    match settings.kind {
        ProviderKind::Claude => claude::fetch(context, login, want, deadline),
        ProviderKind::Codex => codex::fetch(context, login, want, deadline),
        ProviderKind::Scripted => Scripted.fetch(context, settings, login, want, deadline),
    }
}

/// How an identity learned from the server is called.
pub(crate) fn identity_source(provider: ProviderKind) -> &'static str {
    match provider {
        ProviderKind::Claude => "oauth-profile",
        ProviderKind::Codex => "usage",
        ProviderKind::Scripted => "scripted",
    }
}

/// Whom the files of a home claim its login belongs to. A claim proves nothing, but one that contradicts
/// the server means that a login is half-way in or out.
pub(crate) fn hints(provider: ProviderKind, home: &Utf8Path, credential: &[u8]) -> Vec<Account> {
    match provider {
        ProviderKind::Claude => {
            // A settings file that cannot be read claims nothing.
            let settings = read::optional(home.join(claude::login::SETTINGS_FILE));
            claude::login::hints(credential, settings.ok().flatten().as_deref())
        }
        ProviderKind::Codex => codex::login::hints(credential),
        ProviderKind::Scripted => Vec::new(),
    }
}
