//! One process of a worker, from the intent to its end: the records of the launch protocol.
//!
//! In this order, each durable before the next: `launch.json` and the ledger's intent (launching command),
//! `claim.json` (host, created exclusively: a canceller creates the same file as revoked, and the loser does
//! nothing), `started.json` with the child blocked on a gate, the gate, `exit.json`. So a host that was delayed
//! can never start a process after somebody gave the launch up, and a process never runs unrecorded.
//!
//! Limits: processes are compared by pid, kernel start time, boot and pid namespace; on a system where those
//! cannot be read, a launch is unknown until a person says otherwise.

pub mod attended;
pub mod begin;
pub mod host;
mod mind;
pub mod observe;
pub mod revoke;
pub mod signal;
mod terminal;

use camino::Utf8PathBuf;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::model::{Mode, SCHEMA, StepState};
use crate::error::{Error, Result};
use crate::id::fleet::WorkerId;
use crate::id::hex;
use crate::id::{ProviderKind, Task};
use crate::sys::process;
use crate::sys::tend::Exit;

/// `launch.json`: what is to be started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchRecord {
    /// Format.
    pub schema: u32,
    /// Whose.
    pub worker: WorkerId,
    /// From 1.
    pub number: u32,
    /// Marks everything that belongs to it.
    pub token: String,
    /// Arguments of this program: `exec …` or `resume …`.
    pub arguments: Vec<String>,
    /// Where the worker works.
    pub workspace: Utf8PathBuf,
    /// SHA-256 (64 hex) of the prompt file.
    pub prompt_digest: String,
    /// SHA-256 (64 hex) of the environment that it was launched from, names and values.
    pub environment_digest: String,
    /// When it was written down.
    pub at: Timestamp,
    /// In which boot.
    pub boot: String,
    /// What its process runs on. A person who takes the worker over has the provider's own screen at a terminal of
    /// theirs: see `before`.
    #[serde(default = "headless")]
    pub mode: Mode,
    /// Where its step stood, when a person takes the worker over at a terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Before>,
}

/// What a record means that was written before there were terminals.
fn headless() -> Mode {
    Mode::Headless
}

/// Where a step stood before its worker was taken over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Before {
    /// Where.
    pub state: StepState,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl LaunchRecord {
    /// Whether its process has the provider's own screen on a terminal that its host owns.
    pub fn is_on_screen(&self) -> bool {
        self.mode == Mode::Terminal && self.before.is_none()
    }

    /// Whether standard input is its gate; else it goes on as soon as `started.json` names it.
    pub fn has_gate(&self) -> bool {
        self.mode == Mode::Headless && self.before.is_none()
    }

    /// The provider that it asks the broker for; `None` for the next turn of a conversation.
    pub fn provider(&self) -> Option<ProviderKind> {
        let name = self.value_of("--provider")?;
        ProviderKind::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
    }

    /// Its task at the broker.
    pub fn task(&self) -> Result<Task> {
        let name = self.value_of("--task").unwrap_or_default();
        Ok(name.parse()?)
    }

    /// What stands behind one of our own options.
    fn value_of(&self, option: &str) -> Option<&str> {
        let ours = self.arguments.iter().take_while(|word| *word != "--");
        let mut after = ours.skip_while(|word| *word != option).skip(1);
        after.next().map(String::as_str)
    }
}

/// `claim.json`: who may start the process, or that nobody may.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRecord {
    /// Format.
    pub schema: u32,
    /// The launch's.
    pub token: String,
    /// Who created it: the host, or whoever revoked it.
    pub by: Process,
    /// Why it was revoked; `None` when the host claimed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<String>,
}

/// `started.json`: the processes, before the child goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartedRecord {
    /// Format.
    pub schema: u32,
    /// The launch's.
    pub token: String,
    /// The host.
    pub host: Process,
    /// The child, which becomes the provider.
    pub child: Process,
}

/// `exit.json`: how the child ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    /// Format.
    pub schema: u32,
    /// The launch's.
    pub token: String,
    /// Its status; `None` when a signal ended it.
    pub status: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// When.
    pub at: Timestamp,
}

impl ExitRecord {
    /// Of this end.
    pub fn new(token: &str, exit: Exit, at: Timestamp) -> Self {
        let (status, signal) = match exit {
            Exit::Status(status) => (Some(status), None),
            Exit::Signal(signal) => (None, Some(signal)),
        };
        Self {
            schema: SCHEMA,
            token: token.to_owned(),
            status,
            signal,
            at,
        }
    }

    /// The end in one value; `None` when the record says neither.
    pub fn exit(&self) -> Option<Exit> {
        match (self.status, self.signal) {
            (Some(status), _) => Some(Exit::Status(status)),
            (None, Some(signal)) => Some(Exit::Signal(signal)),
            (None, None) => None,
        }
    }
}

/// A process of this machine, as the kernel names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its pid.
    pub pid: u32,
    /// Its kernel start time, in clock ticks since the boot.
    pub start: u64,
    /// The boot, 32 hex digits.
    pub boot: String,
    /// Inode of its pid namespace.
    pub namespace: u64,
}

/// Whether a process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It runs.
    Alive,
    /// It has ended, in this boot or with an earlier one.
    Gone,
    /// It cannot be told from here.
    Unknown,
}

/// The boot that runs now, 32 hex digits.
pub fn boot() -> Result<String> {
    let id = process::boot_id()
        .map_err(|error| Error::io("read", "/proc/sys/kernel/random/boot_id", &error))?;
    Ok(hex(&id))
}

impl Process {
    /// This process.
    pub fn current() -> Result<Self> {
        Self::of(std::process::id())?
            .ok_or_else(|| Error::internal("this process has no entry in /proc"))
    }

    /// The process of a pid; `None` when there is none.
    pub fn of(pid: u32) -> Result<Option<Self>> {
        let failed = |error: std::io::Error| Error::io("look up", format!("/proc/{pid}"), &error);
        let Some(status) = process::status(pid).map_err(failed)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            pid,
            start: status.start,
            boot: boot()?,
            namespace: process::pid_namespace().map_err(failed)?,
        }))
    }

    /// Whether it lives, as far as this process can see.
    pub fn life(&self) -> Life {
        match boot() {
            Ok(now) if now != self.boot => return Life::Gone,
            Ok(_) => {}
            Err(_) => return Life::Unknown,
        }
        if process::pid_namespace().ok() != Some(self.namespace) || !process::proc_shows_us() {
            return Life::Unknown;
        }
        match process::status(self.pid) {
            Ok(Some(status)) if status.start == self.start && !status.zombie => Life::Alive,
            Ok(_) => Life::Gone,
            Err(_) => Life::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Life, Process};

    #[test]
    fn a_process_is_known_by_birth_boot_and_namespace() {
        let own = Process::current().unwrap();
        assert_eq!(own.life(), Life::Alive);
        let reused = Process {
            start: own.start + 1,
            ..own.clone()
        };
        assert_eq!(reused.life(), Life::Gone);
        let rebooted = Process {
            boot: "0".repeat(32),
            ..own.clone()
        };
        assert_eq!(rebooted.life(), Life::Gone);
        let elsewhere = Process {
            namespace: 1,
            ..own
        };
        assert_eq!(elsewhere.life(), Life::Unknown);
    }
}
