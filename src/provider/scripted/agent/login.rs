//! The agent's own login: what refreshes it, and the command that makes it.
//!
//! This is the provider's side: like the real CLIs it rewrites the credential file in its home. The broker
//! never does.

use std::ffi::OsString;
use std::io::{self, BufRead as _};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::super::account::AccountFile;
use super::super::home::settings_file;
use super::super::login::{FILE, LoginFile, parse_file};
use super::super::server::{Server, Tokens};
use super::super::{grammar, home};
use super::output::Output;
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::provider::home::{load as load_json, save as save_json};
use crate::secret::Secret;
use crate::store::replace::{Durability, replace};
use crate::store::{directory, read};
use crate::sys::shell;

/// A login is refreshed when its access token has less than this left, as both real CLIs do.
const REFRESH_BEFORE: SignedDuration = SignedDuration::from_mins(5);
/// How long a process whose refresh was refused waits for another one's to be written.
const RELOAD_WAIT: Duration = Duration::from_secs(3);

fn load(home: &Utf8Path) -> Result<Option<LoginFile>> {
    let path = home.join(FILE);
    let Some(bytes) = read::optional(&path)? else {
        return Ok(None);
    };
    parse_file(&bytes).map(Some).map_err(|error| {
        Error::new(code::IO, format!("`{path}` cannot be used: {error}"))
            .hint(format!("ls -l {}", shell::quote(path.as_str())))
    })
}

fn save(home: &Utf8Path, login: &LoginFile) -> Result<()> {
    let bytes = serde_json::to_vec_pretty(login)
        .map_err(|error| Error::internal(format!("cannot serialise: {error}")))?;
    replace(home.join(FILE), &bytes, Durability::Durable)
}

fn renewed(login: &LoginFile, tokens: &Tokens) -> LoginFile {
    LoginFile {
        token: tokens.access.expose().to_owned(),
        refresh_token: Some(tokens.refresh.expose().to_owned()),
        expires_at: Some(tokens.expires_at),
        ..login.clone()
    }
}

/// The access token to use now, refreshed if it is about to expire; `None` when there is no usable login.
///
/// A refused refresh is not the end: another process of the same home may have spent the token first, and
/// what it wrote is then used.
pub(super) fn token(context: &Context, home: &Utf8Path, server: &Server) -> Result<Option<Secret>> {
    let Some(login) = load(home)?.filter(|login| !login.token.is_empty()) else {
        return Ok(None);
    };
    let fresh = |login: &LoginFile, now: Timestamp| {
        login
            .expires_at
            .is_none_or(|at| at.duration_since(now) > REFRESH_BEFORE)
    };
    let refresh = match &login.refresh_token {
        Some(refresh) if !fresh(&login, context.clock.now()) => Secret::new(refresh),
        _ => return Ok(Some(Secret::new(login.token))),
    };
    if let Some(tokens) = server.refresh(&refresh)? {
        save(home, &renewed(&login, &tokens))?;
        return Ok(Some(tokens.access));
    }
    let deadline = context.clock.deadline(RELOAD_WAIT);
    loop {
        match load(home)? {
            Some(other) if other.token != login.token && !other.token.is_empty() => {
                return Ok(Some(Secret::new(other.token)));
            }
            _ if !deadline.pause(Duration::from_millis(50)) => return Ok(None),
            _ => {}
        }
    }
}

/// `status`: whether this home is logged in. Like the real ones it refreshes a login that is about to expire.
pub(super) fn status(context: &Context, home: &Utf8Path) -> Result<u8> {
    let settings = load_json(&settings_file(home))?;
    let token = match home::service_of(&settings) {
        Some(service) => token(context, home, &Server::new(&service, context.clock))?,
        None => None,
    };
    Output::line(if token.is_some() {
        "logged in"
    } else {
        "not logged in"
    });
    Ok(u8::from(token.is_none()))
}

/// The account that the person names on standard input, as a real login has its page asked; `None` when there
/// is no answer.
fn asked() -> Result<Option<String>> {
    Output::fail("which account? (one word, then Enter)");
    let mut line = String::new();
    io::stdin()
        .lock()
        .read_line(&mut line)
        .map_err(|error| Error::io("read", "/dev/stdin", &error))?;
    let name = line.trim();
    Ok((!name.is_empty()).then(|| name.to_owned()))
}

/// `login [--account NAME] [--service DIR] [--user NAME] [--used PERCENT] [--expires-in SECONDS]`: makes the
/// account at the server unless it is there, and logs this home in to it. Without a name it asks.
pub(super) fn command(
    context: &Context,
    home: &Utf8Path,
    arguments: &[OsString],
) -> Result<String> {
    let usage = |message: String| {
        Error::new(code::USAGE, message)
            .hint("agent-fleet scripted-agent login --account one --service /absolute/directory")
    };
    let parsed = grammar::parse_login(arguments)?;
    let text = |name: &str| parsed.value(name).map(|value| value.to_string_lossy());
    let account = match text("--account") {
        Some(account) => account,
        None => asked()?
            .ok_or_else(|| usage("no account was named: nobody is logged in".to_owned()))?
            .into(),
    };
    let number = |name: &str| -> Result<Option<f64>> {
        text(name)
            .map(|value| {
                value
                    .parse()
                    .map_err(|_| usage(format!("`{name}` takes a number")))
            })
            .transpose()
    };
    let used = number("--used")?.unwrap_or(0.0);
    let lifetime = number("--expires-in")?
        .map(|seconds| Duration::try_from_secs_f64(seconds).map(|span| span.as_secs()))
        .transpose()
        .map_err(|_| usage("`--expires-in` takes seconds".to_owned()))?;
    let path = settings_file(home);
    let before = load_json(&path)?;
    let service = match text("--service") {
        Some(service) => Utf8PathBuf::from(service.as_ref()),
        None => {
            home::service_of(&before).ok_or_else(|| usage("`--service` is missing".to_owned()))?
        }
    };
    if !service.is_absolute() {
        return Err(usage("`--service` takes an absolute directory".to_owned()));
    }
    directory::ensure(home)?;
    let mut settings = before.clone();
    settings.insert("service".to_owned(), json!(service));
    save_json(&path, &before, &settings, "the service", &mut Vec::new())?;
    let server = Server::new(&service, context.clock);
    let user = text("--user").unwrap_or_else(|| account.clone());
    let now = context.clock.now();
    server.update(&account, |file| {
        if file.user.is_none() {
            *file = AccountFile::new(&user, used, now);
        }
    })?;
    let tokens = server.issue(&account, lifetime)?;
    let login = LoginFile {
        account: account.to_string(),
        user: Some(user.into_owned()),
        token: tokens.access.expose().to_owned(),
        refresh_token: Some(tokens.refresh.expose().to_owned()),
        expires_at: Some(tokens.expires_at),
        login_expires_at: None,
        api_key: false,
    };
    save(home, &login)?;
    Ok(format!("logged in to the scripted account {account}"))
}
