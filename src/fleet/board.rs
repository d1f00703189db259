//! Everything that is known of a run, read from its files, and the only way to change it.
//!
//! A worker whose record cannot be read is kept apart under its name: it counts as possibly running, so it keeps its
//! files and its place, and the rest of the run goes on.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::files::{FleetFiles, RunFiles};
use super::ledger::{Kind, Ledger, Record};
use super::model::{Plan, PlannedStep, Run, SCHEMA, StepProgress, Worker};
use super::notify;
use super::record;
use crate::clock::ROUTINE;
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::id::Task;
use crate::id::fleet::{RepositoryKey, RunId, StepId, WorkerId};
use crate::store::lock::{Guard, Locks, Mode, Name};
use crate::sys::shell;

/// `steps.json`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Steps {
    schema: u32,
    steps: BTreeMap<StepId, StepProgress>,
}

/// A run, read.
#[derive(Debug)]
pub struct Board {
    /// Where it is.
    pub files: RunFiles,
    /// The run.
    pub run: Run,
    /// Its plan, once it has one.
    pub plan: Option<Plan>,
    /// How far each step is.
    pub progress: BTreeMap<StepId, StepProgress>,
    /// Its workers.
    pub workers: BTreeMap<WorkerId, Worker>,
    /// Workers whose record cannot be read, and why.
    pub damaged: BTreeMap<WorkerId, Error>,
    /// What was intended and what came of it.
    pub ledger: Ledger,
    /// The run's lock; `None` for a look.
    guard: Option<Guard>,
}

impl Board {
    /// Reads a run without its lock: what it says may be of two moments.
    ///
    /// Refused with `not_found` when there is no such run.
    pub fn look(files: &RunFiles) -> Result<Self> {
        let Some(run) = load(files, &files.run())? else {
            let message = format!("there is no run `{}` of this checkout", files.id);
            return Err(Error::new(code::NOT_FOUND, message).hint("agent-fleet fleet list"));
        };
        let plan = load(files, &files.plan())?;
        let steps: Option<Steps> = load(files, &files.steps())?;
        let mut workers = BTreeMap::new();
        let mut damaged = BTreeMap::new();
        for name in files.workers()? {
            match record::require::<Worker>(&files.worker(&name)) {
                Ok(worker) if worker.name == name => {
                    workers.insert(name, worker);
                }
                Ok(_) => {
                    let path = files.worker(&name);
                    let message =
                        format!("the record `{path}` is another worker's and is left alone");
                    let hint = format!("ls -l {}", shell::quote(path.as_str()));
                    damaged.insert(name, Error::new(code::RECORD_DAMAGED, message).hint(hint));
                }
                Err(error) => {
                    damaged.insert(name, error);
                }
            }
        }
        Ok(Self {
            files: files.clone(),
            run,
            plan,
            progress: steps.unwrap_or_default().steps,
            workers,
            damaged,
            ledger: Ledger::load(&files.ledger())?,
            guard: None,
        })
    }

    /// Takes the run's lock and reads it. Refused with `lock_timeout` while another command changes it.
    pub fn hold(context: &Context, files: &RunFiles) -> Result<Self> {
        let name = Name::Run(files.repository.clone(), files.id.clone());
        let locks = Locks::new(&context.roots.state, context.clock);
        let deadline = context.clock.deadline(ROUTINE);
        let mut guard = locks.take(&name, Mode::Exclusive, &deadline)?;
        guard.sign("fleet")?;
        let mut board = Self::look(files)?;
        board.guard = Some(guard);
        Ok(board)
    }

    /// The same as a look, without the lock.
    #[must_use]
    pub fn let_go(self) -> Self {
        Self {
            guard: None,
            ..self
        }
    }

    /// Begins a run: its record is created, and refused with `already_exists` when there is one.
    pub fn create(context: &Context, files: &RunFiles, run: &Run) -> Result<Self> {
        if !record::create(&files.run(), run)? {
            let message = format!("there is a run `{}` of this checkout already", run.id);
            let hint = format!("agent-fleet fleet resume {}", run.id);
            return Err(Error::new(code::ALREADY_EXISTS, message).hint(hint));
        }
        Self::hold(context, files)
    }

    /// The plan; refused with `step_not_ready` while there is none.
    pub fn plan(&self) -> Result<&Plan> {
        self.plan.as_ref().ok_or_else(|| {
            let message = format!("the run `{}` has no plan yet", self.run.id);
            Error::new(code::STEP_NOT_READY, message)
                .hint("agent-fleet fleet plan --file plan.toml")
        })
    }

    /// A planned step; refused with `not_found`.
    pub fn step(&self, id: &StepId) -> Result<&PlannedStep> {
        self.plan()?.step(id).ok_or_else(|| {
            let message = format!("the run `{}` has no step `{id}`", self.run.id);
            Error::new(code::NOT_FOUND, message).hint("agent-fleet fleet status")
        })
    }

    /// A worker; refused with `not_found`, or with what is wrong with its record.
    pub fn worker(&self, name: &WorkerId) -> Result<&Worker> {
        if let Some(error) = self.damaged.get(name) {
            return Err(error.clone());
        }
        self.workers.get(name).ok_or_else(|| {
            let message = format!("the run `{}` has no worker `{name}`", self.run.id);
            Error::new(code::NOT_FOUND, message).hint("agent-fleet fleet status")
        })
    }

    /// How far a step is.
    pub fn progress_of(&self, step: &StepId) -> StepProgress {
        self.progress.get(step).cloned().unwrap_or_default()
    }

