//! `agent-fleet fleet …`: a plan of work on leased workers.

mod hidden;
mod history;
mod hold;
mod init;
mod judge;
mod launch;
mod list;
mod live;
mod logs;
mod look;
mod plan;
mod prompt;
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
use crate::error::{Error, Result, code};
use crate::fleet::board::Board;
use crate::fleet::files::RunFiles;
use crate::fleet::locate::Place;
use crate::fleet::prompt::Templates;
use crate::fleet::settings::{self, Settings};
use crate::fleet::show;
use crate::fleet::start::refuse_inside;
use crate::fleet::tick::{Aim, tick};
use crate::id::fleet::RunId;
use crate::registry::schema::Registry;
use crate::store::read;
use crate::sys::shell;

#[derive(Debug, clap::Args)]
pub(super) struct FleetArguments {
    #[command(subcommand)]
    command: FleetCommand,
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
enum FleetCommand {
    /// Look on while a worker is at work: the provider's screen in terminal mode, else the transcript
    Attach(logs::AttachArguments),
    /// Which launches there were, on which account, and how they ended
    History(history::HistoryArguments),
    /// The runs of this checkout, the newest first
    List(list::ListArguments),
    /// What a worker said and did
    Logs(logs::LogsArguments),
    /// The last lines of what a worker said and did, or of its screen now
    Peek(logs::PeekArguments),
    /// Begin a run without a plan
    Init(init::InitArguments),
    /// Give a run its plan, or show what a plan would do
    Plan(plan::PlanArguments),
    /// Add steps to a run
    Add(plan::AddArguments),
    /// Take a step out of a run
    Drop(plan::DropArguments),
    /// Say what later launches of a step use
    Steer(plan::SteerArguments),
    /// Prepare or print what a step's worker is told
    Prompt(prompt::PromptArguments),
    /// Launch a step, its reviewer, or whatever is ready
    Launch(launch::LaunchArguments),
    /// Accept a step as it is now, with evidence
    Verify(judge::VerifyArguments),
    /// Whether somebody committed or staged since the run began
    Check(judge::CheckArguments),
    /// What a step changed
    Diff(judge::DiffArguments),
    /// Bring a verified step's worktree to the checkout
    Merge(judge::MergeArguments),
    /// Hold launches
    Hold(hold::HoldArguments),
    /// Let held launches go on
    Release(hold::ReleaseArguments),
    /// What is settled for fleets here
    Providers,
    /// Why a fleet does not work here
    Doctor,
    /// The page that teaches a coding agent to lead a fleet
    Skill(look::SkillArguments),
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

impl FleetCommand {
    /// Whether a worker of a fleet may type it: it only looks, or is how a launch runs.
    fn is_open_to_workers(&self) -> bool {
        if let Self::Attach(arguments) = self {
            return arguments.only_looks();
        }
        matches!(
            self,
            Self::History(_)
                | Self::List(_)
                | Self::Logs(_)
                | Self::Peek(_)
                | Self::Status(_)
                | Self::Event(_)
                | Self::Providers
                | Self::Doctor
                | Self::Check(_)
                | Self::Host(_)
                | Self::Turn(_)
        )
    }
}

// Which run is meant; a documentation comment would become the description of every command that takes it.
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

/// Brings a run up to date that a command changed, and shows it.
fn settled(app: &App, files: &RunFiles, ground: &Ground) -> Result<Outcome> {
    let context = &app.context;
    let Ground {
        settings,
        templates,
        ..
    } = ground;
    tick(context, files, settings, templates, Aim::Settle)?;
    app.view(&show::status(context, &Board::look(files)?)?)
}

/// The text of a file that a person named.
fn text_of(app: &App, file: &std::path::Path) -> Result<String> {
    let path = crate::registry::project::absolute(&app.context, file)?;
    let show = format!("ls -l {}", shell::quote(path.as_str()));
    let Some(bytes) = read::optional(&path)? else {
        let message = format!("there is no file `{path}`");
        return Err(Error::new(code::NOT_FOUND, message).hint(show));
    };
    String::from_utf8(bytes).map_err(|_| {
        let message = format!("the text of `{path}` is not UTF-8");
        Error::new(code::USAGE, message).hint(show)
    })
}

pub(super) fn run(app: &App, arguments: FleetArguments) -> Result<Outcome> {
    if !arguments.command.is_open_to_workers() {
        refuse_inside(&app.context)?;
    }
    match arguments.command {
        FleetCommand::Recover(arguments) => recover::run(app, &arguments),
        FleetCommand::Resume(arguments) => resume::run(app, &arguments),
        FleetCommand::Attach(arguments) => logs::attach(app, arguments),
        FleetCommand::History(arguments) => history::run(app, &arguments),
        FleetCommand::List(arguments) => list::run(app, &arguments),
        FleetCommand::Logs(arguments) => logs::logs(app, arguments),
        FleetCommand::Peek(arguments) => logs::peek(app, &arguments),
        FleetCommand::Init(arguments) => init::run(app, arguments),
        FleetCommand::Plan(arguments) => plan::run(app, &arguments),
        FleetCommand::Add(arguments) => plan::add(app, &arguments),
        FleetCommand::Drop(arguments) => plan::drop_step(app, &arguments),
        FleetCommand::Steer(arguments) => plan::steer(app, &arguments),
        FleetCommand::Prompt(arguments) => prompt::run(app, &arguments),
        FleetCommand::Launch(arguments) => launch::run(app, &arguments),
        FleetCommand::Verify(arguments) => judge::verify(app, &arguments),
        FleetCommand::Check(arguments) => judge::check(app, &arguments),
        FleetCommand::Diff(arguments) => judge::diff(app, &arguments),
        FleetCommand::Merge(arguments) => judge::merge(app, &arguments),
        FleetCommand::Hold(arguments) => hold::hold(app, &arguments),
        FleetCommand::Release(arguments) => hold::release(app, &arguments),
        FleetCommand::Providers => look::providers(app),
        FleetCommand::Doctor => look::doctor(app),
        FleetCommand::Skill(arguments) => look::skill(app, &arguments),
        FleetCommand::Run(arguments) => run::run(app, &arguments),
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
