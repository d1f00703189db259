//! What a fleet can do and what cannot happen to it: each with its test, or with what takes its place and why.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::list::{self, Capability, Chapter, chapters};
use super::tree::tests;
use super::{assert_none, codes, root};
use crate::support::page::check_block;

fn capabilities(chapters: &[Chapter]) -> impl Iterator<Item = &Capability> {
    chapters.iter().flat_map(|chapter| &chapter.capabilities)
}

#[test]
fn every_capability_has_its_tests_or_says_why_not() {
    let chapters = chapters(&root());
    let mut seen = BTreeSet::new();
    let mut findings = Vec::new();
    for one in capabilities(&chapters) {
        if !seen.insert(one.id.as_str()) {
            findings.push(format!("{}: it stands there twice", one.id));
        }
        if one.holds.is_some() && one.tests.is_empty() && one.limit.is_none() {
            findings.push(format!("{}: neither a test nor a reason", one.id));
        }
        if one.holds.is_none() && one.instead.is_none() {
            findings.push(format!("{}: nothing is said", one.id));
        }
    }
    assert_none(&findings, "complete the capabilities in tests/cases");
    let numbers: Vec<&str> = seen
        .iter()
        .filter_map(|id| id.strip_prefix("S0-"))
        .collect();
    let all: Vec<String> = (1..=73).map(|number| format!("{number:02}")).collect();
    assert_eq!(numbers, all);
}

#[test]
fn every_test_of_a_capability_exists() {
    let (chapters, tests) = (chapters(&root()), tests(&root()));
    let mut findings = Vec::new();
    for one in capabilities(&chapters) {
        let missing = one.tests.iter().filter(|name| !tests.contains_key(*name));
        findings.extend(missing.map(|name| format!("{}: no test `{name}`", one.id)));
    }
    assert_none(&findings, "name them in tests/cases as they are called now");
}

#[test]
fn the_page_of_capabilities_is_made_from_them() {
    for (chapter, file) in chapters(&root()).iter().zip(list::CAPABILITIES) {
        let mut page = format!(
            "## {}\n\n| | what holds | held by |\n|---|---|---|\n",
            chapter.title
        );
        for one in &chapter.capabilities {
            let parts = [
                one.holds.as_ref().map(|text| format!("{text}.")),
                one.instead.as_ref().map(|text| format!("Instead: {text}.")),
                one.limit.as_ref().map(|text| format!("*{text}*")),
            ];
            let told: Vec<String> = parts.into_iter().flatten().collect();
            writeln!(
                page,
                "| {} | {} | {} |",
                one.id,
                told.join(" "),
                codes(&one.tests)
            )
            .expect("a string takes all");
        }
        check_block("docs/capabilities.md", file, &page);
    }
}
