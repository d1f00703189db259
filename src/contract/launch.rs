//! What is said of a launch that was only checked.

use schemars::JsonSchema;
use serde::Serialize;

use crate::id::ProviderKind;

/// The answer of `exec --validate-only`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Validated {
    /// Always true; a refusal is an error.
    pub ok: bool,
    /// Whose grammar the arguments passed.
    pub provider: ProviderKind,
    /// `headless` or `terminal`.
    pub mode: String,
    /// Variables of the caller that a worker will not see.
    pub scrubbed: Vec<String>,
}
