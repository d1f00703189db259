//! `agent-fleet demo`: the whole path in a throw-away world, by running this program as a person would.
//!
//! Guarantees: everything happens below one temporary directory with its own home, roots and pretend
//! server; the person's home, registry and accounts are neither read nor written, and nothing is sent
//! anywhere. Each step checks what came out, by the program's JSON and by what the pretend server saw, and
//! the first difference ends the demo. The world is removed at the end unless it was asked for.
//!
//! Limit: it shows the broker, or the fleet that stands on it, with the scripted provider; the real CLIs are not
//! started. Only the fleet's needs git.

mod fleet;
mod step;
mod world;

use std::time::Instant;

use camino::Utf8PathBuf;
use serde::Serialize;

use self::step::STEPS;
use self::world::World;
use crate::env::Context;
use crate::error::Result;

/// What the demo tells while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told<'a> {
    /// A step begins: its number, what it is about, and why that matters.
    Step(usize, &'a str, &'a str),
    /// A command line, as it would be typed.
    Command(&'a str),
    /// What that command said.
    Output(&'a str),
    /// What the step's check found to be true.
    Good(&'a str),
    /// What differed.
    Bad(&'a str),
}

/// How to run the demo.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether the world stays.
    pub keep: bool,
    /// Whether the commands shown are to answer in colour.
    pub colour: bool,
    /// Whether a fleet is shown instead of the broker.
    pub fleet: bool,
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepReport {
    /// Its stable name.
    pub name: &'static str,
    /// Whether everything was as told.
    pub ok: bool,
    /// How long it took.
    pub seconds: f64,
    /// What differed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// How the demo ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Whether every step was as told.
    pub ok: bool,
    /// The steps that ran.
    pub steps: Vec<StepReport>,
    /// Where the world is, when it was kept.
    pub kept: Option<Utf8PathBuf>,
    /// What to type next.
    pub next: Vec<&'static str>,
}

/// What a person types after the demo to do the same with accounts of their own.
pub const NEXT: [&str; 3] = [
    "agent-fleet init --claude 2",
    "agent-fleet project register /path/to/your/repository",
    "agent-fleet profile provision --all",
];

/// The same after the demo of a fleet, in the repository.
pub const NEXT_FLEET: [&str; 4] = [
    NEXT[0],
    NEXT[1],
    NEXT[2],
    "agent-fleet fleet run 'what is to be done' --worktree",
];

/// Runs the demo, telling what happens as it happens.
///
/// Fails only when the world cannot be made, with `git_missing` where a fleet has no git; a step that goes wrong is in the report.
pub fn run(context: &Context, options: Options, tell: &mut dyn FnMut(Told<'_>)) -> Result<Report> {
    let world = World::new(context, options)?;
    let mut steps = Vec::new();
    let shown = if options.fleet { fleet::STEPS } else { STEPS };
    for (index, step) in shown.iter().enumerate() {
        tell(Told::Step(index + 1, step.title, step.why));
        let began = Instant::now();
        let outcome = (step.run)(&mut world.tour(tell));
        match &outcome {
            Ok(found) => tell(Told::Good(found)),
            Err(problem) => tell(Told::Bad(problem)),
        }
        let ok = outcome.is_ok();
        steps.push(StepReport {
            name: step.name,
            ok,
            seconds: (began.elapsed().as_secs_f64() * 1000.0).round() / 1000.0,
            problem: outcome.err(),
        });
        if !ok {
            break;
        }
    }
    Ok(Report {
        ok: steps.iter().all(|step| step.ok),
        steps,
        kept: world.end()?,
        next: if options.fleet {
            NEXT_FLEET.to_vec()
        } else {
            NEXT.to_vec()
        },
    })
}
