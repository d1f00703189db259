//! `<home>/agent-fleet.json`: what provisioning put into a home, and what it found there and put aside.
//!
//! It makes provisioning repeatable: without it nobody could tell an inherited setting from one that was
//! made in the home. It may be lost, or be older than the settings by one provisioning that was cut short: then
//! what is in the home counts as the home's own. The person's own status line is written here before it leaves the
//! settings. The file is never overwritten because it could not be read.

use std::collections::BTreeSet;

use camino::Utf8Path;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{load, unusable};
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
    /// What is remembered of this home; nothing when there is no file. One that cannot be understood is
    /// refused by name: provisioning would overwrite it, and with it the person's own status line.
    pub fn load(home: &Utf8Path) -> Result<Self> {
        let path = home.join(FILE);
        serde_json::from_value(Value::Object(load(&path)?))
            .map_err(|error| unusable(&path, &error.to_string()))
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

#[cfg(test)]
mod tests {
    use super::{Aside, FILE};
    use camino::Utf8Path;

    #[test]
    fn what_cannot_be_read_is_refused_by_name_and_not_taken_for_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let home = Utf8Path::from_path(directory.path()).unwrap();
        assert_eq!(Aside::load(home).unwrap(), Aside::default());
        for torn in ["{\"status_line\":\"mine\",", "[]", "{\"trusted\":7}"] {
            crate::store::replace::replace(
                home.join(FILE),
                torn.as_bytes(),
                crate::store::replace::Durability::Volatile,
            )
            .unwrap();
            let refusal = Aside::load(home).unwrap_err();
            assert!(refusal.message.contains(FILE), "{refusal}");
        }
    }
}
