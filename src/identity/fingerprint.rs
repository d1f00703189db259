//! Opaque, keyed names for accounts.
//!
//! A fingerprint is HMAC-SHA-256 under the install's key over the length-prefixed provider, user, account
//! and organisation. One HMAC per component is kept beside it, because sources differ in what they know:
//! the Desktop app names only an account, an external reader one id. An unknown component matches anything,
//! so overlap fails closed. Nothing here can be turned back into an e-mail or an id.

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::id::{ProviderKind, hex};

/// The install's secret key; fingerprints of two installs cannot be compared.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl std::fmt::Debug for Key {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Key(…)")
    }
}

/// What a source says an account is. Held in memory only while it is turned into a [`Fingerprint`].
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Account {
    /// The person.
    pub user: Option<String>,
    /// The account or seat.
    pub account: Option<String>,
    /// The organisation or workspace.
    pub organization: Option<String>,
}

impl std::fmt::Debug for Account {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Account(…)")
    }
}

impl Account {
    /// Whether what both know differs.
    pub fn contradicts(&self, other: &Self) -> bool {
        let pairs = [
            (&self.user, &other.user),
            (&self.account, &other.account),
            (&self.organization, &other.organization),
        ];
        let differ = |pair: &(&Option<String>, &Option<String>)| matches!(pair, (Some(mine), Some(theirs)) if mine != theirs);
        pairs.iter().any(differ)
    }
}

/// The opaque name of an account: 64 hex digits in JSON, 8 to people.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Fingerprint {
    /// Over everything the source knows.
    pub whole: String,
    /// Over the person alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Over the account alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Over the organisation alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub organization: Option<String>,
}

impl Key {
    /// A key from its 32 bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    fn mac(&self, parts: &[&str]) -> String {
        #[expect(clippy::expect_used, reason = "HMAC takes a key of any length")]
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes a key of any length");
        for part in parts {
            mac.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            mac.update(part.as_bytes());
        }
        hex(&mac.finalize().into_bytes())
    }

    /// The fingerprint of an account at a provider.
    pub fn fingerprint(&self, provider: ProviderKind, account: &Account) -> Fingerprint {
        let part = |value: &Option<String>| value.clone().unwrap_or_default();
        let one = |kind: &str, value: &Option<String>| {
            value
                .as_ref()
                .map(|id| self.mac(&[provider.name(), kind, id]))
        };
        Fingerprint {
            whole: self.mac(&[
                provider.name(),
                &part(&account.user),
                &part(&account.account),
                &part(&account.organization),
            ]),
            user: one("user", &account.user),
            account: one("account", &account.account),
            organization: one("organization", &account.organization),
        }
    }
}

impl Fingerprint {
    /// Whether both may be the same account: no known component differs, and at least one is shared.
    pub fn overlaps(&self, other: &Self) -> bool {
        let pairs = [
            (&self.user, &other.user),
            (&self.account, &other.account),
            (&self.organization, &other.organization),
        ];
        let differs = pairs
            .iter()
            .any(|(mine, theirs)| matches!((mine, theirs), (Some(a), Some(b)) if a != b));
        let shares = pairs
            .iter()
            .any(|(mine, theirs)| matches!((mine, theirs), (Some(a), Some(b)) if a == b));
        !differs && shares
    }

    /// Which components are known, in name order.
    pub fn components(&self) -> Vec<String> {
        let all = [
            ("account", &self.account),
            ("organization", &self.organization),
            ("user", &self.user),
        ];
        all.into_iter()
            .filter(|(_, known)| known.is_some())
            .map(|(name, _)| name.to_owned())
            .collect()
    }

    /// The first 8 digits, for people.
    pub fn short(&self) -> &str {
        self.whole.get(..8).unwrap_or(&self.whole)
    }
}

#[cfg(test)]
mod tests {
    use super::{Account, Key};
    use crate::id::ProviderKind::{Claude, Codex};

    fn account(user: &str, account: &str, organization: &str) -> Account {
        let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Account {
            user: known(user),
            account: known(account),
            organization: known(organization),
        }
    }

    #[test]
    fn unknown_components_overlap_and_known_ones_tell_apart() {
        let key = Key::new([7; 32]);
        let print = |u, a, o| key.fingerprint(Claude, &account(u, a, o));
        assert!(
            print("", "a1", "").overlaps(&print("u1", "a1", "o1")),
            "Desktop knows only the account"
        );
        assert!(
            !print("", "a1", "o1").overlaps(&print("", "a1", "o2")),
            "one e-mail in two organisations"
        );
        assert!(
            !print("u1", "", "o1").overlaps(&print("u2", "", "o1")),
            "two people in one workspace"
        );
        assert!(
            !print("", "", "").overlaps(&print("u1", "a1", "o1")),
            "nothing known proves nothing"
        );
    }

    #[test]
    fn parts_cannot_be_shifted_and_providers_and_keys_separate() {
        let key = Key::new([7; 32]);
        assert_ne!(
            key.fingerprint(Claude, &account("ab", "c", "")).whole,
            key.fingerprint(Claude, &account("a", "bc", "")).whole
        );
        assert_ne!(
            key.fingerprint(Claude, &account("a", "", "")).whole,
            key.fingerprint(Codex, &account("a", "", "")).whole
        );
        assert_ne!(
            key.fingerprint(Claude, &account("a", "", "")).whole,
            Key::new([8; 32])
                .fingerprint(Claude, &account("a", "", ""))
                .whole
        );
        assert_eq!(
            key.fingerprint(Claude, &account("a", "", "")).whole.len(),
            64
        );
    }
}
