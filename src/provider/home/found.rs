//! Collecting what would replace a login: where it stands and which key it is, never its value.

use camino::Utf8Path;
use serde_json::{Map, Value};

use crate::contract::profile::OverrideScope;
use crate::provider::overrides::Override;
use crate::store::read;

/// What a file that cannot be understood might do.
const UNKNOWN: &str = "cannot be checked";

/// The byte order mark of UTF-8.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// A file, and whose it is.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Whose.
    pub scope: OverrideScope,
    /// Where.
    pub path: &'a Utf8Path,
}

/// What was found so far.
#[derive(Debug, Default)]
pub struct Found(Vec<Override>);

impl Found {
    /// Adds a key of a file, with what it would do.
    pub fn key(&mut self, place: Place<'_>, key: &str, effect: &'static str) {
        self.0.push(Override {
            scope: place.scope,
            source: format!("{}: {key}", place.path),
            file: Some(place.path.to_owned()),
            effect,
        });
    }

    /// A file's bytes, without the mark that some editors put before them and CLIs look past. One that cannot be
    /// read is itself a finding: what it says is not known.
    pub fn read(&mut self, place: Place<'_>) -> Option<Vec<u8>> {
        let read = read::optional(place.path);
        if read.is_err() {
            self.key(place, "it cannot be read", UNKNOWN);
        }
        let mut bytes = read.ok().flatten()?;
        if bytes.starts_with(MARK) {
            bytes.drain(..MARK.len());
        }
        Some(bytes)
    }

    /// The JSON object in a file; one that is no object is itself a finding, but for one that says nothing.
    pub fn json(&mut self, place: Place<'_>) -> Option<Map<String, Value>> {
        let bytes = self.read(place)?;
        if bytes.trim_ascii().is_empty() {
            return None;
        }
        let document = serde_json::from_slice(&bytes).ok();
        if document.is_none() {
            self.key(place, "it is not a JSON object", UNKNOWN);
        }
        document
    }

    /// The TOML table in a file; one that cannot be parsed is itself a finding.
    pub fn toml(&mut self, place: Place<'_>) -> Option<toml::Table> {
        let bytes = self.read(place)?;
        let table = std::str::from_utf8(&bytes)
            .ok()
            .and_then(|text| toml::from_str(text).ok());
        if table.is_none() {
            self.key(place, "it is not TOML", UNKNOWN);
        }
        table
    }

    /// Everything found, in the order of the files.
    pub fn all(self) -> Vec<Override> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::{Found, Place};
    use crate::contract::profile::OverrideScope;
    use crate::provider::home::tests::World;

    #[test]
    fn what_cannot_be_read_or_understood_is_itself_a_finding() {
        let world = World::new();
        std::fs::create_dir(world.path("unreadable")).unwrap();
        world.write("torn", "{\"a\":");
        let told = |name: &str, toml: bool| {
            let path = world.path(name);
            let scope = OverrideScope::Home;
            let place = Place { scope, path: &path };
            let mut found = Found::default();
            if toml {
                assert_eq!(found.toml(place), None);
            } else {
                assert_eq!(found.json(place), None);
            }
            let all = found.all().into_iter();
            all.map(|one| one.source.replace(path.as_str(), "it"))
                .collect::<Vec<_>>()
        };
        for toml in [false, true] {
            assert_eq!(told("missing", toml), [""; 0]);
            assert_eq!(told("unreadable", toml), ["it: it cannot be read"]);
        }
        assert_eq!(told("torn", false), ["it: it is not a JSON object"]);
        assert_eq!(told("torn", true), ["it: it is not TOML"]);
    }
}
