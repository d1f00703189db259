//! The command line: arguments, one call into the domain, a view.
//!
//! A command's file holds its arguments, their help text and one call; this one holds what all commands
//! share. `format` finds the output format before the command line is understood, `output` is the only
//! writer to stdout and the only place where an error becomes text and an exit status, `bug` turns a
//! panic into an error.

mod audit;
mod bug;
mod choose;
mod completions;
mod config;
mod contract;
mod demo;
mod doctor;
mod fleet;
mod format;
mod hook;
mod init;
mod launch;
mod lease;
mod man;
mod output;
mod pool;
mod profile;
mod project;
mod providers;
mod quota;
mod reasons;
mod screen;
mod scripted_agent;
mod session;
mod status;
mod statusline;
mod transaction;
mod usage;
mod version;
mod watch;
mod which;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand, ValueEnum};

use crate::clock::ROUTINE;
use crate::env::{Context, World};
use crate::error::{Error, Result};
use crate::id::{ProfileId, ProviderKind};
use crate::lease::TableStore;
use crate::registry::validate::Diagnostic;
use crate::render::{Format, View};
use crate::store::owner;
use crate::transaction::pending;
use crate::withheld::withhold;
use output::Output;

/// Gives each coding-agent worker exactly one of your own accounts.
#[derive(Debug, Parser)]
#[command(
    name = "agent-fleet",
    version,
    disable_help_subcommand = true,
    propagate_version = true
)]
struct Arguments {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// Flags of every command, before or after it.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Global {
    /// Registry to use instead of the default
    #[arg(
        long,
        global = true,
        value_name = "PATH",
        help_heading = "Global options"
    )]
    config: Option<PathBuf>,
    /// json, toon or human; default `$AGENT_FLEET_FORMAT`, else human on a terminal, else json
    #[arg(
        long,
        global = true,
        value_name = "FORMAT",
        ignore_case = true,
        hide_possible_values = true,
        help_heading = "Global options"
    )]
    format: Option<FormatName>,
    /// `class`: a refusal exits with the number of its class instead of 2
    #[arg(
        long,
        global = true,
        value_name = "KIND",
        hide_possible_values = true,
        help_heading = "Global options"
    )]
    exit_codes: Option<ExitCodes>,
    /// Say less on stderr
    #[arg(
        long,
        short,
        global = true,
        conflicts_with = "verbose",
        help_heading = "Global options"
    )]
    quiet: bool,
    /// Say more: an error for people shows its details
    #[arg(long, short, global = true, help_heading = "Global options")]
    verbose: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FormatName {
    Json,
    Toon,
    Human,
}

