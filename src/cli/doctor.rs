//! `agent-fleet doctor`.

use std::time::Duration;

use super::{App, Outcome};
use crate::error::Result;
use crate::registry::schema::Profile;
use crate::report::doctor::{Mend, doctor};
use crate::snapshot;
use crate::worker::probe;

#[derive(Debug, clap::Args)]
pub(super) struct DoctorArguments {
    /// Mend what is safe and ours: left-behind refresh locks, our entries in idle homes, litter; never a login
    #[arg(long)]
    fix: bool,
    /// First ask the servers whose logins the profiles hold, and let the provider's own CLI refresh one that cannot
    /// be asked about because its token has expired and that no live lease uses
    #[arg(long)]
    probe: bool,
    /// How long the CLI is waited for, for each such login; it is never killed
    #[arg(
        long,
        value_name = "SECONDS",
        requires = "probe",
        default_value_t = 60,
        value_parser = clap::value_parser!(u64).range(1..=600)
    )]
    patience: u64,
}

pub(super) fn run(app: &App, arguments: &DoctorArguments) -> Result<Outcome> {
    let mend = if arguments.fix {
        Mend::Safe
    } else {
        Mend::Nothing
    };
    if arguments.probe {
        let patience = Duration::from_secs(arguments.patience);
        // The report is wanted most where something is broken.
        if let Err(error) = ask(app, patience) {
            app.note(&format!("agent-fleet: nobody was asked: {}", error.message));
        }
    }
    app.view(&doctor(&app.context, mend))
}

/// Asks about every profile that is routed or could be. What comes of it is in the report; why a login could not
/// be refreshed is not, so a person is told.
fn ask(app: &App, patience: Duration) -> Result<()> {
    let context = &app.context;
    let registry = snapshot::registry::load(context)?;
    let store = app.store()?;
    let mut profiles: Vec<&Profile> = registry.profiles.iter().collect();
    profiles.sort_by(|one, other| one.id.cmp(&other.id));
    let note = |line: &str| app.note(line);
    for verdict in probe::verify(context, &registry, &store, &profiles, patience, &note)? {
        if let (true, Some(refusal)) = (verdict.needs_refresh, &verdict.refusal) {
            app.note(&format!("agent-fleet: {}", refusal.message));
        }
    }
    Ok(())
}
