//! Help, and command lines that could not be understood.

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

/// Answers what clap stopped at: help and version on stdout with success, all else as a refusal.
pub(super) fn answer(error: &clap::Error, world: &World, output: &Output) -> ExitCode {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        return match say(&error.render().ansi().to_string()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => output.fail(&error),
        };
    }
    if output.format == Format::Human {
        // Nobody may be listening.
        drop(write!(anstream::stderr(), "{}", error.render().ansi()));
    }
    let refusal = Error::new(code::USAGE, sentence(error)).hint(hint(error, &world.arguments));
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

/// The likely command where clap has a guess, else the help of what was typed.
fn hint(error: &clap::Error, arguments: &[OsString]) -> String {
    let mut words = command_words(arguments);
    if let Some(ContextValue::Strings(guesses)) = error.get(ContextKind::SuggestedSubcommand) {
        // Clap puts its best guess last.
        // The likeliest guess stands last.
        words.extend(guesses.last().map(String::as_str));
    }
    words.insert(0, "agent-fleet");
    words.push("--help");
    words.join(" ")
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
