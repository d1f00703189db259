//! `agent-fleet doctor`.

use super::{App, Outcome};
use crate::error::Result;
use crate::report::doctor::{Mend, doctor};

#[derive(Debug, clap::Args)]
pub(super) struct DoctorArguments {
    /// Mend what is safe and ours: left-behind refresh locks, our entries in idle homes, litter; never a login
    #[arg(long)]
    fix: bool,
}

pub(super) fn run(app: &App, arguments: &DoctorArguments) -> Result<Outcome> {
    let mend = if arguments.fix {
        Mend::Safe
    } else {
        Mend::Nothing
    };
    app.view(&doctor(&app.context, mend))
}