impl FormatName {
    fn format(self) -> Format {
        match self {
            Self::Json => Format::Json,
            Self::Toon => Format::Toon,
            Self::Human => Format::Human,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ExitCodes {
    /// Every refusal exits 2
    Flat,
    /// A refusal exits with the number of its class
    Class,
}

// Deferred, here and in every command with verbs: the arguments of a command are put together only when it
// is the one that was typed, which halves what a run costs before it begins.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
enum Command {
    /// Show the whole path in a throw-away world, without an account
    Demo(demo::DemoArguments),
    /// Write the first registry: installed CLIs pinned, profiles to log in to
    Init(init::InitArguments),
    /// Manage the git worktrees that may host workers
    Project(project::ProjectArguments),
    /// Manage the profiles: one account each, with its own home
    Profile(profile::ProfileArguments),
    /// Who is free, who is blocked until when, what runs, and what to type next
    Status(status::StatusArguments),
    /// Check everything, say what is wrong and what to type; offline without --probe
    Doctor(doctor::DoctorArguments),
    /// Start a worker here, for a person at a terminal
    Run(launch::RunArguments),
    /// Lease one profile and become the provider's CLI on it
    Exec(launch::ExecArguments),
    /// Continue a task's conversation under the profile that holds it
    Resume(launch::ResumeArguments),
    /// Show which profile would be chosen, and why not the others
    Choose(choose::ChooseArguments),
    /// Reserve an account for a task, give it back, see who holds which
    Lease(lease::LeaseArguments),
    /// Run plans of work on leased workers
    Fleet(fleet::FleetArguments),
    /// What happened, and which command did it
    Audit(audit::AuditArguments),
    /// Which conversation continues a task
    #[command(subcommand)]
    Session(session::SessionCommand),
    /// Changes of a login that were cut short
    #[command(subcommand)]
    Transaction(transaction::TransactionCommand),
    /// What the pools could take now
    Pool(pool::PoolArguments),
    /// What is left of each account's quota
    Quota(quota::QuotaArguments),
    /// What the reason words in answers mean, and what to type
    Reasons(reasons::ReasonsArguments),
    /// Inside a worker: who it is
    Which(which::WhichArguments),
    /// Read and change the settings of the registry
    Config(config::ConfigArguments),
    /// Which providers are configured, and how
    Providers(providers::ProvidersArguments),
    /// Version of the program and of its contract
    Version(version::VersionArguments),
    /// Print what programs may rely on: formats, fields, commands, or the JSON Schema
    Contract(contract::ContractArguments),
    /// Print the completion script of a shell
    Completions(completions::CompletionsArguments),
    /// Print the manual page of the program or of one command
    Man(man::ManArguments),
    /// Record an event of a worker; called by the provider CLIs
    Hook(hook::HookArguments),
    /// Print Claude's status line; called by Claude Code
    Statusline(statusline::StatuslineArguments),
    /// The built-in provider's agent; started by exec, not by people
    #[command(name = scripted_agent::VERB, hide = true)]
    ScriptedAgent(scripted_agent::AgentArguments),
}

/// What a command did.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// An answer for stdout.
    View(View),
    /// An answer that says that not all was done, with its exit status.
    Unmet(View, u8),
    /// Text for stdout that is the same in every format.
    Text(String),
    /// Everything was said already; this is the exit status.
    Done(u8),
    /// A refusal with an exit status of the caller's choice.
    Refused(Error, u8),
}

/// What every command gets.
#[derive(Debug)]
pub(crate) struct App {
    /// The world, resolved.
    pub context: Context,
    /// Chosen output format.
    pub format: Format,
    /// Whether notes on stderr are wanted.
    pub quiet: bool,
}

impl App {
    fn new(world: &World, global: &Global, format: Format) -> Result<Self> {
        let context = Context::resolve(world, global.config.as_deref())?;
        Ok(Self {
            context,
            format,
            quiet: global.quiet,
        })
    }

    /// The view of an answer at this moment.
    pub(crate) fn view<T: serde::Serialize + crate::render::Human>(
        &self,
        answer: &T,
    ) -> Result<Outcome> {
        View::new(answer, self.context.clock.now(), self.format).map(Outcome::View)
    }

    /// The same, with an exit status: for an answer that says whether all was done.
    pub(crate) fn view_with<T: serde::Serialize + crate::render::Human>(
        &self,
        answer: &T,
        status: u8,
    ) -> Result<Outcome> {
        let view = View::new(answer, self.context.clock.now(), self.format)?;
        Ok(match status {
            0 => Outcome::View(view),
            status => Outcome::Unmet(view, status),
        })
    }

    /// The lease store; its locks are waited for as long as a routine verb may take.
    pub(crate) fn store(&self) -> Result<TableStore> {
        TableStore::open(&self.context, self.context.clock.deadline(ROUTINE))
    }

    /// Tells the person on stderr which keys of the registry have no effect.
    pub(crate) fn notes(&self, notes: &[Diagnostic]) {
        for found in notes {
            let path = &self.context.roots.config;
            self.note(&format!(
                "note: {path}:{}:{}: {}",
                found.line, found.column, found.message
            ));
        }
    }

    /// Lets pass when no change of a login of the provider is pending, after taking back what was cut short.
    pub(crate) fn fence(&self, kind: ProviderKind) -> Result<()> {
        for recovered in pending::fence(&self.context, kind)? {
            self.note(&format!("note: {}", recovered.told()));
        }
        Ok(())
    }

    /// Takes back what was cut short with these providers, so that the logins in force are told of. What cannot be
    /// taken back is said, and does not keep the rest from being told.
    pub(crate) fn recover(&self, kinds: &BTreeSet<ProviderKind>) -> Result<()> {
        for kind in pending::fenced(&self.context)?.intersection(kinds) {
            if let Err(error) = self.fence(*kind) {
                let next = error.hint.as_deref().unwrap_or("agent-fleet doctor");
                self.note(&format!("note: {}; next: {next}", error.message));
            }
        }
        Ok(())
    }

    /// Says something to the person on stderr.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            // Nobody may be listening.
            drop(writeln!(anstream::stderr(), "{}", withhold(text)));
        }
    }
}

