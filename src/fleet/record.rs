//! One record per file: whole or not there, and never overwritten because it could not be read.

use camino::Utf8Path;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::model::SCHEMA;
use crate::error::{Code, Error, Refusal, Result, code};
use crate::store::replace::{Durability, establish, replace};
use crate::store::{directory, read};
use crate::sys::shell;

/// Why a record cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Its bytes are not such a record.
    #[error("the record `{path}` cannot be read and is left alone: {reason}")]
    Damaged {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Another version wrote it.
    #[error("the record `{path}` has format {schema}, and this agent-fleet knows {SCHEMA}")]
    Other {
        /// The file.
        path: String,
        /// Its format.
        schema: u64,
    },
}

impl Refusal for RecordError {
    fn code(&self) -> Code {
        match self {
            Self::Damaged { .. } => code::RECORD_DAMAGED,
            Self::Other { .. } => code::NEWER_FORMAT,
        }
    }
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Damaged { path, .. } => format!("ls -l {}", shell::quote(path)),
            Self::Other { .. } => "agent-fleet version".to_owned(),
        })
    }
}

/// Reads a record; `None` when there is none.
///
/// Refused with `record_damaged` or `newer_format`.
pub fn load<T: DeserializeOwned>(path: &Utf8Path) -> Result<Option<T>> {
    let Some(bytes) = read::optional(path)? else {
        return Ok(None);
    };
    Ok(Some(parse(path, &bytes)?))
}

fn parse<T: DeserializeOwned>(path: &Utf8Path, bytes: &[u8]) -> Result<T, RecordError> {
    let damaged = |reason: String| RecordError::Damaged {
        path: path.to_string(),
        reason,
    };
    // The place of the mistake, never what stands there.
    let at = |error: &serde_json::Error| {
        damaged(format!(
            "it is no such record at line {} column {}",
            error.line(),
            error.column()
        ))
    };
    let value: Value = serde_json::from_slice(bytes).map_err(|error| at(&error))?;
    match value.get("schema").map(Value::as_u64) {
        Some(Some(schema)) if schema == u64::from(SCHEMA) => {}
        Some(Some(schema)) => {
            return Err(RecordError::Other {
                path: path.to_string(),
                schema,
            });
        }
        Some(None) | None => return Err(damaged("it names no format".to_owned())),
    }
    serde_json::from_slice(bytes).map_err(|error| at(&error))
}

/// Reads a record that must be there.
pub fn require<T: DeserializeOwned>(path: &Utf8Path) -> Result<T> {
    load(path)?.ok_or_else(|| {
        RecordError::Damaged {
            path: path.to_string(),
            reason: "it is missing".to_owned(),
        }
        .into()
    })
}

fn bytes<T: Serialize>(record: &T) -> Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(record)
        .map_err(|error| Error::internal(format!("cannot serialise a record: {error}")))?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Replaces a record; once this returns, it is in force for good. Its directory is made.
pub fn save<T: Serialize>(path: &Utf8Path, record: &T) -> Result<()> {
    make_parent(path)?;
    replace(path, &bytes(record)?, Durability::Durable)
}

/// Creates a record, whole and durable; false, and nothing touched, when there is one.
pub fn create<T: Serialize>(path: &Utf8Path, record: &T) -> Result<bool> {
    make_parent(path)?;
    establish(path, &bytes(record)?)
}

/// SHA-256 (64 hex) of a record as it is written.
pub fn digest<T: Serialize>(record: &T) -> Result<String> {
    use sha2::{Digest as _, Sha256};
    Ok(crate::id::hex(&Sha256::digest(bytes(record)?)))
}

fn make_parent(path: &Utf8Path) -> Result<()> {
    path.parent().map_or(Ok(()), directory::establish)
}

#[cfg(test)]
mod tests {
    use super::{create, load, save};
    use crate::error::code;
    use crate::store::replace::{Durability, replace};
    use camino::Utf8Path;
    use serde_json::{Value, json};

    #[test]
    fn a_record_is_whole_or_refused_and_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(directory.path())
            .unwrap()
            .join("a/r.json");
        assert_eq!(load::<Value>(&path).unwrap(), None);
        save(&path, &json!({"schema": 1, "a": 2})).unwrap();
        assert_eq!(load::<Value>(&path).unwrap().unwrap()["a"], 2);
        assert!(!create(&path, &json!({"schema": 1})).unwrap());
        for (text, refused) in [
            ("{\"schema\":1", code::RECORD_DAMAGED),
            ("", code::RECORD_DAMAGED),
            ("{}", code::RECORD_DAMAGED),
            ("{\"schema\":\"1\"}", code::RECORD_DAMAGED),
            ("{\"schema\":2}", code::NEWER_FORMAT),
        ] {
            replace(&path, text.as_bytes(), Durability::Volatile).unwrap();
            let error = load::<Value>(&path).unwrap_err();
            assert_eq!(error.code, refused, "{text}");
            assert!(error.message.contains("r.json"), "{error}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
    }
}
