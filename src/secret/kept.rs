//! Secrets that we keep ourselves: one file for each profile and kind, `state/credentials/<profile>.<kind>.json`.
//!
//! A file is private (0600, in a directory of 0700), whole, and changed only by a [`crate::transaction`]. On Linux it
//! holds the secret itself; there is no Secret Service client, which would bring a hundred crates for a store that
//! a machine without a desktop does not have. On macOS the secret is in the login keychain, and the file names its
//! item: every new secret gets an item of its own, so that the file decides which one is in force.
//!
//! Limits: the keychain code was written from documentation and has never run. An item that a crash left behind
//! stays in the keychain; nothing names it any more.

use camino::Utf8PathBuf;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Secret;
use crate::env::Context;
use crate::error::Result;
use crate::id::ProfileId;
use crate::store::{directory, read};

/// Version of the file's format.
const VERSION: u64 = 1;

/// Where the secret of a file is, for people: the end of a sentence that names the file.
#[cfg(not(target_os = "macos"))]
pub const WHERE: &str = ", readable by you alone";
/// Where the secret of a file is, for people: the end of a sentence that names the file.
#[cfg(target_os = "macos")]
pub const WHERE: &str = ", which names its item in your login keychain";

/// A secret as it was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The secret itself.
    pub secret: Secret,
    /// When the person gave it to us.
    pub since: Timestamp,
}

/// Why a file gave no secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// It is not in our format.
    Format,
    /// It names a keychain item that cannot be had here.
    Keychain,
}

/// The file as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: u64,
    since: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keychain: Option<String>,
}

/// The directory of the files.
pub fn folder(context: &Context) -> Utf8PathBuf {
    context.roots.state.join("credentials")
}

/// The file of a profile's secret; `kind` is the registry's word for it.
pub fn file(context: &Context, profile: &ProfileId, kind: &str) -> Utf8PathBuf {
    folder(context).join(format!("{profile}.{kind}.json"))
}

/// What the file of a new secret is to hold. On macOS the secret is in the keychain when this returns.
pub fn text(profile: &ProfileId, kept: &Kept) -> Result<Secret> {
    let (secret, keychain) = put(profile, &kept.secret)?;
    let written = Written {
        version: VERSION,
        since: kept.since,
        secret,
        keychain,
    };
    let text = serde_json::to_string(&written)
        .map_err(|error| crate::error::Error::internal(format!("cannot serialise: {error}")))?;
    Ok(Secret::new(text + "\n"))
}

/// Reads a file back.
pub fn parse(bytes: &[u8]) -> Result<Kept, Unread> {
    let written: Written = serde_json::from_slice(bytes).map_err(|_| Unread::Format)?;
    if written.version != VERSION {
        return Err(Unread::Format);
    }
    let secret = match (written.secret, written.keychain) {
        (Some(secret), None) if !secret.trim().is_empty() => Secret::new(secret),
        (None, Some(item)) => get(&item).ok_or(Unread::Keychain)?,
        (Some(_) | None, _) => return Err(Unread::Format),
    };
    Ok(Kept {
        secret,
        since: written.since,
    })
}

/// The kinds that are kept so, by the registry's words.
const KINDS: [&str; 2] = ["setup-token", "api-key"];

/// The files of a profile that are there.
pub fn of(context: &Context, profile: &ProfileId) -> Vec<Utf8PathBuf> {
    let files = KINDS.map(|kind| file(context, profile, kind));
    files.into_iter().filter(|path| path.exists()).collect()
}

/// Removes every secret of a profile, because a person asked for that.
pub fn delete(context: &Context, profile: &ProfileId) -> Result<()> {
    for path in of(context, profile) {
        let bytes = read::optional(&path)?.unwrap_or_default();
        directory::remove_file(&path)?;
        discard(&bytes);
    }
    Ok(())
}

/// Removes what a file that is no longer in force names outside of itself.
pub fn discard(bytes: &[u8]) {
    if let Ok(Written {
        keychain: Some(item),
        ..
    }) = serde_json::from_slice(bytes)
    {
        forget(&item);
    }
}

#[cfg(not(target_os = "macos"))]
#[expect(clippy::unnecessary_wraps, reason = "a keychain may refuse")]
fn put(_: &ProfileId, secret: &Secret) -> Result<(Option<String>, Option<String>)> {
    Ok((Some(secret.expose().to_owned()), None))
}

#[cfg(not(target_os = "macos"))]
fn get(_: &str) -> Option<Secret> {
    None
}

#[cfg(not(target_os = "macos"))]
fn forget(_: &str) {}

#[cfg(target_os = "macos")]
fn put(profile: &ProfileId, secret: &Secret) -> Result<(Option<String>, Option<String>)> {
    let item = format!("{profile}.{}", uuid::Uuid::new_v4().simple());
    super::keychain::put(&item, secret)?;
    Ok((None, Some(item)))
}

#[cfg(target_os = "macos")]
use super::keychain::{forget, get};

#[cfg(test)]
mod tests {
    use super::{Kept, Unread, parse, text};
    use crate::secret::Secret;

    #[test]
    fn a_secret_comes_back_with_its_date_and_is_never_shown() {
        let kept = Kept {
            secret: Secret::new("sk-ant-oat01-synthetic"),
            since: "2030-01-02T12:00:00Z".parse().unwrap(),
        };
        let text = text(&"claude-1".parse().unwrap(), &kept).unwrap();
        assert_eq!(parse(text.expose().as_bytes()), Ok(kept.clone()));
        assert!(!format!("{text:?}{kept:?}").contains("synthetic"));
    }

    #[test]
    fn what_is_not_ours_or_of_another_machine_gives_none() {
        let since = "2030-01-02T12:00:00Z";
        let with = |rest: &str| format!(r#"{{"version":1,"since":"{since}",{rest}}}"#);
        for broken in [
            "",
            "sk-ant-oat01-synthetic",
            &with(r#""secret":" ""#),
            &with(r#""secret":"a","keychain":"b""#),
            &with(r#""secret":"a","other":1"#),
            &format!(r#"{{"version":1,"since":"{since}"}}"#),
            &format!(r#"{{"version":2,"since":"{since}","secret":"a"}}"#),
        ] {
            assert_eq!(parse(broken.as_bytes()), Err(Unread::Format), "{broken}");
        }
        let elsewhere = with(r#""keychain":"no-such-item""#);
        assert_eq!(parse(elsewhere.as_bytes()), Err(Unread::Keychain));
    }
}
