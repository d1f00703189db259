//! `agent-fleet status`.

use std::time::Duration;

use super::watch::{Row, Watched, watch};
use super::{App, Outcome};
use crate::contract::status::Status;
use crate::error::Result;
use crate::id::PoolId;
use crate::report::status::status;

/// A look costs a few milliseconds.
const INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
pub(super) struct StatusArguments {
    /// Only this pool
    #[arg(long)]
    pool: Option<PoolId>,
    /// Go on and show what changes, until you stop it
    #[arg(long)]
    watch: bool,
}

pub(super) fn run(app: &App, arguments: &StatusArguments) -> Result<Outcome> {
    let look = || status(&app.context, arguments.pool.as_ref());
    if arguments.watch {
        return watch(app, INTERVAL, look);
    }
    app.view(&look()?)
}

impl Watched for Status {
    fn rows(&self) -> Result<Vec<Row>> {
        let profiles = self.profiles.iter().map(|row| {
            let volatile = ["reading_age_seconds"];
            Row::new("profile", row.profile.as_str(), row, &volatile)
        });
        // Counted from now when it is looked at, so it may differ by a millisecond each time.
        let leases = self.leases.iter().map(|lease| {
            Row::new(
                "lease",
                lease.generation.to_string(),
                lease,
                &["expires_at"],
            )
        });
        // A process waits for one slot at a time.
        let waiting = self
            .waiting
            .iter()
            .map(|one| Row::new("waiting", one.pid.to_string(), one, &[]));
        let damaged = self
            .damaged
            .iter()
            .map(|record| Row::new("damaged", record.record.to_string(), record, &[]));
        let unleased = self.unleased.iter().map(|one| {
            let name = format!("{} {}", one.profile, one.pid);
            Row::new("unleased", name, one, &[])
        });
        let warnings = self.warnings.iter().map(|warning| {
            let name = format!("{} {}", warning.code, warning.message);
            Row::new("warning", name, warning, &[])
        });
        profiles
            .chain(leases)
            .chain(waiting)
            .chain(damaged)
            .chain(unleased)
            .chain(warnings)
            .collect()
    }
}
