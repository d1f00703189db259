//! Where the fleet keeps what it knows: `<state>/fleet/`.
//!
//! Only this program writes there, so no worker can forge a run; what workers may write is in the exchange
//! directory of their own workspace.

use camino::{Utf8Path, Utf8PathBuf};

use crate::env::Context;
use crate::error::{Error, Result};
use crate::id::fleet::{RepositoryKey, RunId, StepId, WorkerId};

/// The state side of the fleet on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetFiles {
    root: Utf8PathBuf,
}

impl FleetFiles {
    /// Below the state root.
    pub fn new(context: &Context) -> Self {
        Self {
            root: context.roots.state.join("fleet"),
        }
    }

    /// What launches are held by.
    pub fn holds(&self) -> Utf8PathBuf {
        self.root.join("holds.json")
    }

    /// Where runs are moved that cannot be read.
    pub fn damaged(&self) -> Utf8PathBuf {
        self.root.join("damaged")
    }

    /// One run's files, whether or not there are any.
    pub fn run(&self, repository: &RepositoryKey, id: &RunId) -> RunFiles {
        RunFiles {
            directory: self.root.join("runs").join(format!("{repository}-{id}")),
            repository: repository.clone(),
            id: id.clone(),
        }
    }

    /// The runs of every checkout on this machine, sorted by checkout and name.
    pub fn runs(&self) -> Result<Vec<RunFiles>> {
        let mut found = Vec::new();
        for name in names(&self.root.join("runs"))? {
            let parsed = name
                .split_at_checked(16)
                .and_then(|(key, rest)| Some((key, rest.strip_prefix('-')?)))
                .and_then(|(key, id)| Some((RepositoryKey::parse(key)?, id.parse().ok()?)));
            // What is not named like a run is not ours.
            if let Some((key, id)) = parsed {
                found.push(self.run(&key, &id));
            }
        }
        Ok(found)
    }

    /// The runs of one checkout, sorted by name.
    pub fn runs_of(&self, repository: &RepositoryKey) -> Result<Vec<RunFiles>> {
        let mut runs = self.runs()?;
        runs.retain(|run| run.repository == *repository);
        Ok(runs)
    }
}

/// The sorted names in a directory; none when there is no directory.
pub(super) fn names(directory: &Utf8Path) -> Result<Vec<String>> {
    let failed = |error: std::io::Error| Error::io("list", directory, &error);
    let entries = match directory.read_dir_utf8() {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut names = entries
        .map(|entry| Ok(entry.map_err(failed)?.file_name().to_owned()))
        .collect::<Result<Vec<_>>>()?;
    names.sort_unstable();
    Ok(names)
}

/// The files of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFiles {
    /// Where they are.
    pub directory: Utf8PathBuf,
    /// Whose run it is.
    pub repository: RepositoryKey,
    /// Its name.
    pub id: RunId,
}

impl RunFiles {
    /// [`super::model::Run`].
    pub fn run(&self) -> Utf8PathBuf {
        self.directory.join("run.json")
    }

    /// [`super::model::Plan`].
    pub fn plan(&self) -> Utf8PathBuf {
        self.directory.join("plan.json")
    }

    /// How far each step is.
    pub fn steps(&self) -> Utf8PathBuf {
        self.directory.join("steps.json")
    }

    /// HEAD and index of the checkout when the run began.
    pub fn baseline(&self) -> Utf8PathBuf {
        self.directory.join("baseline.json")
    }

    /// How the run ended.
    pub fn result(&self) -> Utf8PathBuf {
        self.directory.join("result.json")
    }

    /// What was intended and what came of it.
    pub fn ledger(&self) -> Utf8PathBuf {
        self.directory.join("ledger.jsonl")
    }

    /// What programs of `on_event` complained of.
    pub fn event_log(&self) -> Utf8PathBuf {
        self.directory.join("on_event.log")
    }

