//! Signalling the process of a launch: the recorded one and no other, and not while a login is being refreshed.

use super::{Life, StartedRecord};
use crate::clock::ROUTINE;
use crate::env::Context;
use crate::error::{Error, Result};
use crate::fleet::files::LaunchFiles;
use crate::fleet::record;
use crate::id::{ProfileId, Task};
use crate::lease::{LeaseStore as _, TableStore};
use crate::sys::tend::{self, Signal};
use crate::worker::gate;
use crate::worker::receipt::Receipt;

/// What became of a signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reached {
    /// It was sent.
    Sent,
    /// The process is gone.
    Gone,
    /// There is no process yet.
    NotYet,
    /// It was not sent: a start on this profile is refreshing its login, which a signal would lose.
    Refreshing(ProfileId),
    /// It was not sent: from here it cannot be told which process it is.
    Unknown,
}

/// Whether a refresh of the login at a start is respected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Nothing is sent meanwhile.
    Respected,
    /// It was waited for long enough.
    Ignored,
}

/// Sends a signal to the process of a launch.
pub fn signal(
    context: &Context,
    files: &LaunchFiles,
    token: &str,
    task: &Task,
    kind: Signal,
    gate: Gate,
) -> Result<Reached> {
    let started: Option<StartedRecord> = record::load(&files.started())?;
    let Some(started) = started.filter(|started| started.token == token) else {
        return Ok(Reached::NotYet);
    };
    let child = started.child;
    match child.life() {
        Life::Alive => {}
        Life::Gone => return Ok(Reached::Gone),
        Life::Unknown => return Ok(Reached::Unknown),
    }
    let send = || tend::signal(child.pid, child.start, kind);
    let profile = match gate {
        Gate::Respected => profile(context, files, task),
        Gate::Ignored => None,
    };
    let sent = match profile {
        None => send(),
        Some(id) => {
            let registry = crate::snapshot::registry::load(context);
            let known = registry.as_ref().ok().and_then(|all| all.profile(&id).ok());
            match gate::outside(context, &id, known, send)? {
                Some(sent) => sent,
                None => return Ok(Reached::Refreshing(id)),
            }
        }
    };
    match sent {
        Ok(true) => Ok(Reached::Sent),
        Ok(false) => Ok(Reached::Gone),
        Err(error) => {
            let path = format!("/proc/{}", child.pid);
            Err(Error::io("signal", path, &error))
        }
    }
}

/// The account that a launch is on: its lease knows it before its receipt does.
fn profile(context: &Context, files: &LaunchFiles, task: &Task) -> Option<ProfileId> {
    let store = TableStore::open(context, context.clock.deadline(ROUTINE));
    if let Ok(Some(lease)) = store.and_then(|store| store.find(task)) {
        return Some(lease.profile);
    }
    let bytes = crate::store::read::optional(files.receipt()).ok()??;
    serde_json::from_slice::<Receipt>(&bytes).ok()?.profile
}
