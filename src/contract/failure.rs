//! A refusal as callers see it.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::Error;

/// What every refused command prints, in every format but human.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Failure {
    /// Always false.
    pub ok: bool,
    /// Stable word; the set is open.
    pub code: &'static str,
    /// `refused`, `capacity`, `identity`, `busy`, `system` or `internal`.
    pub class: &'static str,
    /// One sentence that names the thing.
    pub error: String,
    /// The next command to type.
    pub hint: Option<String>,
    /// Facts for programs; which ones depends on the code.
    pub details: Map<String, Value>,
    /// When trying again may work.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub retry_at: Option<Timestamp>,
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        Self {
            ok: false,
            code: error.code.name,
            class: error.code.class.name(),
            error: error.message.clone(),
            hint: error.hint.clone(),
            details: (*error.details).clone(),
            retry_at: error.retry_at,
        }
    }
}
