//! What of the fleet's state wants a look. Pure.

use jiff::Timestamp;

use crate::contract::lease::{DamagedLease, Lease, Verdict};
use crate::contract::status::{RowState, StatusRow, Warning};
use crate::contract::transaction::Transaction;
use crate::contract::unleased::{Unleased, UnleasedLife, UnleasedRole};
use crate::error::Error;
use crate::id::ProfileId;
use crate::identity::expiry::{Forecast, forecast};
use crate::registry::schema::Profile;
use crate::report::refresh_lock::{RefreshLock, Standing};
use crate::report::transaction;

/// What was seen.
#[derive(Debug)]
pub(super) struct Seen<'a> {
    pub(super) rows: &'a [StatusRow],
    pub(super) leases: &'a [Lease],
    pub(super) damaged: &'a [DamagedLease],
    pub(super) unleased: &'a [Unleased],
    /// Refresh locks with their profile, and whether nobody lives in its home.
    pub(super) locks: &'a [(&'a Profile, RefreshLock, bool)],
    /// Changes of a login that were begun.
    pub(super) transactions: &'a [Transaction],
    pub(super) now: Timestamp,
}

/// An error as a warning.
pub(super) fn of_error(profile: Option<&ProfileId>, error: &Error) -> Warning {
    Warning {
        code: error.code.name.to_owned(),
        profile: profile.cloned(),
        message: error.message.clone(),
        hint: error.hint.clone(),
    }
}

/// Every warning, what endangers a login or work first.
pub(super) fn all(seen: &Seen<'_>) -> Vec<Warning> {
    let locks = seen.locks.iter().filter_map(lock);
    let daemons = seen
        .unleased
        .iter()
        .filter(|one| one.role == UnleasedRole::Daemon);
    let sessions = seen
        .unleased
        .iter()
        .filter(|one| one.role == UnleasedRole::Session);
    let updaters = seen.unleased.iter().filter(|one| {
        let beside =
            |other: &&Unleased| other.role == UnleasedRole::Daemon && other.profile == one.profile;
        one.role == UnleasedRole::Updater && !seen.unleased.iter().any(|other| beside(&other))
    });
    let logins = seen.rows.iter().filter_map(|row| login(row, seen.now));
    let pending = seen.transactions.iter().filter_map(pending);
    pending
        .chain(locks)
        .chain(daemons.map(unleased))
        .chain(sessions.map(unleased))
        .chain(seen.damaged.iter().map(damaged))
        .chain(seen.leases.iter().filter_map(lease))
        .chain(logins)
        .chain(updaters.map(unleased))
        .collect()
}

fn pending(one: &Transaction) -> Option<Warning> {
    Some(Warning {
        code: "transaction_pending".to_owned(),
        profile: one.profile.clone(),
        message: transaction::told(one)?,
        hint: Some(one.next.clone()),
    })
}

fn lock((profile, lock, home_empty): &(&Profile, RefreshLock, bool)) -> Option<Warning> {
    let standing = lock.standing(*home_empty);
    (standing != Standing::Held).then(|| Warning {
        code: "refresh_lock".to_owned(),
        profile: Some(profile.id.clone()),
        message: format!(
            "`{}` was left behind: no CLI of profile `{}` can refresh its login while it is there",
            lock.path, profile.id
        ),
        hint: Some(lock.command(standing)),
    })
}

fn unleased(one: &Unleased) -> Warning {
    let profile = &one.profile;
    let who = match one.life {
        UnleasedLife::Alive => format!("process {}", one.pid),
        UnleasedLife::Unknown => format!("process {} of another container", one.pid),
    };
    let (code, message) = match one.role {
        UnleasedRole::Session => (
            "unleased_sessions",
            format!("a session without a lease uses the account of profile `{profile}`: {who}"),
        ),
        UnleasedRole::Daemon if one.older_login => (
            "daemons",
            format!(
                "a daemon in the home of profile `{profile}` began before its login was last written: {who}"
            ),
        ),
        UnleasedRole::Daemon => (
            "daemons",
            format!(
                "a daemon in the home of profile `{profile}` keeps the login it began with: {who}"
            ),
        ),
        UnleasedRole::Updater => (
            "daemons",
            format!("a daemon's updater lives in the home of profile `{profile}`: {who}"),
        ),
    };
    Warning {
        code: code.to_owned(),
        profile: Some(profile.clone()),
        message,
        hint: Some(one.hint.clone()),
    }
}

fn damaged(record: &DamagedLease) -> Warning {
    Warning {
        code: "record_damaged".to_owned(),
        profile: record.profile.clone(),
        message: format!(
            "lease record {} of `{}` is damaged and keeps its slot",
            record.record, record.path
        ),
        hint: Some(record.settle.clone()),
    }
}

fn lease(lease: &Lease) -> Option<Warning> {
    let task = lease.task.as_deref().unwrap_or("details lost");
    let profile = &lease.profile;
    let message = match lease.verdict {
        Verdict::Orphaned => format!(
            "the worker of task `{task}` ended, but a process that it started holds its slot of `{profile}`"
        ),
        Verdict::Unknown => format!(
            "nobody can tell from here whether the worker of task `{task}` lives; it keeps its slot of `{profile}`"
        ),
        Verdict::Alive | Verdict::Dead | Verdict::Reserved => return None,
    };
    Some(Warning {
        code: "leases".to_owned(),
        profile: Some(profile.clone()),
        message,
        hint: Some("agent-fleet lease list".to_owned()),
    })
}

/// A login that ends soon; one that has ended is in the way and has its own row.
fn login(row: &StatusRow, now: Timestamp) -> Option<Warning> {
    if row.state == RowState::Disabled {
        return None;
    }
    let Forecast::Near(at) = forecast(row.login_expires_at, now) else {
        return None;
    };
    let days = at.duration_since(now).as_hours() / 24;
    Some(Warning {
        code: "login_expiry".to_owned(),
        profile: Some(row.profile.clone()),
        message: format!(
            "the login of profile `{}` ends by itself within {} days, at {at}: a refresh does not extend it",
            row.profile,
            days + 1
        ),
        hint: Some(format!("agent-fleet profile status {}", row.profile)),
    })
}
