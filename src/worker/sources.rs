//! What hooks and the status line ask of registry and lease table, without a lock.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use super::ancestry::Binaries;
use super::hook::{Bound, Sources};
use super::identity::Worker;
use crate::env::Context;
use crate::id::{ProviderKind, TaskKey};
use crate::lease::holder::Here;
use crate::lease::{LeaseStore as _, TableStore};
use crate::registry::schema::Registry;
use crate::snapshot;

/// Calls `action` with what can be told now. What cannot be told is missing: then events count as foreign.
pub fn with<T>(context: &Context, action: impl FnOnce(&Sources<'_>) -> T) -> T {
    let registry = snapshot::registry::load(context).unwrap_or_default();
    let worker = Worker::of(&context.variables);
    let profile = worker.and_then(|worker| registry.profile(&worker.profile).ok().cloned());
    action(&Sources {
        binaries: binaries(context, &registry),
        home: profile.map(|profile| profile.home),
        lease: &|task| bound(context, task),
    })
}

/// The registered binaries; the scripted provider's is this program itself.
fn binaries(context: &Context, registry: &Registry) -> Binaries {
    let named = registry.providers.iter().filter_map(|settings| {
        let binary = settings.binary.clone().map(PathBuf::from);
        match settings.kind {
            ProviderKind::Scripted => binary.or_else(|| context.executable.clone()),
            ProviderKind::Claude | ProviderKind::Codex => binary,
        }
    });
    Binaries {
        paths: named
            .filter_map(|path| fs::canonicalize(path).ok())
            .collect(),
    }
}

/// The task's lease, its process named only when its pid means something here.
fn bound(context: &Context, task: TaskKey) -> Option<Bound> {
    let store = TableStore::open(context, context.clock.deadline(Duration::ZERO)).ok()?;
    let grant = store.lookup(task).ok()??;
    let here = Here::look().ok()?;
    let holder = grant
        .holder
        .filter(|holder| holder.boot == here.boot && here.namespace == Some(holder.namespace));
    Some(Bound {
        generation: grant.generation,
        holder: holder.map(|holder| (holder.pid, holder.start)),
    })
}
