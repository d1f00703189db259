//! The host of a running turn, and the process that becomes the worker: the hidden verbs `_host` and `_turn`.
//!
//! A host claims its launch, starts the child blocked at a gate, writes both down, opens the gate and waits. It never
//! signals a headless child: whoever stops a worker signals the worker itself. Killed, it costs the exact exit status
//! and nothing else. A child on a screen is another matter: see `terminal` and `mind`.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use camino::Utf8PathBuf;

use super::attended::is_let_on;
use super::begin::{TURN_VERB, program};
use super::mind::{Watched, mind};
use super::terminal::OnScreen;
use super::{ClaimRecord, ExitRecord, LaunchRecord, Process, StartedRecord};
use crate::crash_point;
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::fleet::files::{LaunchFiles, RunFiles};
use crate::fleet::model::SCHEMA;
use crate::fleet::record;
use crate::store::append;
use crate::sys::exec::{self, Launch};
use crate::sys::interrupt::Interrupts;
use crate::sys::tend::{Exit, Tended, pass_gate};

/// How a host's part ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hosted {
    /// The launch had been revoked or claimed already: nothing was started.
    Late,
    /// The child ran, and this is how it ended.
    Ended(Box<LaunchRecord>, Exit),
}

/// The process that becomes the worker, until it is let on.
#[derive(Debug)]
enum Child {
    /// Its output goes to files, and its standard input is its gate.
    Headless(Tended),
    /// It has a terminal of ours, and goes on when `started.json` names it.
    OnScreen(Box<OnScreen>),
}

impl Child {
    fn start(context: &Context, files: &LaunchFiles, launch: &LaunchRecord) -> Result<Self> {
        let program = program(context, TURN_VERB, files)?;
        if launch.is_on_screen() {
            let child = OnScreen::start(context, files, launch, program)?;
            return Ok(Self::OnScreen(Box::new(child)));
        }
        let output = append::stream(files.output())?;
        let errors = append::stream(files.errors())?;
        Tended::start_gated(&program, output, errors)
            .map(Self::Headless)
            .map_err(|error| Error::io("start", &program.path, &error))
    }

    fn pid(&self) -> u32 {
        match self {
            Self::Headless(child) => child.pid(),
            Self::OnScreen(child) => child.pid(),
        }
    }
}

/// Hosts one turn of a run to its end.
pub fn host(context: &Context, run: &RunFiles, directory: Utf8PathBuf) -> Result<Hosted> {
    let files = LaunchFiles { directory };
    // Ctrl-C and hang-up are not for it; a host that is asked to end still waits for the child's exit.
    let _watch = Interrupts::watch().map_err(|error| Error::io("watch signals in", "/", &error))?;
    let launch: LaunchRecord = record::require(&files.launch())?;
    let own = Process::current()?;
    let claim = ClaimRecord {
        schema: SCHEMA,
        token: launch.token.clone(),
        by: own.clone(),
        revoked: None,
    };
    crash_point!("host.begun");
    if !record::create(&files.claim(), &claim)? {
        return Ok(Hosted::Late);
    }
    crash_point!("host.claimed");
    let mut child = Child::start(context, &files, &launch)?;
    crash_point!("host.forked");
    let process = Process::of(child.pid())?
        .ok_or_else(|| Error::internal("the child ended before its gate was opened"))?;
    let started = StartedRecord {
        schema: SCHEMA,
        token: launch.token.clone(),
        host: own,
        child: process,
    };
    // Who cannot be minded is not let on.
    let watched = Arc::new(Watched::default());
    let minder = match &child {
        Child::Headless(_) => None,
        Child::OnScreen(_) => Some(mind(context, run, &files, &launch, child.pid(), &watched)?),
    };
    record::save(&files.started(), &started)?;
    crash_point!("host.started");
    let waits = |error: std::io::Error| Error::io("wait for a child of", &files.directory, &error);
    if let Child::Headless(child) = &mut child {
        child.open_gate().map_err(waits)?;
    }
    crash_point!("host.opened");
    let exit = match child {
        Child::Headless(mut child) => child.wait(),
        Child::OnScreen(child) => child.attend(context, &watched),
    };
    let exit = exit.map_err(waits)?;
    crash_point!("host.ended");
    record::save(
        &files.exit(),
        &ExitRecord::new(&launch.token, exit, context.clock.now()),
    )?;
    crash_point!("host.recorded");
    // It may be in the middle of something; one that failed has said so.
    drop(minder.map(JoinHandle::join));
    Ok(Hosted::Ended(Box::new(launch), exit))
}

/// Waits at the gate and becomes `agent-fleet exec …`; comes back only with a failure.
pub fn turn(context: &Context, directory: Utf8PathBuf) -> Result<Infallible> {
    let files = LaunchFiles { directory };
    let launch: LaunchRecord = record::require(&files.launch())?;
    let goes_on = if launch.has_gate() {
        pass_gate()
    } else {
        is_let_on(context, &files, &launch.token)?
    };
    if !goes_on {
        let message = format!(
            "the host of `{}` ended before its turn began",
            files.directory
        );
        return Err(Error::new(code::TIMEOUT, message).hint("agent-fleet fleet status"));
    }
    crash_point!("turn.passed");
    let program = context
        .executable
        .clone()
        .ok_or_else(|| Error::internal("the path of this program is not known"))?;
    let error = exec::exec(&Launch {
        program: program.clone(),
        arguments: launch.arguments.iter().map(Into::into).collect(),
        environment: context
            .variables
            .iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        directory: PathBuf::from(&launch.workspace),
        close_stdin: launch.has_gate(),
    });
    Err(Error::io("start", &program, &error))
}
