//! The cases, their breaks and the capabilities of a fleet, as the files beside this one have them.

use std::path::Path;

use serde::Deserialize;

/// The files, in the order of the page.
pub(crate) const FILES: [&str; 6] = [
    "credentials",
    "isolation",
    "leases",
    "quota",
    "launches",
    "files",
];

/// A part of the page.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Section {
    /// Its heading.
    pub title: String,
    /// What people suffered.
    pub cases: Vec<Case>,
    /// Ways to break the functions that guard them.
    pub breaks: Vec<Break>,
}

/// One thing that people suffered, and what keeps it from happening here.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    /// Its number; the numbers have gaps.
    pub id: String,
    /// What holds here, in the words of who would suffer; without tests, what they suffer elsewhere.
    pub promise: String,
    /// Public reports of it.
    pub reports: String,
    /// Tests that prove it; those of the lane begin with `lane::`.
    #[serde(default)]
    pub tests: Vec<String>,
    /// Functions without which it would not hold.
    #[serde(default)]
    pub guards: Vec<String>,
    /// What is not shown, and why.
    pub limit: Option<String>,
}

/// A plausible wrong implementation of a function.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Break {
    /// The function, as a path without `crate`.
    pub function: String,
    /// Text that stands in it once.
    pub find: String,
    /// What stands there when it is broken.
    pub replace: String,
    /// Tests of the suite that must all fail then.
    pub tests: Vec<String>,
}

/// Reads all sections of a tree.
pub(crate) fn sections(root: &Path) -> Vec<Section> {
    FILES.iter().map(|name| read(root, name)).collect()
}

fn read<T: serde::de::DeserializeOwned>(root: &Path, name: &str) -> T {
    let path = root.join(format!("tests/cases/{name}.toml"));
    let text = std::fs::read_to_string(&path).expect("a file of cases");
    toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The files of capabilities, in the order of their page.
pub(crate) const CAPABILITIES: [&str; 2] = ["capabilities", "fleet"];

/// A part of the page of capabilities.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Chapter {
    /// Its heading.
    pub title: String,
    /// What is in it.
    pub capabilities: Vec<Capability>,
}

/// Something that a fleet can do, or that cannot happen to it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Capability {
    /// Its number; the numbers have gaps.
    pub id: String,
    /// What holds here.
    pub holds: Option<String>,
    /// Tests that prove it; those of the lane begin with `lane::`.
    #[serde(default)]
    pub tests: Vec<String>,
    /// What takes the place of what others do, and why.
    pub instead: Option<String>,
    /// What is not shown, and why.
    pub limit: Option<String>,
}

/// Reads all chapters of a tree.
pub(crate) fn chapters(root: &Path) -> Vec<Chapter> {
    CAPABILITIES.iter().map(|name| read(root, name)).collect()
}
