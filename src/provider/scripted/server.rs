//! The directory that plays the scripted provider's server.
//!
//! ```text
//! <account>.json      who the account is, its windows, and how the server treats it; edited by people and tests
//! tokens/<sha256>     one file per token issued: its account, kind and expiry
//! spent/<sha256>      one file per refresh token used: it is made with O_EXCL, so a token is used once
//! requests.jsonl      every request with its account and outcome, appended
//! ```
//! A refresh token is good for one use, however many processes race for it. Account files are replaced
//! whole; of two that change one at once, the last one wins. Nothing is synced.

use camino::{Utf8Path, Utf8PathBuf};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::io;
use std::time::Duration;

use super::account::{AccountFile, Fault};
use crate::clock::Clock;
use crate::error::{Error, Result, code};
use crate::id::hex;
use crate::identity::fingerprint::Account;
use crate::provider::{FetchError, Usage};
use crate::quota::window::Window;
use crate::secret::Secret;
use crate::store::replace::{Durability, create, replace};
use crate::store::{append, directory, read};
use crate::sys::shell;

/// Life of an access token unless the account says otherwise, in seconds: eight hours, as Claude's.
const TOKEN_LIFETIME: u64 = 8 * 3600;

/// A token's file.
#[derive(Serialize, Deserialize)]
struct TokenFile {
    account: String,
    kind: TokenKind,
    expires_at: Option<Timestamp>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum TokenKind {
    Access,
    Refresh,
}

/// A pair of fresh tokens.
#[derive(Debug)]
pub(super) struct Tokens {
    /// For requests.
    pub access: Secret,
    /// For the next pair.
    pub refresh: Secret,
    /// When the access token expires.
    pub expires_at: Timestamp,
}

/// The server's answer to a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Served, on this account.
    Served(String),
    /// The account's allowance is used up until then.
    Limited(Timestamp),
    /// The token is not accepted.
    Unauthorized,
}

/// The server of one service directory.
#[derive(Clone, Debug)]
pub(super) struct Server {
    directory: Utf8PathBuf,
    clock: Clock,
}

/// Account names become file names.
fn is_account_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.len() <= 128
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

fn digest(token: &Secret) -> String {
    hex(&Sha256::digest(token.expose().as_bytes()))
}

fn json_bytes<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    serde_json::to_vec_pretty(value)
        .map_err(|error| Error::internal(format!("cannot serialise: {error}")))
}

impl Server {
    /// The server that `directory` plays.
    pub(super) fn new(directory: &Utf8Path, clock: Clock) -> Self {
        Self {
            directory: directory.to_owned(),
            clock,
        }
    }

    fn account_path(&self, account: &str) -> Utf8PathBuf {
        self.directory.join(format!("{account}.json"))
    }

    fn account(&self, account: &str) -> Result<Option<AccountFile>> {
        let path = self.account_path(account);
        let Some(bytes) = read::optional(&path)? else {
            return Ok(None);
        };
        serde_json::from_slice(&bytes).map(Some).map_err(|error| {
            Error::new(code::IO, format!("`{path}` is not an account: {error}"))
                .hint(format!("cat {}", shell::quote(path.as_str())))
        })
    }

    /// Changes an account's file, making one if there is none.
    pub(super) fn update(
        &self,
        account: &str,
        change: impl FnOnce(&mut AccountFile),
    ) -> Result<()> {
        if !is_account_name(account) {
            return Err(Error::new(
                code::USAGE,
                format!(
                    "`{account}` is not an account name: use letters, digits, `.`, `_` and `-`"
                ),
            )
            .hint("agent-fleet scripted-agent login --account one"));
        }
        directory::ensure(&self.directory)?;
        let mut file = self.account(account)?.unwrap_or_default();
        change(&mut file);
        replace(
            self.account_path(account),
            &json_bytes(&file)?,
            Durability::Volatile,
        )
    }

    /// The account and expiry of a token of this kind, if it was issued here and is not over.
    fn holder(&self, token: &Secret, kind: TokenKind) -> Option<String> {
        let path = self.directory.join("tokens").join(digest(token));
        let file: TokenFile = serde_json::from_slice(&read::optional(path).ok()??).ok()?;
        let over = file.expires_at.is_some_and(|at| at <= self.clock.now());
        (file.kind == kind && !over).then_some(file.account)
    }

    /// Notes a request; a log that cannot be written must not fail the request.
    fn log(&self, request: &str, account: Option<&str>, outcome: &str) {
        let line = json!({
            "at": self.clock.now().to_string(),
            "request": request,
            "account": account,
            "outcome": outcome,
        });
        drop(append::line(
            self.directory.join("requests.jsonl"),
            &line.to_string(),
        ));
    }

