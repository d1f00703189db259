//! `agent-fleet quota …`.

use super::{App, Outcome};
use crate::clock::ROUTINE;
use crate::contract::quota::QuotaList;
use crate::error::Result;
use crate::id::ProfileId;
use crate::quota::report::{Renewal, rows};
use crate::registry::schema::{Profile, Registry};
use crate::snapshot;

#[derive(Debug, clap::Args)]
pub(super) struct QuotaArguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
enum Verb {
    /// Measure anew, as often as the providers allow, and show what is left
    Refresh(Which),
    /// Show what is left of each profile's quota, measuring what has aged
    Show(Which),
}

#[derive(Debug, clap::Args)]
pub(super) struct Which {
    /// Only these profiles
    #[arg(value_name = "PROFILE", conflicts_with = "all")]
    profiles: Vec<ProfileId>,
    /// Every profile; the same as naming none
    #[arg(long)]
    all: bool,
}

impl Which {
    /// The profiles that are meant, sorted by id.
    pub(super) fn of<'a>(&self, registry: &'a Registry) -> Result<Vec<&'a Profile>> {
        let mut found = if self.profiles.is_empty() {
            registry.profiles.iter().collect()
        } else {
            let named = self.profiles.iter().map(|id| registry.profile(id));
            named.collect::<Result<Vec<_>, _>>()?
        };
        found.sort_by(|one, other| one.id.cmp(&other.id));
        found.dedup_by(|one, other| one.id == other.id);
        Ok(found)
    }
}

pub(super) fn run(app: &App, arguments: &QuotaArguments) -> Result<Outcome> {
    let (which, renewal) = match &arguments.verb {
        Verb::Refresh(which) => (which, Renewal::Everything),
        Verb::Show(which) => (which, Renewal::Aged),
    };
    let context = &app.context;
    let registry = snapshot::registry::load(context)?;
    let profiles = which.of(&registry)?;
    let deadline = context.clock.deadline(ROUTINE);
    app.view(&QuotaList {
        quota: rows(context, &registry, &profiles, renewal, &deadline)?,
    })
}
