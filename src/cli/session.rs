//! `agent-fleet session`.

use clap::Subcommand;

use super::{App, Outcome};
use crate::clock::ROUTINE;
use crate::contract::session::{SessionList, SessionRemoved};
use crate::error::{Result, code};
use crate::id::{ProviderKind, Task};
use crate::snapshot::{fold, session};

/// Which conversation continues a task.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(super) enum SessionCommand {
    /// All recorded conversations
    List,
    /// The conversation of one task
    Status {
        /// The task
        #[arg(long)]
        task: Task,
    },
    /// Forget which conversation continues a task; the conversation itself stays
    Remove {
        /// The task
        #[arg(long)]
        task: Task,
    },
}

pub(super) fn run(app: &App, command: SessionCommand) -> Result<Outcome> {
    let state = &app.context.roots.state;
    let deadline = app.context.clock.deadline(ROUTINE);
    for provider in ProviderKind::ALL {
        match fold::settle(&app.context, provider, &deadline) {
            Err(error) if [code::READ_ONLY, code::DISK_FULL].contains(&error.code) => {
                app.note(&format!(
                    "note: what workers did last is not shown: {error}"
                ));
            }
            other => other?,
        }
    }
    match command {
        SessionCommand::List => {
            let (sessions, damaged) = session::list(state)?;
            for error in damaged {
                let hint = error.hint.unwrap_or_default();
                app.note(&format!("{}; next: {hint}", error.message));
            }
            app.view(&SessionList { sessions })
        }
        SessionCommand::Status { task } => app.view(&session::require(state, &task)?.session),
        SessionCommand::Remove { task } => {
            if !session::remove(state, &task)? {
                return Err(session::SessionError::Missing(task).into());
            }
            app.view(&SessionRemoved {
                task,
                removed: true,
            })
        }
    }
}
