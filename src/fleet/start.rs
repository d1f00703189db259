//! Launching a worker: everything that happens under the run's lock, and the start of its host after it.
//!
//! What can be refused is refused before anything is written. Then, in this order: the files that the step owns are
//! put on record once, the old report is set aside, the prompt is written for the worker, and the launch, the
//! worker and the intent are made durable. Only then, with the lock given back, the host is started.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use sha2::{Digest as _, Sha256};

use super::admit::Situation;
use super::begin;
use super::board::{Board, Entry, unconfirmed};
use super::exchange::Exchange;
use super::files::{FleetFiles, LaunchFiles, names};
use super::hold;
use super::launch::begin::{Host, environment_digest, start_host, write_down};
use super::launch::{Before, LaunchRecord, boot};
use super::ledger::Kind;
use super::model::{Assignment, Mode, PlannedStep, Role, SCHEMA, StepState, Worker, WorkerState};
use super::reconcile::launch_id;
use super::scope::place;
use super::scope::snapshot::Snapshot;
use super::settings::Settings;
use super::tick;
use super::turn;
use crate::crash_point;
use crate::env::{self, Context};
use crate::error::{Error, Result, code};
use crate::id::ProviderKind;
use crate::id::fleet::WorkerId;
use crate::id::hex;
use crate::registry::project;
use crate::store::directory;

/// Which turn of a worker is launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// A new conversation.
    New,
    /// The next turn of its conversation, on the account that holds it.
    Next,
    /// The same conversation at a person's terminal.
    Taken,
}

/// What is to be launched.
#[derive(Clone, Debug)]
pub struct Order {
    /// The worker.
    pub worker: WorkerId,
    /// What it is there for.
    pub role: Role,
    /// What it is started as.
    pub assignment: Assignment,
    /// New or next.
    pub turn: Turn,
    /// What it is told: the whole prompt.
    pub prompt: String,
    /// For a reviewer: digest of the diff that it judges.
    pub reviewed_diff: Option<String>,
    /// How many queued texts this turn takes.
    pub taken: usize,
}

impl Order {
    /// What its process runs on. A reviewer's last words are its verdict, and come from an output file alone.
    fn mode(&self, step: &PlannedStep) -> Mode {
        match (&self.turn, self.role) {
            (Turn::Taken, _) => Mode::Terminal,
            (Turn::New | Turn::Next, Role::Implementation) => step.mode,
            (Turn::New | Turn::Next, Role::Review) => Mode::Headless,
        }
    }
}

/// A launch that is durable and waits for its host.
#[derive(Debug)]
pub struct Ready {
    /// Whose.
    pub worker: WorkerId,
    files: LaunchFiles,
    token: String,
}

impl Ready {
    /// Starts the host; the run's lock must not be held any more.
    pub fn go(&self, context: &Context) -> Result<Host> {
        start_host(context, &self.files, &self.token)
    }

    /// What the launch leaves behind.
    pub fn files(&self) -> &LaunchFiles {
        &self.files
    }
}

/// Whether a worker may be launched now; refused as [`super::admit::Refused`] says.
#[expect(
    clippy::too_many_arguments,
    reason = "the run, its surroundings, and what is to be launched"
)]
pub fn admit(
    context: &Context,
    board: &Board,
    settings: &Settings,
    step: &PlannedStep,
    worker: &WorkerId,
    role: Role,
    assignment: &Assignment,
    turn: &Turn,
) -> Result<()> {
    if tick::is_over(board) {
        let message = format!(
            "the run `{}` has ended or is being stopped, and launches nothing",
            board.run.id
        );
        return Err(Error::new(code::RUN_OVER, message).hint("agent-fleet fleet status"));
    }
    fits(
        context, board, settings, step, worker, role, assignment, turn,
    )
}

