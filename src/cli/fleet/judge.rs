//! `agent-fleet fleet verify`, `check`, `diff` and `merge`: judging what was handed back, and taking it.

use std::path::PathBuf;

use super::{App, Ground, Outcome, Which, settled, text_of};
use crate::contract::fleet::lead::{StepDiff, StepMerged, TreeCheck};
use crate::error::Result;
use crate::fleet::board::Board;
use crate::fleet::deliver::deliver;
use crate::fleet::locate::Place;
use crate::fleet::merge::{How, Outcome as Merge};
use crate::fleet::model::Role;
use crate::fleet::reconcile::reconcile;
use crate::fleet::{guard, review, tick, verify};
use crate::id::fleet::{StepId, WorkerId};
use crate::store::replace::{Durability, replace};

#[derive(Debug, clap::Args)]
pub(super) struct VerifyArguments {
    /// The step, or a reviewer whose verdict only you can read
    #[arg(value_name = "STEP|REVIEW")]
    name: WorkerId,
    /// A file that says what shows that it is done
    #[arg(long, value_name = "FILE")]
    evidence: PathBuf,
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, clap::Args)]
pub(super) struct CheckArguments {
    /// Take HEAD and index as they are from now on, because you know whose change it was
    #[arg(long)]
    accept: bool,
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, clap::Args)]
pub(super) struct DiffArguments {
    /// The step
    step: StepId,
    /// Write it to this file
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, clap::Args)]
pub(super) struct MergeArguments {
    /// The step
    step: StepId,
    /// As a new branch with one commit, by your name, and not as changed files
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,
    /// Message of that commit; default the step's name and the first line of its work
    #[arg(long, value_name = "TEXT", requires = "branch")]
    message: Option<String>,
    #[command(flatten)]
    which: Which,
}

pub(super) fn verify(app: &App, arguments: &VerifyArguments) -> Result<Outcome> {
    let context = &app.context;
    let place = Place::here(context)?;
    let ground = Ground::of(app, &place)?;
    let evidence = text_of(app, &arguments.evidence)?;
    let files = place.choose(arguments.which.run.as_ref())?;
    let name = &arguments.name;
    let board = Board::look(&files)?;
    let is_review = board
        .workers
        .get(name)
        .is_some_and(|worker| worker.role == Role::Review);
    drop(board);
    if is_review {
        let mut board = Board::hold(context, &files)?;
        reconcile(context, &mut board)?;
        review::vouch(context, &mut board, name, &evidence)?;
    } else {
        let step: StepId = name.as_str().parse()?;
        verify::by_lead(context, &files, &step, &evidence)?;
    }
    settled(app, &files, &ground)
}

pub(super) fn check(app: &App, arguments: &CheckArguments) -> Result<Outcome> {
    let context = &app.context;
    let place = Place::here(context)?;
    let files = place.choose(arguments.which.run.as_ref())?;
    let now = if arguments.accept {
        let mut board = Board::hold(context, &files)?;
        reconcile(context, &mut board)?;
        let now = guard::take_as_it_is(context, &mut board)?;
        tick::settle_run(context, &mut board)?;
        now
    } else {
        guard::require_unchanged(context, &Board::look(&files)?)?
    };
    app.view(&TreeCheck {
        schema: 1,
        run: files.id,
        repositories: u32::try_from(now.repositories.len()).unwrap_or(u32::MAX),
        changed: false,
        accepted: arguments.accept,
    })
}

pub(super) fn diff(app: &App, arguments: &DiffArguments) -> Result<Outcome> {
    let context = &app.context;
    let place = Place::here(context)?;
    let files = place.choose(arguments.which.run.as_ref())?;
    let mut board = Board::hold(context, &files)?;
    reconcile(context, &mut board)?;
    let step = board.step(&arguments.step)?.clone();
    verify::require_idle(&board, &step.id)?;
    let diff = verify::diff(context, &board, &step)?;
    drop(board);
    let output = match &arguments.output {
        Some(path) => {
            let path = crate::registry::project::absolute(context, path)?;
            replace(&path, diff.text.as_bytes(), Durability::Durable)?;
            Some(path)
        }
        None => None,
    };
    app.view(&StepDiff {
        schema: 1,
        run: files.id,
        step: step.id,
        digest: diff.digest,
        files: diff.files,
        text: output.is_none().then_some(diff.text),
        output,
    })
}

pub(super) fn merge(app: &App, arguments: &MergeArguments) -> Result<Outcome> {
    let context = &app.context;
    let place = Place::here(context)?;
    let files = place.choose(arguments.which.run.as_ref())?;
    let step = Board::look(&files)?.step(&arguments.step)?.clone();
    let said = arguments.message.clone().unwrap_or_else(|| {
        let first = step.text.lines().find(|line| !line.trim().is_empty());
        format!("{}: {}\n", step.id, first.unwrap_or_default().trim())
    });
    let how = match &arguments.branch {
        Some(name) => How::Branch {
            name,
            message: &said,
        },
        None => How::Patch,
    };
    let delivered = deliver(context, &files, &step.id, how)?;
    let (outcome, changed) = match delivered.outcome {
        Merge::Merged(changed) => ("merged", changed),
        Merge::Already => ("already", Vec::new()),
        Merge::Nothing => ("nothing", Vec::new()),
    };
    app.view(&StepMerged {
        schema: 1,
        run: files.id,
        step: step.id,
        outcome: outcome.to_owned(),
        files: changed,
        branch: arguments.branch.clone(),
        worktree: delivered.worktree,
        worktree_removed: delivered.removed,
    })
}
