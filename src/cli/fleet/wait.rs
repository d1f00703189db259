//! `agent-fleet fleet wait`.

use std::time::Duration;

use super::super::output::{Told, tell};
use super::{App, Outcome, Which};
use crate::error::Result;
use crate::fleet::cursor::{Given, Wanted};
use crate::fleet::locate::Place;
use crate::fleet::wait::{Ended, LONGEST, Wish, wait};
use crate::id::fleet::WorkerId;
use crate::render::View;

/// The exit status of a wait that nothing ended.
const TIMED_OUT: u8 = 3;

#[derive(Debug, clap::Args)]
pub(super) struct WaitArguments {
    #[command(flatten)]
    which: Which,
    /// Seconds to wait at most
    #[arg(long, value_name = "SECONDS", default_value = "45", value_parser = timeout)]
    timeout: Duration,
    /// Seconds to gather more after the first event
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = settle)]
    settle: Duration,
    /// Also wake for launches, their ends, and what was verified
    #[arg(long)]
    any_change: bool,
    /// Who waits: every consumer is given every event once
    #[arg(long, value_name = "NAME", default_value = "lead")]
    consumer: WorkerId,
}

fn timeout(text: &str) -> Result<Duration, String> {
    seconds(text, LONGEST.as_secs_f64())
}

fn settle(text: &str) -> Result<Duration, String> {
    seconds(text, 60.0)
}

fn seconds(text: &str, most: f64) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "it is not a number".to_owned())?;
    if (0.0..=most).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err(format!("it must be between 0 and {most}"))
    }
}

pub(super) fn run(app: &App, arguments: WaitArguments) -> Result<Outcome> {
    let context = &app.context;
    let files = Place::here(context)?.choose(arguments.which.run.as_ref())?;
    let wish = Wish {
        consumer: arguments.consumer,
        timeout: arguments.timeout,
        settle: arguments.settle,
        wanted: if arguments.any_change {
            Wanted::Everything
        } else {
            Wanted::Events
        },
    };
    let ended = wait(context, &files, &wish, &mut |waited| {
        let view = View::new(waited, context.clock.now(), app.format)?;
        Ok(match tell(view.text())? {
            Told::Somebody => Given::Yes,
            Told::Nobody => Given::No,
        })
    })?;
    Ok(Outcome::Done(match ended {
        Ended::Given => 0,
        Ended::TimedOut => TIMED_OUT,
    }))
}
