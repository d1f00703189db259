//! What the two grammars share: option tables, verdicts, and what a registry may add to them.
//!
//! An option is allowed only by a row of its provider's table or by `worker_options`; everything else is
//! refused. A refusal carries the option's name and never its value, which may be a secret.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use crate::id::ProviderKind;
use crate::provider::ArgumentRefused;

/// Longest argument in bytes: Linux takes 128 KiB with its NUL, and we may put an option's name before it.
pub const LONGEST: usize = 131_000;

/// How many values an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    /// None.
    Flag,
    /// One.
    Value,
    /// One, or none.
    Optional,
    /// One or more, up to the next argument that looks like an option.
    List,
}

/// Whether workers may pass an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Always.
    Allowed,
    /// Only when the registry's `worker_options` name it; the reason is in the user's terms.
    Policy(&'static str),
    /// Never, whatever the registry says; the reason is in the user's terms.
    Never(&'static str),
}

/// One option of a provider's CLI.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Spellings with their dashes, one-letter ones apart; the first is long and canonical.
    pub names: &'static [&'static str],
    /// The one-letter spelling without its dash.
    pub short: Option<u8>,
    /// How many values it takes.
    pub arity: Arity,
    /// Whether workers may pass it.
    pub verdict: Verdict,
}

/// A table row without a one-letter spelling.
pub const fn long(names: &'static [&'static str], arity: Arity, verdict: Verdict) -> Rule {
    Rule {
        names,
        short: None,
        arity,
        verdict,
    }
}

/// A table row with a one-letter spelling.
pub const fn short(
    letter: u8,
    names: &'static [&'static str],
    arity: Arity,
    verdict: Verdict,
) -> Rule {
    Rule {
        names,
        short: Some(letter),
        arity,
        verdict,
    }
}

/// An option that passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    /// Canonical long name.
    pub name: String,
    /// How many values it takes.
    pub arity: Arity,
}

/// A provider's table together with what its registry section adds.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    /// Whose.
    pub provider: ProviderKind,
    /// The built-in rows.
    pub rules: &'static [Rule],
    /// `worker_options` of the registry.
    pub worker_options: &'a [String],
}

