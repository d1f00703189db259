//! Claude Code's command line: what workers may pass, and the argv we make of it.
//!
//! Parses as commander does (`--o v`, `--o=v`, `-oV`, bundles, greedy lists, optional values, `--`), so
//! that what passes here means the same there; then spells every value attached, so that no raw scan of
//! argv by the CLI can take a value for an option. A prompt that begins with a slash command that would change
//! login, conversation or workspace is refused; what a project's own commands do is up to the project.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use crate::id::ProviderKind;
use crate::provider::argument::{Arity, Passed, Table, is_option, owned, spelled};
use crate::provider::claude::options::{COMMANDS, RULES, SUBCOMMANDS};
use crate::provider::{
    AllowedOption, ArgumentRefused, Conversation, Invocation, LaunchFacts, Mode,
};

/// The table together with the registry's additions.
pub fn table(worker_options: &[String]) -> Table<'_> {
    Table {
        provider: ProviderKind::Claude,
        rules: RULES,
        worker_options,
    }
}

/// Parses and checks a worker's arguments; nothing unknown passes.
pub fn parse(
    arguments: &[OsString],
    worker_options: &[String],
) -> Result<Invocation, ArgumentRefused> {
    let mut parser = Parser {
        table: table(worker_options),
        pending: arguments.iter().cloned().collect(),
        mode: Mode::Terminal,
        options: Vec::new(),
        prompt: None,
    };
    parser.run()?;
    parser.check_prompt()?;
    Ok(Invocation {
        mode: parser.mode,
        options: parser.options,
        prompt: parser.prompt,
    })
}

struct Parser<'a> {
    table: Table<'a>,
    pending: VecDeque<OsString>,
    mode: Mode,
    options: Vec<AllowedOption>,
    prompt: Option<OsString>,
}

impl Parser<'_> {
    fn run(&mut self) -> Result<(), ArgumentRefused> {
        while let Some(argument) = self.pending.pop_front() {
            self.table.check_length(&argument)?;
            if argument == "--" {
                while let Some(word) = self.pending.pop_front() {
                    self.table.check_length(&word)?;
                    self.take_prompt(word)?;
                }
            } else if is_option(&argument) {
                self.option(&argument)?;
            } else {
                self.word(argument)?;
            }
        }
        Ok(())
    }

    fn option(&mut self, argument: &OsStr) -> Result<(), ArgumentRefused> {
        let bytes = argument.as_bytes();
        if bytes.starts_with(b"--") {
            // The first `=` splits, wherever it stands: no option's name contains one.
            return match bytes.iter().position(|byte| *byte == b'=') {
                None => {
                    let passed = self.table.long(bytes)?;
                    self.detached(&passed)
                }
                Some(at) => {
                    let passed = self.table.long(bytes.get(..at).unwrap_or_default())?;
                    if passed.arity == Arity::Flag {
                        return Err(self.table.valued(&passed));
                    }
                    // A list given with `=` takes this one value and no more.
                    let value = owned(bytes.get(at + 1..).unwrap_or_default());
                    self.push(&passed, vec![value]);
                    Ok(())
                }
            };
        }
        if self.table.names(bytes) {
            let passed = self.table.long(bytes)?;
            return self.detached(&passed);
        }
        let letter = bytes.get(1).copied().unwrap_or_default();
        let rest = bytes.get(2..).unwrap_or_default();
        let passed = self.table.letter(letter)?;
        if rest.is_empty() {
            self.detached(&passed)
        } else if passed.arity == Arity::Flag {
            // The rest of a bundle is read again as options of its own.
            self.push(&passed, Vec::new());
            let mut bundle = OsString::from("-");
            bundle.push(OsStr::from_bytes(rest));
            self.pending.push_front(bundle);
            Ok(())
        } else {
            self.push(&passed, vec![owned(rest)]);
            Ok(())
        }
    }

    /// An option whose values, if any, are the arguments that follow.
    fn detached(&mut self, passed: &Passed) -> Result<(), ArgumentRefused> {
        let mut values = Vec::new();
        match passed.arity {
            Arity::Flag => {}
            // A required value is taken whatever it looks like, `--` included.
            Arity::Value | Arity::List => match self.pending.pop_front() {
                Some(value) => values.push(value),
                None => return Err(self.table.valueless(passed)),
            },
            Arity::Optional => values.extend(self.next_value()),
        }
        if passed.arity == Arity::List {
            while let Some(value) = self.next_value() {
                values.push(value);
            }
        }
        for value in &values {
            self.table.check_length(value)?;
        }
        self.push(passed, values);
        Ok(())
    }

    fn next_value(&mut self) -> Option<OsString> {
        self.pending.pop_front_if(|next| !is_option(next))
    }

    fn push(&mut self, passed: &Passed, values: Vec<OsString>) {
        if passed.name == "--print" {
            self.mode = Mode::Headless;
        } else {
            self.options.push(AllowedOption {
                name: passed.name.clone(),
                values,
            });
        }
    }

    fn word(&mut self, word: OsString) -> Result<(), ArgumentRefused> {
        if self.prompt.is_none()
            && let Some((name, reason)) = subcommand(&word)
        {
            return Err(self.table.refuse(
                *name,
                format!("as a first word it is a subcommand: {reason}"),
            ));
        }
        self.take_prompt(word)
    }

    fn take_prompt(&mut self, word: OsString) -> Result<(), ArgumentRefused> {
        if self.prompt.is_some() {
            return Err(self.table.refuse(
                "(second prompt)",
                "there is one prompt; put it in quotes to make it one argument",
            ));
        }
        self.prompt = Some(word);
        Ok(())
    }

    /// Refuses the three kinds of prompt that the CLI would act on even behind `--`.
    fn check_prompt(&self) -> Result<(), ArgumentRefused> {
        let Some(prompt) = &self.prompt else {
            return Ok(());
        };
        if looks_like_one_option(prompt) {
            return Err(self.table.refuse(
                "(prompt)",
                "it is spelled like an option, and Claude Code looks for some of its options behind `--` too; \
                 begin it with another word",
            ));
        }
        if let Some((name, reason)) = slash_command(prompt) {
            return Err(self.table.refuse(
                format!("/{name}"),
                format!(
                    "Claude Code runs a prompt that begins with it as its own command: {reason}"
                ),
            ));
        }
        match (self.mode, subcommand(prompt)) {
            (Mode::Terminal, Some((name, reason))) => Err(self.table.refuse(
                *name,
                format!(
                    "Claude Code's terminal runs this one word as a subcommand, behind `--` too ({reason}); \
                     add a word to the prompt"
                ),
            )),
            (Mode::Headless, _) | (Mode::Terminal, None) => Ok(()),
        }
    }
}

