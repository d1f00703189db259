//! Accepting a step: bound to the diff as it is, with evidence, and to a review of that very diff where one is
//! required. Only this unblocks what needs the step; reports and exits do not.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::accept as conditions;
use super::begin::reopen;
use super::board::Board;
use super::files::RunFiles;
use super::git::Git;
use super::guard;
use super::model::{PlannedStep, Role, SCHEMA, StepKind, StepState, WorkerState};
use super::plan::compile::REVIEW_SUFFIX;
use super::reconcile::reconcile;
use super::record;
use super::report::{self, Status, Verdict};
use super::scope::diff::{Diff, scoped};
use super::scope::snapshot::Snapshot;
use super::start::refuse_inside;
use super::worktree::Worktree;
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::id::fleet::{StepId, WorkerId};
use crate::id::hex;
use crate::store::replace::{Durability, replace};

/// What a receipt is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// Whose diff.
    pub id: StepId,
    /// Its digest.
    pub digest: String,
}

/// `receipts/<id>.json`: write-once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// Format.
    pub schema: u32,
    /// `verify`, `review` or `check`.
    pub kind: String,
    /// What it is about.
    pub subjects: Vec<Subject>,
    /// `verified`, `approve`, `changes_requested`, `met` or `unmet`.
    pub outcome: String,
    /// One word more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// SHA-256 (64 hex) of the evidence, which stands beside the receipt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
    /// When.
    pub at: Timestamp,
}

/// What a step changed: of its files since they were put on record, or of its worktree since it was made. An
/// investigation changes nothing.
pub fn diff(context: &Context, board: &Board, step: &PlannedStep) -> Result<Diff> {
    if step.kind == StepKind::Investigate {
        return Ok(Diff::of(String::new(), Vec::new()));
    }
    if step.worktree {
        let git = Git::find(&context.variables, context.clock)?;
        return match Worktree::open(&board.workspace(context, step))? {
            Some(worktree) => worktree.diff(&git),
            None => Ok(Diff::of(String::new(), Vec::new())),
        };
    }
    match Snapshot::load(&board.files.snapshot(&step.id))? {
        Some(snapshot) => scoped(&board.run.repository, &snapshot),
        None => Ok(Diff::of(String::new(), Vec::new())),
    }
}

/// Refuses while the step's author or one of its reviewers may still run.
pub fn require_idle(board: &Board, step: &StepId) -> Result<()> {
    let active = board
        .workers
        .values()
        .find(|worker| worker.step == *step && worker.state.holds_slot());
    if let Some(worker) = active {
        let message = format!(
            "the worker `{}` is {} and may still change the step",
            worker.name, worker.state
        );
        let hint = format!("agent-fleet fleet stop {}", worker.name);
        return Err(Error::new(code::WORKER_ACTIVE, message).hint(hint));
    }
    let prefix = step.as_str();
    let damaged = board
        .damaged
        .keys()
        .find(|name| name.as_str().starts_with(prefix));
    match damaged {
        Some(name) => Err(board
            .damaged
            .get(name)
            .cloned()
            .unwrap_or_else(|| Error::internal("a damaged worker is not known"))),
        None => Ok(()),
    }
}

