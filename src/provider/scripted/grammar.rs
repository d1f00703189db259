//! The scripted agent's command line: what workers may pass, and the argv that we build. Pure.
//!
//! One table serves both sides: the broker refuses to workers what only the broker may say, and the agent
//! accepts exactly the table. No abbreviations, no bundles; `--name VALUE` and `--name=VALUE` are the same.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use crate::id::ProviderKind;
use crate::provider::{AllowedOption, ArgumentRefused, Conversation, Invocation, Mode};

/// The hidden verb under which this program becomes the agent.
pub const VERB: &str = "scripted-agent";

/// The agent's command that makes a login; a word that workers may not begin with.
pub(super) const LOGIN: &str = "login";

/// The agent's command that says whether it is logged in, after refreshing what has to be; another such word.
pub(super) const STATUS: &str = "status";

/// One option of the agent.
struct Spec {
    name: &'static str,
    short: Option<&'static str>,
    takes_value: bool,
    /// Why workers may not pass it.
    refused: Option<&'static str>,
}

impl Spec {
    const fn flag(name: &'static str, short: &'static str) -> Self {
        Self {
            name,
            short: Some(short),
            takes_value: false,
            refused: None,
        }
    }

    const fn value(name: &'static str) -> Self {
        Self {
            name,
            short: None,
            takes_value: true,
            refused: None,
        }
    }

    const fn refused(name: &'static str, reason: &'static str) -> Self {
        Self {
            name,
            short: None,
            takes_value: true,
            refused: Some(reason),
        }
    }
}

const SPECS: &[Spec] = &[
    Spec::flag("--print", "-p"),
    Spec::value("--output-format"),
    Spec::value("--model"),
    Spec::refused("--session-id", "the session is chosen by agent-fleet"),
    Spec::refused("--resume", "a session is continued by `agent-fleet resume`"),
];

/// Options of the agent's `login` command.
const LOGIN_SPECS: &[Spec] = &[
    Spec::value("--account"),
    Spec::value("--service"),
    Spec::value("--user"),
    Spec::value("--used"),
    Spec::value("--expires-in"),
];

/// A command line taken apart, nothing judged yet.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Parsed {
    /// Options in the order given, by canonical name.
    pub options: Vec<AllowedOption>,
    /// The words that are not options.
    pub words: Vec<OsString>,
    /// Whether the first word came before `--`, where it may be a command.
    pub first_word_is_bare: bool,
}

impl Parsed {
    /// Whether a flag or option was given.
    pub(super) fn has(&self, name: &str) -> bool {
        self.options.iter().any(|option| option.name == name)
    }

    /// The last value of an option.
    pub(super) fn value(&self, name: &str) -> Option<&OsStr> {
        self.options
            .iter()
            .rev()
            .find(|option| option.name == name)
            .and_then(|option| option.values.first())
            .map(OsString::as_os_str)
    }
}

fn refuse(argument: &OsStr, reason: impl Into<String>) -> ArgumentRefused {
    // What follows `=` may be a secret.
    let name: Vec<u8> = argument
        .as_bytes()
        .iter()
        .copied()
        .take_while(|byte| *byte != b'=')
        .take(80)
        .collect();
    ArgumentRefused {
        provider: ProviderKind::Scripted,
        argument: OsString::from_vec(name).to_string_lossy().into_owned(),
        reason: reason.into(),
        allowed_by: None,
    }
}

/// Takes the agent's command line apart; nothing unknown passes.
pub(super) fn parse(arguments: &[OsString]) -> Result<Parsed, ArgumentRefused> {
    parse_by(SPECS, arguments)
}

/// Takes apart what follows `login`.
pub(super) fn parse_login(arguments: &[OsString]) -> Result<Parsed, ArgumentRefused> {
    let parsed = parse_by(LOGIN_SPECS, arguments)?;
    match parsed.words.first() {
        Some(word) => Err(refuse(word, "`login` takes options only")),
        None => Ok(parsed),
    }
}

