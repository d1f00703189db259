//! Whether a worker may be launched now. Pure: the run and the holds arrive as they were read.
//!
//! A refusal changes nothing: no snapshot is taken, no report moved, no record written.

use std::collections::BTreeMap;

use camino::Utf8Path;
use jiff::Timestamp;

use super::hold::Hold;
use super::model::{
    Options, Plan, PlannedStep, Role, StepProgress, StepState, Worker, WorkerState,
};
use super::scope::path::{Case, overlap};
use crate::error::{Code, Refusal, code};
use crate::id::ProviderKind;
use crate::id::fleet::{StepId, WorkerId};

/// What is known when it is decided.
#[derive(Debug)]
pub struct Situation<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// How far each step is.
    pub progress: &'a BTreeMap<StepId, StepProgress>,
    /// Every worker whose record could be read.
    pub workers: &'a BTreeMap<WorkerId, Worker>,
    /// Workers whose record could not: they may run.
    pub damaged: Vec<&'a WorkerId>,
    /// Lines of the ledger that could not be read.
    pub corrupt: usize,
    /// The hold that covers the step, if one does.
    pub hold: Option<&'a Hold>,
    /// The run's options.
    pub options: &'a Options,
    /// Most workers of a provider with a process at once; no bound when it is not named.
    pub most_of: &'a BTreeMap<ProviderKind, u32>,
    /// Whether the worker's own wait counts: not for a launch that goes around what it waits for.
    pub waits: bool,
    /// Whether file names that differ in case are one.
    pub case: Case,
    /// The time.
    pub now: Timestamp,
}

/// Why a worker is not launched now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A person holds launches.
    #[error("launches are held{}{}", reason.as_deref().map(|text| format!(": {text}")).unwrap_or_default(), expires.map(|at| format!(" (until {at})")).unwrap_or_default())]
    Held {
        /// Why.
        reason: Option<String>,
        /// Until when.
        expires: Option<Timestamp>,
    },
    /// The ledger has lines that cannot be read: what was intended is not known.
    #[error("{0} lines of the run's ledger cannot be read, so nothing new is started")]
    Ledger(usize),
    /// It has a process or may have one.
    #[error("the worker `{0}` is {1} and may still run")]
    Active(WorkerId, WorkerState),
    /// Its record cannot be read.
    #[error("the record of worker `{0}` cannot be read, so it may still run")]
    Damaged(WorkerId),
    /// Nothing is left to do.
    #[error("the step `{0}` is {1}")]
    Over(StepId, StepState),
    /// What it needs is not there yet.
    #[error("the step `{step}` needs `{need}`, which is {state}")]
    Needs {
        /// Which step.
        step: StepId,
        /// What it needs.
        need: StepId,
        /// Where that stands.
        state: StepState,
    },
    /// Another step owns a file.
    #[error("`{file}` belongs to the step `{owner}` until that is verified or dropped")]
    Owned {
        /// Which file.
        file: String,
        /// Whose.
        owner: StepId,
    },
    /// Every place is taken.
    #[error("{0} workers run, which is the most of this run")]
    Full(u32),
    /// Every place of the provider is taken.
    #[error("{1} workers of {0} run, which is the most of that provider")]
    ProviderFull(ProviderKind, u32),
    /// A limit is waited for.
    #[error("the worker `{worker}` waits until {until}: {reason}")]
    Waits {
        /// Which worker.
        worker: WorkerId,
        /// Until when.
        until: Timestamp,
        /// For what.
        reason: String,
    },
}

impl Refusal for Refused {
    fn code(&self) -> Code {
        match self {
            Self::Held { .. } => code::HELD,
            Self::Ledger(_) | Self::Damaged(_) => code::RECORD_DAMAGED,
            Self::Active(..) => code::WORKER_ACTIVE,
            Self::Over(..) | Self::Needs { .. } | Self::Owned { .. } => code::STEP_NOT_READY,
            Self::Full(_) | Self::ProviderFull(..) => code::CAPACITY,
            Self::Waits { .. } => code::COOLDOWN,
        }
    }
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Held { .. } => "agent-fleet fleet release".to_owned(),
            Self::Active(worker, _) => format!("agent-fleet fleet stop {worker}"),
            Self::Damaged(worker) => format!("agent-fleet fleet recover {worker} --evidence FILE"),
            Self::Needs { need, .. } => format!("agent-fleet fleet verify {need} --evidence FILE"),
            Self::Ledger(_)
            | Self::Over(..)
            | Self::Owned { .. }
            | Self::Full(_)
            | Self::ProviderFull(..)
            | Self::Waits { .. } => "agent-fleet fleet status".to_owned(),
        })
    }
    fn retry_at(&self) -> Option<Timestamp> {
        match self {
            Self::Waits { until, .. } => Some(*until),
            Self::Held { expires, .. } => *expires,
            Self::Ledger(_)
            | Self::Active(..)
            | Self::Damaged(_)
            | Self::Over(..)
            | Self::Needs { .. }
            | Self::Owned { .. }
            | Self::Full(_)
            | Self::ProviderFull(..) => None,
        }
    }
}

