//! Which file holds a provider's login, what it says, and who it claims to be.

use camino::Utf8Path;

use super::{Login, LoginError, claude, codex};
use crate::id::ProviderKind;
use crate::identity::fingerprint::Account;
use crate::store::read;

/// The credential file of a provider, relative to the home.
pub(crate) fn credential_file(provider: ProviderKind) -> &'static str {
    match provider {
        ProviderKind::Claude => claude::login::FILE,
        ProviderKind::Codex => codex::login::FILE,
        ProviderKind::Scripted => "login.json",
    }
}

/// Reads a credential file's bytes.
pub(crate) fn parse_login(provider: ProviderKind, bytes: &[u8]) -> Result<Login, LoginError> {
    match provider {
        ProviderKind::Claude => claude::login::parse(bytes),
        ProviderKind::Codex => codex::login::parse(bytes),
        ProviderKind::Scripted => Err(LoginError::Unparsable),
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
