//! The launches of a run: which account each had, how it ended and when, from the records of the launches and the
//! ledger.

use super::board::Board;
use super::files::RunFiles;
use super::launch::{ExitRecord, LaunchRecord};
use super::ledger::Kind;
use super::model::SCHEMA;
use super::{files, record};
use crate::contract::fleet::NotRead;
use crate::contract::fleet::watch::{History, LaunchRow};
use crate::error::Result;
use crate::id::ProviderKind;
use crate::id::fleet::WorkerId;
use crate::store::read;
use crate::worker::receipt::Receipt;

/// The launches of a run, or of one worker of it.
pub fn history(board: &Board, worker: Option<&WorkerId>) -> Result<History> {
    let mut history = History {
        schema: SCHEMA,
        run: board.run.id.clone(),
        launches: Vec::new(),
        not_read: Vec::new(),
    };
    for (name, number) in all(&board.files)? {
        if worker.is_some_and(|worker| *worker != name) {
            continue;
        }
        match row(board, &name, number) {
            Ok(row) => history.launches.push(row),
            Err(error) => history.not_read.push(NotRead {
                what: format!("{name}.{number}"),
                why: error.message,
                next: error.hint,
            }),
        }
    }
    let order = |row: &LaunchRow| (row.began, row.worker.clone(), row.launch);
    history.launches.sort_by_key(order);
    Ok(history)
}

/// Every launch that has a directory, sorted by worker and number.
fn all(run: &RunFiles) -> Result<Vec<(WorkerId, u32)>> {
    let names = files::names(&run.directory.join("launches"))?;
    let parsed = names.iter().filter_map(|name| {
        let (worker, number) = name.rsplit_once('.')?;
        Some((worker.parse().ok()?, number.parse().ok()?))
    });
    let mut all: Vec<(WorkerId, u32)> = parsed.collect();
    all.sort();
    Ok(all)
}

/// One launch.
pub fn row(board: &Board, worker: &WorkerId, number: u32) -> Result<LaunchRow> {
    let files = board.files.launch(worker, number);
    let launch: LaunchRecord = record::require(&files.launch())?;
    let exit: Option<ExitRecord> = record::load(&files.exit())?;
    let exit = exit.filter(|exit| exit.token == launch.token);
    // Written without a sync: one that is not whole counts as none.
    let receipt: Option<Receipt> =
        read::optional(files.receipt())?.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let intent = format!("launch.{worker}.{number}");
    let mut records = board.ledger.records.iter();
    let outcome = records.find(|record| record.of.as_deref() == Some(intent.as_str()));
    let limited = board.ledger.has(&format!("{worker}.{number}.limited"));
    let word = outcome.map_or("open", |record| match record.kind {
        Kind::Intent | Kind::Event => "open",
        Kind::Done if limited => "limited",
        Kind::Done => "done",
        Kind::Failed => "failed",
        Kind::Unknown => "unknown",
    });
    Ok(LaunchRow {
        worker: worker.clone(),
        launch: number,
        provider: provider(board, worker, number),
        profile: receipt.and_then(|receipt| receipt.profile),
        began: launch.at,
        ended: exit.as_ref().map(|exit| exit.at),
        status: exit.as_ref().and_then(|exit| exit.status),
        signal: exit.as_ref().and_then(|exit| exit.signal),
        outcome: word.to_owned(),
        reason: outcome.and_then(|record| record.reason.clone()),
    })
}

/// The provider of a launch: what it was begun with, or for a further turn what the conversation was begun with.
pub fn provider(board: &Board, worker: &WorkerId, number: u32) -> Option<ProviderKind> {
    let named = (1..=number).rev().find_map(|number| {
        let path = board.files.launch(worker, number).launch();
        let launch: LaunchRecord = record::load(&path).ok()??;
        let words = launch.arguments.iter();
        let mut words = words.skip_while(|word| *word != "--provider");
        words.nth(1)?.parse().ok()
    });
    let known = board.workers.get(worker);
    named.or_else(|| known.map(|worker| worker.assignment.provider))
}
