//! Help, and command lines that could not be understood.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::Outcome;
use super::launch::Wishes;
use super::output::{Output, say};
use crate::env::{Context, World};
use crate::error::{Error, Result, code};
use crate::render::Format;
use crate::withheld::withhold;

/// Answers what clap stopped at: help and version on stdout with success, all else as a refusal.
pub(super) fn answer(mut error: clap::Error, world: &World, output: &Output) -> ExitCode {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        return match say(&error.render().ansi().to_string()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => output.fail(&error),
        };
    }
    // Called by a provider's CLI, whatever the words: its turn must not stop at our refusal.
    if command_words(&world.arguments).first() == Some(&"hook") {
        return ExitCode::SUCCESS;
    }
    forget_machines(&mut error);
    if output.format == Format::Human {
        let plain = error.render().to_string();
        let said = match withhold(&plain) {
            Cow::Borrowed(_) => error.render().ansi().to_string(),
            Cow::Owned(rest) => rest,
        };
        // Nobody may be listening.
        drop(write!(anstream::stderr(), "{said}"));
    }
    let refusal = Error::new(code::USAGE, sentence(&error)).hint(hint(&error, &world.arguments));
    let told = told(world, refusal);
    match (output.format, told) {
        (Format::Human, Ok(Outcome::Refused(_, status))) => ExitCode::from(status),
        (Format::Human, _) => ExitCode::from(2),
        (Format::Json | Format::Toon, told) => output.finish(told),
    }
}

/// A refusal that came before any command ran, told as a launch was asked to tell it.
pub(super) fn told(world: &World, refusal: Error) -> Result<Outcome> {
    let launches = ["exec", "resume", "run"];
    let words = command_words(&world.arguments);
    if !words.first().is_some_and(|word| launches.contains(word)) {
        return Err(refusal);
    }
    let wishes = Wishes::of(&world.arguments);
    match Context::resolve(world, None) {
        Ok(context) => wishes.tell(&context, refusal),
        Err(_) => wishes.exit(refusal),
    }
}

/// The first paragraph of clap's text in one line: it names the argument, the rest is a reminder of usage.
fn sentence(error: &clap::Error) -> String {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return "no command was given".to_owned();
    }
    let text = error.render().to_string();
    let paragraph: Vec<&str> = text
        .trim_start_matches("error: ")
        .lines()
        .map(str::trim)
        .take_while(|line| !line.is_empty())
        .collect();
    paragraph.join(" ")
}

/// The likely command where there is a guess, else the help of what was typed.
fn hint(error: &clap::Error, arguments: &[OsString]) -> String {
    let root = super::definition();
    let words = command_words(arguments).join(" ");
    let noun = verb_of(&root, error).filter(|_| words.is_empty());
    let guess = match (noun, error.get(ContextKind::SuggestedSubcommand)) {
        (Some(command), _) => command,
        // The likeliest guess stands last.
        (None, Some(ContextValue::Strings(guesses))) => guesses.last().cloned().unwrap_or_default(),
        (None, _) => String::new(),
    };
    let parts = ["agent-fleet", &words, &guess, "--help"];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(" ")
}

/// What provider CLIs call; nobody who misspelt a command means it.
const FOR_MACHINES: [&str; 3] = ["hook", "statusline", "scripted-agent"];

fn forget_machines(error: &mut clap::Error) {
    let guesses = error.remove(ContextKind::SuggestedSubcommand);
    if let Some(ContextValue::Strings(mut guesses)) = guesses {
        guesses.retain(|guess| !FOR_MACHINES.contains(&guess.as_str()));
        if !guesses.is_empty() {
            error.insert(
                ContextKind::SuggestedSubcommand,
                ContextValue::Strings(guesses),
            );
        }
    }
}

/// The command of a verb that was typed without its noun, such as `status`; the first that has it.
fn verb_of(root: &clap::Command, error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    root.get_subcommands()
        .find(|noun| {
            noun.find_subcommand(word)
                .is_some_and(|verb| verb.get_name() != "help")
        })
        .map(|noun| format!("{} {word}", noun.get_name()))
}

/// The typed words that name a command, whatever stands between them.
fn command_words(arguments: &[OsString]) -> Vec<&str> {
    let root = super::definition();
    let mut command = &root;
    let mut words = Vec::new();
    let typed = arguments.iter().skip(1).take_while(|word| *word != "--");
    for word in typed.filter_map(|word| word.to_str()) {
        if let Some(found) = command.find_subcommand(word) {
            words.push(word);
            command = found;
        }
    }
    words
}