/// The whole command line as clap knows it: what completions, manual pages and `docs/cli.md` are made of.
pub fn definition() -> clap::Command {
    let mut command = Arguments::command();
    command.build();
    command
}

/// Runs one command line to its exit status.
pub fn run(world: &World) -> ExitCode {
    if let Some(words) = hook::words(world) {
        return hook::answer(world, words);
    }
    if let Some(arguments) = statusline::words(world) {
        return statusline::answer(world, &arguments);
    }
    bug::install_hook();
    let mut output = Output::before_arguments(world);
    let arguments = match Arguments::try_parse_from(&world.arguments) {
        Ok(arguments) => arguments,
        Err(error) => return usage::answer(error, world, &output),
    };
    let global = arguments.global;
    let outcome = output
        .settle(world, &global)
        .and_then(|()| App::new(world, &global, output.format));
    let outcome = match outcome {
        Ok(app) => {
            output.now = app.context.clock.now();
            let outcome = bug::guard(&app.context, || dispatch(world, &app, arguments.command));
            let refusal = outcome.as_ref().err();
            crate::audit::command(&app.context, refusal, || subject(world));
            outcome
        }
        Err(refusal) => usage::told(world, refusal),
    };
    output.finish(outcome)
}

/// The profile that a command was given as its own argument.
fn subject(world: &World) -> Option<ProfileId> {
    let matches = Arguments::command()
        .try_get_matches_from(&world.arguments)
        .ok()?;
    let mut innermost = &matches;
    while let Some((_, below)) = innermost.subcommand() {
        innermost = below;
    }
    innermost.try_get_one("id").ok()?.cloned()
}

/// Whether a command believes nothing that is on the disk.
fn believes_nothing(command: &Command) -> bool {
    matches!(
        command,
        Command::Completions(_)
            | Command::Contract(_)
            | Command::Demo(_)
            | Command::Hook(_)
            | Command::Man(_)
            | Command::Reasons(_)
            | Command::ScriptedAgent(_)
            | Command::Statusline(_)
            | Command::Version(_)
    )
}

fn dispatch(world: &World, app: &App, command: Command) -> Result<Outcome> {
    if !believes_nothing(&command) {
        owner::roots(&app.context.roots)?;
    }
    match command {
        Command::Audit(arguments) => audit::run(app, &arguments),
        Command::Choose(arguments) => choose::run(app, arguments),
        Command::Completions(arguments) => completions::run(&arguments),
        Command::Config(arguments) => config::run(app, &arguments),
        Command::Contract(arguments) => contract::run(app, &arguments),
        Command::Demo(arguments) => demo::run(app, &arguments),
        Command::Doctor(arguments) => doctor::run(app, &arguments),
        Command::Exec(arguments) => launch::exec(app, arguments),
        Command::Fleet(arguments) => fleet::run(app, arguments),
        Command::Init(arguments) => init::run(app, &arguments),
        Command::Lease(arguments) => lease::run(app, arguments),
        Command::Man(arguments) => man::run(&arguments),
        Command::Resume(arguments) => launch::resume(app, arguments),
        Command::Run(arguments) => launch::run(app, arguments),
        Command::ScriptedAgent(arguments) => Ok(scripted_agent::run(app, &arguments)),
        Command::Pool(arguments) => pool::run(app, &arguments),
        Command::Profile(arguments) => profile::run(app, arguments),
        Command::Project(arguments) => project::run(app, &arguments),
        Command::Providers(arguments) => providers::run(app, &arguments),
        Command::Quota(arguments) => quota::run(app, &arguments),
        Command::Reasons(arguments) => reasons::run(app, &arguments),
        Command::Hook(arguments) => Ok(hook::run(world, arguments)),
        Command::Session(command) => session::run(app, command),
        Command::Status(arguments) => status::run(app, &arguments),
        Command::Statusline(arguments) => Ok(statusline::run(world, &arguments)),
        Command::Transaction(command) => transaction::run(app, &command),
        Command::Version(arguments) => version::run(app, arguments),
        Command::Which(arguments) => which::run(app, &arguments),
    }
}
