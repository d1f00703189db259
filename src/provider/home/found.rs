//! Collecting what would replace a login: where it stands and which key it is, never its value.

use camino::Utf8Path;
use serde_json::{Map, Value};

use crate::provider::Override;
use crate::store::read;

/// What was found so far.
#[derive(Debug, Default)]
pub struct Found(Vec<Override>);

impl Found {
    /// Adds a key of a file.
    pub fn key(&mut self, path: &Utf8Path, key: &str) {
        self.0.push(Override {
            source: format!("{path}: {key}"),
            file: path.to_owned(),
        });
    }

    /// A file's bytes. One that cannot be read is itself a finding: what it says is not known.
    pub fn read(&mut self, path: &Utf8Path) -> Option<Vec<u8>> {
        let read = read::optional(path);
        if read.is_err() {
            self.key(path, "it cannot be read");
        }
        read.ok().flatten()
    }

    /// The JSON object in a file; one that is no object is itself a finding.
    pub fn json(&mut self, path: &Utf8Path) -> Option<Map<String, Value>> {
        let bytes = self.read(path)?;
        let document = serde_json::from_slice(&bytes).ok();
        if document.is_none() {
            self.key(path, "it is not a JSON object");
        }
        document
    }

    /// The TOML table in a file; one that cannot be parsed is itself a finding.
    pub fn toml(&mut self, path: &Utf8Path) -> Option<toml::Table> {
        let bytes = self.read(path)?;
        let table = std::str::from_utf8(&bytes)
            .ok()
            .and_then(|text| toml::from_str(text).ok());
        if table.is_none() {
            self.key(path, "it is not TOML");
        }
        table
    }

    /// Everything found, in the order of the files.
    pub fn all(self) -> Vec<Override> {
        self.0
    }
}
