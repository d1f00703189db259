//! What a watch says after its first line, which is the whole answer.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// One thing that became different while it was watched.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Change {
    /// When it was seen.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub at: Timestamp,
    /// What became of it.
    pub change: ChangeKind,
    /// What it is, such as `lease`.
    pub kind: String,
    /// The thing as it is now, or as it was last, in the shape it has in the whole answer.
    pub row: Value,
}

/// What became of a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    /// It was not there before.
    New,
    /// It is different now.
    Changed,
    /// It is not there any more.
    Gone,
}
