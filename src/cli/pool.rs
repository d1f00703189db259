//! `agent-fleet pool list|status`.

use super::{App, Outcome};
use crate::clock::ROUTINE;
use crate::error::Result;
use crate::id::{PoolId, ProviderKind};
use crate::registry::profiles;
use crate::{report, snapshot};

#[derive(Debug, clap::Args)]
pub(super) struct PoolArguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
enum Verb {
    /// List the pools and who is in them
    List,
    /// Say what a pool could take now, and why each profile could or could not
    Status {
        /// Which pool
        #[arg(long)]
        pool: PoolId,
        /// Only this provider
        #[arg(long)]
        provider: Option<ProviderKind>,
    },
}

pub(super) fn run(app: &App, arguments: &PoolArguments) -> Result<Outcome> {
    let context = &app.context;
    let registry = snapshot::registry::load(context)?;
    match &arguments.verb {
        Verb::List => app.view(&profiles::pools(&registry)),
        Verb::Status { pool, provider } => {
            let deadline = context.clock.deadline(ROUTINE);
            let store = app.store()?;
            app.view(&report::pool::status(
                context, &store, &registry, pool, *provider, &deadline,
            )?)
        }
    }
}
