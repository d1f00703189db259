//! `agent-fleet lease watch`.

use std::time::Duration;

use super::super::watch::{Row, Watched, watch};
use super::super::{App, Outcome};
use crate::contract::lease::LeaseList;
use crate::error::Result;

/// A look at the table costs a fraction of a millisecond.
const INTERVAL: Duration = Duration::from_millis(500);

/// Counted from now when it is looked at, so it may differ by a millisecond each time.
const VOLATILE: &[&str] = &["expires_at"];

pub(super) fn run(app: &App) -> Result<Outcome> {
    watch(app, INTERVAL, || super::listing(app))
}

impl Watched for LeaseList {
    fn rows(&self) -> Result<Vec<Row>> {
        let leases = self
            .leases
            .iter()
            .map(|lease| Row::new("lease", lease.generation.to_string(), lease, VOLATILE));
        let damaged = self
            .damaged
            .iter()
            .map(|record| Row::new("damaged", record.record.to_string(), record, &[]));
        let unleased = self.unleased.iter().map(|one| {
            let name = format!("{} {}", one.profile, one.pid);
            Row::new("unleased", name, one, &[])
        });
        // A process waits for one slot at a time.
        let waiting = self
            .waiting
            .iter()
            .map(|one| Row::new("waiting", one.pid.to_string(), one, &[]));
        leases
            .chain(waiting)
            .chain(damaged)
            .chain(unleased)
            .collect()
    }
}
