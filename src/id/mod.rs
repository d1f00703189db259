//! Names that pass through every layer, checked once at the edge.

// Above the module that uses it too.
macro_rules! identifier {
    ($name:ident, $kind:literal, $doc:literal, $check:path) => {
        #[doc = $doc]
        #[derive(
            Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
        )]
        #[serde(try_from = "String", into = "String")]
        #[schemars(with = "String")]
        pub struct $name(String);

        impl $name {
            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl FromStr for $name {
            type Err = InvalidName;
            fn from_str(text: &str) -> Result<Self, InvalidName> {
                $check(text, $kind)?;
                Ok(Self(text.to_owned()))
            }
        }
        impl TryFrom<String> for $name {
            type Error = InvalidName;
            fn try_from(text: String) -> Result<Self, InvalidName> {
                $check(&text, $kind)?;
                Ok(Self(text))
            }
        }
        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.pad(&self.0)
            }
        }
    };
}

pub mod fleet;

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::error::{Code, Refusal, code};
use crate::withheld::{holds_secret, withhold};

/// Longest profile or pool id, in bytes.
pub const ID_LENGTH: usize = 128;
/// Longest task name, in characters.
pub const TASK_LENGTH: usize = 512;

/// Why a name was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    /// Not of the form `[A-Za-z0-9][A-Za-z0-9._-]{0,127}`.
    #[error(
        "`{0}` is not a valid {1} id: use 1 to 128 letters, digits, `.`, `_` or `-`, the first a letter or digit"
    )]
    Id(String, &'static str),
    /// Not of the form `[A-Za-z0-9][A-Za-z0-9_-]{0,63}`.
    #[error(
        "`{0}` is not a valid {1} name: use 1 to 64 letters, digits, `_` or `-`, the first a letter or digit"
    )]
    Fleet(String, &'static str),
    /// Looks like an e-mail address; ids end up in logs and paths.
    #[error("a {0} id must not be an e-mail address")]
    Email(&'static str),
    /// Looks like a provider's token or key, pasted in the wrong place.
    #[error(
        "a {0} name must not hold a token or a key; take it back at the provider, since it is in the shell's history now"
    )]
    Secret(&'static str),
    /// Blank, too long, or with control characters.
    #[error("a task name has 1 to 512 characters, is not blank and has no control characters")]
    Task,
    /// Not a provider this program knows.
    #[error("unknown provider `{0}`: use claude, codex or scripted")]
    Provider(String),
}

impl Refusal for InvalidName {
    fn code(&self) -> Code {
        code::USAGE
    }
}

fn check_id(text: &str, kind: &'static str) -> Result<(), InvalidName> {
    if text.contains('@') {
        return Err(InvalidName::Email(kind));
    }
    if holds_secret(text) {
        return Err(InvalidName::Secret(kind));
    }
    let mut bytes = text.bytes();
    let first = bytes.next().is_some_and(|b| b.is_ascii_alphanumeric());
    let rest = bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
    if first && rest && text.len() <= ID_LENGTH {
        Ok(())
    } else {
        Err(InvalidName::Id(
            withhold(text).chars().take(160).collect(),
            kind,
        ))
    }
}

/// Whether a text would do as a profile or pool id.
pub fn is_id(text: &str) -> bool {
    check_id(text, "").is_ok()
}

identifier!(
    ProfileId,
    "profile",
    "Our name for one account and its isolated home.",
    check_id
);
identifier!(
    PoolId,
    "pool",
    "A label that profiles join and callers ask for.",
    check_id
);

/// The caller's name for one piece of work; at most one live lease.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Task(String);

impl Task {
    /// The task as the caller wrote it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// SHA-256 of the name: what files and records are keyed by, since names may hold anything.
    pub fn key(&self) -> TaskKey {
        TaskKey(Sha256::digest(self.0.as_bytes()).into())
    }

    /// The reserved task under which a probe holds every slot of a profile.
    pub fn probe(profile: &ProfileId) -> Self {
        Self(format!("@probe/{profile}"))
    }
}

impl FromStr for Task {
    type Err = InvalidName;
    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let length = text.chars().count();
        if length == 0
            || length > TASK_LENGTH
            || text.trim().is_empty()
            || text.chars().any(char::is_control)
        {
            return Err(InvalidName::Task);
        }
        if holds_secret(text) {
            return Err(InvalidName::Secret("task"));
        }
        Ok(Self(text.to_owned()))
    }
}
impl TryFrom<String> for Task {
    type Error = InvalidName;
    fn try_from(text: String) -> Result<Self, InvalidName> {
        text.parse()
    }
}
impl From<Task> for String {
    fn from(task: Task) -> Self {
        task.0
    }
}
impl fmt::Display for Task {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}

/// SHA-256 of a task's name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskKey(pub [u8; 32]);

impl TaskKey {
    /// 64 lower-case hex digits, the stem of the task's files.
    pub fn hex(&self) -> String {
        hex(&self.0)
    }

    /// Reads [`TaskKey::hex`] back.
    pub fn parse(text: &str) -> Option<Self> {
        let mut key = [0; 32];
        if text.len() != 64 || !text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        for (at, byte) in key.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[at * 2..at * 2 + 2], 16).ok()?;
        }
        Some(Self(key))
    }
}
impl fmt::Debug for TaskKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.hex())
    }
}

/// Lower-case hex of any bytes.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|b| {
            [
                DIGITS[usize::from(b >> 4)] as char,
                DIGITS[usize::from(b & 15)] as char,
            ]
        })
        .collect()
}

/// The service and its CLI.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum ProviderKind {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// The built-in provider that follows a script; for trying things and for tests.
    Scripted,
}

impl ProviderKind {
    /// All providers in the order in which their locks are taken.
    pub const ALL: [Self; 3] = [Self::Claude, Self::Codex, Self::Scripted];

    /// The name in the registry, on the command line and in paths.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Scripted => "scripted",
        }
    }
}
impl fmt::Display for ProviderKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}
impl FromStr for ProviderKind {
    type Err = InvalidName;
    fn from_str(text: &str) -> Result<Self, InvalidName> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name() == text)
            .ok_or_else(|| InvalidName::Provider(withhold(text).chars().take(80).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::{InvalidName, ProfileId, Task};

    #[test]
    fn ids_refuse_what_would_leak_or_escape_a_path() {
        for bad in [
            "",
            ".",
            "..",
            "-x",
            "a/b",
            "a b",
            "é",
            "a\0",
            &"x".repeat(129),
        ] {
            assert!(bad.parse::<ProfileId>().is_err(), "accepted {bad:?}");
        }
        assert_eq!(
            "me@example.invalid".parse::<ProfileId>(),
            Err(InvalidName::Email("profile"))
        );
        for good in ["a", "claude-1", "A.b_c-9", &"x".repeat(128)] {
            assert!(good.parse::<ProfileId>().is_ok(), "refused {good:?}");
        }
    }

    #[test]
    fn tasks_may_hold_anything_printable() {
        assert!("fix: \"ünïcode\" / ../ $(x)".parse::<Task>().is_ok());
        for bad in ["", "  ", "a\nb", "a\u{7f}", &"x".repeat(513)] {
            assert!(bad.parse::<Task>().is_err(), "accepted {bad:?}");
        }
    }
}
