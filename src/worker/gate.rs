//! The start gate: starters on an old token go one at a time.
//!
//! Both CLIs refresh their login from five minutes before its expiry (`Login::renewed_from` knows the rest), and several Codex starts at once
//! spend one single-use refresh token several times, which can revoke the login. Inside that window a
//! starter writes a record and goes; the next one waits until the credential's digest has changed, the
//! first is gone, or 30 seconds have passed. Outside the window there is no gate, so after the refresh all
//! go at once.
//!
//! Limits: a provider that never refreshes costs 30 s per starter, said on stderr; the refresh of a worker
//! that has been running for long is the CLI's own affair.

use std::time::Duration;

use camino::Utf8PathBuf;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::clock::BootTime;
use crate::env::Context;
use crate::error::{Error, Result};
use crate::id::ProfileId;
use crate::registry::schema::Profile;
use crate::store::lock::{Locks, Mode, Name};
use crate::store::replace::{Durability, replace};
use crate::store::{directory, read};
use crate::sys::process;

/// How long one starter may keep the others waiting.
pub const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);

/// Who went last, and on which login.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The starter's pid, which becomes the provider's.
    pub pid: u32,
    /// Its kernel start time.
    pub start: u64,
    /// The boot it belongs to, 32 hex digits.
    pub boot: String,
    /// Digest of the login tokens it started with.
    pub digest: String,
    /// When it went, in milliseconds since boot.
    pub at: u64,
}

/// What a starter sees of the login each time it looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Digest of the login tokens now.
    pub digest: String,
    /// From when a CLI that starts refreshes it first; `None` when it never does.
    pub renewed_from: Option<Timestamp>,
}

/// What a starter may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The token is not old: no gate.
    Open,
    /// Write a record and go.
    Go,
    /// Someone is about to refresh: look again.
    Wait,
}

/// Decides from the record, whether its holder lives, and the clock. Pure.
pub fn decide(
    seen: &Seen,
    record: Option<&Record>,
    holder_lives: bool,
    wall: Timestamp,
    boot: BootTime,
) -> Decision {
    if seen.renewed_from.is_none_or(|at| at > wall) {
        return Decision::Open;
    }
    match record {
        Some(record)
            if holder_lives
                && record.digest == seen.digest
                && record.at <= boot.0
                && boot.since(BootTime(record.at)) < PATIENCE =>
        {
            Decision::Wait
        }
        _ => Decision::Go,
    }
}

/// Passes the gate of a profile; `look` reads the login anew each time.
///
/// Returns true when this starter had to wait: the login it looked at before may have changed.
pub fn pass(
    context: &Context,
    profile: &ProfileId,
    mut look: impl FnMut() -> Result<Option<Seen>>,
    mut note: impl FnMut(&str),
) -> Result<bool> {
    if context.faults.no_start_gate {
        return Ok(false);
    }
    let mut waited = false;
    loop {
        let Some(seen) = look()? else {
            return Ok(waited);
        };
        match attempt(context, profile, &seen)? {
            Decision::Open | Decision::Go => return Ok(waited),
            Decision::Wait if waited => {}
            Decision::Wait => {
                note(&format!(
                    "agent-fleet: waiting for another start on `{profile}` to refresh its login (at most 30 s)"
                ));
                waited = true;
            }
        }
        context.clock.pause(POLL);
    }
}

/// One look under the `start` lock, which is released before anyone becomes a provider.
fn attempt(context: &Context, profile: &ProfileId, seen: &Seen) -> Result<Decision> {
    let lookup = |error: std::io::Error| Error::io("look up", "/proc", &error);
    let wall = context.clock.now();
    if decide(seen, None, false, wall, context.clock.boot()) == Decision::Open {
        return Ok(Decision::Open);
    }
    let locks = Locks::of(context);
    let deadline = context.clock.deadline(PATIENCE);
    let guard = locks.take(&Name::Start(profile.clone()), Mode::Exclusive, &deadline)?;
    let path = record_path(context, profile);
    let boot = crate::id::hex(&process::boot_id().map_err(lookup)?);
    let (record, lives) = last(&path, &boot)?;
    let decision = decide(seen, record.as_ref(), lives, wall, context.clock.boot());
    if decision == Decision::Go {
        let (pid, start) = process::current().map_err(lookup)?;
        let record = Record {
            pid,
            start,
            boot,
            digest: seen.digest.clone(),
            at: context.clock.boot().0,
        };
        let text = serde_json::to_vec(&record).map_err(|error| {
            Error::internal(format!("cannot serialise the gate's record: {error}"))
        })?;
        directory::ensure(context.roots.state.join("starts"))?;
        replace(&path, &text, Durability::Volatile)?;
    }
    drop(guard);
    Ok(decision)
}

/// Who went last, and whether it lives. A record that cannot be parsed names nobody to wait for.
fn last(path: &Utf8PathBuf, boot: &str) -> Result<(Option<Record>, bool)> {
    let record: Option<Record> =
        read::optional(path)?.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let lives = record.as_ref().is_some_and(|record| {
        record.boot == boot
            && process::status(record.pid).is_ok_and(|status| {
                status.is_some_and(|status| status.start == record.start && !status.zombie)
            })
    });
    Ok((record, lives))
}

