//! `agent-fleet project register|remove|list`.

use std::path::PathBuf;

use super::{App, Outcome};
use crate::error::Result;
use crate::id::ProviderKind;
use crate::registry::project::register;
use crate::snapshot;

#[derive(Debug, clap::Args)]
pub(super) struct ProjectArguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
enum Verb {
    /// Let workers run in a git worktree and in worktrees linked to it
    Register(Which),
    /// Let no new worker run in a git worktree
    Remove(Which),
    /// List the registered git worktrees
    List {
        /// Only those of one provider
        #[arg(long)]
        provider: Option<ProviderKind>,
    },
}

#[derive(Debug, clap::Args)]
struct Which {
    /// For workers of this provider alone; of every provider when absent
    #[arg(long)]
    provider: Option<ProviderKind>,
    /// Root of the git worktree
    #[arg(value_name = "GIT-WORKTREE")]
    path: PathBuf,
}

pub(super) fn run(app: &App, arguments: &ProjectArguments) -> Result<Outcome> {
    let context = &app.context;
    let changed = match &arguments.verb {
        Verb::List { provider } => {
            let registry = snapshot::registry::load(context)?;
            return app.view(&register::list(&registry, *provider));
        }
        Verb::Register(which) => register::register(context, which.provider, &which.path)?,
        Verb::Remove(which) => register::remove(context, which.provider, &which.path)?,
    };
    app.notes(&changed.notes);
    app.view(&changed.answer)
}
