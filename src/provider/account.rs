//! How an account is called and claimed: where an identity comes from, and what a home's files say of it.

use camino::Utf8Path;

use super::{claude, codex};
use crate::id::ProviderKind;
use crate::identity::fingerprint::Account;
use crate::store::read;

/// How an identity learned from the server is called.
pub(crate) fn identity_source(provider: ProviderKind) -> &'static str {
    match provider {
        ProviderKind::Claude => "oauth-profile",
        ProviderKind::Codex => "usage",
        ProviderKind::Scripted => "scripted",
    }
}

/// The plan that a credential file claims, if it is one short word; nobody checks it.
pub(crate) fn plan(provider: ProviderKind, credential: &[u8]) -> Option<String> {
    let word = match provider {
        ProviderKind::Claude => claude::login::plan(credential),
        ProviderKind::Codex => codex::login::plan(credential),
        ProviderKind::Scripted => None,
    }?;
    let is_word = |letter: u8| letter.is_ascii_alphanumeric() || letter == b'_' || letter == b'-';
    (word.len() <= 24 && word.bytes().all(is_word)).then_some(word)
}

/// Whom the files of a home claim its login belongs to; `settings` is where the CLI's own settings are. A claim proves nothing, but one that contradicts
/// the server means that a login is half-way in or out.
pub(crate) fn hints(
    provider: ProviderKind,
    settings: &Utf8Path,
    credential: &[u8],
) -> Vec<Account> {
    match provider {
        ProviderKind::Claude => {
            // A settings file that cannot be read claims nothing.
            let settings = read::optional(settings.join(claude::login::SETTINGS_FILE));
            claude::login::hints(credential, settings.ok().flatten().as_deref())
        }
        ProviderKind::Codex => codex::login::hints(credential),
        ProviderKind::Scripted => Vec::new(),
    }
}
