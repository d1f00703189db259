//! `agent-fleet hook EVENT`: called by the provider CLIs. Always exits 0 with empty stdout.

use std::ffi::OsString;
use std::process::ExitCode;

use super::Outcome;
use crate::env::World;
use crate::snapshot::evidence::Kind;
use crate::worker::{hook, sources};

#[derive(Debug, clap::Args)]
pub(super) struct HookArguments {
    /// What happened
    #[arg(value_name = "EVENT", value_parser = clap::builder::PossibleValuesParser::new(Kind::HOOKS.map(|(word, _)| word)))]
    event: String,
    /// Further arguments of the caller; Codex's notify program gets its message as one
    #[arg(
        value_name = "ARGUMENT",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    rest: Vec<OsString>,
}

/// The words after `hook`, when this is such a call. They are not left to the parser of other commands:
/// its refusal would be an exit status that blocks a model's turn.
pub(super) fn words(world: &World) -> Option<&[OsString]> {
    let (verb, words) = world.arguments.get(1..)?.split_first()?;
    let asks_help = words
        .first()
        .is_some_and(|word| word == "--help" || word == "-h");
    (verb == "hook" && !asks_help).then_some(words)
}

/// Records the event of these words.
pub(super) fn answer(world: &World, words: &[OsString]) -> ExitCode {
    hook::silently(world, &|context| {
        sources::with(context, |sources| {
            drop(hook::record(context, words, sources));
        });
    });
    ExitCode::SUCCESS
}

/// The same for a call with flags before the verb.
pub(super) fn run(world: &World, arguments: HookArguments) -> Outcome {
    let mut words = vec![OsString::from(arguments.event)];
    words.extend(arguments.rest);
    answer(world, &words);
    Outcome::Done(0)
}
