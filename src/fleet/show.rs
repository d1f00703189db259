//! A run in the words of the contract.

use camino::Utf8Path;
use jiff::Timestamp;

use super::board::Board;
use super::files::FleetFiles;
use super::hold::{self, Hold, Scope};
use super::model::{PlannedStep, RunState, StepState, Worker};
use super::plan::compile::REVIEW_SUFFIX;
use super::reconcile::class_of;
use super::report::{self, Status, Verdict};
use crate::contract::fleet::{HoldStatus, NotRead, RunStatus, StepStatus, WorkerStatus};
use crate::env::Context;
use crate::error::{Class, Result};
use crate::id::fleet::{RunId, StepId};
use crate::reason::{self, Group};

/// The status of a run as it was read.
pub fn status(context: &Context, board: &Board) -> Result<RunStatus> {
    let now = context.clock.now();
    let run = &board.run;
    let mut not_read: Vec<NotRead> = board
        .damaged
        .iter()
        .map(|(name, error)| NotRead {
            what: name.to_string(),
            why: error.message.clone(),
            next: error.hint.clone(),
        })
        .collect();
    if board.ledger.corrupt > 0 {
        not_read.push(NotRead {
            what: "ledger".to_owned(),
            why: format!("{} lines cannot be read", board.ledger.corrupt),
            next: None,
        });
    }
    let holds = match hold::in_force(&FleetFiles::new(context), now) {
        Ok(holds) => holds,
        Err(error) => {
            not_read.push(NotRead {
                what: "holds".to_owned(),
                why: error.message,
                next: error.hint,
            });
            Vec::new()
        }
    };
    let concerns = |scope: &Scope| scope.concerns(&board.files.repository, Some(&board.files.id));
    let holds: Vec<HoldStatus> = holds
        .into_iter()
        .filter(|hold| concerns(&hold.scope))
        .map(hold)
        .collect();
    // Nothing is written down when a hold begins or ends, so nothing is left behind when its time is over.
    let goes_on = matches!(run.state, RunState::Planned | RunState::Running);
    let held = goes_on && holds.iter().any(|hold| hold.scope != "step");
    let (state, reason) = if held {
        (RunState::Paused, Some("held".to_owned()))
    } else {
        (run.state, run.reason.clone())
    };
    let steps = board.plan.iter().flat_map(|plan| &plan.steps);
    Ok(RunStatus {
        schema: 1,
        run: run.id.clone(),
        repository: run.repository.clone(),
        state: state.word().to_owned(),
        reason,
        created: run.created,
        ended: run.ended,
        accept: run.options.accept.word().to_owned(),
        active: u32::try_from(board.active().count()).unwrap_or(u32::MAX),
        max_parallel: run.options.max_parallel,
        steps: steps.map(|step| self::step(board, step)).collect(),
        workers: board
            .workers
            .values()
            .map(|worker| self::worker(board, worker, now))
            .collect(),
        holds,
        not_read,
        next: next(board, held),
    })
}

/// A hold in the words of the contract.
pub fn hold(hold: Hold) -> HoldStatus {
    HoldStatus {
        scope: hold.scope.word().to_owned(),
        step: match hold.scope {
            Scope::Step { step, .. } => Some(step),
            Scope::Host | Scope::Repository { .. } | Scope::Run { .. } => None,
        },
        reason: hold.reason,
        since: hold.since,
        expires: hold.expires,
    }
}

fn step(board: &Board, step: &PlannedStep) -> StepStatus {
    let progress = board.progress_of(&step.id);
    StepStatus {
        id: step.id.clone(),
        state: progress.state.word().to_owned(),
        reason: progress.reason,
        tier: step.tier.word().to_owned(),
        provider: step.assignment.provider,
        pool: step.assignment.pool.clone(),
        model: step.assignment.model.clone(),
        needs: step.needs.clone(),
        files: step.files.clone(),
        worktree: step.worktree,
        attempts: u32::try_from(progress.attempts.len()).unwrap_or(u32::MAX),
        review_required: step.review_required,
    }
}

