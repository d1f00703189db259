//! What provisioning a home means for every provider: links, files of ours, files of others.
//!
//! Provisioning may be repeated at any time. It touches only entries of its own, keeps everything else in
//! a file, and leaves a file that it cannot parse alone, naming it. It never reads, writes, links or copies
//! a credential.

pub mod aside;
pub mod conversation;
pub mod found;
pub mod hooks;
pub mod link;

use camino::Utf8Path;
use serde_json::{Map, Value};

use super::{HomePlan, NotReady};
use crate::error::{Error, Result, code};
use crate::store::read;
use crate::store::replace::{Durability, replace};
use crate::sys::shell;

/// A JSON file that provisioning edits; empty when there is none. Anything but an object is refused by name.
pub fn load(path: &Utf8Path) -> Result<Map<String, Value>> {
    let Some(bytes) = read::optional(path)? else {
        return Ok(Map::new());
    };
    match serde_json::from_slice(&bytes) {
        Ok(Value::Object(document)) => Ok(document),
        Ok(_) => Err(unusable(path, "it is not a JSON object")),
        Err(error) => Err(unusable(path, &error.to_string())),
    }
}

/// Writes a JSON file when it differs from what was read, and says so in `changes`.
pub fn save(
    path: &Utf8Path,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    what: &str,
    changes: &mut Vec<String>,
) -> Result<()> {
    if before == after {
        return Ok(());
    }
    let mut bytes = serde_json::to_vec_pretty(after)
        .map_err(|error| Error::internal(format!("cannot serialise: {error}")))?;
    bytes.push(b'\n');
    replace(path, &bytes, Durability::Durable)?;
    changes.push(format!("set {what} in `{path}`"));
    Ok(())
}

/// The refusal for a file that provisioning will not overwrite.
pub fn unusable(path: &Utf8Path, reason: &str) -> Error {
    Error::new(
        code::NOT_PROVISIONED,
        format!("`{path}` cannot be used and is left alone: {reason}"),
    )
    .hint(format!("cat {}", shell::quote(path.as_str())))
    .detail("path", path.as_str())
}

/// The reason why a profile's home cannot take workers.
pub fn not_ready(plan: &HomePlan<'_>, reason: String) -> NotReady {
    NotReady {
        profile: plan.profile.id.clone(),
        reason,
    }
}

/// Sets `key` of `document` to what the base home has now, unless someone changed it in this home since it
/// was last inherited. `inherited` remembers the last value for that comparison.
pub fn inherit(
    document: &mut Map<String, Value>,
    key: &str,
    base: Option<&Value>,
    inherited: &mut Map<String, Value>,
) {
    let last = inherited.get(key);
    let present = document.get(key);
    if present.is_some() && present != last && present != base {
        // Changed here since: the home's own value stands from now on.
        inherited.remove(key);
        return;
    }
    match base {
        Some(value) => {
            document.insert(key.to_owned(), value.clone());
            inherited.insert(key.to_owned(), value.clone());
        }
        None if last.is_some() => {
            document.shift_remove(key);
            inherited.remove(key);
        }
        None => {}
    }
}

#[cfg(test)]
pub(crate) mod tests;
