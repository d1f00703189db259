//! Codex's command line: what workers may pass, and the argv we make of it.
//!
//! Parses as clap does (`--o v`, `--o=v`, `-oV`, `-o=V`, bundles, greedy `--image`, `--`), options before or
//! after `exec`, and spells every value attached. A review is the flag option `review`; options that precede
//! `resume` are the only ones that all its forms know.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use camino::Utf8Path;

use crate::id::ProviderKind;
use crate::provider::argument::{Arity, Passed, Table, is_option, owned, spelled};
use crate::provider::codex::configuration::{
    FEATURES, Judged, OFF_FEATURES, PINNED, hook_trust, judge, project_trust,
};
use crate::provider::codex::options::{EXEC_ONLY, REVIEW_ONLY, RULES, SUBCOMMANDS, TERMINAL_ONLY};
use crate::provider::{
    AllowedOption, ArgumentRefused, Conversation, Invocation, LaunchFacts, Mode,
};

/// Name of the option that stands for `exec review`; no real option lacks dashes.
pub const REVIEW: &str = "review";

/// The table together with the registry's additions.
pub fn table(worker_options: &[String]) -> Table<'_> {
    Table {
        provider: ProviderKind::Codex,
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
    parser.check_forms()?;
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
            let mut parts = bytes.splitn(2, |byte| *byte == b'=');
            let passed = self.table.long(parts.next().unwrap_or_default())?;
            return match parts.next() {
                None => self.detached(passed),
                Some(_) if passed.arity == Arity::Flag => Err(self.table.valued(&passed)),
                Some(value) => self.push(passed, vec![owned(value)]),
            };
        }
        let mut rest = bytes.get(1..).unwrap_or_default();
        while let Some((letter, after)) = rest.split_first() {
            let passed = self.table.letter(*letter)?;
            rest = after;
            if passed.arity == Arity::Flag {
                self.push(passed, Vec::new())?;
            } else if rest.is_empty() {
                return self.detached(passed);
            } else {
                let value = rest.strip_prefix(b"=").unwrap_or(rest);
                return self.push(passed, vec![owned(value)]);
            }
        }
        Ok(())
    }

    /// An option whose values, if any, are the arguments that follow; clap takes none that looks like an
    /// option.
    fn detached(&mut self, passed: Passed) -> Result<(), ArgumentRefused> {
        let mut values = Vec::new();
        if passed.arity != Arity::Flag {
            values.extend(self.next_value());
        }
        if passed.arity == Arity::List {
            while let Some(value) = self.next_value() {
                values.push(value);
            }
        }
        for value in &values {
            self.table.check_length(value)?;
        }
        self.push(passed, values)
    }

    fn next_value(&mut self) -> Option<OsString> {
        self.pending.pop_front_if(|next| !is_option(next))
    }

    fn push(&mut self, passed: Passed, values: Vec<OsString>) -> Result<(), ArgumentRefused> {
        let needs_value = matches!(passed.arity, Arity::Value | Arity::List);
        if needs_value && (values.is_empty() || values.iter().any(|value| value.is_empty())) {
            return Err(self.table.valueless(&passed));
        }
        for value in &values {
            self.check_value(&passed.name, value)?;
        }
        // Terminal launches always get it, and `codex exec` does not know it.
        if passed.name != "--no-daemon" {
            self.options.push(AllowedOption {
                name: passed.name,
                values,
            });
        }
        Ok(())
    }

    /// Judges the options whose value decides.
    fn check_value(&self, name: &str, value: &OsStr) -> Result<(), ArgumentRefused> {
        let listed = |list: &[&str]| list.iter().any(|feature| value == *feature);
        match name {
            "--config" => match judge(value.as_bytes()) {
                Judged::Allowed => Ok(()),
                Judged::Refused(key, reason) => Err(self
                    .table
                    .refuse(format!("--config {key}").trim_end(), reason)),
            },
            "--enable" if !listed(FEATURES) => Err(self.table.refuse(
                name,
                format!("workers may switch on: {}", FEATURES.join(", ")),
            )),
            "--disable" if !listed(FEATURES) && !listed(OFF_FEATURES) => Err(self.table.refuse(
                name,
                format!(
                    "workers may switch off: {}, {}",
                    FEATURES.join(", "),
                    OFF_FEATURES.join(", ")
                ),
            )),
            _ => Ok(()),
        }
    }

    fn word(&mut self, word: OsString) -> Result<(), ArgumentRefused> {
        let first = self.prompt.is_none();
        if first && self.mode == Mode::Terminal && (word == "exec" || word == "e") {
            self.mode = Mode::Headless;
            return Ok(());
        }
        if first && word == REVIEW {
            return self.review();
        }
        let subcommand = SUBCOMMANDS.iter().find(|(name, _)| word == *name);
        match subcommand {
            Some((name, reason)) if first => Err(self.table.refuse(
                *name,
                format!("as a first word it is a subcommand: {reason}; a prompt of this word follows `--`"),
            )),
            Some(_) | None => self.take_prompt(word),
        }
    }

    fn review(&mut self) -> Result<(), ArgumentRefused> {
        if self.mode == Mode::Terminal {
            return Err(self
                .table
                .refuse(REVIEW, "a review is asked for with `exec review`"));
        }
        if self.has(REVIEW) {
            return Err(self.table.refuse(REVIEW, "it is given twice"));
        }
        self.options.push(AllowedOption {
            name: REVIEW.to_owned(),
            values: Vec::new(),
        });
        Ok(())
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

    fn has(&self, name: &str) -> bool {
        self.options.iter().any(|option| option.name == name)
    }

    /// Refuses options that the form in use does not know: Codex would end with a usage error, or ignore
    /// them without a word.
    fn check_forms(&self) -> Result<(), ArgumentRefused> {
        for option in &self.options {
            let name = option.name.as_str();
            let terminal = TERMINAL_ONLY.iter().find(|(only, _)| *only == name);
            match (self.mode, terminal) {
                (Mode::Headless, Some((_, instead))) => {
                    return Err(self
                        .table
                        .refuse(name, format!("`codex exec` does not know it: {instead}")));
                }
                (Mode::Terminal, _) if EXEC_ONLY.contains(&name) => {
                    return Err(self.table.refuse(name, "only `codex exec` knows it"));
                }
                (Mode::Headless, None) | (Mode::Terminal, _) => {}
            }
            if REVIEW_ONLY.contains(&name) && !self.has(REVIEW) {
                return Err(self.table.refuse(name, "only `codex exec review` knows it"));
            }
        }
        Ok(())
    }
}

