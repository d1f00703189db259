//! `agent-fleet lease choose`: a reservation now, or as soon as there is one.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::choose::Terms;
use super::super::{App, Outcome};
use crate::choose::apply::Purpose;
use crate::choose::wait::{self, Estimate, Patience};
use crate::error::Result;
use crate::render::words;

#[derive(Debug, clap::Args)]
pub(super) struct ChooseArguments {
    #[command(flatten)]
    terms: Terms,
    /// Wait for a profile instead of being refused, in the order in which the waiting began
    #[arg(long)]
    wait: bool,
    /// Give up waiting after this many seconds, with the refusal that holds then
    #[arg(long, value_name = "SECONDS", requires = "wait")]
    timeout: Option<u64>,
}

pub(super) fn run(app: &App, arguments: ChooseArguments) -> Result<Outcome> {
    let request = arguments.terms.request();
    if !arguments.wait {
        return super::reserve(app, &request);
    }
    let clock = app.context.clock;
    let limit = arguments.timeout.map(Duration::from_secs);
    let selected = wait::select(
        &app.context,
        &|| app.store(),
        &request,
        Purpose::Reserve,
        &BTreeMap::new(),
        Patience {
            limit: limit.map(|span| clock.deadline(span)),
            tell: &mut |estimate| {
                let pool = &request.asked.pool;
                let said = said(estimate, clock.now());
                app.note(&format!(
                    "agent-fleet: waiting for a profile of pool {pool}: {said}"
                ));
            },
        },
    )?;
    app.view(&selected.selection)
}

/// An estimate in words: who is ahead, and when the first profile comes free by itself, or else who holds them.
fn said(estimate: &Estimate, now: jiff::Timestamp) -> String {
    let mut parts = Vec::new();
    if estimate.ahead > 0 {
        parts.push(format!("{} ahead", estimate.ahead));
    }
    if let Some(at) = estimate.retry_at.filter(|at| *at > now) {
        let due = words::due(now, at);
        parts.push(format!("the first may come free {due}"));
    } else if estimate.holders > 0 {
        parts.push(format!(
            "{} to end",
            words::count(estimate.holders, "worker")
        ));
    }
    if parts.is_empty() {
        estimate.reason.clone()
    } else {
        parts.join("; ")
    }
}