/// Whether a starter is refreshing the login now. Pure. `digest` is that of the login; a login that cannot be looked at
/// counts as not refreshed yet.
pub fn is_refreshing(
    record: Option<&Record>,
    holder_lives: bool,
    digest: Option<&str>,
    boot: BootTime,
) -> bool {
    record.is_some_and(|record| {
        holder_lives
            && digest.is_none_or(|digest| digest == record.digest)
            && record.at <= boot.0
            && boot.since(BootTime(record.at)) < PATIENCE
    })
}

/// Does what must not meet a refresh at a start of the profile, such as signalling a worker of it: a SIGTERM in the
/// middle of one burned a login. `None`, and nothing was done, while a starter is refreshing.
///
/// No starter passes the gate meanwhile. `known` is the profile where the registry knows it.
pub fn outside<T>(
    context: &Context,
    profile: &ProfileId,
    known: Option<&Profile>,
    act: impl FnOnce() -> T,
) -> Result<Option<T>> {
    if context.faults.no_start_gate {
        return Ok(Some(act()));
    }
    let locks = Locks::new(&context.roots.state, context.clock);
    let deadline = context.clock.deadline(PATIENCE);
    let _guard = locks.take(&Name::Start(profile.clone()), Mode::Exclusive, &deadline)?;
    let boot = process::boot_id().map_err(|error| Error::io("look up", "/proc", &error))?;
    let (record, lives) = last(&record_path(context, profile), &crate::id::hex(&boot))?;
    let digest = known
        .and_then(|profile| super::checks::login(context, profile))
        .map(|login| login.digest);
    if is_refreshing(
        record.as_ref(),
        lives,
        digest.as_deref(),
        context.clock.boot(),
    ) {
        return Ok(None);
    }
    Ok(Some(act()))
}

fn record_path(context: &Context, profile: &ProfileId) -> Utf8PathBuf {
    context
        .roots
        .state
        .join("starts")
        .join(format!("{profile}.json"))
}

#[cfg(test)]
mod tests {
    use super::{Decision, Record, Seen, decide, is_refreshing};
    use crate::clock::BootTime;
    use crate::provider::Login;
    use jiff::Timestamp;

    fn wall() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    fn seen(expires: &str) -> Seen {
        Seen {
            digest: "d".into(),
            renewed_from: Some(Login::renewal_of(expires.parse().unwrap())),
        }
    }

    fn record() -> Record {
        Record {
            pid: 1,
            start: 1,
            boot: String::new(),
            digest: "d".into(),
            at: 1_000,
        }
    }

    #[test]
    fn a_young_token_needs_no_gate() {
        assert_eq!(
            decide(
                &seen("2026-01-01T00:05:01Z"),
                Some(&record()),
                true,
                wall(),
                BootTime(1_000)
            ),
            Decision::Open
        );
        let fixed = Seen {
            renewed_from: None,
            ..seen("2025-01-01T00:00:00Z")
        };
        assert_eq!(
            decide(&fixed, Some(&record()), true, wall(), BootTime(1_000)),
            Decision::Open
        );
    }

    #[test]
    fn on_an_old_token_one_goes_and_the_next_waits() {
        let old = seen("2026-01-01T00:04:59Z");
        assert_eq!(
            decide(&old, None, false, wall(), BootTime(1_000)),
            Decision::Go
        );
        assert_eq!(
            decide(&old, Some(&record()), true, wall(), BootTime(30_999)),
            Decision::Wait
        );
    }

    #[test]
    fn a_login_is_being_refreshed_until_it_changed_its_starter_is_gone_or_patience_ended() {
        let refreshing =
            |lives, digest, boot| is_refreshing(Some(&record()), lives, digest, BootTime(boot));
        assert!(refreshing(true, Some("d"), 1_000));
        assert!(refreshing(true, None, 30_999));
        assert!(!refreshing(true, Some("e"), 1_000));
        assert!(!refreshing(false, Some("d"), 1_000));
        assert!(!refreshing(true, Some("d"), 31_000));
        assert!(!refreshing(true, Some("d"), 999));
        assert!(!is_refreshing(None, true, None, BootTime(1_000)));
    }

    #[test]
    fn the_wait_ends_with_the_refresh_the_starter_or_patience() {
        let old = seen("2026-01-01T00:00:00Z");
        let refreshed = Seen {
            digest: "e".into(),
            ..old.clone()
        };
        assert_eq!(
            decide(&refreshed, Some(&record()), true, wall(), BootTime(2_000)),
            Decision::Go
        );
        assert_eq!(
            decide(&old, Some(&record()), false, wall(), BootTime(2_000)),
            Decision::Go
        );
        assert_eq!(
            decide(&old, Some(&record()), true, wall(), BootTime(31_000)),
            Decision::Go
        );
        // One that says it will go later would be waited for until then.
        assert_eq!(
            decide(&old, Some(&record()), true, wall(), BootTime(999)),
            Decision::Go
        );
    }
}
