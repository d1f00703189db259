//! The scripted provider's credential file, `login.json`. Pure.
//!
//! It has what a real one has: a short-lived access token, a refresh token that is good for one use, and
//! hints about the account that prove nothing. All of it is synthetic.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::id::hex;
use crate::provider::{Login, LoginError, LoginKind};
use crate::secret::Secret;

/// Name of the credential file in the home.
pub(super) const FILE: &str = "login.json";

/// The file's content.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LoginFile {
    /// A hint: the account that logged in. Only the server's answer counts.
    pub account: String,
    /// A hint: the person.
    #[serde(default)]
    pub user: Option<String>,
    /// Access token; empty after a logout.
    pub token: String,
    /// Good for one refresh.
    #[serde(default)]
    pub refresh_token: Option<String>,
    /// When the access token expires.
    #[serde(default)]
    pub expires_at: Option<Timestamp>,
    /// When the whole login ends.
    #[serde(default)]
    pub login_expires_at: Option<Timestamp>,
    /// True when the token is an API key, which is paid for per token.
    #[serde(default)]
    pub api_key: bool,
}

impl std::fmt::Debug for LoginFile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("LoginFile(…)")
    }
}

/// Reads the file's bytes.
pub(super) fn parse_file(bytes: &[u8]) -> Result<LoginFile, LoginError> {
    serde_json::from_slice(bytes).map_err(|_| LoginError::Unparsable)
}

/// Reads the file's bytes into what the broker wants to know.
pub(super) fn parse(bytes: &[u8]) -> Result<Login, LoginError> {
    let file = parse_file(bytes)?;
    let refresh = file.refresh_token.as_deref().unwrap_or_default();
    let kind = if file.token.is_empty() {
        LoginKind::Blank
    } else if file.api_key {
        LoginKind::ApiKey
    } else {
        LoginKind::Subscription
    };
    let refreshable = !refresh.is_empty() && !file.token.is_empty();
    Ok(Login {
        kind,
        digest: digest(&[&file.token, refresh]),
        refreshable,
        renewed_from: file
            .expires_at
            .filter(|_| refreshable)
            .map(Login::renewal_of),
        access_token: (!file.token.is_empty()).then(|| Secret::new(&file.token)),
        account_id: None,
        access_expires_at: file.expires_at,
        login_expires_at: if refreshable {
            file.login_expires_at
        } else {
            file.expires_at
        },
    })
}

/// SHA-256 over length-prefixed parts, so that no two lists of parts read alike.
fn digest(parts: &[&str]) -> String {
    let mut sum = Sha256::new();
    for part in parts {
        sum.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        sum.update(part.as_bytes());
    }
    hex(&sum.finalize())
}

#[cfg(test)]
mod tests {
    use super::parse;
    use crate::provider::{LoginError, LoginKind};
    use serde_json::{Value, json};

    fn login() -> Value {
        json!({"account": "one", "user": "ada", "token": "a1", "refresh_token": "r1",
               "expires_at": "2030-01-01T00:00:00Z"})
    }

    fn digest(value: &Value) -> String {
        parse(value.to_string().as_bytes()).unwrap().digest
    }

    #[test]
    fn the_digest_follows_the_tokens_and_nothing_else() {
        let first = digest(&login());
        let mut hints = login();
        hints["account"] = "two".into();
        hints["expires_at"] = "2031-01-01T00:00:00Z".into();
        hints["note"] = "kept".into();
        assert_eq!(digest(&hints), first);
        for (key, value) in [("token", "a2"), ("refresh_token", "r2")] {
            let mut other = login();
            other[key] = value.into();
            assert_ne!(digest(&other), first, "{key}");
        }
        let mut shifted = login();
        shifted["token"] = "a1r".into();
        shifted["refresh_token"] = "1".into();
        assert_ne!(digest(&shifted), first, "parts can be shifted");
    }

    #[test]
    fn a_blank_login_a_key_and_half_a_file_are_told_apart() {
        let mut blank = login();
        blank["token"] = "".into();
        let blank = parse(blank.to_string().as_bytes()).unwrap();
        assert_eq!(
            (blank.kind, blank.refreshable, blank.access_token),
            (LoginKind::Blank, false, None)
        );
        let mut key = login();
        key["api_key"] = true.into();
        assert_eq!(
            parse(key.to_string().as_bytes()).unwrap().kind,
            LoginKind::ApiKey
        );
        for bad in ["", "{", "[]", "{\"token\":3}"] {
            assert_eq!(parse(bad.as_bytes()).unwrap_err(), LoginError::Unparsable);
        }
    }
}
