//! The refusals of the lease store, in words that supervisors match on.

use serde_json::{Value, json};

use super::record::{Record, Stage};
use super::transition::Standing;
use crate::contract::lease::{Lease, Verdict};
use crate::error::{Error, code};
use crate::id::{ProfileId, Task};
use crate::sys::shell;

/// One term in which a request differs from the lease there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    /// `workspace`, `pool`, `profile` or `provider`.
    pub(super) what: &'static str,
    /// What the lease has.
    pub(super) has: String,
    /// What was asked for.
    pub(super) asked: String,
}

/// The refusal for a task without a lease.
pub fn no_lease(task: &Task) -> Error {
    Error::new(code::NOT_FOUND, format!("no lease for task: {task}")).hint("agent-fleet lease list")
}

fn release_command(task: &Task) -> String {
    format!(
        "agent-fleet lease release {}",
        shell::option("--task", task.as_str())
    )
}

fn pid(record: &Record) -> Option<u32> {
    match record.stage {
        Stage::Reserved { .. } | Stage::Running { pid: 0, .. } => None,
        Stage::Running { pid, .. } => Some(pid),
    }
}

pub(super) fn reserved_name(task: &Task) -> Error {
    let message = format!("the task name `{task}` is reserved for probes");
    Error::new(code::USAGE, message).hint("agent-fleet lease choose --help")
}

pub(super) fn conflict(task: &Task, record: &Record, differences: &[Difference]) -> Error {
    let said: Vec<String> = differences
        .iter()
        .map(|Difference { what, has, asked }| format!("{what} is `{has}`, not `{asked}`"))
        .collect();
    let facts: Vec<Value> = differences
        .iter()
        .map(|Difference { what, has, asked }| json!({"what": what, "has": has, "asked": asked}))
        .collect();
    let message = format!(
        "task {task} has a lease on other terms: its {}",
        said.join(", its ")
    );
    Error::new(code::TASK_CONFLICT, message)
        .hint(release_command(task))
        .detail("differences", facts)
        .detail("profile", record.profile.as_str())
        .detail("generation", record.generation)
}

pub(super) fn owned(task: &Task, record: Option<&Record>, standing: Standing) -> Error {
    let pid = record.and_then(pid);
    let mut message = match pid {
        Some(pid) => format!("task lease is already owned by live process {pid}"),
        None => "task lease is already owned by a live process that has no record".to_owned(),
    };
    message.push_str(match standing {
        Standing::Evicted => ", which lives on after a forced release",
        Standing::Running(Verdict::Orphaned) => ", which is gone but left its main process behind",
        Standing::Running(
            Verdict::Alive | Verdict::Dead | Verdict::Unknown | Verdict::Reserved,
        )
        | Standing::Absent
        | Standing::Reserved
        | Standing::Expired
        | Standing::Damaged => "",
    });
    let error = Error::new(code::TASK_OWNED, message)
        .hint(match pid {
            Some(pid) => format!("ps -fp {pid}"),
            None => "agent-fleet lease list".to_owned(),
        })
        .detail("task", task.as_str());
    match (pid, record) {
        (Some(pid), Some(record)) => error
            .detail("pid", pid)
            .detail("profile", record.profile.as_str()),
        _ => error,
    }
}

pub(super) fn active(task: &Task, record: &Record, verdict: Verdict) -> Error {
    let who = match pid(record) {
        Some(pid) => format!("live process {pid}"),
        None => "a live process".to_owned(),
    };
    let message = match verdict {
        Verdict::Alive | Verdict::Dead | Verdict::Reserved => {
            format!("the lease of task {task} is held by {who}")
        }
        Verdict::Orphaned => {
            format!("{who} of task {task} is gone but left its main process behind")
        }
        Verdict::Unknown => format!("it cannot be told whether {who} of task {task} lives"),
    };
    Error::new(code::LEASE_ACTIVE, message)
        .hint(format!("{} --force", release_command(task)))
        .detail("pid", pid(record))
        .detail("profile", record.profile.as_str())
}

pub(super) fn capacity(profile: &ProfileId, cap: u32) -> Error {
    let slots = match cap {
        1 => "its only slot is".to_owned(),
        cap => format!("all {cap} slots are"),
    };
    Error::new(
        code::CAPACITY,
        format!("profile {profile} is full: {slots} taken"),
    )
    .hint("agent-fleet lease list")
}

pub(super) fn in_use(profile: &ProfileId) -> Error {
    let message = format!("profile {profile} has live leases and cannot be probed");
    Error::new(code::LEASE_ACTIVE, message).hint("agent-fleet lease list")
}

/// Adds who holds what to an error's details, and when the first slot frees by itself.
pub fn with_holders(error: Error, holders: &[Lease], now: jiff::Timestamp) -> Error {
    let rows: Vec<Value> = holders
        .iter()
        .map(|lease| {
            let since = lease.bound_at.unwrap_or(lease.created_at);
            json!({
                "task": lease.task,
                "profile": lease.profile,
                "pid": lease.pid,
                "state": lease.state,
                "verdict": lease.verdict,
                "age_seconds": now.duration_since(since).as_secs().max(0),
            })
        })
        .collect();
    let first = holders.iter().filter_map(|lease| lease.expires_at).min();
    // One that expired since it was looked at frees its slot now.
    let first = first.map(|at| at.max(now));
    let retry_at = error.retry_at.into_iter().chain(first).min();
    error.detail("holders", rows).retry_at(retry_at)
}