impl Table<'_> {
    /// A refusal; `argument` must be a name, never a value.
    pub fn refuse(
        &self,
        argument: impl Into<String>,
        reason: impl Into<String>,
    ) -> ArgumentRefused {
        ArgumentRefused {
            provider: self.provider,
            argument: argument.into(),
            reason: reason.into(),
            allowed_by: None,
        }
    }

    /// A refusal that a longer `worker_options` would lift.
    fn refuse_for_now(&self, name: String, reason: impl Into<String>) -> ArgumentRefused {
        let allowed_by = is_long_name(name.as_bytes()).then(|| {
            let mut options = self.worker_options.to_vec();
            options.push(name.clone());
            options.join(",")
        });
        ArgumentRefused {
            allowed_by,
            ..self.refuse(name, reason)
        }
    }

    /// Refuses what no operating system would pass on.
    pub fn check_length(&self, argument: &OsStr) -> Result<(), ArgumentRefused> {
        if argument.len() <= LONGEST {
            return Ok(());
        }
        Err(self.refuse(
            "(long argument)",
            format!("an argument may have {LONGEST} bytes; let the prompt name a file instead"),
        ))
    }

    /// Looks a long option up by its whole name, dashes included.
    pub fn long(&self, name: &[u8]) -> Result<Passed, ArgumentRefused> {
        let rule = self.rules.iter().find(|rule| {
            rule.names
                .iter()
                .any(|spelling| spelling.as_bytes() == name)
        });
        if let Some(rule) = rule {
            return self.judge(rule);
        }
        let entry = std::str::from_utf8(name)
            .ok()
            .and_then(|name| self.entry(&[name]));
        match entry {
            Some(entry) => Ok(Passed {
                name: entry.name.to_owned(),
                arity: entry.arity.unwrap_or(Arity::Flag),
            }),
            None => Err(self.unknown(name)),
        }
    }

    /// Whether these bytes are a spelling of a built-in row; it need not begin with two dashes.
    pub fn names(&self, spelling: &[u8]) -> bool {
        self.rules
            .iter()
            .any(|rule| rule.names.iter().any(|name| name.as_bytes() == spelling))
    }

    /// Looks a one-letter option up.
    pub fn letter(&self, letter: u8) -> Result<Passed, ArgumentRefused> {
        match self.rules.iter().find(|rule| rule.short == Some(letter)) {
            Some(rule) => self.judge(rule),
            None => Err(self.unknown(&[b'-', letter])),
        }
    }

    /// An option that needs a value and got none.
    pub fn valueless(&self, passed: &Passed) -> ArgumentRefused {
        self.refuse(passed.name.clone(), "it needs a value")
    }

    /// A flag that was given a value.
    pub fn valued(&self, passed: &Passed) -> ArgumentRefused {
        self.refuse(passed.name.clone(), "it takes no value")
    }

    fn judge(&self, rule: &Rule) -> Result<Passed, ArgumentRefused> {
        let canonical = rule.names.first().copied().unwrap_or_default();
        let passed = |arity| Passed {
            name: canonical.to_owned(),
            arity,
        };
        match rule.verdict {
            Verdict::Allowed => Ok(passed(rule.arity)),
            Verdict::Policy(reason) => match self.entry(rule.names) {
                // The arity of a known option is a fact, not a choice.
                Some(_) => Ok(passed(rule.arity)),
                None => Err(self.refuse_for_now(
                    canonical.to_owned(),
                    format!("{reason}; `worker_options` can allow it"),
                )),
            },
            Verdict::Never(reason) => Err(self.refuse(canonical, reason)),
        }
    }

    /// The entry of `worker_options` for an option with these spellings.
    fn entry(&self, names: &[&str]) -> Option<Entry<'_>> {
        self.worker_options
            .iter()
            .filter_map(|entry| Entry::parse(entry).ok())
            .find(|entry| names.contains(&entry.name))
    }

    fn unknown(&self, name: &[u8]) -> ArgumentRefused {
        self.refuse_for_now(
            shown(name),
            "it is not an option that workers may pass; `worker_options` can allow harmless ones",
        )
    }
}

/// Checks one entry of `worker_options`: `--name`, or `--name:flag`, `:value`, `:optional`, `:list` for an
/// option that the tables do not know. What no entry can allow is refused where it is used, with its reason.
pub fn check_entry(entry: &str) -> Result<(), &'static str> {
    Entry::parse(entry).map(drop)
}

/// An entry of `worker_options`.
struct Entry<'a> {
    name: &'a str,
    /// As stated; a flag if nothing is.
    arity: Option<Arity>,
}

