//! The receipt: what became of a launch, for a caller that cannot tell our exit from the worker's.

use camino::Utf8Path;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::id::ProfileId;
use crate::store::replace::{Durability, replace};

/// What is written to the file given with `--receipt`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Receipt {
    // Fields stand in the order of their names, so that the file's keys are sorted like every other JSON.
    /// The refusal's code.
    pub code: Option<String>,
    /// The lease's generation.
    pub generation: Option<u64>,
    /// True once the provider is about to take over this process.
    pub ok: bool,
    /// The worker's pid.
    pub pid: Option<u32>,
    /// The leased profile.
    pub profile: Option<ProfileId>,
    /// When trying again may work.
    #[schemars(with = "Option<String>")]
    pub retry_at: Option<Timestamp>,
}

impl Receipt {
    /// The receipt of a launch.
    pub fn launched(profile: &ProfileId, generation: u64) -> Self {
        Self {
            ok: true,
            code: None,
            profile: Some(profile.clone()),
            generation: Some(generation),
            pid: Some(std::process::id()),
            retry_at: None,
        }
    }

    /// The receipt of a refusal.
    pub fn refused(error: &Error) -> Self {
        Self {
            ok: false,
            code: Some(error.code.name.to_owned()),
            profile: None,
            generation: None,
            pid: None,
            retry_at: error.retry_at,
        }
    }

    /// Writes it whole, replacing an older one.
    pub fn write(&self, path: &Utf8Path) -> Result<()> {
        let text = serde_json::to_string(self)
            .map_err(|error| Error::internal(format!("cannot serialise the receipt: {error}")))?;
        replace(path, format!("{text}\n").as_bytes(), Durability::Volatile)
    }
}