/// The argv after argv\[0\]: `exec` for headless launches, ours, the worker's options, then `resume` and the
/// id or `review`, then `--` and the prompt.
///
/// `trust` holds key and hash of each hook of the home. Refuses to resume into a review, which has no such
/// form.
pub fn command_line(
    invocation: &Invocation,
    facts: &LaunchFacts,
    trust: &[(String, String)],
) -> Result<Vec<OsString>, ArgumentRefused> {
    let mut line: Vec<OsString> = Vec::new();
    match invocation.mode {
        Mode::Headless => line.push("exec".into()),
        // The terminal would otherwise start a daemon that outlives the lease and keeps its login.
        Mode::Terminal => line.push("--no-daemon".into()),
    }
    let mut set = |assignment: String| line.extend(["-c".into(), assignment.into()]);
    // Codex reads the home's configuration again while it runs: a worker's own tool that wrote another host into
    // it sent the login there, unless argv named the usual one (run with 0.171).
    for pinned in PINNED {
        set((*pinned).to_owned());
    }
    // The spelling with -c, unlike --disable, is not an error in versions that lack the feature.
    set("features.daemon_auto_start=false".to_owned());
    set("features.plugins=false".to_owned());
    // A trusted project's own configuration could switch our hooks off.
    set("features.hooks=true".to_owned());
    let mut roots: Vec<&Utf8Path> = vec![&facts.project, &facts.workspace];
    roots.dedup();
    set(project_trust(&roots));
    if !trust.is_empty() {
        set(hook_trust(trust));
    }
    let (after, before): (Vec<_>, Vec<_>) = invocation
        .options
        .iter()
        .filter(|option| option.name != REVIEW)
        .partition(|option| REVIEW_ONLY.contains(&option.name.as_str()));
    let is_review = invocation
        .options
        .iter()
        .any(|option| option.name == REVIEW);
    for option in before {
        line.extend(spelled(&option.name, &option.values));
    }
    match &facts.conversation {
        Conversation::Resume { .. } if is_review => {
            return Err(table(&[]).refuse(
                REVIEW,
                "a review starts a conversation of its own; use exec",
            ));
        }
        Conversation::Resume { id } => line.extend(["resume".into(), id.into()]),
        Conversation::New { .. } if is_review => line.push(REVIEW.into()),
        Conversation::New { .. } => {}
    }
    for option in after {
        line.extend(spelled(&option.name, &option.values));
    }
    if let Some(prompt) = &invocation.prompt {
        line.extend(["--".into(), prompt.clone()]);
    }
    Ok(line)
}

#[cfg(test)]
#[path = "grammar_properties.rs"]
mod properties;
#[cfg(test)]
#[path = "grammar_tests.rs"]
mod tests;