impl<'a> Entry<'a> {
    fn parse(entry: &'a str) -> Result<Self, &'static str> {
        let (name, arity) = match entry.split_once(':') {
            None => (entry, None),
            Some((name, "flag")) => (name, Some(Arity::Flag)),
            Some((name, "value")) => (name, Some(Arity::Value)),
            Some((name, "optional")) => (name, Some(Arity::Optional)),
            Some((name, "list")) => (name, Some(Arity::List)),
            Some(_) => return Err("after the colon stands flag, value, optional or list"),
        };
        if is_long_name(name.as_bytes()) {
            Ok(Self { name, arity })
        } else {
            Err("a worker option is the long name of an option, such as --add-dir")
        }
    }
}

/// Whether the bytes are two dashes and an option's name.
fn is_long_name(name: &[u8]) -> bool {
    name.strip_prefix(b"--").is_some_and(|rest| {
        rest.first().is_some_and(u8::is_ascii_alphabetic)
            && rest.len() <= 60
            && rest
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    })
}

/// An option's name as it may be shown: what does not look like a name may be a misplaced secret.
fn shown(name: &[u8]) -> String {
    match name {
        [b'-', letter] if letter.is_ascii_alphanumeric() => format!("-{}", char::from(*letter)),
        _ if is_long_name(name) => String::from_utf8_lossy(name).into_owned(),
        _ => "(unknown option)".to_owned(),
    }
}

/// Whether both CLIs take the argument for an option: a dash and more.
pub fn is_option(argument: &OsStr) -> bool {
    argument.len() > 1 && argument.as_bytes().first() == Some(&b'-')
}

/// Bytes of an argument as an argument of their own.
pub fn owned(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}

/// `--name=value`: the one spelling in which no CLI can take a value for an option.
pub fn attached(name: &str, value: &OsStr) -> OsString {
    let mut argument = OsString::from(name);
    argument.push("=");
    argument.push(value);
    argument
}

/// An option of an invocation, in the spelling that both CLIs read alike.
pub fn spelled(name: &str, values: &[OsString]) -> Vec<OsString> {
    if values.is_empty() {
        vec![OsString::from(name)]
    } else {
        values.iter().map(|value| attached(name, value)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Arity, Rule, Table, Verdict, check_entry, long, shown, spelled};
    use crate::error::Refusal as _;
    use crate::id::ProviderKind;
    use crate::provider::ArgumentRefused;

    const RULES: &[Rule] = &[
        long(&["--allowed"], Arity::Flag, Verdict::Allowed),
        long(&["--add-dir"], Arity::List, Verdict::Policy("elsewhere")),
        long(
            &["--login"],
            Arity::Value,
            Verdict::Never("another account"),
        ),
    ];

    fn table(worker_options: &[String]) -> Table<'_> {
        Table {
            provider: ProviderKind::Claude,
            rules: RULES,
            worker_options,
        }
    }

    #[test]
    fn worker_options_allow_policy_and_unknown_options_and_never_the_rest() {
        let entries = ["--add-dir:flag", "--login", "--new:value"].map(str::to_owned);
        let table = table(&entries);
        assert_eq!(table.long(b"--add-dir").unwrap().arity, Arity::List);
        assert_eq!(table.long(b"--new").unwrap().arity, Arity::Value);
        let refused = table.long(b"--login").unwrap_err();
        assert_eq!(refused.reason, "another account");
        assert!(check_entry("--add-dir").is_ok());
        assert!(check_entry("--new:list").is_ok());
        for malformed in ["", "add-dir", "-x", "--new:two", "--a b", "--new=value"] {
            assert!(check_entry(malformed).is_err(), "{malformed} passed");
        }
    }

    #[test]
    fn without_an_entry_policy_and_unknown_options_are_refused() {
        let table = table(&[]);
        assert!(table.long(b"--add-dir").is_err());
        assert!(table.long(b"--new").is_err());
        assert!(table.letter(b'x').is_err());
        let kept = ["--kept".to_owned()];
        let more = Table {
            worker_options: &kept,
            ..table
        };
        let hint = |refused: ArgumentRefused| refused.hint().unwrap_or_default();
        assert!(
            hint(more.long(b"--add-dir").unwrap_err())
                .ends_with(" providers.claude.worker_options --kept,--add-dir")
        );
        assert_eq!(
            hint(more.long(b"--login").unwrap_err()),
            "agent-fleet exec --help"
        );
        assert!(table.long(b"--allowed").is_ok());
    }

    #[test]
    fn what_does_not_look_like_a_name_is_not_shown() {
        assert_eq!(shown(b"--model"), "--model");
        assert_eq!(shown(b"-x"), "-x");
        for secret in [&b"--sk ant"[..], b"--\x1b[2J", b"---", b"--\xff", b"secret"] {
            assert_eq!(shown(secret), "(unknown option)");
        }
    }

    #[test]
    fn values_are_attached_to_their_option() {
        let values = ["Bash", "--resume"].map(Into::into);
        assert_eq!(
            spelled("--tools", &values),
            ["--tools=Bash", "--tools=--resume"]
        );
        assert_eq!(spelled("--print", &[]), ["--print"]);
    }
}
