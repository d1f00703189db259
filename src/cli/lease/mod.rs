//! `agent-fleet lease …`.

mod choose;
mod watch;

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Subcommand;

use super::{App, Outcome};
use crate::audit;
use crate::choose::aftermath;
use crate::choose::apply::{self, Purpose, Request};
use crate::choose::candidate::Asked;
use crate::choose::queue;
use crate::contract::lease::{LeaseList, LeaseReleased, Verdict};
use crate::contract::selection::DecisionReason;
use crate::error::Result;
use crate::id::{PoolId, ProfileId, Task};
use crate::lease::{Force, LeaseStore as _};
use crate::quota::model::Model;
use crate::report::inhabitants;
use crate::snapshot;
use crate::worker::conversation;

#[derive(Debug, clap::Args)]
pub(super) struct LeaseArguments {
    #[command(subcommand)]
    command: LeaseCommand,
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
enum LeaseCommand {
    /// Reserve a named profile for a task
    Acquire(AcquireArguments),
    /// Choose the best profile of a pool and reserve it for a task
    Choose(choose::ChooseArguments),
    /// Show every lease and whether its holder lives
    List(ListArguments),
    /// Reserve the profile that holds a task's conversation, to resume it in another process
    Recover(RecoverArguments),
    /// End a task's lease
    Release(ReleaseArguments),
    /// Show every lease and each change, until you stop it
    Watch(WatchArguments),
}

#[derive(Debug, clap::Args)]
struct AcquireArguments {
    /// The profile
    #[arg(long)]
    profile: ProfileId,
    /// Pool the lease is counted in; default the profile's first
    #[arg(long)]
    pool: Option<PoolId>,
    /// Model that will be used, as an alias or an id: windows of other models do not count
    #[arg(long)]
    model: Option<Model>,
    /// Name of the piece of work
    #[arg(long)]
    task: Task,
    /// Root of the git worktree to work in
    #[arg(long, value_name = "PATH")]
    workspace: PathBuf,
}

#[derive(Debug, clap::Args)]
struct RecoverArguments {
    /// Name of the piece of work
    #[arg(long)]
    task: Task,
    /// Root of the git worktree it works in
    #[arg(long, value_name = "PATH")]
    workspace: PathBuf,
}

#[derive(Debug, clap::Args)]
struct ListArguments {}

#[derive(Debug, clap::Args)]
struct WatchArguments {}

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
        LeaseCommand::Acquire(arguments) => acquire(app, arguments),
        LeaseCommand::Choose(arguments) => choose::run(app, arguments),
        LeaseCommand::Recover(arguments) => recover(app, &arguments),
        LeaseCommand::List(ListArguments {}) => list(app),
        LeaseCommand::Release(arguments) => release(app, &arguments),
        LeaseCommand::Watch(WatchArguments {}) => watch::run(app),
    }
}

fn reserve(app: &App, request: &Request) -> Result<Outcome> {
    let store = app.store()?;
    let selected = apply::select(
        &app.context,
        &store,
        request,
        Purpose::Reserve,
        &BTreeMap::new(),
    )?;
    app.view(&selected.selection)
}

fn acquire(app: &App, arguments: AcquireArguments) -> Result<Outcome> {
    let registry = snapshot::registry::load(&app.context)?;
    let mut asked = Asked::explicit(&registry, &arguments.profile, arguments.pool)?;
    asked.model = arguments.model;
    let reason = DecisionReason::Explicit;
    reserve(
        app,
        &Request {
            task: arguments.task,
            workspace: arguments.workspace,
            asked,
            reason,
        },
    )
}

fn recover(app: &App, arguments: &RecoverArguments) -> Result<Outcome> {
    let registry = snapshot::registry::load(&app.context)?;
    let store = app.store()?;
    let recorded = conversation::recorded(&app.context, &registry, &arguments.task)?;
    let request = recorded.recovery(&app.context, &store, &arguments.workspace)?;
    reserve(app, &request)
}

fn list(app: &App) -> Result<Outcome> {
    app.view(&listing(app)?)
}

fn listing(app: &App) -> Result<LeaseList> {
    let listing = app.store()?.list()?;
    // Leases are told without a registry too; the homes are known only with one.
    let unleased = snapshot::registry::load(&app.context)
        .map(|registry| inhabitants::all(&registry, &listing.leases))
        .unwrap_or_default();
    Ok(LeaseList {
        leases: listing.leases,
        waiting: queue::list(&app.context)?,
        damaged: listing.damaged,
        unleased,
    })
}

fn release(app: &App, arguments: &ReleaseArguments) -> Result<Outcome> {
    let store = app.store()?;
    let force = if arguments.force {
        Force::Yes
    } else {
        Force::No
    };
    app.view(&match (&arguments.task, arguments.record) {
        (Some(task), _) => {
            let released = store.release(task, force)?;
            let word = match released.verdict {
                Verdict::Alive | Verdict::Orphaned | Verdict::Unknown => audit::lease::FORCED,
                Verdict::Dead | Verdict::Reserved => audit::lease::RELEASED,
            };
            audit::of_lease(&app.context, word, &released);
            aftermath::settle(&app.context, &store);
            LeaseReleased {
                profile: Some(released.profile),
                released: true,
                task: Some(task.as_str().to_owned()),
            }
        }
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
