//! What a worker is told in each of its turns: the step, what went before, or the lead's next words.
//!
//! Files that a prompt points to are written into the worker's exchange directory first; what is said to a reviewer is
//! kept on the state side too, so that what it judged can be shown later.

use camino::Utf8PathBuf;
use jiff::tz::TimeZone;
use sha2::{Digest as _, Sha256};

use super::board::Board;
use super::exchange::Exchange;
use super::launch::LaunchRecord;
use super::launch::observe::receipt;
use super::model::{PlannedStep, Worker};
use super::prompt::{Continued, Place, Templates};
use super::record;
use super::scope::diff::Diff;
use super::turn::handoff::{Past, handoff};
use super::turn::kept::Kept;
use super::verify::{self, worker_of};
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::id::fleet::WorkerId;
use crate::id::hex;
use crate::store::read;
use crate::store::replace::{Durability, replace};

/// The prompt of a turn that goes on in the same conversation after a limit.
pub const CONTINUE: &str = "Continue where you were cut short.\n";

/// The first prompt of a step; when an earlier launch of it left something, the one that continues it.
pub fn author(
    context: &Context,
    board: &Board,
    templates: &Templates,
    step: &PlannedStep,
) -> Result<String> {
    let name = worker_of(&step.id)?;
    let workspace = board.workspace(context, step);
    let exchange = Exchange::new(&workspace, &board.run.id);
    let report = exchange.report(&name);
    let place = Place {
        worker: &name,
        workspace: &workspace,
        report: &report,
    };
    let decisions = &board.plan()?.decisions;
    let prepared = prepared(board, &name)?;
    let is_prepared = prepared.is_some();
    let first = prepared.unwrap_or_else(|| templates.step(step, decisions, place));
    let Some(worker) = board.workers.get(&name) else {
        return Ok(first);
    };
    let past = past(context, board, worker)?;
    // What a lead wrote after the last launch is told as it stands.
    if past.is_empty() || (is_prepared && !was_told(board, worker, &first)?) {
        return Ok(first);
    }
    let written = |file: &str, text: &str| -> Result<_> {
        let path = exchange.evidence(file);
        exchange.write(&path, text.as_bytes())?;
        Ok(path)
    };
    let next = worker.launch + 1;
    let prompt = written(&format!("{name}.{next}.step.md"), &first)?;
    let handed = written(&format!("{name}.{next}.handoff.md"), &handoff(&past))?;
    let diff = verify::diff(context, board, step)?;
    let diff = written(&format!("{name}.{next}.diff"), &diff.text)?;
    Ok(templates.handoff(
        step,
        place,
        Continued {
            prompt: &prompt,
            handoff: &handed,
            diff: &diff,
        },
    ))
}

