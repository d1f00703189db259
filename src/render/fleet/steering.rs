//! What came of steering a fleet, on a page.

use jiff::Timestamp;

use super::super::page::{Page, Role, nothing, paint};
use super::super::{Human, words};
use crate::contract::fleet::steering::{
    FleetStopped, RunSetAside, SendOutcome, Sent, StopOutcome, StoppedWorker,
};

impl Human for Sent {
    fn page(&self, now: Timestamp) -> Page {
        let what = match self.outcome {
            SendOutcome::Launched => paint(Role::Good, "its next turn has begun"),
            SendOutcome::Queued => paint(Role::Warning, "it waits for the next turn"),
        };
        let mut fields = vec![
            ("worker", paint(Role::Literal, self.worker.as_str())),
            ("state", self.state.clone()),
            ("text", what),
        ];
        if let Some(waits) = &self.waits_for {
            fields.push(("because", words::plain(waits)));
        }
        if let Some(at) = self.retry_at {
            fields.push(("free", words::due(now, at)));
        }
        Page::new().fields(&fields)
    }
}

impl Human for RunSetAside {
    fn page(&self, _: Timestamp) -> Page {
        Page::new()
            .fields(&[
                ("run", paint(Role::Literal, self.run.as_str())),
                ("kept in", words::plain(self.directory.as_str())),
            ])
            .next("agent-fleet fleet doctor")
    }
}

fn outcome(worker: &StoppedWorker) -> String {
    let (role, text) = match worker.outcome {
        StopOutcome::Stopped => (Role::Good, "stopped"),
        StopOutcome::Revoked => (Role::Good, "stopped before it began"),
        StopOutcome::Idle => (Role::Good, "had nothing to stop"),
        StopOutcome::StopFailed => (Role::Bad, "may still run"),
        StopOutcome::Refused => (Role::Bad, "not read"),
    };
    paint(role, text)
}

impl Human for FleetStopped {
    fn page(&self, _: Timestamp) -> Page {
        let rows = self.runs.iter().flat_map(|run| {
            run.workers.iter().map(|worker| {
                vec![
                    paint(Role::Literal, run.run.as_str()),
                    paint(Role::Literal, worker.name.as_str()),
                    outcome(worker),
                    worker.why.as_deref().map_or_else(nothing, words::plain),
                ]
            })
        });
        let mut page = Page::new().table(
            &["run", "worker", "outcome", "why"],
            rows.collect(),
            "no workers",
        );
        for run in &self.runs {
            if let Some(error) = &run.error {
                let text = format!("{}: {}", run.run, words::plain(error));
                page = page.gap().heading(&text);
            }
        }
        self.next.iter().fold(page, |page, next| page.next(next))
    }
}