    /// Answers a reader: who the account is and what is left of it.
    pub(super) fn ask(&self, token: &Secret) -> Result<(Account, Usage), FetchError> {
        let holder = self.holder(token, TokenKind::Access);
        let answer = self.answer(holder.as_deref());
        let outcome = match &answer {
            Ok(_) => "ok".to_owned(),
            Err(error) => error.to_string(),
        };
        self.log("usage", holder.as_deref(), &outcome);
        answer
    }

    fn answer(&self, holder: Option<&str>) -> Result<(Account, Usage), FetchError> {
        if !self.directory.is_dir() {
            return Err(FetchError::Unavailable(format!(
                "there is no directory `{}`",
                self.directory
            )));
        }
        let name = holder.ok_or(FetchError::Unauthorized)?;
        let file = self.account(name).map_err(|_| FetchError::Shape)?;
        let file = file
            .filter(|file| !file.revoked)
            .ok_or(FetchError::Unauthorized)?;
        match file.fault {
            Some(Fault::Forbidden) => return Err(FetchError::Forbidden),
            Some(Fault::Throttled) => return Err(FetchError::Throttled(Some(60))),
            Some(Fault::Unavailable) => {
                return Err(FetchError::Unavailable("the server is down".to_owned()));
            }
            Some(Fault::Shape) => return Err(FetchError::Shape),
            None => {}
        }
        let usage = file.usage(self.clock.now());
        let account = Account {
            user: file.user,
            account: Some(name.to_owned()),
            organization: file.organization,
        };
        Ok((account, usage))
    }

    /// Answers a worker's turn.
    pub(super) fn turn(&self, token: &Secret) -> Turn {
        let holder = self.holder(token, TokenKind::Access);
        let account = holder
            .as_deref()
            .and_then(|name| self.account(name).ok().flatten())
            .filter(|file| !file.revoked);
        let turn = match (&holder, account) {
            (Some(name), Some(file)) => match file.exhausted_until(self.clock.now()) {
                Some(at) => Turn::Limited(at),
                None => Turn::Served(name.clone()),
            },
            _ => Turn::Unauthorized,
        };
        let outcome = match &turn {
            Turn::Served(_) => "ok",
            Turn::Limited(_) => "limited",
            Turn::Unauthorized => "unauthorized",
        };
        self.log("turn", holder.as_deref(), outcome);
        turn
    }

    /// The windows that an answer to a worker tells: those that gate every model, as both real providers tell them.
    pub(super) fn told(&self, account: &str) -> Vec<Window> {
        let file = self.account(account).ok().flatten().unwrap_or_default();
        let windows = file.usage(self.clock.now()).windows.into_iter();
        windows
            .filter(|window| matches!(window.id.as_str(), "five_hour" | "seven_day"))
            .collect()
    }

    /// Issues a pair of tokens for an account.
    pub(super) fn issue(&self, account: &str, lifetime: Option<u64>) -> Result<Tokens> {
        let seconds = lifetime.unwrap_or(TOKEN_LIFETIME);
        let expires_at = self
            .clock
            .now()
            .checked_add(SignedDuration::from_secs(
                i64::try_from(seconds).unwrap_or(i64::MAX),
            ))
            .map_err(|_| Error::new(code::USAGE, "the token would outlive the calendar"))?;
        let tokens = Tokens {
            access: Secret::new(format!("scripted-access-{}", uuid::Uuid::new_v4())),
            refresh: Secret::new(format!("scripted-refresh-{}", uuid::Uuid::new_v4())),
            expires_at,
        };
        let issued = self.directory.join("tokens");
        directory::ensure(&issued)?;
        for (token, kind, expires_at) in [
            (&tokens.access, TokenKind::Access, Some(expires_at)),
            (&tokens.refresh, TokenKind::Refresh, None),
        ] {
            let file = TokenFile {
                account: account.to_owned(),
                kind,
                expires_at,
            };
            replace(
                issued.join(digest(token)),
                &json_bytes(&file)?,
                Durability::Volatile,
            )?;
        }
        Ok(tokens)
    }

    /// Spends a refresh token for a new pair; `None` when it is unknown, was used before or is revoked.
    pub(super) fn refresh(&self, token: &Secret) -> Result<Option<Tokens>> {
        let Some(name) = self.holder(token, TokenKind::Refresh) else {
            self.log("refresh", None, "unauthorized");
            return Ok(None);
        };
        let file = self.account(&name)?.unwrap_or_default();
        let spent = self.directory.join("spent");
        directory::ensure(&spent)?;
        let path = spent.join(digest(token));
        let first = match create(&path, b"") {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(Error::io("create", &path, &error)),
        };
        let latency = Duration::try_from_secs_f64(file.refresh_latency_seconds).unwrap_or_default();
        self.clock.pause(latency);
        if !first {
            self.log("refresh", Some(&name), "reused");
            if file.reuse_revokes {
                self.update(&name, |file| file.revoked = true)?;
            }
            return Ok(None);
        }
        if file.revoked {
            self.log("refresh", Some(&name), "unauthorized");
            return Ok(None);
        }
        let tokens = self.issue(&name, file.token_lifetime_seconds)?;
        self.log("refresh", Some(&name), "ok");
        Ok(Some(tokens))
    }
}

