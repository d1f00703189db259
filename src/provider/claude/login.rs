//! Claude's credential file, `.credentials.json`, read without trusting it. Pure.
//!
//! The proof binds to `claudeAiOauth.accessToken` and `.refreshToken` alone: expiries, scopes, plan, tiers,
//! uuids and `mcpOAuth` change without the account changing. A refused refresh makes the CLI rewrite the
//! file with empty tokens (2.1.332): a logged-out stub, not a broken file.

use serde_json::Value;

use crate::identity::fingerprint::Account;
use crate::provider::answer::{digest, instant, text};
use crate::provider::{Login, LoginError, LoginKind};
use crate::secret::Secret;

/// The credential file, relative to the home.
pub(crate) const FILE: &str = ".credentials.json";
/// The CLI's own settings, relative to the home; they name an account, but nobody checks it.
pub(crate) const SETTINGS_FILE: &str = ".claude.json";

/// What a login must be good for: with one that lacks it the CLI takes an API key where it finds one, and is not
/// logged in where it does not (run with 2.1.332).
const INFERENCE: &str = "user:inference";

/// Reads a credential file's bytes.
pub(crate) fn parse(bytes: &[u8]) -> Result<Login, LoginError> {
    let file: Value = serde_json::from_slice(bytes).map_err(|_| LoginError::Unparsable)?;
    let login = file
        .as_object()
        .ok_or(LoginError::Unparsable)?
        .get("claudeAiOauth");
    let login = match login {
        None | Some(Value::Null) => &Value::Null,
        Some(login @ Value::Object(_)) => login,
        Some(_) => return Err(LoginError::Unparsable),
    };
    let access = text(&login["accessToken"]);
    let refresh = text(&login["refreshToken"]);
    let answers = login["scopes"]
        .as_array()
        .is_some_and(|scopes| scopes.iter().any(|scope| scope == INFERENCE));
    let kind = if !answers || access.is_none() && refresh.is_none() {
        LoginKind::Blank
    } else {
        LoginKind::Subscription
    };
    let expires = instant(&login["expiresAt"]);
    Ok(Login {
        kind,
        digest: digest(&[access.as_deref(), refresh.as_deref()]),
        access_token: access.map(Secret::new),
        account_id: None,
        access_expires_at: expires,
        refreshable: refresh.is_some(),
        renewed_from: refresh.as_ref().and(expires).map(Login::renewal_of),
        login_expires_at: match refresh {
            Some(_) => instant(&login["refreshTokenExpiresAt"]),
            None => expires,
        },
    })
}

/// Whom the files claim the login belongs to: hints that must agree with the server. `settings` are the
/// bytes of [`SETTINGS_FILE`], if there is one.
pub(crate) fn hints(credential: &[u8], settings: Option<&[u8]>) -> Vec<Account> {
    let value = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap_or_default();
    let claim = |claims: &Value| Account {
        user: None,
        account: text(&claims["accountUuid"]),
        organization: text(&claims["organizationUuid"]),
    };
    let mut hints = vec![claim(&value(credential)["claudeAiOauth"])];
    if let Some(settings) = settings {
        hints.push(claim(&value(settings)["oauthAccount"]));
    }
    hints
}

/// The plan that the login claims.
pub(crate) fn plan(credential: &[u8]) -> Option<String> {
    let file: Value = serde_json::from_slice(credential).ok()?;
    text(&file["claudeAiOauth"]["subscriptionType"])
}

#[cfg(test)]
mod tests {
    use super::{hints, parse, plan};
    use crate::provider::LoginKind;
    use proptest::prelude::*;

    const LOGIN: &[u8] = include_bytes!("../../../fixtures/provider/claude/credentials.json");
    const BLANK: &[u8] = include_bytes!("../../../fixtures/provider/claude/credentials-blank.json");

    fn edited(from: &str, to: &str) -> String {
        let text = String::from_utf8(LOGIN.to_vec()).unwrap();
        assert!(text.contains(from), "the fixture has no {from}");
        parse(text.replace(from, to).as_bytes()).unwrap().digest
    }

    #[test]
    fn a_login_says_when_it_ends_and_a_stub_is_blank() {
        let login = parse(LOGIN).unwrap();
        assert_eq!(login.kind, LoginKind::Subscription);
        assert_eq!(login.access_expires_at, "2026-11-30T16:00:00Z".parse().ok());
        assert_eq!(login.login_expires_at, "2026-12-28T08:00:00Z".parse().ok());
        assert!(login.refreshable);
        assert_eq!(plan(LOGIN).as_deref(), Some("max"));
        for blank in [
            BLANK,
            b"{}",
            b"{\"mcpOAuth\":{}}",
            b"{\"claudeAiOauth\":null}",
        ] {
            assert_eq!(parse(blank).unwrap().kind, LoginKind::Blank);
        }
    }

    #[test]
    fn a_login_that_may_not_ask_the_model_is_none() {
        let text = String::from_utf8(LOGIN.to_vec()).unwrap();
        for scopes in ["[\"user:profile\"]", "[]", "null", "\"user:inference\""] {
            let text = text.replace("[\"user:inference\", \"user:profile\"]", scopes);
            let login = parse(text.as_bytes()).unwrap();
            assert_eq!(login.kind, LoginKind::Blank, "{scopes}");
        }
    }

    #[test]
    fn only_the_tokens_change_the_digest() {
        let digest = parse(LOGIN).unwrap().digest;
        for other in [
            ("\"expiresAt\": 1796054400000", "\"expiresAt\": 1"),
            ("\"max\"", "\"pro\""),
            ("11111111-", "22222222-"),
            ("user:inference", "user:else"),
            ("mcp-secret", "mcp-other"),
        ] {
            assert_eq!(edited(other.0, other.1), digest, "{other:?}");
        }
        assert_ne!(edited("LAB0001-access", "LAB0002-access"), digest);
        assert_ne!(edited("LAB0001-refresh", "LAB0002-refresh"), digest);
    }

    #[test]
    fn claims_are_read_from_both_files() {
        let settings = br#"{"oauthAccount":{"accountUuid":"a","organizationUuid":"o"}}"#;
        let claims = hints(LOGIN, Some(settings));
        assert_eq!(claims.len(), 2);
        assert!(
            claims[0]
                .account
                .as_deref()
                .unwrap()
                .starts_with("11111111-")
        );
        assert_eq!(claims[1].organization.as_deref(), Some("o"));
        assert_eq!(hints(b"no json", Some(b"")).len(), 2);
    }

    #[test]
    fn debug_shows_no_token() {
        let text = format!("{:?}", parse(LOGIN).unwrap());
        assert!(!text.contains("LAB0001"), "{text}");
    }

    proptest! {
        #[test]
        fn any_bytes_and_any_torn_file_are_survived(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            cut in 0..LOGIN.len() - 2,
        ) {
            drop(parse(&bytes));
            prop_assert!(parse(&LOGIN[..cut]).is_err(), "a torn file was taken for a login");
        }
    }
}