/// The same for a run that may have ended: whether it would be launched if the run went on.
#[expect(
    clippy::too_many_arguments,
    reason = "the run, its surroundings, and what is to be launched"
)]
pub fn fits(
    context: &Context,
    board: &Board,
    settings: &Settings,
    step: &PlannedStep,
    worker: &WorkerId,
    role: Role,
    assignment: &Assignment,
    turn: &Turn,
) -> Result<()> {
    require_registered(context, &board.run.repository, assignment.provider)?;
    let files = FleetFiles::new(context);
    let other = unconfirmed(&files, &board.files.repository, &board.files.id)?;
    if let Some((run, name)) = other {
        return Err(begin::active(&run, &name));
    }
    let now = context.clock.now();
    let known = board.workers.get(worker);
    // A limit is one account's: a new conversation goes to another, or to another of the tier. It waits only when the
    // broker put off the same wish.
    let around = known.is_some_and(|known| {
        known.assignment != *assignment
            || (known.state != WorkerState::Exited && *turn == Turn::New)
    });
    let holds = hold::in_force(&files, now)?;
    let situation = Situation {
        plan: board.plan()?,
        progress: &board.progress,
        workers: &board.workers,
        damaged: board.damaged.keys().collect(),
        corrupt: board.ledger.corrupt,
        hold: hold::stopping(&holds, &board.files.repository, &board.run.id, &step.id),
        options: &board.run.options,
        most_of: &most_of(settings),
        waits: !around,
        case: place::case(&board.run.repository),
        now,
    };
    situation.admit(step, worker, role, assignment.provider)?;
    Ok(())
}

/// Refuses with `workspace_untrusted` unless the checkout is registered for workers of a provider: the broker would refuse
/// the launch after everything was made for it.
pub fn require_registered(
    context: &Context,
    root: &Utf8Path,
    provider: ProviderKind,
) -> Result<()> {
    let registry = crate::snapshot::registry::load(context)?;
    project::workspace(context, &registry, provider, root.as_std_path()).map(drop)
}

/// Makes a launch durable. The board is held and reconciled, and the worker was admitted.
pub fn prepare(
    context: &Context,
    board: &mut Board,
    step: &PlannedStep,
    order: Order,
) -> Result<Ready> {
    refuse_inside(context)?;
    let workspace = board.workspace(context, step);
    let exchange = Exchange::new(&workspace, &board.run.id);
    let known = board.workers.get(&order.worker).cloned();
    let number = next_number(board, &order.worker, known.as_ref())?;
    let token = uuid::Uuid::new_v4().simple().to_string();
    let prompt = exchange.prompt(&order.worker, number);
    if order.role == Role::Implementation && !step.worktree {
        Snapshot::take(
            &board.run.repository,
            &step.files,
            &board.files.snapshot(&step.id),
        )?;
    }
    if order.turn != Turn::Taken {
        exchange.set_aside(&order.worker, &token)?;
    }
    if order.turn != Turn::Taken
        && let Some(parent) = workspace.join(exchange.report(&order.worker)).parent()
    {
        exchange.write(&prompt, order.prompt.as_bytes())?;
        directory::ensure(parent)?;
    }
    let mut progress = board.progress_of(&step.id);
    let files = board.files.launch(&order.worker, number);
    let task = board.task(&order.worker)?;
    let launch = LaunchRecord {
        schema: SCHEMA,
        worker: order.worker.clone(),
        number,
        token: token.clone(),
        arguments: arguments(
            context,
            &order,
            step,
            &workspace,
            &files,
            &token,
            task.as_str(),
            &prompt,
        )?,
        workspace,
        prompt_digest: hex(&Sha256::digest(order.prompt.as_bytes())),
        environment_digest: environment_digest(context),
        at: context.clock.now(),
        boot: boot()?,
        mode: order.mode(step),
        before: (order.turn == Turn::Taken).then(|| Before {
            state: progress.state,
            reason: progress.reason.clone(),
        }),
    };
    directory::establish(files.events())?;
    write_down(&files, &launch)?;
    let mut taken = known
        .as_ref()
        .map_or_else(Vec::new, |known| known.queue.clone());
    let queue = taken.split_off(order.taken.min(taken.len()));
    // An alternative is tried while the first choice is waited for: whichever is free first goes on.
    let held_until = known
        .as_ref()
        .filter(|known| known.assignment != order.assignment)
        .and_then(|known| known.held_until);
    let worker = Worker {
        schema: SCHEMA,
        name: order.worker.clone(),
        role: order.role,
        step: step.id.clone(),
        task,
        mode: match order.role {
            Role::Implementation => step.mode,
            Role::Review => Mode::Headless,
        },
        state: WorkerState::Launching,
        reason: None,
        launch: number,
        token: token.clone(),
        session: match order.turn {
            Turn::New => None,
            Turn::Next | Turn::Taken => known.as_ref().and_then(|worker| worker.session.clone()),
        },
        profile: known.as_ref().and_then(|worker| worker.profile.clone()),
        held_until,
        reviewed_diff: order.reviewed_diff,
        queue,
        taken,
        assignment: order.assignment,
    };
    let intent = launch_id(&worker);
    board.save_worker(worker)?;
    crash_point!("start.worker");
    board.note(
        context,
        Entry {
            id: intent,
            kind: Kind::Intent,
            verb: "launch",
            target: order.worker.as_str(),
            of: None,
            reason: None,
        },
    )?;
    progress.state = match order.role {
        Role::Implementation => StepState::Running,
        Role::Review => StepState::Checking,
    };
    progress.reason = None;
    board.save_progress(&step.id, progress)?;
    crash_point!("start.prepared");
    Ok(Ready {
        worker: order.worker,
        files,
        token,
    })
}