#[cfg(test)]
mod tests {
    use super::{AccountFile, Fault, Server, Tokens, Turn};
    use crate::clock::Clock;
    use crate::provider::FetchError;
    use crate::secret::Secret;
    use camino::Utf8PathBuf;
    use jiff::Timestamp;
    use std::sync::atomic::{AtomicU32, Ordering};

    fn server(directory: &tempfile::TempDir, clock: Clock) -> (Server, Tokens) {
        let path = Utf8PathBuf::from_path_buf(directory.path().join("service")).unwrap();
        let server = Server::new(&path, clock);
        server
            .update("one", |file| {
                *file = AccountFile::new("ada", 25.0, clock.now());
            })
            .unwrap();
        let tokens = server.issue("one", Some(600)).unwrap();
        (server, tokens)
    }

    #[test]
    fn a_token_names_its_account_until_it_expires_or_is_revoked() {
        let directory = tempfile::tempdir().unwrap();
        let (server, tokens) = server(&directory, Clock::real());
        let (account, usage) = server.ask(&tokens.access).unwrap();
        assert_eq!(account.account.as_deref(), Some("one"));
        assert_eq!(usage.windows.len(), 2);
        assert!((usage.windows[0].remaining_percent - 75.0).abs() < 1e-9);
        let refused = |server: &Server, token: &Secret| server.ask(token).unwrap_err();
        assert_eq!(
            refused(&server, &Secret::new("made-up")),
            FetchError::Unauthorized
        );
        assert_eq!(refused(&server, &tokens.refresh), FetchError::Unauthorized);
        let later = Server::new(&server.directory, Clock::moved("+601"));
        assert_eq!(refused(&later, &tokens.access), FetchError::Unauthorized);
        server.update("one", |file| file.revoked = true).unwrap();
        assert_eq!(refused(&server, &tokens.access), FetchError::Unauthorized);
        assert_eq!(server.turn(&tokens.access), Turn::Unauthorized);
    }

    #[test]
    fn racing_for_one_refresh_token_serves_one_and_refuses_the_rest() {
        let directory = tempfile::tempdir().unwrap();
        let (server, tokens) = server(&directory, Clock::real());
        let served = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    if server.refresh(&tokens.refresh).unwrap().is_some() {
                        served.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(served.into_inner(), 1);
        assert!(
            server.ask(&tokens.access).is_ok(),
            "reuse alone revokes nothing"
        );
        server
            .update("one", |file| file.reuse_revokes = true)
            .unwrap();
        assert!(server.refresh(&tokens.refresh).unwrap().is_none());
        assert_eq!(
            server.ask(&tokens.access).unwrap_err(),
            FetchError::Unauthorized
        );
    }

    #[test]
    fn a_used_up_window_stops_turns_until_it_resets() {
        let directory = tempfile::tempdir().unwrap();
        let (server, tokens) = server(&directory, Clock::real());
        let resets_at: Timestamp =
            Timestamp::from_second(Clock::real().now().as_second() + 300).unwrap();
        server
            .update("one", |file| file.exhaust(resets_at))
            .unwrap();
        assert_eq!(server.turn(&tokens.access), Turn::Limited(resets_at));
        let later = Server::new(&server.directory, Clock::moved("+301"));
        assert_eq!(later.turn(&tokens.access), Turn::Served("one".to_owned()));
        let (_, usage) = later.ask(&tokens.access).unwrap();
        assert!((usage.windows[0].remaining_percent - 100.0).abs() < 1e-9);
    }

    #[test]
    fn faults_and_broken_files_are_answers_of_their_own() {
        let directory = tempfile::tempdir().unwrap();
        let (server, tokens) = server(&directory, Clock::real());
        for (fault, expected) in [
            (Fault::Forbidden, FetchError::Forbidden),
            (Fault::Throttled, FetchError::Throttled(Some(60))),
            (Fault::Shape, FetchError::Shape),
        ] {
            server
                .update("one", |file| file.fault = Some(fault))
                .unwrap();
            assert_eq!(server.ask(&tokens.access).unwrap_err(), expected);
        }
        crate::store::replace::replace(
            server.account_path("one"),
            b"{",
            crate::store::replace::Durability::Volatile,
        )
        .unwrap();
        assert_eq!(server.ask(&tokens.access).unwrap_err(), FetchError::Shape);
        assert!(server.update("../one", |_| ()).is_err());
    }
}
