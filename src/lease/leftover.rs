//! The files beside the table, and what to make of those that belong to no record.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;

use camino::Utf8Path;

use super::details::{self, Details};
use super::machine::Machine;
use super::name::Name;
use super::record::{Record, Stage, Takes};
use super::witness::{self, Probe};
use crate::error::{Error, Result};
use crate::id::TaskKey;

/// The files of leases, as the directory lists them.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// Details, by task and generation.
    pub(super) details: BTreeSet<(TaskKey, u64)>,
    /// Witnesses, by task.
    pub(super) witnesses: BTreeSet<TaskKey>,
}

impl Files {
    /// Lists a directory.
    pub(super) fn list(directory: &Utf8Path) -> Result<Self> {
        let failed = |error: io::Error| Error::io("list", directory, &error);
        let mut files = Self::default();
        for entry in fs::read_dir(directory).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let Some(name) = name.to_str() else { continue };
            if let Some(task) = witness::parse_name(name) {
                files.witnesses.insert(task);
            } else if let Some(details) = details::parse_name(name) {
                files.details.insert(details);
            }
        }
        Ok(files)
    }

    /// Removes the files that belong to no record in `kept`, but for tasks whose witness is held: they are
    /// returned as records again where their details tell the profile. Only under the `leases` lock.
    pub(super) fn sweep(
        &self,
        machine: &impl Machine,
        kept: &BTreeSet<(TaskKey, u64)>,
    ) -> Vec<Record> {
        let keys: BTreeSet<TaskKey> = kept.iter().map(|(task, _)| *task).collect();
        let newest: BTreeMap<TaskKey, u64> = self.details.iter().copied().collect();
        let mut held = BTreeMap::new();
        for task in self.witnesses.difference(&keys) {
            match machine.probe(*task) {
                // What cannot be removed is swept later.
                Probe::Free => drop(machine.unlink_witness(*task)),
                Probe::Held | Probe::Unreadable => {
                    let generation = newest.get(task).copied();
                    held.insert(*task, generation.unwrap_or_default());
                }
            }
        }
        for (task, generation) in &self.details {
            if !kept.contains(&(*task, *generation)) && held.get(task) != Some(generation) {
                machine.remove_details(*task, *generation);
            }
        }
        held.into_iter()
            .filter_map(|(task, generation)| {
                let details = machine.details(task, generation)?;
                Some(restored(task, generation, &details))
            })
            .collect()
    }
}

/// A record for a process of which only the witness and the details are known.
fn restored(task: TaskKey, generation: u64, details: &Details) -> Record {
    let created = details.created_at.as_millisecond();
    Record {
        stage: Stage::Running {
            pid: 0,
            start: 0,
            namespace: 0,
            unique: 0,
            bound: created,
            takes: match details.workspace {
                Some(_) => Takes::Slot,
                None => Takes::Profile,
            },
        },
        profile: Name::from(&details.profile),
        provider: details.provider,
        task,
        terms: details::terms(details.workspace.as_deref(), details.pool.as_ref()),
        generation,
        created,
    }
}
