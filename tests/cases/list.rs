//! The cases and their breaks, as the files beside this one have them.

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
    FILES
        .iter()
        .map(|name| {
            let path = root.join(format!("tests/cases/{name}.toml"));
            let text = std::fs::read_to_string(&path).expect("a file of cases");
            toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        })
        .collect()
}
