//! `agent-fleet choose`: what a choice would be, without making it.

use std::path::PathBuf;

use super::{App, Outcome};
use crate::choose::apply;
use crate::choose::candidate::{Asked, Reserve};
use crate::contract::selection::DecisionReason;
use crate::error::{Error, Result, code};
use crate::id::{PoolId, ProfileId, ProviderKind, Task};
use crate::quota::model::Model;

// Who asks, for what, and where. (A doc comment would become the help of each command.)
#[derive(Debug, clap::Args)]
pub(super) struct Terms {
    /// Pool to choose from
    #[arg(long)]
    pub(super) pool: PoolId,
    /// Name of the piece of work
    #[arg(long)]
    pub(super) task: Task,
    /// Root of the git worktree to work in
    #[arg(long, value_name = "PATH")]
    pub(super) workspace: PathBuf,
    /// Only this provider
    #[arg(long)]
    pub(super) provider: Option<ProviderKind>,
    /// Only this profile
    #[arg(long)]
    pub(super) profile: Option<ProfileId>,
    /// Model that will be used, as an alias or an id: windows of other models do not count
    #[arg(long)]
    pub(super) model: Option<Model>,
}

impl Terms {
    pub(super) fn request(self) -> apply::Request {
        apply::Request {
            task: self.task,
            workspace: self.workspace,
            asked: Asked {
                pool: self.pool,
                provider: self.provider,
                profile: self.profile,
                model: self.model,
                reserve: Reserve::Keep,
            },
            reason: DecisionReason::Quota,
        }
    }
}

#[derive(Debug, clap::Args)]
pub(super) struct ChooseArguments {
    #[command(flatten)]
    terms: Terms,
    /// Required: this verb only looks; `lease choose` chooses
    #[arg(long)]
    dry_run: bool,
    /// One row per profile with its reason
    #[arg(long)]
    explain: bool,
}

pub(super) fn run(app: &App, arguments: ChooseArguments) -> Result<Outcome> {
    if !arguments.dry_run {
        let pool = &arguments.terms.pool;
        let message =
            "`choose` only looks, so it needs `--dry-run`; to take a lease use `lease choose`";
        return Err(Error::new(code::USAGE, message).hint(format!(
            "agent-fleet lease choose --pool {pool} --task … --workspace …"
        )));
    }
    let mut selection = apply::preview(&app.context, &app.store()?, &arguments.terms.request())?;
    if !arguments.explain {
        selection.explain = None;
    }
    app.view(&selection)
}
