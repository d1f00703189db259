//! What a person may have pasted where it does not belong: a token, a key, an e-mail address. It is never repeated.
//!
//! Every [`crate::error::Error`] passes through here when it is made, so what reaches a terminal, an answer, a receipt
//! or a log is without it; a name that holds a token is refused before anything is written down.
//!
//! # Limits
//! It is known by its form alone: what providers hand out today, and what looks like an address. An address that is a
//! directory's or a file's name stays, since a path without it could not be found.

use std::borrow::Cow;

use serde_json::Value;

/// What stands in its place.
const INSTEAD: &str = "[withheld]";
/// The beginnings that nothing else has, wherever they stand in a word.
const MARKS: [&str; 4] = ["sk-ant-", "sk-proj-", "sk-svcacct-", "sk-admin-"];
/// The beginnings that other words have too; what follows decides.
const BEGINNINGS: [&str; 4] = ["sk-", "rt_", "rt.", "eyJ"];
/// Fewest bytes after such a beginning.
const SHORT: usize = 16;
/// So many bytes are random even when they are all small letters and digits.
const LONG: usize = 32;

/// A text without the tokens, keys and addresses in it.
pub fn withhold(text: &str) -> Cow<'_, str> {
    let mut kept = String::new();
    // Everything before it is in `kept` already.
    let mut done = 0;
    let mut start = 0;
    while start < text.len() {
        let rest = text.get(start..).unwrap_or_default();
        let length = rest
            .find(|letter| !is_of_word(letter))
            .unwrap_or(rest.len());
        let word = rest.get(..length).unwrap_or_default();
        let before = text.get(..start).unwrap_or_default();
        let found = match secret_in(word) {
            None if is_address(word) && !before.ends_with('/') => Some(0),
            found => found,
        };
        if let Some(at) = found {
            kept.push_str(text.get(done..start + at).unwrap_or_default());
            kept.push_str(INSTEAD);
            done = start + length;
        }
        start += length;
        start += text
            .get(start..)
            .and_then(|rest| rest.chars().next())
            .map_or(0, char::len_utf8);
    }
    if done == 0 {
        return Cow::Borrowed(text);
    }
    kept.push_str(text.get(done..).unwrap_or_default());
    Cow::Owned(kept)
}

/// The same of every text in a value.
pub fn withhold_in(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(withhold(&text).into_owned()),
        Value::Array(values) => values.into_iter().map(withhold_in).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(key, value)| (withhold(&key).into_owned(), withhold_in(value)))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

/// Whether a text holds something that looks like a token or a key.
pub fn holds_secret(text: &str) -> bool {
    // Names are looked at by the ten thousand, where many leases are read, and hardly any has such a beginning.
    let begins = |three: &[u8]| matches!(three, b"sk-" | b"rt_" | b"rt." | b"eyJ");
    text.as_bytes().windows(3).any(begins)
        && text
            .split(|letter| !is_of_word(letter))
            .any(|word| secret_in(word).is_some())
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.' | '+' | '@' | '%')
}

/// Where a token or key begins in a word.
fn secret_in(word: &str) -> Option<usize> {
    let marked = MARKS.iter().filter_map(|mark| word.find(mark)).min();
    marked.or_else(|| {
        // Typed as an option, such as `--sk-…`.
        let bare = word.trim_start_matches(|letter: char| !letter.is_alphanumeric());
        let rest = BEGINNINGS
            .iter()
            .find_map(|beginning| bare.strip_prefix(beginning))?;
        let has = |is: fn(&u8) -> bool| rest.bytes().any(|byte| is(&byte));
        let is_mixed = has(u8::is_ascii_digit) && has(u8::is_ascii_uppercase);
        let is_long = rest.len() >= LONG && has(u8::is_ascii_digit);
        (rest.len() >= SHORT && (is_mixed || is_long)).then_some(word.len() - bare.len())
    })
}

/// Whether a word is an e-mail address, and not a package with its version.
fn is_address(word: &str) -> bool {
    let word = word.trim_end_matches('.');
    word.split_once('@').is_some_and(|(name, domain)| {
        !name.is_empty() && domain.starts_with(char::is_alphabetic)
            || domain.rsplit_once('.').is_some_and(|(_, last)| {
                !name.is_empty() && last.len() > 1 && last.chars().all(char::is_alphabetic)
            })
    })
}

#[cfg(test)]
mod tests {
    use super::{BEGINNINGS, MARKS, holds_secret, withhold, withhold_in};
    use serde_json::json;

    const MIXED: &str = "aB3dE6gH9jK2mN5pQ8";

    #[test]
    fn what_a_provider_hands_out_is_withheld_wherever_it_stands() {
        for secret in [
            "sk-ant-oat01-x".to_owned(),
            format!("sk-ant-api03-{MIXED}"),
            format!("sk-proj-{MIXED}"),
            format!("sk-{MIXED}"),
            format!("sk-{}", "0123456789abcdef".repeat(3)),
            format!("rt_{MIXED}"),
            format!("rt.1.{MIXED}"),
            format!("eyJhbGciOiJIUzI1NiJ9.eyJ{MIXED}.x-_{MIXED}"),
        ] {
            assert!(holds_secret(&secret), "{secret}");
            for (text, left) in [
                (secret.clone(), "[withheld]"),
                (format!("no `{secret}` here"), "no `[withheld]` here"),
                (format!("'--{secret}'"), "'--[withheld]'"),
                (format!("TOKEN={secret}\n"), "TOKEN=[withheld]\n"),
                (format!("/tmp/{secret}/x"), "/tmp/[withheld]/x"),
                (format!("ä{{\"{secret}\"}}"), "ä{\"[withheld]\"}"),
            ] {
                assert_eq!(withhold(&text), left);
            }
        }
        for beginning in MARKS.iter().chain(&BEGINNINGS) {
            assert!(
                holds_secret(&format!("a:{beginning}{MIXED}")),
                "{beginning}"
            );
        }
        assert_eq!(
            withhold("my-sk-ant-x and sk-ant-y"),
            "my-[withheld] and [withheld]"
        );
    }

    #[test]
    fn an_address_is_withheld_and_a_path_through_one_can_still_be_found() {
        for (text, left) in [
            ("no me@example.invalid.", "no [withheld]"),
            ("<m.e+x@corp>", "<[withheld]>"),
            ("mé@example.invalid,b@c.de", "[withheld],[withheld]"),
            ("/home/me@corp.example/x", "/home/me@corp.example/x"),
        ] {
            assert_eq!(withhold(text), left);
        }
    }

    #[test]
    fn ordinary_words_stay() {
        for text in [
            "",
            "profile `claude-1` of task-sk-1",
            "sk-learn-regression-2026",
            "sk-Learn",
            "eyJ",
            "rt_priority",
            "@probe/claude-1",
            "npm install -g @anthropic-ai/claude-code@2.1.4",
            "a @ b",
            "ü — ﹫ …",
        ] {
            assert_eq!(withhold(text), text);
            assert!(!holds_secret(text), "{text}");
        }
    }

    #[test]
    fn every_text_in_a_value_is_looked_at() {
        let value = json!({"a": ["sk-ant-x", 1], "me@x.invalid": {"b": "c"}});
        assert_eq!(
            withhold_in(value),
            json!({"a": ["[withheld]", 1], "[withheld]": {"b": "c"}})
        );
    }
}
