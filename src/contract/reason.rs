//! The words that answers give as reasons.

use schemars::JsonSchema;
use serde::Serialize;

/// The answer of `reasons`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReasonList {
    /// Group by group, in the order of the page.
    pub reasons: Vec<Reason>,
}

/// One word in one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Reason {
    /// Where it stands: `decision`, `eligible`, `refused`, `reading`, `limit`, `proof`, `anchor`, `login` or `verdict`.
    pub group: &'static str,
    /// The word.
    pub word: &'static str,
    /// What ends it: `fine` (nothing has to), `time` or `person`.
    pub class: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// The command to type, with `ID` for the profile; `null` where there is nothing to type.
    pub cure: Option<&'static str>,
}