    /// How far a consumer of `fleet wait` is.
    pub fn consumer(&self, name: &WorkerId) -> Utf8PathBuf {
        self.directory
            .join("consumers")
            .join(format!("{name}.json"))
    }

    /// [`super::model::Worker`].
    pub fn worker(&self, name: &WorkerId) -> Utf8PathBuf {
        self.directory.join("workers").join(format!("{name}.json"))
    }

    /// Names of the workers that have a record, sorted.
    pub fn workers(&self) -> Result<Vec<WorkerId>> {
        let names = names(&self.directory.join("workers"))?;
        let worker = |name: String| name.strip_suffix(".json")?.parse().ok();
        Ok(names.into_iter().filter_map(worker).collect())
    }

    /// What one launch of a worker leaves behind.
    pub fn launch(&self, worker: &WorkerId, number: u32) -> LaunchFiles {
        LaunchFiles {
            directory: self
                .directory
                .join("launches")
                .join(format!("{worker}.{number}")),
        }
    }

    /// A write-once receipt.
    pub fn receipt(&self, id: &str) -> Utf8PathBuf {
        self.directory.join("receipts").join(format!("{id}.json"))
    }

    /// The receipts' directory.
    pub fn receipts(&self) -> Utf8PathBuf {
        self.directory.join("receipts")
    }

    /// A worker's prompt as it was prepared.
    pub fn prompt(&self, worker: &WorkerId) -> Utf8PathBuf {
        self.directory.join("prompts").join(format!("{worker}.md"))
    }

    /// The diff that a reviewer judges.
    pub fn reviewed(&self, worker: &WorkerId) -> Utf8PathBuf {
        self.directory
            .join("prompts")
            .join(format!("{worker}.diff"))
    }

    /// A step's files as they were before its first launch.
    pub fn snapshot(&self, step: &StepId) -> Utf8PathBuf {
        self.directory.join("snapshots").join(step.as_str())
    }
}

/// The files of one launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchFiles {
    /// Where they are.
    pub directory: Utf8PathBuf,
}

impl LaunchFiles {
    /// What is to be started; written before anything starts.
    pub fn launch(&self) -> Utf8PathBuf {
        self.directory.join("launch.json")
    }

    /// Who may start it, or that nobody may; whoever creates it first has decided.
    pub fn claim(&self) -> Utf8PathBuf {
        self.directory.join("claim.json")
    }

    /// Host and child, before the child goes on.
    pub fn started(&self) -> Utf8PathBuf {
        self.directory.join("started.json")
    }

    /// The broker's receipt.
    pub fn receipt(&self) -> Utf8PathBuf {
        self.directory.join("receipt.json")
    }

    /// Where its screen can be seen.
    pub fn screen(&self) -> Utf8PathBuf {
        self.directory.join("screen.json")
    }

    /// There while a person is at its keys.
    pub fn typed(&self) -> Utf8PathBuf {
        self.directory.join("typed")
    }

    /// How the process ended.
    pub fn exit(&self) -> Utf8PathBuf {
        self.directory.join("exit.json")
    }

    /// The provider's standard output.
    pub fn output(&self) -> Utf8PathBuf {
        self.directory.join("output.jsonl")
    }

    /// The provider's standard error.
    pub fn errors(&self) -> Utf8PathBuf {
        self.directory.join("error.log")
    }

    /// The host's own complaints.
    pub fn host_log(&self) -> Utf8PathBuf {
        self.directory.join("host.log")
    }

    /// Maildir of the lease's hook events.
    pub fn events(&self) -> Utf8PathBuf {
        self.directory.join("events")
    }

    /// What a turn on a screen came to.
    pub fn turn(&self) -> Utf8PathBuf {
        self.directory.join("turn.json")
    }

    /// The worker's report as it was when the turn ended.
    pub fn report(&self) -> Utf8PathBuf {
        self.directory.join("report.md")
    }
}
