//! Attesting by hand that a worker is gone, where nothing else can tell.
//!
//! The launch that is given up can never begin afterwards, and whatever its files say later changes nothing. A record
//! that cannot be read is kept beside the new one, under its name with `.corrupt` behind it.

use camino::Utf8PathBuf;
use sha2::{Digest as _, Sha256};

use super::board::{Board, Entry};
use super::files::{RunFiles, names};
use super::launch::revoke::revoke;
use super::launch::{ClaimRecord, LaunchRecord, Life, StartedRecord};
use super::ledger::Kind;
use super::model::{PlannedStep, Role, SCHEMA, Worker, WorkerState};
use super::reconcile::{attest, lease_life};
use super::record;
use super::start::refuse_inside;
use super::tick;
use super::verify::{Receipt, Subject, keep_evidence, reviewer_of, worker_of};
use crate::crash_point;
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::id::fleet::WorkerId;
use crate::id::hex;
use crate::store::read;
use crate::store::replace::establish;

/// What is done about a process that lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alive {
    /// It is in the way.
    Refuse,
    /// The person knows better.
    Ignore,
}

/// Gives a worker's launch up on somebody's word.
///
/// Refused with `usage` (no evidence), `not_found`, `step_not_ready` (nothing to give up), `newer_format`, or
/// `worker_active` while host, process, witness or lease lives.
pub fn recover(
    context: &Context,
    files: &RunFiles,
    name: &WorkerId,
    evidence: &str,
    alive: Alive,
) -> Result<Board> {
    refuse_inside(context)?;
    if evidence.trim().is_empty() {
        let message = format!("the evidence that `{name}` is gone is empty");
        return Err(Error::new(code::USAGE, message).hint("agent-fleet fleet recover --help"));
    }
    let mut board = Board::hold(context, files)?;
    let worker = match board.damaged.get(name) {
        Some(error) if error.code == code::NEWER_FORMAT => return Err(error.clone()),
        Some(_) => rebuild(&board, name)?,
        None => board.worker(name)?.clone(),
    };
    let is_damaged = board.damaged.contains_key(name);
    if !worker.state.holds_slot() {
        if worker.reason.as_deref() == Some("recovered") {
            return Ok(board);
        }
        let message = format!("the worker `{name}` is {}: it has no process", worker.state);
        return Err(Error::new(code::STEP_NOT_READY, message).hint("agent-fleet fleet status"));
    }
    if alive == Alive::Refuse {
        refuse_living(context, &board, &worker)?;
    }
    let launch = board.files.launch(name, worker.launch);
    // A host that is late finds it decided.
    if launch.launch().exists() {
        let revoked = revoke(&launch, &worker.token, "recovered");
        match revoked {
            Ok(_) => {}
            // A claim that cannot be read is one.
            Err(error) if error.code == code::RECORD_DAMAGED => {}
            Err(error) => return Err(error),
        }
    }
    let id = format!("recover.{name}.{}", worker.launch);
    keep_evidence(&board.files, &id, evidence)?;
    record::create(
        &board.files.receipt(&id),
        &Receipt {
            schema: SCHEMA,
            kind: "recover".to_owned(),
            subjects: vec![Subject {
                id: worker.step.clone(),
                digest: worker.token.clone(),
            }],
            outcome: "recovered".to_owned(),
            reason: None,
            evidence: Some(hex(&Sha256::digest(evidence.as_bytes()))),
            at: context.clock.now(),
        },
    )?;
    crash_point!("recover.evidence");
    let entry = |id: String, kind, of| Entry {
        id,
        kind,
        verb: "recover",
        target: name.as_str(),
        of,
        reason: None,
    };
    board.note(context, entry(id.clone(), Kind::Intent, None))?;
    crash_point!("recover.intended");
    if is_damaged {
        set_aside(&board, name)?;
        crash_point!("recover.set_aside");
    }
    attest(context, &mut board, &worker)?;
    crash_point!("recover.attested");
    board.note(context, entry(format!("{id}.done"), Kind::Done, Some(&id)))?;
    board.damaged.remove(name);
    tick::settle_run(context, &mut board)?;
    Ok(board)
}

