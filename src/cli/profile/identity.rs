//! `agent-fleet profile identity show PROFILE`.

use super::{App, Outcome, Which};
use crate::error::Result;
use crate::identity::show::show;
use crate::snapshot;

#[derive(Debug, clap::Args)]
pub(super) struct IdentityArguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
enum Verb {
    /// Show whose account a profile holds, how that was proved, and who else holds it; fingerprints, no names
    Show(Which),
}

pub(super) fn run(app: &App, arguments: &IdentityArguments) -> Result<Outcome> {
    let Verb::Show(which) = &arguments.verb;
    let registry = snapshot::registry::load(&app.context)?;
    let profile = registry.profile(&which.id)?;
    app.view(&show(&app.context, &registry, profile)?)
}
