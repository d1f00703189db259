//! Reviews by another model family, and what the program concludes from checks and verdicts.
//!
//! A review is bound to the digest of the diff that was judged: any later change makes it stale, and the step is
//! reviewed anew. A verdict that cannot be read decides nothing; a person does.

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use super::accept::{self, Unmet};
use super::board::Board;
use super::files::RunFiles;
use super::git::Git;
use super::model::{Accept, Assignment, PlannedStep, Role, SCHEMA, StepState, WorkerState};
use super::reconcile::reconcile;
use super::record;
use super::report::{self, Verdict};
use super::repository::Repository;
use super::scope::diff::Diff;
use super::verify::{self, Receipt, Subject, reviewer_of, worker_of};
use super::worktree::Worktree;
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::id::fleet::{StepId, WorkerId};
use crate::id::hex;

/// Makes the worktree of a step that has one of its own, at the checkout's HEAD; nothing for others.
pub fn make_workspace(context: &Context, board: &Board, step: &PlannedStep) -> Result<()> {
    if !step.worktree {
        return Ok(());
    }
    let place = board.workspace(context, step);
    if Worktree::open(&place)?.is_some() {
        return Ok(());
    }
    let git = Git::find(&context.variables, context.clock)?;
    let repository = Repository::find(&git, &board.run.repository)?;
    Worktree::create(&git, &repository, &place, "HEAD").map(drop)
}

/// Whether a reviewer has to be launched for a step now.
pub fn is_wanted(board: &Board, step: &PlannedStep) -> bool {
    let progress = board.progress_of(&step.id);
    let idle = !board
        .workers
        .values()
        .any(|worker| worker.step == step.id && worker.state.holds_slot());
    // One that was handed back is judged first; one that came to nothing is launched again.
    let due = match progress.reason.as_deref() {
        Some("review") => true,
        Some("acceptance") => false,
        Some(_) | None => reviewer_of(&step.id).is_ok_and(|name| {
            let reviewer = board.workers.get(&name);
            reviewer.is_some_and(|reviewer| reviewer.state != WorkerState::Parked)
        }),
    };
    step.review_required && idle && progress.state == StepState::Checking && due
}

/// What a reviewer of a step is started as: the first of its tier whose family wrote nothing of the step, and that is
/// not waiting for a limit while another is free.
pub fn reviewer(board: &Board, step: &PlannedStep, now: Timestamp) -> Result<Assignment> {
    let progress = board.progress_of(&step.id);
    let crosses = |assignment: &&Assignment| {
        assignment
            .family
            .as_ref()
            .is_some_and(|family| !progress.author_families.contains(family))
    };
    let fit: Vec<&Assignment> = step.reviewers.iter().filter(crosses).collect();
    let last = board.workers.get(&reviewer_of(&step.id)?);
    let waits = |assignment: &Assignment| {
        last.is_some_and(|worker| {
            worker.assignment == *assignment && worker.held_until.is_some_and(|until| until > now)
        })
    };
    let chosen = fit
        .iter()
        .find(|assignment| !waits(assignment))
        .or(fit.first());
    chosen
        .map(|assignment| (*assignment).clone())
        .ok_or_else(|| {
            let message = format!(
                "no reviewer of step `{}` is of another family than its authors ({})",
                step.id,
                progress.author_families.join(", ")
            );
            Error::new(code::REVIEW_MISSING, message).hint("agent-fleet fleet plan --help")
        })
}