/// Refuses while something of the worker's launch certainly lives.
fn refuse_living(context: &Context, board: &Board, worker: &Worker) -> Result<()> {
    let files = board.files.launch(&worker.name, worker.launch);
    // What cannot be read names nothing that lives; the lease is asked whatever the files say.
    let claim: Option<ClaimRecord> = record::load(&files.claim()).unwrap_or(None);
    let started: Option<StartedRecord> = record::load(&files.started()).unwrap_or(None);
    let lives = |token: &str, process: &super::launch::Process| {
        token == worker.token && process.life() == Life::Alive
    };
    let host = claim
        .as_ref()
        .is_some_and(|claim| claim.revoked.is_none() && lives(&claim.token, &claim.by));
    let what = if started
        .as_ref()
        .is_some_and(|started| lives(&started.token, &started.child))
    {
        "its process lives"
    } else if host {
        "its host lives"
    } else if lease_life(context, &worker.task) == Life::Alive {
        "its lease is held"
    } else {
        return Ok(());
    };
    let name = &worker.name;
    let message = format!("the worker `{name}` is not gone: {what}");
    let hint = format!("agent-fleet fleet stop {name}");
    Err(Error::new(code::WORKER_ACTIVE, message).hint(hint))
}

/// What a damaged worker's record must have said, from its newest launch and the plan.
fn rebuild(board: &Board, name: &WorkerId) -> Result<Worker> {
    let (role, step) = planned(board, name)?;
    let number = names(&board.files.directory.join("launches"))?
        .iter()
        .filter_map(|launch| {
            let number = launch.strip_prefix(name.as_str())?.strip_prefix('.')?;
            number.parse::<u32>().ok()
        })
        .max()
        .unwrap_or(0);
    let launch: Option<LaunchRecord> =
        record::load(&board.files.launch(name, number).launch()).unwrap_or(None);
    Ok(Worker {
        schema: SCHEMA,
        name: name.clone(),
        role,
        step: step.id.clone(),
        task: board.task(name)?,
        assignment: step.assignment.clone(),
        mode: step.mode,
        state: WorkerState::Unknown,
        reason: None,
        launch: number,
        token: launch.map(|launch| launch.token).unwrap_or_default(),
        session: None,
        profile: None,
        held_until: None,
        reviewed_diff: None,
        queue: Vec::new(),
        taken: Vec::new(),
    })
}

/// What a worker of this name is there for.
fn planned<'a>(board: &'a Board, name: &WorkerId) -> Result<(Role, &'a PlannedStep)> {
    for step in &board.plan()?.steps {
        if worker_of(&step.id)? == *name {
            return Ok((Role::Implementation, step));
        }
        if reviewer_of(&step.id)? == *name {
            return Ok((Role::Review, step));
        }
    }
    let message = format!(
        "the plan of run `{}` knows no worker `{name}`",
        board.run.id
    );
    Err(Error::new(code::NOT_FOUND, message).hint("agent-fleet fleet status"))
}

/// Keeps a damaged record beside the one that takes its place.
fn set_aside(board: &Board, name: &WorkerId) -> Result<()> {
    let path = board.files.worker(name);
    let Some(bytes) = read::optional(&path)? else {
        return Ok(());
    };
    for number in 1_u32.. {
        let aside = match number {
            1 => Utf8PathBuf::from(format!("{path}.corrupt")),
            _ => Utf8PathBuf::from(format!("{path}.corrupt-{number}")),
        };
        if establish(&aside, &bytes)? || read::optional(&aside)?.as_ref() == Some(&bytes) {
            return Ok(());
        }
    }
    Ok(())
}
