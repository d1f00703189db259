//! `agent-fleet fleet …`: a plan of work on leased workers.

mod hidden;
mod history;
mod list;
mod live;
mod logs;
mod recover;
mod resume;
mod run;
mod send;
mod status;
mod stop;
mod take;
mod wait;

use camino::Utf8PathBuf;
use clap::Subcommand;

use super::{App, Outcome};
use crate::error::Result;
use crate::fleet::locate::Place;
use crate::fleet::prompt::Templates;
use crate::fleet::settings::{self, Settings};
use crate::id::fleet::RunId;
use crate::registry::schema::Registry;

#[derive(Debug, clap::Args)]
pub(super) struct FleetArguments {
    #[command(subcommand)]
    command: FleetCommand,
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
enum FleetCommand {
    /// Look on while a worker is at work
    Attach(logs::AttachArguments),
    /// Which launches there were, on which account, and how they ended
    History(history::HistoryArguments),
    /// The runs of this checkout, the newest first
    List(list::ListArguments),
    /// What a worker said and did
    Logs(logs::LogsArguments),
    /// The last lines of what a worker said and did
    Peek(logs::PeekArguments),
    /// Run a plan, or one step given in words, until nothing is left to do
    Run(run::RunArguments),
    /// Give a worker up that is gone, on your word, where nothing else can tell
    Recover(recover::RecoverArguments),
    /// Bring a run up to date and show what to do next; launches nothing without --go
    Resume(resume::ResumeArguments),
    /// Tell a worker something: its next turn
    Send(send::SendArguments),
    /// Where a run's steps and workers stand
    Status(status::StatusArguments),
    /// End workers, or a whole run; waits while a login is being refreshed
    Stop(stop::StopArguments),
    /// Take a worker's conversation over at this terminal; leaving it gives the worker back
    Take(take::TakeArguments),
    /// Wait until something happens that a lead should know; exits 3 when nothing does in time
    Wait(wait::WaitArguments),
    /// Runs the program of an event; started by whoever wrote the event down, not by people
    #[command(name = crate::fleet::notify::VERB, hide = true)]
    Event(hidden::EventArguments),
    /// The host of a running turn; started by launches, not by people
    #[command(name = crate::fleet::launch::begin::HOST_VERB, hide = true)]
    Host(hidden::LaunchDirectory),
    /// What becomes a worker; started by its host
    #[command(name = crate::fleet::launch::begin::TURN_VERB, hide = true)]
    Turn(hidden::LaunchDirectory),
}

/// Which run is meant.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Which {
    /// The run; default the one of this checkout that is not over, else the newest
    #[arg(long, value_name = "RUN")]
    run: Option<RunId>,
}

/// What commands that launch need besides the run.
#[derive(Debug)]
pub(super) struct Ground {
    /// The registry.
    registry: Registry,
    /// What is settled for the checkout.
    settings: Settings,
    /// What prompts are made from.
    templates: Templates,
}

impl Ground {
    fn of(app: &App, place: &Place) -> Result<Self> {
        Self::at(app, &place.root)
    }

    fn at(app: &App, root: &Utf8PathBuf) -> Result<Self> {
        let registry = crate::snapshot::registry::load(&app.context)?;
        let settings = settings::load(&app.context, &registry, root)?;
        let templates = Templates::load(&app.context, root)?;
        Ok(Self {
            registry,
            settings,
            templates,
        })
    }
}

pub(super) fn run(app: &App, arguments: FleetArguments) -> Result<Outcome> {
    match arguments.command {
        FleetCommand::Recover(arguments) => recover::run(app, &arguments),
        FleetCommand::Resume(arguments) => resume::run(app, &arguments),
        FleetCommand::Attach(arguments) => logs::attach(app, arguments),
        FleetCommand::History(arguments) => history::run(app, &arguments),
        FleetCommand::List(arguments) => list::run(app, &arguments),
        FleetCommand::Logs(arguments) => logs::logs(app, arguments),
        FleetCommand::Peek(arguments) => logs::peek(app, &arguments),
        FleetCommand::Run(arguments) => run::run(app, arguments),
        FleetCommand::Send(arguments) => send::run(app, &arguments),
        FleetCommand::Status(arguments) => status::run(app, &arguments),
        FleetCommand::Stop(arguments) => stop::run(app, &arguments),
        FleetCommand::Take(arguments) => take::run(app, &arguments),
        FleetCommand::Wait(arguments) => wait::run(app, arguments),
        FleetCommand::Event(arguments) => hidden::event(app, &arguments),
        FleetCommand::Host(directory) => hidden::host(app, directory),
        FleetCommand::Turn(directory) => hidden::turn(app, directory),
    }
}
