//! A turn at a person's terminal: the command that is typed is its host, and the provider's own screen its child.
//!
//! The same records in the same order as those of a host in the background. The child has the terminal and no gate in
//! it, so it goes on when `started.json` names it, and ends when its host is gone before. Ctrl-C and hang-up reach the
//! child by itself; the host waits for its end.

use std::time::Duration;

use super::begin::{TURN_VERB, program};
use super::{ClaimRecord, ExitRecord, LaunchRecord, Life, Process, StartedRecord};
use crate::crash_point;
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::fleet::files::LaunchFiles;
use crate::fleet::model::SCHEMA;
use crate::fleet::record;
use crate::sys::attend::Terminal;
use crate::sys::interrupt::Interrupts;
use crate::sys::tend::{Exit, Tended};

/// Time between two looks.
const POLL: Duration = Duration::from_millis(5);

/// Hosts a turn at this terminal to its end.
pub fn attend(context: &Context, files: &LaunchFiles, _watch: &Interrupts) -> Result<Exit> {
    let launch: LaunchRecord = record::require(&files.launch())?;
    let own = Process::current()?;
    let claim = ClaimRecord {
        schema: SCHEMA,
        token: launch.token.clone(),
        by: own.clone(),
        revoked: None,
    };
    if !record::create(&files.claim(), &claim)? {
        let message = format!("the launch `{}` was given up", files.directory);
        return Err(Error::new(code::STEP_NOT_READY, message).hint("agent-fleet fleet status"));
    }
    crash_point!("attended.claimed");
    let child = program(context, TURN_VERB, files)?;
    let terminal = Terminal::keep();
    let mut child =
        Tended::attended(&child).map_err(|error| Error::io("start", &child.path, &error))?;
    let process = Process::of(child.pid())?
        .ok_or_else(|| Error::internal("the child ended before it was let on"))?;
    record::save(
        &files.started(),
        &StartedRecord {
            schema: SCHEMA,
            token: launch.token.clone(),
            host: own,
            child: process,
        },
    )?;
    crash_point!("attended.started");
    let ended = child.wait();
    terminal.restore();
    let exit = ended.map_err(|error| Error::io("wait for a child of", &files.directory, &error))?;
    record::save(
        &files.exit(),
        &ExitRecord::new(&launch.token, exit, context.clock.now()),
    )?;
    crash_point!("attended.recorded");
    Ok(exit)
}

/// The child's part: waits until it is written down; false when its host is gone before.
pub(super) fn is_let_on(context: &Context, files: &LaunchFiles, token: &str) -> Result<bool> {
    let own = std::process::id();
    loop {
        let started: Option<StartedRecord> = record::load(&files.started())?;
        if started.is_some_and(|started| started.token == token && started.child.pid == own) {
            return Ok(true);
        }
        let claim: ClaimRecord = record::require(&files.claim())?;
        if claim.by.life() != Life::Alive {
            return Ok(false);
        }
        context.clock.pause(POLL);
    }
}
