//! What people suffered elsewhere, what proves that it does not happen here, and that the proof is one.
//!
//! The cases stand in the TOML files of this directory and make `docs/cases.md`. Each function that guards a
//! case is broken there in a plausible way; `cargo test --features test-fakes --test breaks` breaks some of
//! them, one at a time, in a copy of the tree and demands that the named tests fail. The tests here keep all
//! of it true to the sources without building anything.

mod capabilities;
mod list;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;

use list::{Break, Case, Section, sections};
use tree::{Target, function, tests};

use crate::support::page::check_block;
use crate::support::sandbox::Sandbox;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn cases(sections: &[Section]) -> impl Iterator<Item = &Case> {
    sections.iter().flat_map(|section| &section.cases)
}

fn breaks(sections: &[Section]) -> impl Iterator<Item = &Break> {
    sections.iter().flat_map(|section| &section.breaks)
}

/// Whether a test needs the real CLIs.
fn of_the_lane(test: &str) -> bool {
    test.starts_with("lane::")
}

/// The tests of a case that run with `cargo test`.
fn of_the_suite(case: &Case) -> impl Iterator<Item = &String> {
    case.tests.iter().filter(|name| !of_the_lane(name))
}

/// Names in a cell of a table.
fn codes(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    if names.is_empty() {
        "–".to_owned()
    } else {
        names.join("<br>")
    }
}

#[track_caller]
fn assert_none(findings: &[String], what_to_do: &str) {
    assert!(
        findings.is_empty(),
        "\n  {}\n{what_to_do}\n",
        findings.join("\n  ")
    );
}

#[test]
fn every_case_has_its_tests_or_says_why_not() {
    let sections = sections(&root());
    let ids: Vec<&str> = cases(&sections).map(|case| case.id.as_str()).collect();
    assert!(ids.is_sorted_by_key(|id| (id.len(), *id)), "{ids:?}");
    let unique: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(unique.len(), ids.len(), "{ids:?}");
    let mut findings = Vec::new();
    for case in cases(&sections) {
        let (proved, guarded) = (!case.tests.is_empty(), !case.guards.is_empty());
        if proved != guarded {
            findings.push(format!("{}: tests and guards belong together", case.id));
        }
        if !proved && case.limit.is_none() {
            findings.push(format!("{}: neither a test nor a reason", case.id));
        }
    }
    assert_none(&findings, "complete the cases in tests/cases");
}

#[test]
fn every_named_test_and_function_exists() {
    let (sections, tests) = (sections(&root()), tests(&root()));
    let mut findings = Vec::new();
    for case in cases(&sections) {
        let missing = case.tests.iter().filter(|name| {
            let target = tests.get(*name);
            target.is_none() || (target == Some(&Target::Lane)) != of_the_lane(name)
        });
        findings.extend(missing.map(|name| format!("{}: no test `{name}`", case.id)));
        let gone = case
            .guards
            .iter()
            .filter(|path| function(&root(), path).is_none());
        findings.extend(gone.map(|path| format!("{}: no function `{path}`", case.id)));
    }
    assert_none(&findings, "name them in tests/cases as they are called now");
}

#[test]
fn every_break_fits_the_source() {
    let (sections, tests) = (sections(&root()), tests(&root()));
    let mut findings = Vec::new();
    for one in breaks(&sections) {
        let path = &one.function;
        let Some((file, range)) = function(&root(), path) else {
            findings.push(format!("no function `{path}`"));
            continue;
        };
        let text = std::fs::read_to_string(file).expect("a source file");
        let count = text[range].matches(&one.find).count();
        if count != 1 {
            findings.push(format!("`{path}` holds {count} times: {}", one.find));
        }
        if one.find == one.replace || one.tests.is_empty() {
            findings.push(format!("`{path}`: the break changes or proves nothing"));
        }
        let missing = one
            .tests
            .iter()
            .filter(|name| !matches!(tests.get(*name), Some(Target::Library | Target::Suite)));
        findings.extend(missing.map(|name| format!("`{path}`: no test `{name}` in the suite")));
    }
    assert_none(
        &findings,
        "a break's text stands once in its function: take it from the source as it is now",
    );
}

/// Every guard of a case fails one of its tests when it is broken, and every test of a case is failed so.
#[test]
fn no_case_rests_on_a_test_that_nothing_breaks() {
    let sections = sections(&root());
    let mut seen: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for one in breaks(&sections) {
        let tests = one.tests.iter().map(String::as_str);
        seen.entry(&one.function).or_default().extend(tests);
    }
    let mut findings = Vec::new();
    for case in cases(&sections) {
        let of_guards: BTreeSet<&str> = case
            .guards
            .iter()
            .filter_map(|path| seen.get(path.as_str()))
            .flatten()
            .copied()
            .collect();
        for name in of_the_suite(case).filter(|name| !of_guards.contains(name.as_str())) {
            findings.push(format!(
                "{}: no break of its guards fails `{name}`",
                case.id
            ));
        }
        let in_the_suite = of_the_suite(case).next().is_some();
        for path in case.guards.iter().filter(|_| in_the_suite) {
            let fails = seen.get(path.as_str());
            if !fails
                .is_some_and(|fails| of_the_suite(case).any(|name| fails.contains(name.as_str())))
            {
                findings.push(format!("{}: no break of `{path}` fails its tests", case.id));
            }
        }
    }
    assert_none(
        &findings,
        "add a break to tests/cases, or take the name away",
    );
}

#[test]
fn the_page_is_made_from_the_cases() {
    let sections = sections(&root());
    for (section, file) in sections.iter().zip(list::FILES) {
        let mut page = format!("## {}\n\n", section.title);
        page.push_str("| case | what holds | proved by | guarded by |\n|---|---|---|---|\n");
        for case in &section.cases {
            let limit = case.limit.as_deref().unwrap_or_default();
            let limit = if limit.is_empty() {
                String::new()
            } else {
                format!(" *{limit}*")
            };
            let shown = if case.tests.is_empty() {
                "Not shown here: "
            } else {
                ""
            };
            writeln!(
                page,
                "| {} | {shown}{}. ({}){limit} | {} | {} |",
                case.id,
                case.promise,
                case.reports,
                codes(&case.tests),
                codes(&case.guards)
            )
            .expect("a string takes all");
        }
        check_block("docs/cases.md", file, &page);
    }
}

#[test]
fn the_tests_are_found_as_the_test_program_lists_them() {
    let program = std::env::current_exe().expect("the test program");
    let listed = Sandbox::tool(program)
        .args(["--list", "--format", "terse"])
        .output()
        .expect("it runs");
    let listed = String::from_utf8(listed.stdout).expect("text");
    let listed: BTreeSet<&str> = listed
        .lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .collect();
    let tests = tests(&root());
    let found: BTreeSet<&str> = tests
        .iter()
        .filter(|(_, target)| **target == Target::Suite)
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(found, listed);
}
