//! `agent-fleet transaction`.

use clap::Subcommand;
use serde_json::{Map, Value};

use super::{App, Outcome};
use crate::contract::transaction::{TransactionList, TransactionsRecovered};
use crate::error::{Error, Result, code};
use crate::report::transaction::{self, Aside};
use crate::transaction::pending;

/// Changes of a login that were begun and not finished. Every command that would take a profile takes them back
/// by itself; these are for a person who wants to look first.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(super) enum TransactionCommand {
    /// All of them
    List,
    /// One of them: which login is in force, and what lies beside it
    Show {
        /// Its name in `transaction list`
        #[arg(value_name = "TRANSACTION")]
        id: String,
    },
    /// Take the new login back, or say why that cannot be done
    Recover(RecoverArguments),
}

#[derive(Debug, clap::Args)]
pub(super) struct RecoverArguments {
    /// Its name in `transaction list`
    #[arg(
        value_name = "TRANSACTION",
        required_unless_present = "all",
        conflicts_with = "all"
    )]
    id: Option<String>,
    /// Every one
    #[arg(long)]
    all: bool,
    /// Rename the record of one that cannot be taken back: every login stays where it is, and the provider's
    /// profiles are used again
    #[arg(long, conflicts_with = "all")]
    set_aside: bool,
}

pub(super) fn run(app: &App, command: &TransactionCommand) -> Result<Outcome> {
    match command {
        TransactionCommand::List => app.view(&TransactionList {
            transactions: transaction::all(&app.context)?,
        }),
        TransactionCommand::Show { id } => app.view(&transaction::one(&app.context, id)?),
        TransactionCommand::Recover(arguments) => recover(app, arguments),
    }
}

fn recover(app: &App, arguments: &RecoverArguments) -> Result<Outcome> {
    let context = &app.context;
    let aside = if arguments.set_aside {
        Aside::Yes
    } else {
        Aside::No
    };
    if let Some(id) = &arguments.id {
        let pending = transaction::entry(context, id)?;
        let recovered = vec![transaction::recover(context, &pending, aside)?];
        return app.view(&TransactionsRecovered { recovered });
    }
    let (mut recovered, mut failed) = (Vec::new(), Vec::new());
    for pending in pending::list(context)? {
        match transaction::recover(context, &pending, Aside::No) {
            Ok(done) => recovered.push(done),
            Err(error) => failed.push((pending.id, error)),
        }
    }
    match failed.first() {
        None => app.view(&TransactionsRecovered { recovered }),
        Some((_, first)) => Err(refusal(first.clone(), &recovered, &failed)),
    }
}

/// The first refusal, with everything that was and was not done in its details.
fn refusal(
    first: Error,
    recovered: &[crate::contract::transaction::TransactionRecovered],
    failed: &[(String, Error)],
) -> Error {
    let done: Vec<&str> = recovered
        .iter()
        .map(|one| one.transaction.as_str())
        .collect();
    let every: Map<String, Value> = failed
        .iter()
        .map(|(id, error)| (id.clone(), error.message.clone().into()))
        .collect();
    let same = failed.iter().all(|(_, error)| error.code == first.code);
    let code = if same {
        first.code
    } else {
        code::TRANSACTION_PENDING
    };
    Error { code, ..first }
        .detail("recovered", done)
        .detail("failed", every)
}