fn parse_by(specs: &[Spec], arguments: &[OsString]) -> Result<Parsed, ArgumentRefused> {
    let mut parsed = Parsed::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let bytes = argument.as_bytes();
        if bytes == b"--" {
            parsed.words.extend(rest.by_ref().cloned());
        } else if bytes.len() < 2 || bytes.first() != Some(&b'-') {
            parsed.first_word_is_bare |= parsed.words.is_empty();
            parsed.words.push(argument.clone());
        } else {
            let equals = bytes.iter().position(|byte| *byte == b'=');
            let (name, attached) = bytes.split_at(equals.unwrap_or(bytes.len()));
            let attached = attached.get(1..);
            let Some(spec) = specs.iter().find(|spec| {
                spec.name.as_bytes() == name
                    || spec.short.is_some_and(|short| short.as_bytes() == name)
            }) else {
                return Err(refuse(argument, "the agent has no such option"));
            };
            let values = match (spec.takes_value, attached) {
                (false, None) => Vec::new(),
                (false, Some(_)) => return Err(refuse(argument, "it takes no value")),
                (true, Some(value)) => vec![OsString::from_vec(value.to_vec())],
                (true, None) => match rest.next() {
                    Some(value) => vec![value.clone()],
                    None => return Err(refuse(argument, "it needs a value")),
                },
            };
            parsed.options.push(AllowedOption {
                name: spec.name.to_owned(),
                values,
            });
        }
    }
    Ok(parsed)
}

/// A worker's arguments, judged.
pub(super) fn worker(arguments: &[OsString]) -> Result<Invocation, ArgumentRefused> {
    let parsed = parse(arguments)?;
    for option in &parsed.options {
        let reason = SPECS
            .iter()
            .find(|spec| spec.name == option.name)
            .and_then(|spec| spec.refused);
        if let Some(reason) = reason {
            return Err(refuse(OsStr::new(&option.name), reason));
        }
        if option.name == "--output-format" {
            let known = option
                .values
                .iter()
                .all(|value| value == "text" || value == "stream-json");
            if !known {
                return Err(refuse(
                    OsStr::new(&option.name),
                    "the formats are text and stream-json",
                ));
            }
        }
    }
    let command = parsed
        .words
        .first()
        .filter(|word| *word == LOGIN || *word == STATUS);
    if let Some(word) = command.filter(|_| parsed.first_word_is_bare) {
        return Err(refuse(
            word,
            "workers run prompts, not commands of the agent; put `--` before a prompt of one word",
        ));
    }
    if let Some(second) = parsed.words.get(1) {
        return Err(refuse(second, "one prompt is taken; quote it"));
    }
    Ok(Invocation {
        mode: if parsed.has("--print") {
            Mode::Headless
        } else {
            Mode::Terminal
        },
        options: parsed.options,
        prompt: parsed.words.into_iter().next(),
    })
}

/// The argv after argv\[0\]: verb, options as given, conversation, then the prompt behind `--`.
pub(super) fn command_line(invocation: &Invocation, conversation: &Conversation) -> Vec<OsString> {
    let mut line = vec![OsString::from(VERB), OsString::from("--")];
    for option in &invocation.options {
        line.push(OsString::from(&option.name));
        line.extend(option.values.iter().cloned());
    }
    let (name, id) = match conversation {
        Conversation::New { id } => ("--session-id", id),
        Conversation::Resume { id } => ("--resume", id),
    };
    line.extend([OsString::from(name), OsString::from(id)]);
    if let Some(prompt) = &invocation.prompt {
        line.extend([OsString::from("--"), prompt.clone()]);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::{command_line, parse, worker};
    use crate::provider::{Conversation, Mode};
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt as _;

    fn words(text: &[&str]) -> Vec<OsString> {
        text.iter().map(OsString::from).collect()
    }

    #[test]
    fn workers_may_not_choose_session_or_login_or_say_anything_unknown() {
        for bad in [
            &["--resume", "x"][..],
            &["--resume=x"],
            &["--session-id", "x", "say hi"],
            &["--login=/home/other"],
            &["--prin", "say hi"],
            &["-pp", "say hi"],
            &["--model"],
            &["--print=yes"],
            &["--output-format", "xml"],
            &["login"],
            &["status"],
            &["say a", "say b"],
        ] {
            assert!(worker(&words(bad)).is_err(), "accepted {bad:?}");
        }
        let refused = worker(&words(&["--login=secret"])).unwrap_err();
        assert!(!refused.to_string().contains("secret"), "{refused}");
    }

    #[test]
    fn the_command_line_is_read_back_as_it_was_meant() {
        let prompt = OsString::from_vec(b"--resume \xff\nlogin".to_vec());
        let mut arguments = words(&["--model=m", "-p", "--output-format", "stream-json", "--"]);
        arguments.push(prompt.clone());
        let invocation = worker(&arguments).unwrap();
        assert_eq!(invocation.mode, Mode::Headless);
        let line = command_line(&invocation, &Conversation::Resume { id: "s-1".into() });
        let agent = parse(&line[2..]).unwrap();
        assert_eq!(agent.value("--resume").unwrap(), "s-1");
        assert_eq!(agent.value("--model").unwrap(), "m");
        assert!(agent.has("--print") && !agent.first_word_is_bare);
        assert_eq!(agent.words, vec![prompt]);
    }
}