    /// Workers that have or may have a process.
    pub fn active(&self) -> impl Iterator<Item = &WorkerId> {
        let active = self
            .workers
            .values()
            .filter(|worker| worker.state.holds_slot());
        active.map(|worker| &worker.name).chain(self.damaged.keys())
    }

    /// A worker's task at the broker: the same for every launch of it, so that the broker fences two of them.
    pub fn task(&self, worker: &WorkerId) -> Result<Task> {
        task(&self.files.repository, &self.run.id, worker)
    }

    /// Where a step works: its worktree, or the checkout.
    pub fn workspace(&self, context: &Context, step: &PlannedStep) -> Utf8PathBuf {
        if step.worktree {
            worktree(context, &self.files, &step.id)
        } else {
            self.run.repository.clone()
        }
    }

    fn locked(&self) -> Result<()> {
        if self.guard.is_some() {
            Ok(())
        } else {
            Err(Error::internal("a run is changed without its lock"))
        }
    }

    /// Changes a worker's record.
    pub fn save_worker(&mut self, worker: Worker) -> Result<()> {
        self.locked()?;
        if self.workers.get(&worker.name) == Some(&worker) {
            return Ok(());
        }
        record::save(&self.files.worker(&worker.name), &worker)?;
        self.workers.insert(worker.name.clone(), worker);
        Ok(())
    }

    /// Changes how far a step is.
    pub fn save_progress(&mut self, step: &StepId, progress: StepProgress) -> Result<()> {
        self.locked()?;
        if self.progress.get(step) == Some(&progress) {
            return Ok(());
        }
        self.progress.insert(step.clone(), progress);
        let steps = Steps {
            schema: SCHEMA,
            steps: self.progress.clone(),
        };
        record::save(&self.files.steps(), &steps)
    }

    /// Changes the run's own record.
    pub fn save_run(&mut self, run: Run) -> Result<()> {
        self.locked()?;
        if self.run != run {
            record::save(&self.files.run(), &run)?;
            self.run = run;
        }
        Ok(())
    }

    /// The highest number of the ledger's records whose id is this beginning, a dot and a number; 0 without one.
    pub fn times(&self, beginning: &str) -> usize {
        let of = |id: &str| {
            let number = id.strip_prefix(beginning)?.strip_prefix('.')?;
            number.parse::<usize>().ok()
        };
        let records = self.ledger.records.iter();
        records
            .filter_map(|record| of(&record.id))
            .max()
            .unwrap_or(0)
    }

    /// Writes a record into the ledger; false when one of its id is there.
    pub fn note(&mut self, context: &Context, entry: Entry<'_>) -> Result<bool> {
        self.locked()?;
        let record = Record {
            id: entry.id,
            at: context.clock.now(),
            by: format!("{} {}", context.command, std::process::id()),
            kind: entry.kind,
            verb: entry.verb.to_owned(),
            target: entry.target.to_owned(),
            of: entry.of.map(str::to_owned),
            reason: entry.reason.map(str::to_owned),
        };
        self.ledger.append(record)
    }

    /// Tells whoever waits for the run.
    pub fn tell(
        &mut self,
        context: &Context,
        id: String,
        word: &str,
        target: &str,
        reason: Option<&str>,
    ) -> Result<bool> {
        let appended = self.note(
            context,
            Entry {
                id,
                kind: Kind::Event,
                verb: word,
                target,
                of: None,
                reason,
            },
        )?;
        if let Some(record) = self.ledger.records.last().filter(|_| appended) {
            notify::start(context, &self.files, record);
        }
        Ok(appended)
    }
}

/// Reads one of the records without which a run is none; says how to set the run aside when that cannot be done.
pub fn load<T: DeserializeOwned>(files: &RunFiles, path: &Utf8Path) -> Result<Option<T>> {
    record::load(path).map_err(|error| {
        if error.code == code::RECORD_DAMAGED {
            let hint = format!("agent-fleet fleet recover --set-aside --run {}", files.id);
            error.hint(hint)
        } else {
            error
        }
    })
}

/// What is written into the ledger.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// Unique in the run.
    pub id: String,
    /// What it is.
    pub kind: Kind,
    /// What is or was done.
    pub verb: &'a str,
    /// To what.
    pub target: &'a str,
    /// The intent that it closes.
    pub of: Option<&'a str>,
    /// One word.
    pub reason: Option<&'a str>,
}

/// A worker's task at the broker.
pub fn task(repository: &RepositoryKey, run: &RunId, worker: &WorkerId) -> Result<Task> {
    format!("{repository}.{run}.{worker}")
        .parse()
        .map_err(|error| Error::internal(format!("a worker's task is no task: {error}")))
}

/// Where a step's own worktree is.
pub fn worktree(context: &Context, run: &RunFiles, step: &StepId) -> Utf8PathBuf {
    let share = &context.roots.share;
    let name = format!("{}-{}", run.repository, run.id);
    share.join("worktrees").join(name).join(step.as_str())
}

/// A run that is finished for good, or has a worker that may still run.
pub fn unconfirmed(
    files: &FleetFiles,
    repository: &RepositoryKey,
    but: &RunId,
) -> Result<Option<(RunId, WorkerId)>> {
    for run in files.runs_of(repository)? {
        if run.id == *but {
            continue;
        }
        let board = match Board::look(&run) {
            Ok(board) => board,
            // Made by a command that was cut short before its record was there.
            Err(error) if error.code == code::NOT_FOUND => continue,
            Err(error) => return Err(error),
        };
        if let Some(worker) = board.active().next() {
            return Ok(Some((run.id, worker.clone())));
        }
    }
    Ok(None)
}
