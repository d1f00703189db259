//! The command line: arguments, one call into the domain, a view.

mod version;

use std::ffi::OsString;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

use crate::env::{self, Context, World};
use crate::error::{Class, Error, Result, code};
use crate::render::{Format, View, error_text};

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
    #[arg(long, global = true, value_name = "PATH")]
    config: Option<PathBuf>,
    /// Output format; default `$AGENT_FLEET_FORMAT`, else human on a terminal, else json
    #[arg(long, global = true, value_name = "FORMAT")]
    format: Option<FormatName>,
    /// `class` makes refusals exit with the number of their class
    #[arg(long, global = true, value_name = "KIND", hide = true)]
    exit_codes: Option<ExitCodes>,
    /// Say less on stderr
    #[arg(long, short, global = true)]
    quiet: bool,
    /// Say more on stderr
    #[arg(long, short, global = true)]
    verbose: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FormatName {
    Json,
    Toon,
    Human,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ExitCodes {
    Class,
    Flat,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Version of the program and of its contract
    Version(version::VersionArguments),
}

/// What a command did.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// An answer for stdout.
    View(View),
    /// Everything was said already; this is the exit status.
    Done(u8),
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
    /// The view of an answer at this moment.
    pub(crate) fn view<T: serde::Serialize + crate::render::Human>(
        &self,
        answer: &T,
    ) -> Result<Outcome> {
        View::new(answer, self.context.clock.now()).map(Outcome::View)
    }

    /// Says something to the person on stderr.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            // Nobody may be listening.
            drop(writeln!(anstream::stderr(), "{text}"));
        }
    }
}

/// Runs one command line to its exit status.
pub fn run(world: &World) -> ExitCode {
    let wanted = wanted_format(world);
    match Arguments::try_parse_from(&world.arguments) {
        Ok(arguments) => {
            let format = match arguments.global.format {
                Some(name) => format_of(name),
                None => wanted,
            };
            let outcome = App::new(world, &arguments.global, format)
                .and_then(|app| dispatch(&app, arguments.command));
            finish(world, &arguments.global, format, outcome)
        }
        Err(error) => usage(&error, world, wanted),
    }
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
}

fn dispatch(app: &App, command: Command) -> Result<Outcome> {
    match command {
        Command::Version(arguments) => version::run(app, arguments),
    }
}

fn finish(world: &World, global: &Global, format: Format, outcome: Result<Outcome>) -> ExitCode {
    match outcome.and_then(|outcome| match outcome {
        Outcome::View(view) => Ok((view.text(format)?, 0)),
        Outcome::Done(status) => Ok((String::new(), status)),
    }) {
        Ok((text, status)) => {
            emit(&text);
            ExitCode::from(status)
        }
        Err(error) => {
            emit_error(&error, format);
            let by_class = match global.exit_codes {
                Some(kind) => kind == ExitCodes::Class,
                None => world.variables.text(env::EXIT_CODES) == Some("class"),
            };
            ExitCode::from(status(&error, by_class))
        }
    }
}

/// The exit status of a refusal: 2, or 1 for a bug, or the number of the class where that was asked for.
fn status(error: &Error, by_class: bool) -> u8 {
    match error.code.class {
        Class::Internal => 1,
        class @ (Class::Refused
        | Class::Capacity
        | Class::Identity
        | Class::Busy
        | Class::System) => {
            if by_class {
                class.status()
            } else {
                2
            }
        }
    }
}

/// People read an error on stderr; programs read it on stdout.
fn emit_error(error: &Error, format: Format) {
    let text = error_text(error, format);
    match format {
        Format::Human => drop(write!(anstream::stderr(), "{text}")),
        Format::Json | Format::Toon => emit(&text),
    }
}

/// Writes to stdout; a reader that went away is not an error.
fn emit(text: &str) {
    drop(anstream::stdout().write_all(text.as_bytes()));
}

fn format_of(name: FormatName) -> Format {
    match name {
        FormatName::Json => Format::Json,
        FormatName::Toon => Format::Toon,
        FormatName::Human => Format::Human,
    }
}

/// The format before the command line is understood, so that usage errors can use it too.
fn wanted_format(world: &World) -> Format {
    let named = |name: &str| FormatName::from_str(name, true).ok().map(format_of);
    let mut arguments = world
        .arguments
        .iter()
        .skip(1)
        .take_while(|argument| *argument != "--");
    let mut found = None;
    while let Some(argument) = arguments.next() {
        let Some(text) = argument.to_str() else {
            continue;
        };
        if text == "--format" {
            found = arguments
                .next()
                .and_then(|value| value.to_str())
                .and_then(named)
                .or(found);
        } else if let Some(value) = text.strip_prefix("--format=") {
            found = named(value).or(found);
        }
    }
    found
        .or_else(|| world.variables.text(env::FORMAT).and_then(named))
        .unwrap_or_else(|| {
            if std::io::stdout().is_terminal() {
                Format::Human
            } else {
                Format::Json
            }
        })
}

fn usage(error: &clap::Error, world: &World, format: Format) -> ExitCode {
    use clap::error::ErrorKind;
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        emit(&error.render().ansi().to_string());
        return ExitCode::SUCCESS;
    }
    if format == Format::Human {
        drop(write!(anstream::stderr(), "{}", error.render().ansi()));
    } else {
        let text = error.render().to_string();
        let sentence = text
            .lines()
            .next()
            .unwrap_or_default()
            .trim_start_matches("error: ")
            .to_owned();
        emit_error(
            &Error::new(code::USAGE, sentence).hint(help_for(&world.arguments)),
            format,
        );
    }
    ExitCode::from(2)
}

fn help_for(arguments: &[OsString]) -> String {
    let words: Vec<&str> = arguments
        .iter()
        .skip(1)
        .map_while(|word| word.to_str())
        .take_while(|word| {
            word.bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'-')
                && !word.starts_with('-')
        })
        .take(2)
        .collect();
    if words.is_empty() {
        "agent-fleet --help".to_owned()
    } else {
        format!("agent-fleet {} --help", words.join(" "))
    }
}
