//! Bringing a verified step's worktree to the person, and removing the worktree once that is done.
//!
//! Only what was accepted is brought: a worktree that was changed afterwards is refused. Files that another step
//! owns are in the way, since two would write them. It may be done twice; the second time nothing is left to do.

use camino::{Utf8Path, Utf8PathBuf};

use super::begin;
use super::board::Board;
use super::files::RunFiles;
use super::git::Git;
use super::locate::Place;
use super::merge::{How, Outcome, merge};
use super::model::{PlannedStep, Role, SCHEMA, StepState};
use super::plan::graph;
use super::reconcile::reconcile;
use super::record;
use super::repository::Repository;
use super::scope::place;
use super::start::refuse_inside;
use super::verify::{self, Receipt, Subject};
use super::worktree::{self, Removal, Worktree};
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::id::fleet::StepId;

/// What was brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// What the merge did.
    pub outcome: Outcome,
    /// Where the step worked.
    pub worktree: Utf8PathBuf,
    /// Whether that is gone.
    pub removed: bool,
}

/// Brings a step's result to its checkout.
///
/// Refused with `step_not_ready` for a step without a worktree or that is not verified, `worker_active`, and as
/// [`merge`] says.
pub fn deliver(
    context: &Context,
    files: &RunFiles,
    id: &StepId,
    how: How<'_>,
) -> Result<Delivered> {
    refuse_inside(context)?;
    let here = Place::of_run(context, &Board::look(files)?);
    // Merges of two runs into one checkout come one after the other.
    let _alone = begin::alone(context, &here.key)?;
    let mut board = Board::hold(context, files)?;
    reconcile(context, &mut board)?;
    let step = board.step(id)?.clone();
    let accepted = accepted(&board, &step)?;
    let receipt = format!("merge.{id}.{}", accepted.get(..16).unwrap_or_default());
    let root = board.workspace(context, &step);
    let Some(mut worktree) = Worktree::open(&root)? else {
        if files.receipt(&receipt).exists() {
            return Ok(Delivered {
                outcome: Outcome::Already,
                worktree: root,
                removed: true,
            });
        }
        let message = format!("the worktree `{root}` of the step `{id}` is gone");
        return Err(Error::new(code::NOT_FOUND, message).hint("agent-fleet fleet doctor"));
    };
    let git = Git::find(&context.variables, context.clock)?;
    let changed: Vec<Utf8PathBuf> = worktree
        .diff(&git)?
        .files
        .into_iter()
        .map(Utf8PathBuf::from)
        .collect();
    refuse_owned(&here, &board, &step, &changed)?;
    let checkout = Repository::find(&git, &board.run.repository)?;
    let outcome = merge(&git, &checkout, &mut worktree, Some(&accepted), how)?;
    record::create(
        &files.receipt(&receipt),
        &Receipt {
            schema: SCHEMA,
            kind: "merge".to_owned(),
            subjects: vec![Subject {
                id: id.clone(),
                digest: accepted,
            }],
            outcome: "merged".to_owned(),
            reason: None,
            evidence: None,
            at: context.clock.now(),
        },
    )?;
    board.tell(context, receipt, "merged", id.as_str(), None)?;
    let removed = remove(&git, &root)?;
    Ok(Delivered {
        outcome,
        worktree: root,
        removed,
    })
}

/// The digest of what was accepted of a step; refused when there is nothing to bring.
fn accepted(board: &Board, step: &PlannedStep) -> Result<String> {
    let id = &step.id;
    let refused =
        |message: String, hint: String| Err(Error::new(code::STEP_NOT_READY, message).hint(hint));
    if !step.worktree {
        let message =
            format!("the step `{id}` works in the checkout itself: there is nothing to merge");
        return refused(message, format!("agent-fleet fleet diff {id}"));
    }
    verify::require_idle(board, id)?;
    let progress = board.progress_of(id);
    match (progress.state, progress.accepted_diff) {
        (StepState::Verified, Some(digest)) => Ok(digest),
        (state, _) => {
            let message =
                format!("the step `{id}` is {state}, and only what is verified is merged");
            refused(
                message,
                format!("agent-fleet fleet verify {id} --evidence FILE"),
            )
        }
    }
}

/// Refuses while a step of any run of the checkout owns one of the files.
fn refuse_owned(
    here: &Place,
    board: &Board,
    step: &PlannedStep,
    changed: &[Utf8PathBuf],
) -> Result<()> {
    owned(&here.root, board, Some(step), changed)?;
    for files in here.files.runs_of(&here.key)? {
        if files.id == board.files.id {
            continue;
        }
        match Board::look(&files) {
            Ok(other) => owned(&here.root, &other, None, changed)?,
            // Made by a command that was cut short before its record was there.
            Err(error) if error.code == code::NOT_FOUND => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn owned(
    root: &Utf8Path,
    board: &Board,
    but: Option<&PlannedStep>,
    changed: &[Utf8PathBuf],
) -> Result<()> {
    let case = place::case(root);
    for other in board.plan.iter().flat_map(|plan| &plan.steps) {
        let same = but.is_some_and(|step| step.id == other.id);
        let launched = board
            .workers
            .values()
            .any(|worker| worker.step == other.id && worker.role == Role::Implementation);
        let over = matches!(
            board.progress_of(&other.id).state,
            StepState::Verified | StepState::Dropped
        );
        // What a finished run left unfinished keeps nobody from the files.
        let dead = board.run.state.is_final() && board.active().next().is_none();
        if same || !launched || over || dead {
            continue;
        }
        if let Some(file) = graph::overlap(changed, &other.files, case) {
            let (owner, run) = (&other.id, &board.run.id);
            let message = format!(
                "`{file}` belongs to the step `{owner}` of run `{run}` until that is verified or dropped"
            );
            return Err(Error::new(code::STEP_NOT_READY, message)
                .hint(format!("agent-fleet fleet status --run {run}")));
        }
    }
    Ok(())
}

/// Removes a merged worktree; one that holds something else now stays.
fn remove(git: &Git, root: &Utf8Path) -> Result<bool> {
    match worktree::remove(git, root, Removal::Merged) {
        Ok(removed) => Ok(removed),
        Err(error) if error.code == code::WORKTREE_UNMERGED => Ok(false),
        Err(error) => Err(error),
    }
}
