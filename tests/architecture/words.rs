//! Words that must not stand in the tree.

use super::assert_none;
use super::source::{files, root};

/// What may not be written, each in two halves so that this file does not hold it, and what to do.
const FORBIDDEN: &[(&str, &str, &str)] = &[
    ("TO", "DO", "finish it or leave it out"),
    ("FIX", "ME", "finish it or leave it out"),
    ("XX", "X", "finish it or leave it out"),
    ("todo", "!(", "finish it or leave it out"),
    ("unimpl", "emented!(", "finish it or leave it out"),
    (
        "/wo",
        "rk/",
        "the tree must not know the machine it was written on",
    ),
    ("shared/", "design", "say it here: the tree stands alone"),
    ("shared/", "facts", "say it here: the tree stands alone"),
    (
        "issues ",
        "show",
        "the tree must not know how it was written",
    ),
];

/// Words after which a bare number is a reference to somewhere that readers cannot go.
const TRACKERS: &[&str] = &["issue", "ticket"];

#[test]
fn the_tree_stands_alone_and_is_finished() {
    let mut findings = Vec::new();
    for path in files(&root(), &|_| true) {
        // Binary files have no words.
        let Ok(text) = std::fs::read_to_string(&path) else {
            continue;
        };
        let name = path.strip_prefix(root()).expect("below the repository");
        if name.starts_with("Cargo.lock") {
            continue;
        }
        for (index, line) in text.lines().enumerate() {
            for (first, second, what_to_do) in FORBIDDEN {
                if holds(line, &format!("{first}{second}")) {
                    let place = format!("{}:{}", name.display(), index + 1);
                    findings.push(format!("{place}: `{first}{second}`: {what_to_do}"));
                }
            }
            if names_a_ticket(line) {
                let place = format!("{}:{}", name.display(), index + 1);
                findings.push(format!("{place}: a ticket's number: say what it says"));
            }
        }
    }
    assert_none(&findings, "each line above must go");
}

/// Whether the line holds the word; words of capitals must stand alone, so that base64 is no finding.
fn holds(line: &str, word: &str) -> bool {
    let capitals = word.bytes().all(|byte| byte.is_ascii_uppercase());
    line.match_indices(word).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + word.len()..].chars().next();
        let joined = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
        !capitals || !(joined(before) || joined(after))
    })
}

fn names_a_ticket(line: &str) -> bool {
    let lower = line.to_lowercase();
    TRACKERS.iter().any(|word| {
        lower.match_indices(word).any(|(start, _)| {
            let rest = lower[start + word.len()..].trim_start_matches([' ', '#']);
            let gap = rest.len() < lower.len() - start - word.len();
            gap && rest.starts_with(|letter: char| letter.is_ascii_digit())
        })
    })
}

#[test]
fn a_ticket_is_a_number_after_its_word() {
    let ticket = ["as iss", "ue #12 says"].concat();
    assert!(names_a_ticket(&ticket));
    assert!(!names_a_ticket("issue tokens, issued 3 times"));
}
