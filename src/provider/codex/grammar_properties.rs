//! The grammar against a parser of the same kind as the CLI's own.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ArgMatches, Command};
use proptest::prelude::*;

use super::tests::{harmless, new, resume, spellings};
use super::{REVIEW, command_line, parse};
use crate::provider::argument::{Arity, Verdict};
use crate::provider::codex::configuration::PINNED;
use crate::provider::codex::options::{RULES, SUBCOMMANDS};
use crate::provider::{AllowedOption, Invocation, Mode};

/// Codex's own parser for the options that we know, refused ones included, made of the same library.
fn codex() -> Command {
    let with_options = |command: Command| {
        let command = command.disable_help_flag(true).disable_version_flag(true);
        let prompt = Arg::new("PROMPT").value_parser(ValueParser::os_string());
        RULES
            .iter()
            .fold(command, |command, rule| {
                let name = rule.names[0];
                let mut option = Arg::new(name)
                    .long(name.trim_start_matches('-'))
                    .visible_aliases(
                        rule.names[1..]
                            .iter()
                            .map(|name| name.trim_start_matches('-')),
                    )
                    .action(ArgAction::Append)
                    .value_parser(ValueParser::os_string());
                if let Some(letter) = rule.short {
                    option = option.short(char::from(letter));
                }
                command.arg(match rule.arity {
                    Arity::Flag => option
                        .action(ArgAction::Count)
                        .value_parser(clap::value_parser!(u8)),
                    Arity::List => option.num_args(1..),
                    Arity::Value | Arity::Optional => option,
                })
            })
            .arg(prompt)
    };
    let id = || {
        Arg::new("ID")
            .required(true)
            .value_parser(ValueParser::os_string())
    };
    let resume = |command: Command| with_options(command.arg(id()));
    let exec = with_options(Command::new("exec").alias("e"))
        .disable_help_subcommand(true)
        .subcommand(resume(Command::new("resume")))
        .subcommand(with_options(Command::new("review")))
        .subcommand(Command::new("fork"))
        .subcommand(Command::new("help"));
    let root = with_options(Command::new("codex")).disable_help_subcommand(true);
    let words = SUBCOMMANDS.iter().filter(|(name, _)| *name != "resume");
    words
        .fold(root, |root, (name, _)| root.subcommand(Command::new(*name)))
        .subcommand(resume(Command::new("resume")))
        .subcommand(Command::new("review"))
        .subcommand(exec)
}

/// What a parser understood: subcommands, options with their values, prompt.
#[derive(Debug, Default, PartialEq)]
struct Understood {
    path: Vec<String>,
    options: BTreeMap<String, Vec<OsString>>,
    prompt: Option<OsString>,
    id: Option<OsString>,
}

impl Understood {
    fn add(&mut self, matches: &ArgMatches) {
        for rule in RULES {
            let name = rule.names[0];
            if rule.arity != Arity::Flag {
                let values = matches.get_many::<OsString>(name).into_iter().flatten();
                self.options
                    .entry(name.to_owned())
                    .or_default()
                    .extend(values.cloned());
            } else if matches.get_count(name) > 0 {
                self.options
                    .entry(name.to_owned())
                    .or_default()
                    .push("set".into());
            }
        }
        self.options.retain(|_, values| !values.is_empty());
        let text = |name: &str| {
            matches
                .try_get_one::<OsString>(name)
                .ok()
                .flatten()
                .cloned()
        };
        self.prompt = self.prompt.take().or(text("PROMPT"));
        self.id = text("ID");
        if let Some((name, below)) = matches.subcommand() {
            self.path.push(name.to_owned());
            self.add(below);
        }
        for values in self.options.values_mut() {
            values.dedup_by(|one, other| one == "set" && other == "set");
        }
    }

    fn of(invocation: &Invocation) -> Self {
        let mut understood = Self {
            prompt: invocation.prompt.clone(),
            ..Self::default()
        };
        understood
            .path
            .extend((invocation.mode == Mode::Headless).then(|| "exec".to_owned()));
        for AllowedOption { name, values } in &invocation.options {
            if name == REVIEW {
                understood.path.push(REVIEW.to_owned());
            } else {
                let all = understood.options.entry(name.clone()).or_default();
                let set = values.is_empty().then(|| "set".into());
                all.extend(values.iter().cloned().chain(set));
                all.dedup_by(|one, other| one == "set" && other == "set");
            }
        }
        understood
    }
}

fn read(line: &[OsString]) -> Result<Understood, String> {
    let argv = [OsStr::new("codex")]
        .into_iter()
        .chain(line.iter().map(OsString::as_os_str));
    let matches = codex()
        .try_get_matches_from(argv)
        .map_err(|error| error.to_string())?;
    let mut understood = Understood::default();
    understood.add(&matches);
    Ok(understood)
}

fn token() -> impl Strategy<Value = String> {
    let allowed = RULES.iter().filter(|rule| rule.verdict == Verdict::Allowed);
    let names: Vec<String> = RULES
        .iter()
        .chain(allowed.clone())
        .chain(allowed)
        .flat_map(|rule| spellings(rule, harmless(rule)).into_iter().flatten())
        .chain(SUBCOMMANDS.iter().map(|(name, _)| (*name).to_owned()))
        .collect();
    prop_oneof![
        3 => prop::sample::select(names),
        6 => prop::sample::select(vec![
            "word", "two words", "--", "-", "exec", "e", "review", "resume", "--json", "-mx", "-i", "a.png",
            "--uncommitted", "--sandbox=read-only", "-cmodel=x", "-c", "model=y", "--search",
        ]).prop_map(str::to_owned),
        1 => "-{0,2}[a-z]{0,6}=?[ -~\n]{0,6}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(3000)
    })]
    #[test]
    fn what_passes_means_the_same_to_the_cli_before_and_after(
        words in prop::collection::vec(token(), 1..7),
        resumes in any::<bool>(),
    ) {
        let arguments: Vec<OsString> = words.iter().map(Into::into).collect();
        let Ok(invocation) = parse(&arguments, &[]) else { return Ok(()) };
        let ours = Understood::of(&invocation);
        // What the caller wrote means to the CLI what it means to us.
        let mut given = read(&arguments).unwrap();
        given.options.remove("--no-daemon");
        prop_assert_eq!(&given, &ours);
        // So does what we make of it, with our own options on top and nothing refused.
        let facts = if resumes { resume() } else { new() };
        let Ok(line) = command_line(&invocation, &facts, &[]) else {
            prop_assert!(resumes && ours.path.contains(&REVIEW.to_owned()));
            return Ok(());
        };
        let mut made = read(&line).unwrap();
        prop_assert_eq!(made.id.take(), resumes.then(|| "0197-id".into()));
        made.path.retain(|word| !resumes || word != "resume");
        let no_daemon = made.options.remove("--no-daemon").is_some();
        prop_assert_eq!(no_daemon, invocation.mode == Mode::Terminal);
        let config = made.options.get_mut("--config").unwrap();
        config.drain(..4 + PINNED.len());
        made.options.retain(|_, values| !values.is_empty());
        prop_assert_eq!(&made, &ours);
        for option in &invocation.options {
            let rule = RULES.iter().find(|rule| rule.names[0] == option.name);
            prop_assert!(rule.is_none_or(|rule| rule.verdict == Verdict::Allowed));
        }
    }
}
