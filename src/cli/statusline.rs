//! `agent-fleet statusline`: Claude's status line. Always exits 0.

use std::process::ExitCode;

use camino::Utf8PathBuf;

use super::{Outcome, output};
use crate::env::World;
use crate::worker::{hook, sources, statusline};

#[derive(Debug, Default, clap::Args)]
pub(super) struct StatuslineArguments {
    /// The home in which the person's own command was put aside
    #[arg(long, value_name = "HOME")]
    home: Option<Utf8PathBuf>,
}

/// The arguments, when this is such a call in the form that provisioning writes: an exit status would
/// show in the person's terminal.
pub(super) fn words(world: &World) -> Option<StatuslineArguments> {
    let [verb, rest @ ..] = world.arguments.get(1..)? else {
        return None;
    };
    if verb != "statusline" {
        return None;
    }
    match rest {
        [] => Some(StatuslineArguments::default()),
        [flag, home] if flag == "--home" => Some(StatuslineArguments {
            home: home.to_str().map(Utf8PathBuf::from),
        }),
        _ => None,
    }
}

/// Prints the line.
pub(super) fn answer(world: &World, arguments: &StatuslineArguments) -> ExitCode {
    hook::silently(world, &|context| {
        sources::with(context, |sources| {
            let say = |text: &str| drop(output::say(text));
            statusline::run(context, arguments.home.as_deref(), sources, &say);
        });
    });
    ExitCode::SUCCESS
}

/// The same for a call with flags before the verb.
pub(super) fn run(world: &World, arguments: &StatuslineArguments) -> Outcome {
    answer(world, arguments);
    Outcome::Done(0)
}
