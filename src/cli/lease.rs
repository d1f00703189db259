//! `agent-fleet lease …`.

use clap::Subcommand;

use super::{App, Outcome};
use crate::clock::ROUTINE;
use crate::contract::lease::{LeaseList, LeaseReleased};
use crate::error::Result;
use crate::id::Task;
use crate::lease::{Force, LeaseStore as _, TableStore};

#[derive(Debug, clap::Args)]
pub(super) struct LeaseArguments {
    #[command(subcommand)]
    command: LeaseCommand,
}

#[derive(Debug, Subcommand)]
enum LeaseCommand {
    /// Show every lease and whether its holder lives
    List(ListArguments),
    /// End a task's lease
    Release(ReleaseArguments),
}

#[derive(Debug, clap::Args)]
struct ListArguments {}

#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("which").required(true).args(["task", "record"])))]
struct ReleaseArguments {
    /// The task whose lease ends
    #[arg(long)]
    task: Option<Task>,
    /// The damaged record to remove, by its number in `lease list`
    #[arg(long, value_name = "NUMBER", requires = "force")]
    record: Option<u32>,
    /// Free the slot although the worker lives: the worker is not ended, and keeps the task to itself
    #[arg(long)]
    force: bool,
}

pub(super) fn run(app: &App, arguments: LeaseArguments) -> Result<Outcome> {
    match arguments.command {
        LeaseCommand::List(ListArguments {}) => list(app),
        LeaseCommand::Release(arguments) => release(app, &arguments),
    }
}

fn store(app: &App) -> Result<TableStore> {
    TableStore::open(&app.context, app.context.clock.deadline(ROUTINE))
}

fn list(app: &App) -> Result<Outcome> {
    let listing = store(app)?.list()?;
    app.view(&LeaseList {
        leases: listing.leases,
        damaged: listing.damaged,
    })
}

fn release(app: &App, arguments: &ReleaseArguments) -> Result<Outcome> {
    let store = store(app)?;
    let force = if arguments.force {
        Force::Yes
    } else {
        Force::No
    };
    app.view(&match (&arguments.task, arguments.record) {
        (Some(task), _) => LeaseReleased {
            profile: Some(store.release(task, force)?.profile),
            released: true,
            task: Some(task.as_str().to_owned()),
        },
        (None, record) => {
            // The argument group lets neither through only with a record.
            let damaged = store.settle(record.unwrap_or(u32::MAX))?;
            LeaseReleased {
                profile: damaged.profile,
                released: true,
                task: damaged.task,
            }
        }
    })
}
