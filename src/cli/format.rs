//! Which output format is wanted, before and after the command line is understood.

use std::io::IsTerminal as _;

use crate::env::{self, World};
use crate::error::{Error, Result, code};
use crate::render::Format;

/// The format as far as a command line can be read that may be wrong: so that a usage error is JSON when
/// JSON was asked for. Looks at every word before `--`, then at the variable, then at the terminal.
pub(super) fn before_arguments(world: &World) -> Format {
    let mut words = world
        .arguments
        .iter()
        .skip(1)
        .take_while(|word| *word != "--")
        .map(|word| word.to_str().unwrap_or_default());
    let mut found = None;
    while let Some(word) = words.next() {
        if word == "--format" {
            found = words.next().and_then(Format::named).or(found);
        } else if let Some(value) = word.strip_prefix("--format=") {
            found = Format::named(value).or(found);
        }
    }
    found
        .or_else(|| world.variables.text(env::FORMAT).and_then(Format::named))
        .unwrap_or_else(of_stdout)
}

/// The format of a command line that was understood. A variable that names no format is refused: falling
/// back would give a program another format than it was set up for.
pub(super) fn resolve(world: &World, flag: Option<Format>) -> Result<Format> {
    if let Some(format) = flag {
        return Ok(format);
    }
    match world.variables.text(env::FORMAT) {
        None => Ok(of_stdout()),
        Some(word) => Format::named(word).ok_or_else(|| {
            Error::new(
                code::USAGE,
                format!("{} must be json, toon or human", env::FORMAT),
            )
            .hint(format!("export {}=json", env::FORMAT))
        }),
    }
}

fn of_stdout() -> Format {
    if std::io::stdout().is_terminal() {
        Format::Human
    } else {
        Format::Json
    }
}

#[cfg(test)]
mod tests {
    use super::before_arguments;
    use crate::env::{FORMAT, Variables, World};
    use crate::render::Format;

    fn wanted(arguments: &[&str], variable: Option<&str>) -> Format {
        before_arguments(&World {
            arguments: arguments.iter().map(Into::into).collect(),
            variables: variable
                .map(|word| (FORMAT, word))
                .into_iter()
                .collect::<Variables>(),
            directory: None,
            executable: None,
        })
    }

    #[test]
    fn a_format_anywhere_before_the_dashes_wins_over_the_variable() {
        for arguments in [
            &["x", "--format", "toon", "nonsense"][..],
            &["x", "nonsense", "--format=toon"],
            &["x", "nonsense", "--format=TOON", "--format"],
        ] {
            assert_eq!(
                wanted(arguments, Some("human")),
                Format::Toon,
                "{arguments:?}"
            );
        }
        let worker = ["x", "exec", "--", "--format", "toon"];
        assert_eq!(wanted(&worker, Some("human")), Format::Human);
    }
}