/// The number after every launch of the worker that was ever written down.
fn next_number(board: &Board, worker: &WorkerId, known: Option<&Worker>) -> Result<u32> {
    let written = names(&board.files.directory.join("launches"))?
        .iter()
        .filter_map(|name| {
            name.strip_prefix(worker.as_str())?
                .strip_prefix('.')?
                .parse()
                .ok()
        })
        .max()
        .unwrap_or(0);
    Ok(written.max(known.map_or(0, |worker| worker.launch)) + 1)
}

/// A worker of a fleet neither launches nor steers: what it may do is in its own workspace.
pub fn refuse_inside(context: &Context) -> Result<()> {
    let label = format!("{}FLEET_TOKEN", env::LABEL_PREFIX);
    match context.variables.text(&label) {
        Some(_) => Err(Error::new(
            code::NESTED,
            "this is a worker of a fleet, and only its lead may launch and steer workers",
        )
        .hint("agent-fleet which")),
        None => Ok(()),
    }
}

#[expect(clippy::too_many_arguments, reason = "each is one word of the command")]
fn arguments(
    context: &Context,
    order: &Order,
    step: &PlannedStep,
    workspace: &Utf8Path,
    files: &LaunchFiles,
    token: &str,
    task: &str,
    prompt: &Utf8PathBuf,
) -> Result<Vec<String>> {
    let mut words: Vec<String> = Vec::new();
    let mut add = |list: &[&str]| words.extend(list.iter().map(|word| (*word).to_owned()));
    match order.turn {
        Turn::New => add(&[
            "exec",
            "--task",
            task,
            "--pool",
            order.assignment.pool.as_str(),
            "--provider",
            order.assignment.provider.name(),
        ]),
        Turn::Next | Turn::Taken => add(&["resume", "--task", task]),
    }
    add(&["--workspace", workspace.as_str()]);
    // The lead may be a leased worker itself; its own task is another one.
    if context.variables.text(env::TASK_ID).is_some() {
        add(&["--nested"]);
    }
    add(&["--label", &format!("FLEET_TOKEN={token}")]);
    add(&["--receipt", files.receipt().as_str()]);
    add(&["--events", files.events().as_str()]);
    add(&["--"]);
    let pointer = turn::pointer(prompt.as_str(), &order.worker);
    // A person who takes a worker over types what it is told.
    let pointer = (order.turn != Turn::Taken).then_some(pointer.as_str());
    for word in turn::arguments(&order.assignment, order.mode(step), pointer) {
        let word = word
            .into_string()
            .map_err(|_| Error::internal("an argument of ours is not text"))?;
        words.push(word);
    }
    Ok(words)
}

fn most_of(settings: &Settings) -> BTreeMap<ProviderKind, u32> {
    let most = settings
        .providers
        .iter()
        .map(|(kind, rules)| (*kind, rules.max));
    most.collect()
}
