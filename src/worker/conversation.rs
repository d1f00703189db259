//! The conversation that a resume goes on with, and whether it may.

use std::path::Path;

use crate::choose::apply;
use crate::choose::candidate::{Asked, Reserve};
use crate::clock::ROUTINE;
use crate::contract::lease::{State, Verdict};
use crate::contract::selection::DecisionReason;
use crate::contract::session::Session;
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::id::{ProfileId, Task};
use crate::lease::LeaseStore;
use crate::provider::Provider;
use crate::registry::project::Workspace;
use crate::registry::schema::{Profile, Registry};
use crate::registry::{path, project};
use crate::snapshot::{fold, session};
use crate::sys::shell;

/// A task's recorded conversation.
#[derive(Clone, Debug)]
pub struct Recorded {
    session: Session,
}

/// Looks a task's conversation up, with what hooks reported up to now folded in.
pub fn recorded(context: &Context, registry: &Registry, task: &Task) -> Result<Recorded> {
    let deadline = context.clock.deadline(ROUTINE);
    for settings in &registry.providers {
        fold::settle(context, settings.kind, &deadline)?;
    }
    let session = session::require(&context.roots.state, task)?.session;
    registry.profile(&session.profile)?;
    Ok(Recorded { session })
}

impl Recorded {
    /// Refuses another workspace or another profile than the recorded ones.
    pub fn belongs(
        &self,
        context: &Context,
        workspace: &Path,
        profile: Option<&ProfileId>,
    ) -> Result<()> {
        let Session {
            task,
            workspace: home,
            profile: owner,
            ..
        } = &self.session;
        let given = project::absolute(context, workspace)?;
        if path::resolved(&given) != *home {
            let message = format!(
                "the conversation of task `{task}` belongs to the workspace `{home}`, not to `{given}`"
            );
            return Err(Error::new(code::SESSION_MISMATCH, message).hint(format!(
                "agent-fleet resume {} --workspace {}",
                shell::option("--task", task.as_str()),
                shell::quote(home.as_str())
            )));
        }
        match profile {
            Some(other) if other != owner => {
                let message = format!(
                    "the conversation of task `{task}` lives in the home of profile `{owner}`, not of `{other}`"
                );
                Err(Error::new(code::SESSION_MISMATCH, message).hint(format!(
                    "agent-fleet resume {} --workspace {}",
                    shell::option("--task", task.as_str()),
                    shell::quote(home.as_str())
                )))
            }
            _ => Ok(()),
        }
    }

    /// The recorded profile, reserve ignored.
    pub fn asked(&self) -> Asked {
        Asked {
            pool: self.session.pool.clone(),
            provider: Some(self.session.provider),
            profile: Some(self.session.profile.clone()),
            model: None,
            reserve: Reserve::Ignore,
        }
    }

    /// A reservation of the recorded profile; refused while a worker of the task lives.
    pub fn recovery(
        &self,
        context: &Context,
        store: &dyn LeaseStore,
        workspace: &Path,
    ) -> Result<apply::Request> {
        self.belongs(context, workspace, None)?;
        let task = &self.session.task;
        let alive = store
            .find(task)?
            .filter(|lease| lease.state == State::Running && lease.verdict != Verdict::Dead);
        if let Some(lease) = alive {
            let pid = lease
                .pid
                .map(|pid| format!(" (process {pid})"))
                .unwrap_or_default();
            let message =
                format!("task `{task}` already has a live worker lease{pid}; refusing recovery");
            return Err(Error::new(code::TASK_OWNED, message).hint("agent-fleet lease list"));
        }
        Ok(apply::Request {
            task: task.clone(),
            workspace: workspace.to_path_buf(),
            asked: self.asked(),
            reason: DecisionReason::StickyResume,
        })
    }

    /// The provider's id, once its transcript is found in that home.
    ///
    /// Both CLIs would otherwise fail after launch, or start a new conversation without a word.
    pub fn require(
        &self,
        provider: &dyn Provider,
        profile: &Profile,
        workspace: &Workspace,
    ) -> Result<String> {
        let id = &self.session.session_id;
        if provider
            .transcript(&profile.home, &workspace.path, id)
            .is_some()
        {
            return Ok(id.clone());
        }
        let task = &self.session.task;
        let message = format!(
            "the transcript of session `{id}` of task `{task}` is not in the home of profile `{}`",
            profile.id
        );
        Err(Error::new(code::SESSION_MISMATCH, message).hint(format!(
            "agent-fleet session remove {}",
            shell::option("--task", task.as_str())
        )))
    }
}
