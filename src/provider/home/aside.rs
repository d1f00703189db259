//! `<home>/agent-fleet.json`: what provisioning put into a home, and what it found there and put aside.
//!
//! It makes provisioning repeatable: without it nobody could tell an inherited setting from one that was
//! made in the home. It may be lost: then what is in the home counts as the home's own.

use std::collections::BTreeSet;

use camino::Utf8Path;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::load;
use crate::error::{Error, Result};
use crate::store::replace::{Durability, replace};

/// The file, below the home.
pub const FILE: &str = "agent-fleet.json";

/// What is remembered of one home.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Aside {
    /// The person's own status line command, which ours runs.
    pub status_line: Option<String>,
    /// Settings as they were last inherited from the base home.
    pub inherited: Map<String, Value>,
    /// Projects that we marked as trusted.
    pub trusted: BTreeSet<String>,
}

impl Aside {
    /// What is remembered of this home; nothing when the file is missing or makes no sense.
    pub fn load(home: &Utf8Path) -> Self {
        load(&home.join(FILE))
            .ok()
            .and_then(|document| serde_json::from_value(Value::Object(document)).ok())
            .unwrap_or_default()
    }

    /// Writes it, when it differs from `before`.
    pub fn save(&self, home: &Utf8Path, before: &Self) -> Result<()> {
        if self == before {
            return Ok(());
        }
        let bytes = serde_json::to_vec_pretty(self)
            .map_err(|error| Error::internal(format!("cannot serialise: {error}")))?;
        replace(home.join(FILE), &bytes, Durability::Durable)
    }
}
