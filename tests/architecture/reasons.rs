//! Reason words: each one that the source emits is in the list that people can look it up in.

use std::collections::BTreeSet;

use agent_fleet::contract::lease::Verdict;
use agent_fleet::contract::selection::DecisionReason;
use agent_fleet::error::code;
use agent_fleet::reason::{self, Group};

use super::assert_none;
use super::source::{Source, is_test, sources};

/// Modules in which a function of one of [`SPEAKERS`] gives reason words.
const MODULES: &[&str] = &["choose", "identity", "quota", "report", "snapshot"];
/// Modules that hold the providers' own words, which no answer carries.
const FOREIGN: &[&str] = &["provider", "worker"];
/// Functions whose text is reason words.
const SPEAKERS: &[&str] = &[
    "base",
    "degraded",
    "desktop_account",
    "reason",
    "reason_word",
    "renewal_block",
    "subscription",
    "word",
];
/// Constants of those modules that are no reasons: who took a reading or vouches for an account, a window's name.
const OTHERS: &[&str] = &[
    "asserted",
    "limit",
    "limit_reached",
    "rollout",
    "statusline",
];
/// What stands right before a reason word wherever it is.
const BEFORE: &[&str] = &[
    "reason: ",
    "reason: Some(",
    "reason = ",
    "reason = Some(",
    "Unverified(",
    "rest(",
    "auth_broken(state, ",
];

/// A word in a place where a reason stands.
#[derive(Debug)]
struct Emitted {
    at: String,
    word: String,
}

/// The words that one file emits, unit tests left out.
fn emitted(source: &Source) -> Vec<Emitted> {
    let first = source.module.first().map_or("", String::as_str);
    if FOREIGN.contains(&first) {
        return Vec::new();
    }
    let speaks = MODULES.contains(&first);
    let lines = source.code.lines().count();
    let mut found = Vec::new();
    let mut function = "";
    for (index, line) in source.text.lines().take(lines).enumerate() {
        if line.trim_start().starts_with("//") {
            continue;
        }
        if let Some((_, rest)) = line.split_once("fn ") {
            let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
            function = &rest[..end.unwrap_or(rest.len())];
        }
        for (before, word) in literals(line) {
            let constant = before.ends_with(": &str = ") && !OTHERS.contains(&word);
            let spoken = speaks && (constant || SPEAKERS.contains(&function));
            if spoken || BEFORE.iter().any(|mark| before.ends_with(mark)) {
                found.push(Emitted {
                    at: format!("{}:{}", source.file, index + 1),
                    word: word.to_owned(),
                });
            }
        }
    }
    found
}

/// The snake-case words in quotes on a line, each with what stands before it.
fn literals(line: &str) -> Vec<(&str, &str)> {
    let marks: Vec<usize> = line.match_indices('"').map(|(at, _)| at).collect();
    let pairs = marks.chunks_exact(2);
    pairs
        .map(|pair| (&line[..pair[0]], &line[pair[0] + 1..pair[1]]))
        .filter(|(_, word)| {
            let plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
            !word.is_empty() && word.bytes().all(plain)
        })
        .collect()
}

#[test]
fn every_reason_word_that_is_emitted_is_in_the_list() {
    let listed: BTreeSet<&str> = reason::ALL.iter().map(|one| one.word).collect();
    let found: Vec<Emitted> = sources()
        .iter()
        .filter(|source| !is_test(&source.module))
        .flat_map(emitted)
        .collect();
    let words: BTreeSet<&str> = found.iter().map(|one| one.word.as_str()).collect();
    for known in [
        "throttled",
        "no_login",
        "limit_suspected",
        "refreshable",
        "missing",
    ] {
        assert!(words.contains(known), "the walk no longer sees `{known}`");
    }
    let missing: Vec<String> = found
        .iter()
        .filter(|one| !listed.contains(one.word.as_str()))
        .map(|one| format!("{}: `{}`", one.at, one.word))
        .collect();
    assert_none(
        &missing,
        "add the word to src/reason.rs with its meaning and its cure",
    );
}

#[test]
fn every_word_of_the_list_can_be_met() {
    let texts: Vec<String> = sources()
        .into_iter()
        .filter(|source| source.module != ["reason"])
        .map(|source| source.text)
        .collect();
    let constants = sources()
        .into_iter()
        .find(|source| source.module == ["reason"])
        .map(|source| source.text)
        .unwrap_or_default();
    let met = |word: &str| {
        let quoted = [format!("\"{word}\""), format!("`{word}`")];
        let is_code = code::ALL.iter().any(|(code, _)| code.name == word);
        let constant = constants.contains(&format!("pub const {}: &str", word.to_uppercase()));
        let said = || {
            texts
                .iter()
                .any(|text| quoted.iter().any(|one| text.contains(one)))
        };
        is_code || constant || said()
    };
    let verdicts = [
        Verdict::Alive,
        Verdict::Dead,
        Verdict::Orphaned,
        Verdict::Reserved,
        Verdict::Unknown,
    ];
    let decisions = [
        DecisionReason::Quota,
        DecisionReason::Sticky,
        DecisionReason::StickyResume,
        DecisionReason::Explicit,
    ];
    let verdicts = verdicts.iter().map(|one| serde_json::json!(one));
    let decisions = decisions.iter().map(|one| serde_json::json!(one));
    let listed = |group: Group, word: &serde_json::Value| {
        reason::ALL
            .iter()
            .any(|one| one.group == group && word == one.word)
    };
    let mut serialised = BTreeSet::new();
    for (group, word) in verdicts
        .map(|word| (Group::Verdict, word))
        .chain(decisions.map(|word| (Group::Decision, word)))
    {
        assert!(listed(group, &word), "{word} is not listed");
        serialised.insert(word.as_str().unwrap_or_default().to_owned());
    }
    let gone: Vec<String> = reason::ALL
        .iter()
        .filter(|one| !met(one.word) && !serialised.contains(one.word))
        .map(|one| format!("`{}` ({})", one.word, one.group.name()))
        .collect();
    assert_none(&gone, "nothing emits these words any more: take them out");
}
