//! `which`: who this worker is.

use crate::contract::worker::Which;
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::snapshot::{self, profile::ProfileState};

use super::identity::Worker;

/// The worker whose environment this is. Fails with `not_found` outside a worker.
pub fn which(context: &Context) -> Result<Which> {
    let worker = Worker::of(&context.variables).ok_or_else(|| {
        Error::new(
            code::NOT_FOUND,
            "this is not a worker: its environment names no lease",
        )
        .hint("agent-fleet lease list")
    })?;
    let snapshot = snapshot::provider::load(context, worker.provider)?;
    let state = snapshot.states.get(worker.profile.as_str());
    let fingerprint = state.and_then(ProfileState::fingerprint);
    Ok(Which {
        task: worker.task,
        profile: worker.profile,
        provider: worker.provider,
        pool: worker.pool,
        workspace: worker.workspace,
        generation: worker.generation,
        identity_fingerprint: fingerprint.map(|fingerprint| fingerprint.whole.clone()),
    })
}