/// Whether one of a worker's launches began with exactly this prompt.
fn was_told(board: &Board, worker: &Worker, prompt: &str) -> Result<bool> {
    let digest = hex(&Sha256::digest(prompt.as_bytes()));
    for number in 1..=worker.launch {
        let path = board.files.launch(&worker.name, number).launch();
        let launch: Option<LaunchRecord> = record::load(&path)?;
        if launch.is_some_and(|launch| launch.prompt_digest == digest) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The launches of a worker that became the provider and left output, oldest first.
fn past(context: &Context, board: &Board, worker: &Worker) -> Result<Vec<Past>> {
    let local = TimeZone::system();
    let workspace = board.workspace(context, board.step(&worker.step)?);
    let exchange = Exchange::new(&workspace, &board.run.id);
    let mut past = Vec::new();
    let mut provider = worker.assignment.provider;
    for number in 1..=worker.launch {
        let files = board.files.launch(&worker.name, number);
        // An alternative of the tier may be another provider's; the next turn of a conversation is the same one's.
        let launch: Option<LaunchRecord> = record::load(&files.launch()).unwrap_or_default();
        provider = launch
            .as_ref()
            .and_then(LaunchRecord::provider)
            .unwrap_or(provider);
        let output = files.output();
        // What was refused, or never got that far, left nothing but our own words.
        let began = files.receipt().exists() && receipt(&files)?.is_none_or(|receipt| receipt.ok);
        let kept = Kept::load(&files).unwrap_or_default();
        let left = kept.is_some() || output.metadata().is_ok_and(|found| found.len() > 0);
        if !(began && left) {
            continue;
        }
        let asked = exchange
            .read(&exchange.prompt(&worker.name, number))
            .unwrap_or(None);
        let launch = Past::new(number, asked.as_deref().unwrap_or_default());
        if let Some(kept) = kept {
            past.push(launch.kept(kept));
            continue;
        }
        let launch = launch
            .read(provider, &output, &context.clock, &local)
            .map_err(|error| Error::io("read", &output, &error))?;
        past.push(launch);
    }
    Ok(past)
}

/// The prompt of a reviewer, with the diff that it judges beside it.
pub fn reviewer(
    context: &Context,
    board: &Board,
    templates: &Templates,
    step: &PlannedStep,
    name: &WorkerId,
    diff: &Diff,
) -> Result<String> {
    let workspace = board.workspace(context, step);
    let exchange = Exchange::new(&workspace, &board.run.id);
    let author = worker_of(&step.id)?;
    let report = exchange.evidence(&format!("{author}.report.md"));
    let said = verify::report_of(board, &author)?.unwrap_or_default();
    exchange.write(&report, said.as_bytes())?;
    let path = exchange.evidence(&format!("{name}.diff"));
    exchange.write(&path, diff.text.as_bytes())?;
    let kept = board.files.reviewed(name);
    if let Some(parent) = kept.parent() {
        crate::store::directory::establish(parent)?;
    }
    replace(&kept, diff.text.as_bytes(), Durability::Durable)?;
    let place = Place {
        worker: name,
        workspace: &workspace,
        report: &report,
    };
    Ok(templates.review(step, &board.plan()?.decisions, place, &path))
}

/// The prompt of a turn that the lead's own words begin.
pub fn next(
    context: &Context,
    board: &Board,
    step: &PlannedStep,
    name: &WorkerId,
    texts: &[String],
) -> String {
    let exchange = Exchange::new(&board.workspace(context, step), &board.run.id);
    let report = exchange.report(name);
    format!(
        "{}\n\nEverything else holds as before. When you are done, write the report anew: `{report}`, beginning with its `Status:` line.\n",
        texts.join("\n\n").trim_end()
    )
}

/// The prompt of a reviewer's turn that the lead's own words begin.
pub fn next_review(texts: &[String]) -> String {
    format!(
        "{}\n\nEverything else holds as before: you change nothing, and your last message is the whole review anew, with its verdict.\n",
        texts.join("\n\n").trim_end()
    )
}

/// Prepares a step's prompt: `text`, or what its worker would be told now. Its file.
///
/// Refused with `worker_active` while the worker may run, and `already_exists` when one is prepared and `replaces` is
/// false.
pub fn prepare(
    context: &Context,
    board: &Board,
    templates: &Templates,
    step: &PlannedStep,
    text: Option<&str>,
    replaces: bool,
) -> Result<Utf8PathBuf> {
    let name = worker_of(&step.id)?;
    verify::require_idle(board, &step.id)?;
    let path = board.files.prompt(&name);
    if path.exists() && !replaces {
        let message = format!("the prompt of `{}` is prepared already: `{path}`", step.id);
        return Err(Error::new(code::ALREADY_EXISTS, message)
            .hint(format!("agent-fleet fleet prompt {} --force", step.id)));
    }
    let text = match text {
        Some(text) => text.to_owned(),
        None => plain(context, board, templates, step)?,
    };
    if text.trim().is_empty() {
        let message = format!("the prompt of `{}` says nothing", step.id);
        return Err(Error::new(code::USAGE, message).hint("agent-fleet fleet prompt --help"));
    }
    if let Some(parent) = path.parent() {
        crate::store::directory::establish(parent)?;
    }
    replace(&path, text.as_bytes(), Durability::Durable)?;
    Ok(path)
}

/// What a step's worker would be told first if nothing had been prepared.
pub fn plain(
    context: &Context,
    board: &Board,
    templates: &Templates,
    step: &PlannedStep,
) -> Result<String> {
    let name = worker_of(&step.id)?;
    let workspace = board.workspace(context, step);
    let report = Exchange::new(&workspace, &board.run.id).report(&name);
    let place = Place {
        worker: &name,
        workspace: &workspace,
        report: &report,
    };
    Ok(templates.step(step, &board.plan()?.decisions, place))
}

/// A prompt that a lead prepared by hand; `None` when there is none.
pub fn prepared(board: &Board, name: &WorkerId) -> Result<Option<String>> {
    let bytes = read::optional(board.files.prompt(name))?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}
