//! Why a login did not become a profile's. In every case what was in the home before is still there.

use crate::error::{Code, Refusal, code};
use crate::identity::fingerprint::Fingerprint;
use crate::provider::FetchError;
use crate::registry::schema::Profile;
use serde_json::{Map, Value};

/// A login that was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(super) struct Unfit {
    next: String,
    code: Code,
    message: String,
    /// The stable word for why.
    word: &'static str,
}

impl Unfit {
    fn new(profile: &Profile, code: Code, word: &'static str, message: String) -> Self {
        Self {
            next: super::again(profile),
            code,
            message,
            word,
        }
    }

    /// The provider's CLI said no, whether the person, the server or the time decided it.
    pub(super) fn failed(profile: &Profile, status: Option<i32>) -> Self {
        let how = status.map_or_else(
            || "was ended by a signal".to_owned(),
            |status| format!("ended with status {status}"),
        );
        let message = format!(
            "the {} login for profile `{}` {how}: nothing was changed",
            profile.provider, profile.id
        );
        Self::new(profile, code::LOGIN_FAILED, "login_refused", message)
    }

    /// The person ended it.
    pub(super) fn interrupted(profile: &Profile) -> Self {
        let message = format!(
            "the enrollment of profile `{}` was interrupted: nothing was changed",
            profile.id
        );
        Self::new(profile, code::LOGIN_FAILED, "interrupted", message)
    }

    /// The person ended the one before it.
    pub(super) fn not_begun(profile: &Profile) -> Self {
        let message = format!(
            "the enrollment of profile `{}` was not begun, since the one before it was interrupted",
            profile.id
        );
        Self::new(profile, code::LOGIN_FAILED, "interrupted", message)
    }

    /// The CLI was content, but there is no login to be used.
    pub(super) fn no_login(profile: &Profile, word: &'static str) -> Self {
        let message = format!(
            "the {} login for profile `{}` left no login that can be used ({word}): nothing was changed",
            profile.provider, profile.id
        );
        Self::new(profile, code::LOGIN_FAILED, word, message)
    }

    /// It is an API key.
    pub(super) fn paid(profile: &Profile) -> Self {
        let message = format!(
            "the login for profile `{}` is an API key, which is paid per token: it was not kept, nothing was changed",
            profile.id
        );
        Self::new(profile, code::MONEY_GUARD, "api_key", message)
    }

    /// The server was asked in vain.
    pub(super) fn unproved(profile: &Profile, error: &FetchError) -> Self {
        let (code, word) = match error {
            FetchError::Unauthorized => (code::AUTH_BROKEN, "unauthorized"),
            FetchError::Forbidden => (code::IDENTITY_UNPROVEN, "forbidden"),
            FetchError::Throttled(_) => (code::IDENTITY_UNPROVEN, "throttled"),
            FetchError::Unavailable(_) | FetchError::Unreached(_) => {
                (code::IDENTITY_UNPROVEN, "unavailable")
            }
            FetchError::Shape => (code::IDENTITY_UNPROVEN, "misread"),
        };
        let message = format!(
            "nobody can say whose the login for profile `{}` is, so nothing was changed: {error}",
            profile.id
        );
        Self::new(profile, code, word, message)
    }

    /// It was good at first and is not any more.
    pub(super) fn withdrawn(profile: &Profile) -> Self {
        let message = format!(
            "the new login for profile `{}` was good and was withdrawn seconds later: another account is signed in in the \
             same browser; use a private window for each account; nothing was changed",
            profile.id
        );
        Self::new(profile, code::AUTH_BROKEN, "withdrawn", message)
    }

    /// The files name another account than the server.
    pub(super) fn contradicted(profile: &Profile) -> Self {
        let message = format!(
            "the files of the login for profile `{}` name another account than the server does: nothing was changed",
            profile.id
        );
        Self::new(profile, code::IDENTITY_UNPROVEN, "hint_disagrees", message)
    }

    /// What the person gave does not look like what was asked for.
    pub(super) fn misshapen(profile: &Profile, why: &str) -> Self {
        let message = format!(
            "what was given for profile `{}` {why}: nothing was changed",
            profile.id
        );
        Self::new(profile, code::LOGIN_FAILED, "misshapen", message)
    }

    /// The server takes the token and may not say whose it is, and no person does either.
    pub(super) fn unnamed(profile: &Profile, pair: &str) -> Self {
        let message = format!(
            "the server takes the token for profile `{}`, but such a token may not say whose it is: name a profile that is \
             proved to be of the same account; nothing was changed",
            profile.id
        );
        let mut unfit = Self::new(profile, code::IDENTITY_UNPROVEN, "forbidden", message);
        unfit.next = format!("{} --same-account-as {pair}", unfit.next);
        unfit
    }

    /// The profile that should name the account was never proved itself.
    pub(super) fn unproved_pair(profile: &Profile, pair: &Profile) -> Self {
        let message = format!(
            "profile `{}` was not proved to be of any account, so it cannot say whose the token for `{}` is: nothing was \
             changed",
            pair.id, profile.id
        );
        let mut unfit = Self::new(profile, code::IDENTITY_UNPROVEN, "pair_unproven", message);
        unfit.next = format!("agent-fleet profile verify {}", pair.id);
        unfit
    }

    /// It is another account than the profile's.
    pub(super) fn another(profile: &Profile, pinned: &Fingerprint, found: &Fingerprint) -> Self {
        let message = format!(
            "profile `{}` is account {}, the new login is of account {}: it was not kept, nothing was changed",
            profile.id,
            pinned.short(),
            found.short()
        );
        Self::new(profile, code::IDENTITY_CHANGED, "another_account", message)
    }
}

impl Refusal for Unfit {
    fn code(&self) -> Code {
        self.code
    }
    fn hint(&self) -> Option<String> {
        Some(self.next.clone())
    }
    fn details(&self) -> Map<String, Value> {
        let mut details = Map::new();
        details.insert("reason".to_owned(), self.word.into());
        details
    }
}
