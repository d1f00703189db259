//! What people hold launches by: the host, a checkout, a run or a step, with a reason and perhaps an end.
//!
//! A hold stops new launches and nothing else. A file that cannot be read is an error and stops launches: it is
//! neither "open" nor "for ever". A hold whose time has passed does not count, and goes with the next change.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::files::FleetFiles;
use super::model::SCHEMA;
use super::record;
use super::start::refuse_inside;
use crate::clock::ROUTINE;
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::id::fleet::{RepositoryKey, RunId, StepId};
use crate::store::lock::{Locks, Mode, Name};

/// What is held.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "scope", rename_all = "snake_case")]
pub enum Scope {
    /// Every launch on this machine.
    Host,
    /// Every launch of a checkout.
    Repository {
        /// Which.
        repository: RepositoryKey,
    },
    /// Every launch of a run.
    Run {
        /// Whose.
        repository: RepositoryKey,
        /// Which.
        run: RunId,
    },
    /// Every launch of a step.
    Step {
        /// Whose.
        repository: RepositoryKey,
        /// Of which run.
        run: RunId,
        /// Which.
        step: StepId,
    },
}

impl Scope {
    /// Whether it concerns a run, or one of its steps.
    pub fn concerns(&self, of: &RepositoryKey, in_run: Option<&RunId>) -> bool {
        match self {
            Self::Host => true,
            Self::Repository { repository } => repository == of,
            Self::Run { repository, run }
            | Self::Step {
                repository, run, ..
            } => repository == of && Some(run) == in_run,
        }
    }

    /// The word for it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Repository { .. } => "repository",
            Self::Run { .. } => "run",
            Self::Step { .. } => "step",
        }
    }

    /// Whether a launch of this step is meant.
    fn covers(&self, of: &RepositoryKey, in_run: &RunId, the_step: &StepId) -> bool {
        match self {
            Self::Host => true,
            Self::Repository { repository } => repository == of,
            Self::Run { repository, run } => repository == of && run == in_run,
            Self::Step {
                repository,
                run,
                step,
            } => repository == of && run == in_run && step == the_step,
        }
    }
}

/// One hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hold {
    /// What is held.
    #[serde(flatten)]
    pub scope: Scope,
    /// Why, in the words of whoever holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The pid that asked for it.
    pub by: u32,
    /// Since when.
    #[schemars(with = "String")]
    pub since: Timestamp,
    /// Until when; without it, until it is released.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub expires: Option<Timestamp>,
}

impl Hold {
    /// Whether it counts at this moment.
    pub fn is_in_force(&self, now: Timestamp) -> bool {
        self.expires.is_none_or(|at| at > now)
    }
}

/// `holds.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Holds {
    schema: u32,
    holds: Vec<Hold>,
}

/// Every hold in force. Refused when the file cannot be read.
pub fn in_force(files: &FleetFiles, now: Timestamp) -> Result<Vec<Hold>> {
    let holds: Option<Holds> = record::load(&files.holds())?;
    let mut holds = holds.unwrap_or_default().holds;
    holds.retain(|hold| hold.is_in_force(now));
    Ok(holds)
}

/// The first hold that stops launches of a step.
pub fn stopping<'a>(
    holds: &'a [Hold],
    repository: &RepositoryKey,
    run: &RunId,
    step: &StepId,
) -> Option<&'a Hold> {
    holds
        .iter()
        .find(|hold| hold.scope.covers(repository, run, step))
}

/// Holds; a hold of the same scope is replaced.
pub fn hold(context: &Context, files: &FleetFiles, hold: &Hold) -> Result<()> {
    refuse_inside(context)?;
    change(context, files, |holds| {
        holds.retain(|other| other.scope != hold.scope);
        holds.push(hold.clone());
        Ok(())
    })
}

/// Releases; refused with `not_found` when nothing of this scope is held.
pub fn release(context: &Context, files: &FleetFiles, scope: &Scope) -> Result<Hold> {
    refuse_inside(context)?;
    let mut released = None;
    change(context, files, |holds| {
        let at = holds.iter().position(|hold| hold.scope == *scope);
        released = at.map(|at| holds.remove(at));
        match released {
            Some(_) => Ok(()),
            None => Err(Error::new(code::NOT_FOUND, "nothing of that scope is held")
                .hint("agent-fleet fleet status")),
        }
    })?;
    released.ok_or_else(|| Error::internal("a hold was released and is not known"))
}

fn change(
    context: &Context,
    files: &FleetFiles,
    change: impl FnOnce(&mut Vec<Hold>) -> Result<()>,
) -> Result<()> {
    let locks = Locks::new(&context.roots.state, context.clock);
    let deadline = context.clock.deadline(ROUTINE);
    let _guard = locks.take(&Name::Holds, Mode::Exclusive, &deadline)?;
    let mut holds = in_force(files, context.clock.now())?;
    change(&mut holds)?;
    holds.sort_by(|one, other| one.scope.cmp(&other.scope));
    let file = Holds {
        schema: SCHEMA,
        holds,
    };
    record::save(&files.holds(), &file)
}

#[cfg(test)]
mod tests {
    use super::{Hold, Scope, stopping};
    use crate::id::fleet::RepositoryKey;
    use jiff::Timestamp;

    #[test]
    fn a_hold_stops_what_it_covers_until_it_ends() {
        let key = |root: &str| RepositoryKey::of(root.into());
        let run = "r".parse().unwrap();
        let step = |name: &str| name.parse().unwrap();
        let hold = |scope| Hold {
            scope,
            reason: None,
            by: 1,
            since: Timestamp::UNIX_EPOCH,
            expires: None,
        };
        let holds = [hold(Scope::Step {
            repository: key("/a"),
            run: "r".parse().unwrap(),
            step: step("one"),
        })];
        assert!(stopping(&holds, &key("/a"), &run, &step("one")).is_some());
        assert!(stopping(&holds, &key("/a"), &run, &step("two")).is_none());
        assert!(stopping(&holds, &key("/b"), &run, &step("one")).is_none());
        let host = [hold(Scope::Host)];
        assert!(stopping(&host, &key("/b"), &run, &step("two")).is_some());
        let ends = Hold {
            expires: Some(Timestamp::UNIX_EPOCH),
            ..hold(Scope::Host)
        };
        assert!(!ends.is_in_force(Timestamp::UNIX_EPOCH));
        assert!(ends.is_in_force(Timestamp::MIN));
    }

    #[test]
    fn a_hold_is_read_back_flat() {
        let text = r#"{"scope":"run","repository":"0123456789abcdef","run":"r","by":1,"since":"2030-01-01T00:00:00Z"}"#;
        let hold: Hold = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&hold).unwrap(), text);
        assert!(
            serde_json::from_str::<Hold>(
                r#"{"scope":"all","by":1,"since":"2030-01-01T00:00:00Z"}"#
            )
            .is_err()
        );
    }
}
