//! Names of the fleet layer: shorter and plainer than other names, since they become parts of file names,
//! of task names (`<repository>.<run>.<worker>`) and of git references.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{InvalidName, hex, holds_secret};
use crate::withheld::withhold;

/// Longest name, in bytes.
pub const NAME_LENGTH: usize = 64;

fn check(text: &str, kind: &'static str) -> Result<(), InvalidName> {
    if holds_secret(text) {
        return Err(InvalidName::Secret(kind));
    }
    let mut bytes = text.bytes();
    let first = bytes.next().is_some_and(|b| b.is_ascii_alphanumeric());
    let rest = bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    if first && rest && text.len() <= NAME_LENGTH {
        Ok(())
    } else {
        let shown = withhold(text).chars().take(160).collect();
        Err(InvalidName::Fleet(shown, kind))
    }
}

identifier!(RunId, "run", "One run of a plan in one checkout.", check);
identifier!(StepId, "step", "One step of a plan.", check);
identifier!(
    WorkerId,
    "worker",
    "One worker of a run: the step that it implements, or that step's name and `-review`.",
    check
);

/// Which checkout: the first 16 hex digits of the SHA-256 of its canonical root.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct RepositoryKey(String);

impl RepositoryKey {
    /// Of a checkout's canonical root.
    pub fn of(root: &camino::Utf8Path) -> Self {
        let mut text = hex(&Sha256::digest(root.as_str().as_bytes()));
        text.truncate(16);
        Self(text)
    }

    /// Reads [`RepositoryKey::as_str`] back.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        (text.len() == 16 && text.bytes().all(digits)).then(|| Self(text.to_owned()))
    }

    /// The 16 digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RepositoryKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{RepositoryKey, RunId};

    #[test]
    fn a_name_is_no_path_and_no_reference() {
        for bad in [
            "", "../x", "/abs", "a/b", "a.b", "-x", "_x", "a b", "é", "a\n",
        ] {
            assert!(bad.parse::<RunId>().is_err(), "{bad}");
        }
        assert!("x".repeat(65).parse::<RunId>().is_err());
        for good in ["a", "A-1_b", &"x".repeat(64)] {
            assert_eq!(good.parse::<RunId>().unwrap().as_str(), good);
        }
    }

    #[test]
    fn a_checkout_is_known_by_its_root() {
        let key = |root: &str| RepositoryKey::of(root.into());
        assert_eq!(key("/a").as_str().len(), 16);
        assert_eq!(key("/a"), key("/a"));
        assert_ne!(key("/a"), key("/b"));
    }
}
