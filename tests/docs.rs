//! The examples of README and docs, typed by a machine.
//!
//! A fenced block of the language `console` is a session: each line after `$ ` is typed into a shell, the
//! lines up to the next one are what it must answer. `…` stands for any text within a line, a line of `…`
//! alone for any number of lines; a command without an answer may say anything. Commands must succeed; in a
//! block of the language `console refused` they must not. All blocks of a page share one world: an empty
//! home, git, and the program first on the path. Blocks of other languages are not typed.

use std::path::{Path, PathBuf};

use crate::support::sandbox::{Ran, Sandbox};

/// A typed command and what it must answer.
#[derive(Debug)]
pub(crate) struct Step {
    line: usize,
    /// What is typed.
    pub command: String,
    answer: Vec<String>,
    refused: bool,
}

#[test]
fn every_example_of_every_page_does_what_the_page_says() {
    for page in pages() {
        let text = std::fs::read_to_string(&page).expect("a page");
        run_page(&page, &steps(&text));
    }
}

/// README and everything below `docs`.
fn pages() -> Vec<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let mut pages = vec![root.join("README.md")];
    let docs = std::fs::read_dir(root.join("docs")).expect("docs");
    pages.extend(docs.map(|entry| entry.expect("an entry").path()));
    pages.retain(|path| path.extension().is_some_and(|ending| ending == "md"));
    pages.sort();
    pages
}

/// The commands of a page.
pub(crate) fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut block: Option<bool> = None;
    for (index, line) in text.lines().enumerate() {
        match (block, line) {
            (None, "```console") => block = Some(false),
            (None, "```console refused") => block = Some(true),
            (Some(_), "```") => block = None,
            (Some(refused), line) => {
                if let Some(command) = line.strip_prefix("$ ") {
                    steps.push(Step {
                        line: index + 1,
                        command: command.to_owned(),
                        answer: Vec::new(),
                        refused,
                    });
                } else if let Some(step) = steps.last_mut() {
                    step.answer.push(line.to_owned());
                }
            }
            (None, _) => {}
        }
    }
    steps
}

fn run_page(page: &Path, steps: &[Step]) {
    let mut sandbox = Sandbox::new();
    let programs = Path::new(env!("CARGO_BIN_EXE_agent-fleet"))
        .parent()
        .expect("the program is in a directory");
    sandbox.set(
        "PATH",
        format!("{}:/usr/local/bin:/usr/bin:/bin", programs.display()),
    );
    sandbox.set("AGENT_FLEET_FORMAT", "human");
    // Pages say where files are by default.
    for name in ["CONFIG", "STATE_DIR", "SHARE_DIR"] {
        sandbox.set(format!("AGENT_FLEET_{name}"), "");
    }
    for step in steps {
        let mut shell = sandbox.shell(&step.command);
        answers(&page.display().to_string(), step, &Ran::of(&mut shell));
    }
}

/// Holds what a command came to against what its page says.
#[track_caller]
pub(crate) fn answers(page: &str, step: &Step, ran: &Ran) {
    let place = format!("{page}:{}", step.line);
    assert_eq!(ran.status != 0, step.refused, "{place}: {ran:?}");
    let said = format!("{}{}", ran.stdout, ran.stderr);
    let said: Vec<&str> = said.lines().map(str::trim_end).collect();
    let wanted: Vec<&str> = step.answer.iter().map(|line| line.trim_end()).collect();
    assert!(
        wanted.is_empty() || lines_match(&wanted, &said),
        "{place}: the page says\n{}\nthe program says\n{}",
        wanted.join("\n"),
        said.join("\n")
    );
}

fn lines_match(wanted: &[&str], said: &[&str]) -> bool {
    match (wanted.split_first(), said.split_first()) {
        (None, rest) => rest.is_none(),
        (Some((&"…", later)), _) => {
            (0..=said.len()).any(|skip| lines_match(later, &said[skip..]))
        }
        (Some((first, later)), Some((line, rest))) => {
            line_matches(first, line) && lines_match(later, rest)
        }
        (Some(_), None) => false,
    }
}

fn line_matches(wanted: &str, said: &str) -> bool {
    let Some((start, later)) = wanted.split_once('…') else {
        return wanted == said;
    };
    said.strip_prefix(start).is_some_and(|rest| {
        rest.char_indices()
            .map(|(at, _)| &rest[at..])
            .chain([""])
            .any(|rest| line_matches(later, rest))
    })
}

#[test]
fn every_link_to_a_file_of_the_tree_leads_somewhere() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    for page in pages() {
        let text = std::fs::read_to_string(&page).expect("a page");
        for link in text.split("](").skip(1) {
            let target = link.split([')', '#']).next().unwrap_or_default();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            let path = page.parent().unwrap_or(&root).join(target);
            assert!(path.exists(), "{}: {target} does not exist", page.display());
        }
    }
}

#[test]
fn every_word_that_a_fleet_is_looked_up_by_is_one_that_it_says() {
    use agent_fleet::fleet::state::{StepState, WorkerState};
    let codes = agent_fleet::error::code::ALL
        .iter()
        .map(|(code, _)| code.name);
    let reasons = agent_fleet::reason::ALL.iter().map(|reason| reason.word);
    let steps = StepState::ALL.iter().map(|state| state.word());
    let workers = WorkerState::ALL.iter().map(|state| state.word());
    let known: std::collections::BTreeSet<&str> =
        codes.chain(reasons).chain(steps).chain(workers).collect();
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/fleet.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let (_, table) = page.split_once("| you see | it means |").expect("a table");
    let rows = table.lines().skip(1);
    let mut count = 0;
    for row in rows.take_while(|line| line.starts_with('|')) {
        let seen = row.split('|').nth(1).unwrap_or_default();
        for word in seen.split('`').skip(1).step_by(2) {
            assert!(known.contains(word), "nothing says `{word}`");
            count += 1;
        }
    }
    assert!(count > 15, "only {count} words found");
}

#[test]
fn an_ellipsis_stands_for_anything() {
    assert!(line_matches("a … c", "a b c"));
    assert!(line_matches("a …", "a b c"));
    assert!(line_matches("… c", "a c c"));
    assert!(!line_matches("a … d", "a b c"));
    assert!(!line_matches("a", "a b"));
    assert!(lines_match(&["a", "…", "d"], &["a", "b", "c", "d"]));
    assert!(!lines_match(&["a", "…", "d"], &["a", "b"]));
}
