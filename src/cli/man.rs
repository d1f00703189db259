//! `agent-fleet man [COMMAND]...`.

use super::{Outcome, definition};
use crate::error::{Error, Result, code};

#[derive(Debug, clap::Args)]
pub(super) struct ManArguments {
    /// The words of a command, such as `lease choose`; the whole program without
    #[arg(value_name = "COMMAND")]
    words: Vec<String>,
}

pub(super) fn run(arguments: &ManArguments) -> Result<Outcome> {
    let root = definition();
    let mut command = &root;
    for word in &arguments.words {
        command = command.find_subcommand(word).ok_or_else(|| {
            Error::new(
                code::NOT_FOUND,
                format!(
                    "`{}` has no command `{word}`",
                    command.get_bin_name().unwrap_or("agent-fleet")
                ),
            )
            .hint("agent-fleet --help")
        })?;
    }
    let mut roff = Vec::new();
    clap_mangen::Man::new(command.clone())
        .render(&mut roff)
        .map_err(|error| Error::internal(format!("cannot render the page: {error}")))?;
    String::from_utf8(roff)
        .map(Outcome::Text)
        .map_err(|_| Error::internal("the page is not UTF-8"))
}
