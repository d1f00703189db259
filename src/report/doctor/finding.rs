//! How one check came out, and what a check is.

use crate::contract::doctor::{Check, Level};
use crate::id::ProviderKind;

/// How a check came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) level: Level,
    pub(super) evidence: String,
    pub(super) age: Option<u64>,
    pub(super) fix: Option<String>,
}

impl Finding {
    /// As it should be.
    pub(super) fn ok(evidence: impl Into<String>) -> Self {
        Self {
            level: Level::Ok,
            evidence: evidence.into(),
            age: None,
            fix: None,
        }
    }

    /// Works, but wants a look.
    pub(super) fn warn(evidence: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            level: Level::Warn,
            fix: Some(fix.into()),
            ..Self::ok(evidence)
        }
    }

    /// Keeps work from being done, or endangers a login.
    pub(super) fn fail(evidence: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            level: Level::Fail,
            ..Self::warn(evidence, fix)
        }
    }

    /// The same, with the age of what was seen.
    pub(super) fn aged(self, seconds: impl Into<Option<u64>>) -> Self {
        Self {
            age: seconds.into(),
            ..self
        }
    }

    /// As callers see it.
    pub(super) fn check(self, id: &str, provider: Option<ProviderKind>) -> Check {
        Check {
            id: id.to_owned(),
            provider,
            level: self.level,
            evidence: self.evidence,
            age_seconds: self.age,
            fix: self.fix,
        }
    }
}

/// A check: a pure function over facts, with the words that docs/doctor.md says of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule<F: ?Sized> {
    /// Its stable word.
    pub(super) id: &'static str,
    /// What it looks at.
    pub(super) looks_at: &'static str,
    /// What helps when it does not come out well.
    pub(super) cure: &'static str,
    /// Decides.
    pub(super) decide: fn(&F) -> Finding,
}