impl Situation<'_> {
    fn state(&self, step: &StepId) -> StepState {
        self.progress
            .get(step)
            .map_or(StepState::Pending, |progress| progress.state)
    }

    /// Whether a step was launched and is neither verified nor dropped: its files are its own.
    fn owns(&self, step: &PlannedStep) -> bool {
        let launched = self
            .workers
            .values()
            .any(|worker| worker.step == step.id && worker.role == Role::Implementation);
        let over = matches!(
            self.state(&step.id),
            StepState::Verified | StepState::Dropped
        );
        launched && !over && !step.worktree
    }

    /// The first file of `step` that another step owns.
    fn owned(&self, step: &PlannedStep) -> Option<(String, StepId)> {
        if step.worktree {
            return None;
        }
        let others = self
            .plan
            .steps
            .iter()
            .filter(|other| other.id != step.id && self.owns(other));
        others.into_iter().find_map(|other| {
            let meets = |file: &Utf8Path| {
                other
                    .files
                    .iter()
                    .any(|owned| overlap(owned, file, self.case))
            };
            let file = step.files.iter().find(|file| meets(file))?;
            Some((file.to_string(), other.id.clone()))
        })
    }

    /// Admits a worker of a step, or says why not.
    pub fn admit(
        &self,
        step: &PlannedStep,
        name: &WorkerId,
        role: Role,
        provider: ProviderKind,
    ) -> Result<(), Refused> {
        if let Some(hold) = self.hold {
            return Err(Refused::Held {
                reason: hold.reason.clone(),
                expires: hold.expires,
            });
        }
        if self.corrupt > 0 {
            return Err(Refused::Ledger(self.corrupt));
        }
        if self.damaged.contains(&name) {
            return Err(Refused::Damaged(name.clone()));
        }
        if let Some(worker) = self.workers.get(name) {
            if worker.state.holds_slot() {
                return Err(Refused::Active(name.clone(), worker.state));
            }
            let held = worker
                .held_until
                .filter(|until| self.waits && *until > self.now);
            if let Some(until) = held {
                return Err(Refused::Waits {
                    worker: name.clone(),
                    until,
                    reason: worker.reason.clone().unwrap_or_default(),
                });
            }
        }
        let state = self.state(&step.id);
        if matches!(
            state,
            StepState::Verified | StepState::Dropped | StepState::Skipped
        ) {
            return Err(Refused::Over(step.id.clone(), state));
        }
        match role {
            Role::Implementation => self.admit_author(step)?,
            Role::Review => self.admit_reviewer(step)?,
        }
        let active = |provider: Option<ProviderKind>| {
            let active = self.workers.values().filter(|worker| {
                worker.state.holds_slot()
                    && provider.is_none_or(|provider| worker.assignment.provider == provider)
            });
            u32::try_from(active.count() + self.damaged.len()).unwrap_or(u32::MAX)
        };
        let running = active(None);
        if running >= self.options.max_parallel {
            return Err(Refused::Full(running));
        }
        if let Some(most) = self.most_of.get(&provider) {
            let running = active(Some(provider));
            if running >= *most {
                return Err(Refused::ProviderFull(provider, running));
            }
        }
        Ok(())
    }

    fn admit_author(&self, step: &PlannedStep) -> Result<(), Refused> {
        for need in &step.needs {
            let state = self.state(need);
            if state != StepState::Verified {
                return Err(Refused::Needs {
                    step: step.id.clone(),
                    need: need.clone(),
                    state,
                });
            }
        }
        // Nobody may change what a reviewer of it is reading.
        let reader = self.workers.values().find(|worker| {
            worker.step == step.id && worker.role == Role::Review && worker.state.holds_slot()
        });
        if let Some(reader) = reader {
            return Err(Refused::Active(reader.name.clone(), reader.state));
        }
        match self.owned(step) {
            Some((file, owner)) => Err(Refused::Owned { file, owner }),
            None => Ok(()),
        }
    }

    fn admit_reviewer(&self, step: &PlannedStep) -> Result<(), Refused> {
        let author = self.workers.values().find(|worker| {
            worker.step == step.id
                && worker.role == Role::Implementation
                && worker.state.holds_slot()
        });
        match author {
            Some(author) => Err(Refused::Active(author.name.clone(), author.state)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
#[path = "admit_tests.rs"]
mod tests;
