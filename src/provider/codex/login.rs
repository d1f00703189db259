//! Codex's credential file, `auth.json`, read without trusting it. Pure.
//!
//! The proof binds to `auth_mode`, `OPENAI_API_KEY` and `tokens.{id_token, access_token, refresh_token,
//! account_id}`: the same tokens with another `account_id` are billed elsewhere. `last_refresh` is not in it.
//! Without a mode, a key counts before the tokens, and in a mode that is neither `chatgpt` nor `apikey` the tokens do
//! not count at all (run with 0.171).
//! The only expiry is the access token's `exp` claim; nobody checks its signature, and nothing but the
//! question "is it worth asking the server with it" depends on it.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::identity::fingerprint::Account;
use crate::provider::answer::{digest, instant, text};
use crate::provider::{Login, LoginError, LoginKind};
use crate::secret::Secret;

/// The credential file, relative to the home.
pub(crate) const FILE: &str = "auth.json";
/// The claim that holds the account's ids in both JWTs.
const CLAIM: &str = "https://api.openai.com/auth";

/// How long Codex uses a token that does not tell its expiry, after its last renewal.
const UNTOLD: SignedDuration = SignedDuration::from_hours(8 * 24);
/// Logins of other kinds, which count before the tokens where `auth_mode` does not decide.
const OTHERS: [&str; 3] = ["agent_identity", "bedrock_api_key", "personal_access_token"];

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
        Some("apikey") | None if key.is_some() => LoginKind::ApiKey,
        Some("chatgpt") if tokens_present => LoginKind::Subscription,
        None if tokens_present && OTHERS.iter().all(|name| file[*name].is_null()) => {
            LoginKind::Subscription
        }
        // The tokens do not count in any other mode, and the mode's own login is none that we can prove.
        Some(_) | None => LoginKind::Blank,
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
        login_expires_at: if refresh.is_none() { expires } else { None },
        renewed_from: refresh.map(|_| renewed_from(expires, instant(&file["last_refresh"]))),
    })
}

/// The file of an API key, as `codex login --with-api-key` writes it (0.171).
pub(crate) fn of_key(key: &Secret) -> Secret {
    let file = serde_json::json!({"auth_mode": "apikey", "OPENAI_API_KEY": key.expose()});
    Secret::new(format!("{file:#}"))
}

/// Codex goes by the access token's expiry, by the last renewal where the token tells none, and always renews a
/// login that tells no last renewal (run with 0.171).
fn renewed_from(expires: Option<Timestamp>, last: Option<Timestamp>) -> Timestamp {
    match (last, expires) {
        (None, _) => Timestamp::MIN,
        (Some(_), Some(expires)) => Login::renewal_of(expires),
        (Some(last), None) => last.checked_add(UNTOLD).unwrap_or(Timestamp::MAX),
    }
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

/// The plan that the login claims.
pub(crate) fn plan(credential: &[u8]) -> Option<String> {
    let file = object(credential)?;
    let claims = claims(file["tokens"]["id_token"].as_str()?)?;
    text(&claims[CLAIM]["chatgpt_plan_type"])
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
    use super::{base64url, hints, parse, renewed_from};
    use crate::provider::{Login, LoginKind};
    use jiff::Timestamp;
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
    fn a_key_counts_before_the_tokens_unless_the_mode_says_otherwise() {
        let text = String::from_utf8(LOGIN.to_vec()).unwrap();
        let with = |mode: &str, name: &str, value: &str| {
            let mut file: serde_json::Value = serde_json::from_str(&text).unwrap();
            file["auth_mode"] = serde_json::from_str(mode).unwrap();
            file[name] = value.into();
            parse(file.to_string().as_bytes()).unwrap().kind
        };
        let key = "OPENAI_API_KEY";
        for (mode, name, kind) in [
            ("\"chatgpt\"", key, LoginKind::Subscription),
            (
                "\"chatgpt\"",
                "personal_access_token",
                LoginKind::Subscription,
            ),
            ("null", "unknown", LoginKind::Subscription),
            ("null", key, LoginKind::ApiKey),
            ("null", "personal_access_token", LoginKind::Blank),
            ("\"apikey\"", key, LoginKind::ApiKey),
            ("\"ApiKey\"", key, LoginKind::Blank),
            (
                "\"personalAccessToken\"",
                "personal_access_token",
                LoginKind::Blank,
            ),
            ("\"agentIdentity\"", "agent_identity", LoginKind::Blank),
        ] {
            assert_eq!(with(mode, name, "synthetic"), kind, "{mode} with {name}");
        }
    }

    #[test]
    fn a_login_that_tells_no_renewal_is_renewed_at_every_start() {
        let (now, later) = (
            Timestamp::UNIX_EPOCH,
            "2026-12-30T08:00:00Z".parse().unwrap(),
        );
        assert_eq!(
            parse(LOGIN).unwrap().renewed_from,
            "2026-12-30T07:55:00Z".parse().ok()
        );
        assert_eq!(renewed_from(Some(later), None), Timestamp::MIN);
        assert_eq!(
            renewed_from(None, Some(now)),
            "1970-01-09T00:00:00Z".parse().unwrap()
        );
        assert_eq!(
            renewed_from(Some(later), Some(now)),
            Login::renewal_of(later)
        );
        assert_eq!(Login::renewal_of(Timestamp::MIN), Timestamp::MIN);
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
