//! Codex's credential file, `auth.json`, read without trusting it. Pure.
//!
//! The proof binds to `auth_mode`, `OPENAI_API_KEY` and `tokens.{id_token, access_token, refresh_token,
//! account_id}`: the same tokens with another `account_id` are billed elsewhere. `last_refresh` is not in it.
//! The only expiry is the access token's `exp` claim; nobody checks its signature, and nothing but the
//! question "is it worth asking the server with it" depends on it.

use serde_json::Value;

use crate::identity::fingerprint::Account;
use crate::provider::answer::{digest, instant, text};
use crate::provider::{Login, LoginError, LoginKind};
use crate::secret::Secret;

/// The credential file, relative to the home.
pub(crate) const FILE: &str = "auth.json";
/// The claim that holds the account's ids in both JWTs.
const CLAIM: &str = "https://api.openai.com/auth";

/// Reads a credential file's bytes.
pub(crate) fn parse(bytes: &[u8]) -> Result<Login, LoginError> {
    let file = object(bytes).ok_or(LoginError::Unparsable)?;
    let tokens = match &file["tokens"] {
        tokens @ (Value::Null | Value::Object(_)) => tokens,
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return Err(LoginError::Unparsable);
        }
    };
    let mode = text(&file["auth_mode"]);
    let key = text(&file["OPENAI_API_KEY"]);
    let [id, access, refresh, account] =
        ["id_token", "access_token", "refresh_token", "account_id"].map(|name| text(&tokens[name]));
    let tokens_present = access.is_some() || refresh.is_some();
    let kind = match mode.as_deref() {
        Some("apikey") if key.is_some() => LoginKind::ApiKey,
        Some("apikey") => LoginKind::Blank,
        _ if tokens_present => LoginKind::Subscription,
        _ if key.is_some() => LoginKind::ApiKey,
        _ => LoginKind::Blank,
    };
    let fields = [&mode, &key, &id, &access, &refresh, &account].map(|field| field.as_deref());
    let expires = access
        .as_deref()
        .and_then(claims)
        .and_then(|claims| instant(&claims["exp"]));
    Ok(Login {
        kind,
        digest: digest(&fields),
        access_token: access.map(Secret::new),
        account_id: account.map(Secret::new),
        access_expires_at: expires,
        refreshable: refresh.is_some(),
        login_expires_at: None,
    })
}

/// Whom the file claims the login belongs to: hints that must agree with the server.
pub(crate) fn hints(credential: &[u8]) -> Vec<Account> {
    let file = object(credential).unwrap_or_default();
    let tokens = &file["tokens"];
    let stored = Account {
        user: None,
        account: text(&tokens["account_id"]),
        organization: None,
    };
    let claims = tokens["id_token"]
        .as_str()
        .and_then(claims)
        .unwrap_or_default();
    let claims = &claims[CLAIM];
    let claimed = Account {
        user: text(&claims["chatgpt_user_id"]).or_else(|| text(&claims["user_id"])),
        account: text(&claims["chatgpt_account_id"]),
        organization: None,
    };
    vec![stored, claimed]
}

fn object(bytes: &[u8]) -> Option<Value> {
    serde_json::from_slice(bytes).ok().filter(Value::is_object)
}

/// The claims of a JWT, unchecked.
fn claims(token: &str) -> Option<Value> {
    let body = token.split('.').nth(1)?;
    serde_json::from_slice(&base64url(body)?).ok()
}

/// Decodes base64url with or without padding.
fn base64url(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    let (mut held, mut bits) = (0_u32, 0);
    for letter in text.trim_end_matches('=').bytes() {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        held = (held << 6) | u32::from(value);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from((held >> bits) & 0xff).ok()?);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::{base64url, hints, parse};
    use crate::provider::LoginKind;
    use proptest::prelude::*;

    const LOGIN: &[u8] = include_bytes!("../../../fixtures/provider/codex/auth.json");
    const KEY: &[u8] = include_bytes!("../../../fixtures/provider/codex/auth-api-key.json");

    fn edited(from: &str, to: &str) -> String {
        let text = String::from_utf8(LOGIN.to_vec()).unwrap();
        assert!(text.contains(from), "the fixture has no {from}");
        parse(text.replace(from, to).as_bytes()).unwrap().digest
    }

    #[test]
    fn a_login_an_api_key_and_a_stub_are_told_apart() {
        let login = parse(LOGIN).unwrap();
        assert_eq!(login.kind, LoginKind::Subscription);
        assert_eq!(login.access_expires_at, "2026-12-30T08:00:00Z".parse().ok());
        assert_eq!(parse(KEY).unwrap().kind, LoginKind::ApiKey);
        assert_eq!(parse(b"{}").unwrap().kind, LoginKind::Blank);
        assert_eq!(
            parse(b"{\"tokens\":null,\"OPENAI_API_KEY\":null}")
                .unwrap()
                .kind,
            LoginKind::Blank
        );
    }

    #[test]
    fn the_account_id_is_part_of_the_login_and_the_refresh_time_is_not() {
        let digest = parse(LOGIN).unwrap().digest;
        assert_eq!(edited("2026-11-30T08:00:32", "2027-01-01T00:00:00"), digest);
        assert_ne!(edited("\"account_id\": \"4", "\"account_id\": \"5"), digest);
        assert_ne!(edited("rt_LAB0001", "rt_LAB0002"), digest);
        assert_ne!(edited("\"chatgpt\"", "\"apikey\""), digest);
    }

    #[test]
    fn claims_are_read_from_the_id_token_and_the_stored_id() {
        let claims = hints(LOGIN);
        assert_eq!(claims[0].account, claims[1].account);
        assert_eq!(claims[1].user.as_deref(), Some("user-LAB0001"));
    }

    #[test]
    fn base64url_is_decoded_with_every_padding() {
        assert_eq!(base64url("YQ").unwrap(), b"a");
        assert_eq!(base64url("YWI=").unwrap(), b"ab");
        assert_eq!(base64url("_-8").unwrap(), [0xff, 0xef]);
        assert_eq!(base64url("a b"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_and_any_torn_file_are_survived(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            token in ".{0,80}",
            cut in 0..LOGIN.len() - 2,
        ) {
            drop(parse(&bytes));
            let file = serde_json::json!({"tokens": {"access_token": token, "id_token": token}});
            prop_assert!(parse(file.to_string().as_bytes()).is_ok());
            prop_assert_eq!(hints(file.to_string().as_bytes()).len(), 2);
            prop_assert!(parse(&LOGIN[..cut]).is_err(), "a torn file was taken for a login");
        }
    }
}