fn worker(board: &Board, worker: &Worker, now: Timestamp) -> WorkerStatus {
    let path = board.files.launch(&worker.name, worker.launch).report();
    let written = path.metadata().and_then(|found| found.modified()).ok();
    let report = written.map_or_else(|| "-".to_owned(), |_| said_of_itself(&path));
    let age = written
        .and_then(|time| Timestamp::try_from(time).ok())
        .and_then(|at| u64::try_from(now.duration_since(at).as_secs()).ok());
    WorkerStatus {
        name: worker.name.clone(),
        role: worker.role.word().to_owned(),
        step: worker.step.clone(),
        state: worker.state.word().to_owned(),
        reason: worker.reason.clone(),
        task: worker.task.to_string(),
        launch: worker.launch,
        provider: worker.assignment.provider,
        model: worker.assignment.model.clone(),
        profile: worker.profile.clone(),
        session: worker.session.clone(),
        held_until: worker.held_until.filter(|_| !worker.state.holds_slot()),
        report,
        report_age_seconds: age,
        queued: u32::try_from(worker.queue.len()).unwrap_or(u32::MAX),
    }
}

/// What a report says of itself: its status, or the verdict of a review, which has none.
pub fn said_of_itself(report: &Utf8Path) -> String {
    match crate::store::read::optional(report) {
        Ok(Some(bytes)) => {
            let text = String::from_utf8_lossy(&bytes);
            match report::status(&text) {
                Some(Status::NeedsVerification) => "needs-verification".to_owned(),
                Some(Status::Blocked) => "blocked".to_owned(),
                Some(Status::Verified) => "verified".to_owned(),
                Some(Status::Other(word)) => word,
                None => verdict_of(&text).to_owned(),
            }
        }
        Ok(None) => "-".to_owned(),
        Err(_) => "not read".to_owned(),
    }
}

fn verdict_of(text: &str) -> &'static str {
    match report::verdict(text).map(|review| review.verdict) {
        Some(Verdict::Approve) => "approve",
        Some(Verdict::ChangesRequested) => "changes-requested",
        None => "no status line",
    }
}

/// What to type for a step that stands still for this reason; what its worker said, where nothing better is known.
fn cure(run: &RunId, step: &StepId, reason: &str) -> String {
    let worker = match reason {
        "verdict_unclear" => format!("{step}{REVIEW_SUFFIX}"),
        _ => step.to_string(),
    };
    let known = reason::of(reason).find(|row| row.group == Group::Fleet);
    let cure = match (known, class_of(reason)) {
        (Some(row), _) => row.cure,
        // The broker refused the launch: no worker said anything.
        (None, Some(Class::Identity | Class::System)) => "agent-fleet doctor",
        (None, _) => "agent-fleet fleet logs WORKER",
    };
    let command = cure
        .replace("WORKER", &worker)
        .replace("STEP", step.as_str());
    if command.starts_with("agent-fleet fleet ") {
        format!("{command} --run {run}")
    } else {
        command
    }
}

/// What to type next.
fn next(board: &Board, held: bool) -> Vec<String> {
    let run = &board.run.id;
    let mut next = Vec::new();
    if held {
        next.push(format!("agent-fleet fleet release --run {run}"));
    }
    match board.run.state {
        RunState::Draft => next.push(format!(
            "agent-fleet fleet plan --run {run} --file plan.toml"
        )),
        RunState::Planned => next.push(format!("agent-fleet fleet launch --run {run} --ready")),
        RunState::Running
        | RunState::Paused
        | RunState::Blocked
        | RunState::Done
        | RunState::Failed
        | RunState::Stopped => {}
    }
    let steps = board.plan.iter().flat_map(|plan| &plan.steps);
    for step in steps {
        let id = &step.id;
        let progress = board.progress_of(id);
        match progress.state {
            StepState::Reported => next.push(format!(
                "agent-fleet fleet verify {id} --evidence FILE --run {run}"
            )),
            StepState::Blocked | StepState::Failed => {
                next.push(cure(
                    run,
                    id,
                    progress.reason.as_deref().unwrap_or_default(),
                ));
            }
            StepState::Verified if step.worktree => {
                next.push(format!("agent-fleet fleet merge {id} --run {run}"));
            }
            StepState::Pending
            | StepState::Ready
            | StepState::Running
            | StepState::Checking
            | StepState::Verified
            | StepState::ChangesRequested
            | StepState::Dropped
            | StepState::Skipped => {}
        }
    }
    next.truncate(5);
    next
}