/// What a step changed. Where that cannot be read, as when its worktree is gone, the step is left to a person and the
/// others go on.
fn diff_of(context: &Context, board: &mut Board, step: &PlannedStep) -> Result<Option<Diff>> {
    match verify::diff(context, board, step) {
        Ok(diff) => Ok(Some(diff)),
        Err(error)
            if matches!(
                error.code,
                code::NOT_FOUND
                    | code::RECORD_DAMAGED
                    | code::NEWER_FORMAT
                    | code::REPOSITORY_INVALID
                    | code::GIT_FAILED
            ) =>
        {
            block(context, board, step, "work_not_read")?;
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Runs the program's own checks of every step that was handed back, without the run's lock: they may take long.
pub fn check_reported(context: &Context, files: &RunFiles, board: Board) -> Result<Board> {
    let mut board = board;
    let plan = board.plan()?.clone();
    for step in &plan.steps {
        let progress = board.progress_of(&step.id);
        let waits = progress.state == StepState::Checking
            && progress.reason.as_deref() == Some("acceptance");
        if progress.state != StepState::Reported && !waits {
            continue;
        }
        let mut checking = progress;
        checking.state = StepState::Checking;
        checking.reason = Some("acceptance".to_owned());
        board.save_progress(&step.id, checking)?;
        let Some(before) = diff_of(context, &mut board, step)? else {
            continue;
        };
        let workspace = board.workspace(context, step);
        drop(board);
        let unmet = accept::check(context, &workspace, &step.accept)?;
        board = Board::hold(context, files)?;
        reconcile(context, &mut board)?;
        let now = board.progress_of(&step.id);
        let still = now.state == StepState::Checking && now.reason.as_deref() == Some("acceptance");
        if still {
            checked(context, &mut board, step, &before, &unmet)?;
        }
    }
    Ok(board)
}

/// Draws the conclusions from what was checked of a step that was handed back; the diff was `before` when it began.
pub fn checked(
    context: &Context,
    board: &mut Board,
    step: &PlannedStep,
    before: &Diff,
    unmet: &[Unmet],
) -> Result<()> {
    let Some(after) = diff_of(context, board, step)? else {
        return Ok(());
    };
    let digest = after.digest.get(..16).unwrap_or_default().to_owned();
    let receipt = Receipt {
        schema: SCHEMA,
        kind: "check".to_owned(),
        subjects: vec![Subject {
            id: step.id.clone(),
            digest: after.digest.clone(),
        }],
        outcome: if unmet.is_empty() { "met" } else { "unmet" }.to_owned(),
        reason: unmet.first().map(|first| first.what.clone()),
        evidence: None,
        at: context.clock.now(),
    };
    let launch = board
        .workers
        .get(&worker_of(&step.id)?)
        .map_or(0, |worker| worker.launch);
    record::create(
        &board
            .files
            .receipt(&format!("check.{}.{launch}.{digest}", step.id)),
        &receipt,
    )?;
    if !unmet.is_empty() {
        let told: Vec<String> = unmet
            .iter()
            .map(|one| format!("`{}`: {}", one.what, one.problem))
            .collect();
        let text = format!(
            "What was to be there is not. Put it right:\n\n{}",
            told.join("\n\n")
        );
        return ask_again(context, board, step, &text, "acceptance_failed");
    }
    // A check may write (a build does); only the files of the step count, and those must be as they were checked.
    if before.digest != after.digest {
        return set(board, &step.id, StepState::Reported, None);
    }
    if step.review_required {
        return set(board, &step.id, StepState::Checking, Some("review"));
    }
    accept_by_program(context, board, step)
}

fn accept_by_program(context: &Context, board: &mut Board, step: &PlannedStep) -> Result<()> {
    let count = step.accept.artifacts.len() + step.accept.commands.len();
    let evidence = format!("Checked by the program: {count} of {count} conditions met.\n");
    match verify::accept(context, board, &step.id, &evidence, true) {
        Ok(_) => Ok(()),
        // What is missing is for a person.
        Err(error)
            if matches!(
                error.code,
                code::STEP_NOT_READY | code::REVIEW_MISSING | code::TREE_CHANGED
            ) =>
        {
            block(context, board, step, error.code.name)
        }
        Err(error) => Err(error),
    }
}

/// Draws the conclusions from every review that was handed back.
pub fn conclude(context: &Context, board: &mut Board) -> Result<()> {
    let Some(plan) = board.plan.clone() else {
        return Ok(());
    };
    for step in &plan.steps {
        let progress = board.progress_of(&step.id);
        let reviewer = board.workers.get(&reviewer_of(&step.id)?).cloned();
        let Some(reviewer) = reviewer
            .filter(|worker| worker.role == Role::Review && worker.state == WorkerState::Parked)
        else {
            continue;
        };
        if progress.state != StepState::Checking || progress.reason.as_deref() == Some("acceptance")
        {
            continue;
        }
        let Some(diff) = diff_of(context, board, step)? else {
            continue;
        };
        let is_stale = reviewer.reviewed_diff.as_deref() != Some(diff.digest.as_str());
        if is_stale {
            if progress.reason.as_deref() != Some("review") {
                board.tell(
                    context,
                    format!("{}.{}.stale", reviewer.name, reviewer.launch),
                    "stale",
                    step.id.as_str(),
                    None,
                )?;
                set(board, &step.id, StepState::Checking, Some("review"))?;
            }
            continue;
        }
        // A review that was judged already waits for the lead.
        let receipt = format!("review.{}.{}", reviewer.name, reviewer.launch);
        if board.files.receipt(&receipt).exists() && board.run.options.accept == Accept::Lead {
            continue;
        }
        let said = verify::report_of(board, &reviewer.name)?;
        let review = said.as_deref().and_then(report::verdict);
        let outcome = match review.as_ref().map(|review| review.verdict) {
            Some(Verdict::Approve) => "approve",
            Some(Verdict::ChangesRequested) => "changes_requested",
            None => "unclear",
        };
        record::create(
            &board.files.receipt(&receipt),
            &Receipt {
                schema: SCHEMA,
                kind: "review".to_owned(),
                subjects: vec![Subject {
                    id: step.id.clone(),
                    digest: diff.digest.clone(),
                }],
                outcome: outcome.to_owned(),
                reason: reviewer.assignment.family.clone(),
                evidence: None,
                at: context.clock.now(),
            },
        )?;
        match review {
            Some(review) if review.verdict == Verdict::ChangesRequested => {
                let text = format!(
                    "A reviewer requests changes. Judge each finding, and put right what is true:\n\n{}",
                    review.findings
                );
                ask_again(context, board, step, &text, "changes_requested")?;
            }
            Some(_) if board.run.options.accept == Accept::Program => {
                accept_by_program(context, board, step)?;
            }
            Some(_) => set(board, &step.id, StepState::Reported, Some("reviewed"))?,
            None => block(context, board, step, "verdict_unclear")?,
        }
    }
    Ok(())
}

/// Takes a review for an approval because a lead read it: for one whose verdict cannot be read, with evidence. One that
/// requests changes stays what it is, and a review never accepts its step.
///
/// Refused with `review_missing` when the review is of another diff, and `step_not_ready` when it is no approval.
pub fn vouch(context: &Context, board: &mut Board, name: &WorkerId, evidence: &str) -> Result<()> {
    let reviewer = board.worker(name)?.clone();
    let step = board.step(&reviewer.step)?.clone();
    verify::require_idle(board, &step.id)?;
    verify::require_evidence(name.as_str(), evidence)?;
    let again = format!("agent-fleet fleet launch {} --review", step.id);
    let refused = |code, message: String| Err(Error::new(code, message).hint(again.clone()));
    let said = verify::report_of(board, name)?
        .filter(|_| reviewer.role == Role::Review && reviewer.state == WorkerState::Parked);
    let Some(said) = said else {
        let message = format!("the worker `{name}` handed no review back");
        return refused(code::STEP_NOT_READY, message);
    };
    let diff = verify::diff(context, board, &step)?;
    if reviewer.reviewed_diff.as_deref() != Some(diff.digest.as_str()) {
        let message = format!("the review `{name}` is stale: the step was changed after it");
        return refused(code::REVIEW_MISSING, message);
    }
    let verdict = report::verdict(&said).map(|review| review.verdict);
    if verdict == Some(Verdict::ChangesRequested) {
        let message = format!("the review `{name}` requests changes, which no evidence undoes");
        return refused(code::STEP_NOT_READY, message);
    }
    let receipt = verify::vouching(name, &diff.digest);
    verify::keep_evidence(&board.files, &receipt, evidence)?;
    record::create(
        &board.files.receipt(&receipt),
        &Receipt {
            schema: SCHEMA,
            kind: "review".to_owned(),
            subjects: vec![Subject {
                id: step.id.clone(),
                digest: diff.digest,
            }],
            outcome: "verified".to_owned(),
            reason: reviewer.assignment.family.clone(),
            evidence: Some(hex(&Sha256::digest(evidence.as_bytes()))),
            at: context.clock.now(),
        },
    )?;
    let progress = board.progress_of(&step.id);
    let waits = progress.state == StepState::Blocked
        && progress.reason.as_deref() == Some("verdict_unclear");
    match board.run.options.accept {
        Accept::Program if waits => accept_by_program(context, board, &step),
        Accept::Lead if waits => set(board, &step.id, StepState::Reported, Some("reviewed")),
        Accept::Program | Accept::Lead => Ok(()),
    }
}

/// Sends a step back to its author with a text, or fails it when its attempts are used up.
fn ask_again(
    context: &Context,
    board: &mut Board,
    step: &PlannedStep,
    text: &str,
    why: &str,
) -> Result<()> {
    let name = worker_of(&step.id)?;
    let Some(mut author) = board.workers.get(&name).cloned() else {
        return block(context, board, step, why);
    };
    let mut progress = board.progress_of(&step.id);
    progress.attempts.insert(author.token.clone());
    let used = u32::try_from(progress.attempts.len()).unwrap_or(u32::MAX);
    if used >= board.run.options.max_attempts || author.session.is_none() {
        progress.state = StepState::Failed;
        progress.reason = Some(why.to_owned());
        board.tell(
            context,
            format!("{}.{}.failed", step.id, author.launch),
            "exited",
            step.id.as_str(),
            Some(why),
        )?;
        return board.save_progress(&step.id, progress);
    }
    progress.state = StepState::ChangesRequested;
    progress.reason = Some(why.to_owned());
    if author.queue.last().map(String::as_str) != Some(text) {
        author.queue.push(text.to_owned());
        board.save_worker(author)?;
    }
    board.save_progress(&step.id, progress)
}

/// Leaves a step to a person, and tells the lead once.
pub fn block(context: &Context, board: &mut Board, step: &PlannedStep, why: &str) -> Result<()> {
    let launch = board
        .workers
        .get(&worker_of(&step.id)?)
        .map_or(0, |worker| worker.launch);
    board.tell(
        context,
        format!("{}.{launch}.{why}", step.id),
        "blocked",
        step.id.as_str(),
        Some(why),
    )?;
    set(board, &step.id, StepState::Blocked, Some(why))
}

fn set(board: &mut Board, step: &StepId, state: StepState, reason: Option<&str>) -> Result<()> {
    let mut progress = board.progress_of(step);
    progress.state = state;
    progress.reason = reason.map(str::to_owned);
    board.save_progress(step, progress)
}