/// The report of a step's author as it was when its turn ended.
pub fn report_of(board: &Board, worker: &WorkerId) -> Result<Option<String>> {
    let Some(worker) = board.workers.get(worker) else {
        return Ok(None);
    };
    let path = board.files.launch(&worker.name, worker.launch).report();
    let bytes = crate::store::read::optional(path)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// What a reviewer of this diff said last; `None` when nobody reviewed it, or what was said is no verdict.
pub fn verdict(board: &Board, step: &StepId, digest: &str) -> Result<Option<Verdict>> {
    let reviewers = board.workers.values().filter(|worker| {
        worker.step == *step
            && worker.role == Role::Review
            && worker.state == WorkerState::Parked
            && worker.reviewed_diff.as_deref() == Some(digest)
    });
    for reviewer in reviewers {
        if let Some(text) = report_of(board, &reviewer.name)? {
            return Ok(report::verdict(&text).map(|review| review.verdict));
        }
    }
    Ok(None)
}

/// Name of the receipt of a lead who read a review of this diff and took it for an approval.
pub(super) fn vouching(reviewer: &WorkerId, digest: &str) -> String {
    format!("verify.{reviewer}.{}", digest.get(..16).unwrap_or_default())
}

fn vouched(board: &Board, step: &StepId, digest: &str) -> Result<bool> {
    let receipt = vouching(&reviewer_of(step)?, digest);
    Ok(record::load::<Receipt>(&board.files.receipt(&receipt))?.is_some())
}

/// Refuses unless a reviewer of another family approved exactly this diff, or said of it what only a lead can read and
/// the lead did.
pub fn require_review(board: &Board, step: &PlannedStep, diff: &Diff) -> Result<()> {
    if !step.review_required {
        return Ok(());
    }
    let progress = board.progress_of(&step.id);
    let crosses = board.workers.values().any(|worker| {
        worker.step == step.id
            && worker.role == Role::Review
            && worker.reviewed_diff.as_deref() == Some(diff.digest.as_str())
            && worker
                .assignment
                .family
                .as_ref()
                .is_some_and(|family| !progress.author_families.contains(family))
    });
    let refused = |what: &str| {
        let message = format!(
            "the step `{}` needs a review by another model family, and {what}",
            step.id
        );
        let hint = format!("agent-fleet fleet launch {} --review", step.id);
        Error::new(code::REVIEW_MISSING, message).hint(hint)
    };
    if !crosses {
        return Err(refused("none of this diff is there"));
    }
    match verdict(board, &step.id, &diff.digest)? {
        Some(Verdict::Approve) => Ok(()),
        Some(Verdict::ChangesRequested) => Err(refused("the one of this diff requests changes")),
        None if vouched(board, &step.id, &diff.digest)? => Ok(()),
        None => Err(refused(
            "the one of this diff says neither `approve` nor `changes-requested`",
        )),
    }
}

/// Accepts a step because a lead judged it; what the plan says the program checks is checked first.
///
/// Refused as [`accept`], and with `step_not_ready` when a condition is not met or the step changed meanwhile.
pub fn by_lead(context: &Context, files: &RunFiles, id: &StepId, evidence: &str) -> Result<Diff> {
    refuse_inside(context)?;
    let mut board = Board::hold(context, files)?;
    reconcile(context, &mut board)?;
    let step = board.step(id)?.clone();
    require_idle(&board, id)?;
    require_evidence(id.as_str(), evidence)?;
    let state = board.progress_of(id).state;
    let refused = |message: String| {
        Error::new(code::STEP_NOT_READY, message).hint(format!("agent-fleet fleet logs {id}"))
    };
    if matches!(state, StepState::Verified | StepState::Dropped) {
        return Err(refused(format!("the step `{id}` is {state}")));
    }
    let before = diff(context, &board, &step)?;
    let workspace = board.workspace(context, &step);
    // Commands may take long, and nobody else waits for them.
    drop(board);
    let unmet = conditions::check(context, &workspace, &step.accept)?;
    if let Some(first) = unmet.first() {
        return Err(refused(format!("`{}`: {}", first.what, first.problem)));
    }
    let mut board = Board::hold(context, files)?;
    reconcile(context, &mut board)?;
    require_idle(&board, id)?;
    if diff(context, &board, &step)?.digest != before.digest {
        return Err(refused(format!(
            "the step `{id}` was changed while it was checked"
        )));
    }
    let accepted = accept(context, &mut board, id, evidence, false)?;
    // What was stopped stays stopped, with one step more that is accepted.
    match reopen(context, &mut board) {
        Err(error) if error.code != code::RUN_OVER => Err(error),
        Err(_) | Ok(()) => Ok(accepted),
    }
}

/// Accepts a step of a held, reconciled run. `evidence` is what shows that it is done.
///
/// Refused with `worker_active`, `step_not_ready` (no report that asks for it), `review_missing`, `tree_changed`, `usage`
/// (no evidence).
pub fn accept(
    context: &Context,
    board: &mut Board,
    id: &StepId,
    evidence: &str,
    by_program: bool,
) -> Result<Diff> {
    let step = board.step(id)?.clone();
    require_idle(board, id)?;
    require_evidence(id.as_str(), evidence)?;
    let author: WorkerId = worker_of(id)?;
    let report = report_of(board, &author)?;
    let status = report.as_deref().map(report::status);
    let diff = diff(context, board, &step)?;
    let name = format!("verify.{id}.{}", diff.digest.get(..16).unwrap_or_default());
    let asks = match (&status, by_program) {
        (Some(Some(Status::NeedsVerification)), _) | (Some(None), true) => true,
        // Only we write that word, after the receipt: an acceptance that was cut short is brought to its end.
        (Some(Some(Status::Verified)), _) => board.files.receipt(&name).exists(),
        (Some(_) | None, _) => false,
    };
    if !asks {
        let message = match report {
            Some(_) => format!("the report of `{id}` does not say `Status: needs-verification`"),
            None => format!("the step `{id}` has no report"),
        };
        return Err(
            Error::new(code::STEP_NOT_READY, message).hint(format!("agent-fleet fleet logs {id}"))
        );
    }
    require_review(board, &step, &diff)?;
    guard::require_unchanged(context, board)?;
    keep_evidence(&board.files, &name, evidence)?;
    let receipt = Receipt {
        schema: SCHEMA,
        kind: "verify".to_owned(),
        subjects: vec![Subject {
            id: id.clone(),
            digest: diff.digest.clone(),
        }],
        outcome: "verified".to_owned(),
        reason: None,
        evidence: Some(hex(&Sha256::digest(evidence.as_bytes()))),
        at: context.clock.now(),
    };
    record::create(&board.files.receipt(&name), &receipt)?;
    if let Some(text) = report
        .as_deref()
        .and_then(|text| report::verified(text, evidence))
    {
        let launch = board.workers.get(&author).map_or(0, |worker| worker.launch);
        let path = board.files.launch(&author, launch).report();
        replace(&path, text.as_bytes(), Durability::Durable)?;
    }
    board.tell(
        context,
        format!("{name}.verified"),
        "verified",
        id.as_str(),
        None,
    )?;
    let mut progress = board.progress_of(id);
    progress.state = StepState::Verified;
    progress.reason = None;
    progress.accepted_diff = Some(diff.digest.clone());
    board.save_progress(id, progress)?;
    Ok(diff)
}

/// Refuses evidence that says nothing.
pub(super) fn require_evidence(of: &str, evidence: &str) -> Result<()> {
    if evidence.trim().is_empty() {
        let message = format!("the evidence for `{of}` is empty");
        return Err(Error::new(code::USAGE, message).hint("agent-fleet fleet verify --help"));
    }
    Ok(())
}

/// Keeps the evidence of a receipt beside it.
pub fn keep_evidence(files: &RunFiles, name: &str, evidence: &str) -> Result<()> {
    let path = files.receipts().join(format!("{name}.evidence"));
    crate::store::directory::establish(files.receipts())?;
    replace(path, evidence.as_bytes(), Durability::Durable)
}

/// The worker that implements a step.
pub fn worker_of(step: &StepId) -> Result<WorkerId> {
    step.as_str()
        .parse()
        .map_err(|_| Error::internal("a step's name is no worker's"))
}

/// The worker that reviews a step.
pub fn reviewer_of(step: &StepId) -> Result<WorkerId> {
    format!("{step}{REVIEW_SUFFIX}")
        .parse()
        .map_err(Error::from)
}