fn subcommand(word: &OsStr) -> Option<&'static (&'static str, &'static str)> {
    SUBCOMMANDS.iter().find(|(name, _)| word == *name)
}

/// The refused slash command that a prompt begins with, as the CLI reads it: after what JavaScript takes for
/// white space, and in capitals too.
fn slash_command(prompt: &OsStr) -> Option<&'static (&'static str, &'static str)> {
    let space = |letter: char| letter.is_whitespace() || letter == '\u{feff}';
    let text = String::from_utf8_lossy(prompt.as_bytes());
    let command = text.trim_start_matches(space).strip_prefix('/')?;
    let name = command.split(space).next()?;
    COMMANDS
        .iter()
        .find(|(refused, _)| name.eq_ignore_ascii_case(refused))
}

/// Whether a whole prompt could be taken for an option: dashes, a name, and nothing or `=` after it.
fn looks_like_one_option(prompt: &OsStr) -> bool {
    let bytes = prompt.as_bytes();
    let name = bytes
        .strip_prefix(b"--")
        .or_else(|| bytes.strip_prefix(b"-"));
    name.is_some_and(|name| {
        name.first().is_some_and(u8::is_ascii_alphabetic)
            && name.split(|byte| *byte == b'=').next().is_some_and(|name| {
                name.iter()
                    .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
            })
    })
}

/// The argv after argv\[0\]: ours first, then the worker's options, then `--` and the prompt.
///
/// `overlay` is the JSON of [`overlay`](super::overlay::overlay).
pub fn command_line(invocation: &Invocation, facts: &LaunchFacts, overlay: &str) -> Vec<OsString> {
    let mut line: Vec<OsString> = Vec::new();
    if invocation.mode == Mode::Headless {
        line.push("--print".into());
    }
    let (option, id) = match &facts.conversation {
        Conversation::New { id } => ("--session-id", id),
        Conversation::Resume { id } => ("--resume", id),
    };
    line.extend(spelled(option, &[id.into()]));
    // `user` alone would drop the project's CLAUDE.md and skills.
    line.extend(["--setting-sources".into(), "user,project".into()]);
    line.extend(["--settings".into(), overlay.into()]);
    for option in &invocation.options {
        line.extend(spelled(&option.name, &option.values));
    }
    if let Some(prompt) = &invocation.prompt {
        line.extend(["--".into(), prompt.clone()]);
    }
    line
}

#[cfg(test)]
#[path = "grammar_tests.rs"]
mod tests;
