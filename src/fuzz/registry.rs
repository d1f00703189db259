//! The registry and lists of accounts of other tools.

use camino::Utf8Path;
use toml::{Table, Value as Toml};

use super::on_ground;
use crate::import::{Entry, list};
use crate::registry::edit::Document;
use crate::registry::validate;
use crate::registry::value::Value;

/// A registry that is taken can be edited, and an edit changes what it concerns and nothing else: no other value,
/// no key that is unknown, and no comment.
pub fn registry(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    on_ground(|ground| {
        let Ok(parsed) = validate::parse(text, &ground.context.roots) else {
            return;
        };
        let document = Document::parse(text).expect("what is valid can be edited");
        // Lines that end in two ways get one.
        let ends = |text: &str| text.replace("\r\n", "\n");
        assert_eq!(
            ends(&document.text()),
            ends(text),
            "an untouched text changed"
        );
        let mut edits = vec![
            Edit::Set(vec!["settings"], "lease_ttl_seconds", Value::Whole(31)),
            Edit::Set(
                vec!["settings"],
                "strategy",
                Value::Text("round-robin".to_owned()),
            ),
            Edit::Set(
                vec!["providers", "codex"],
                "binary",
                Value::Text("/a b".to_owned()),
            ),
            Edit::Push(vec!["projects"], "trusted", "/fuzzed"),
        ];
        for profile in &parsed.registry.profiles {
            let at = || vec!["profiles", profile.id.as_str()];
            edits.push(Edit::Set(at(), "weight", Value::Whole(7)));
            edits.push(Edit::Set(at(), "enabled", Value::Flag(false)));
            edits.push(Edit::Push(at(), "pools", "fuzzed"));
            edits.push(Edit::Set(
                at(),
                "pools",
                Value::List(vec!["fuzzed".to_owned()]),
            ));
            if let Some(pool) = profile.pools.first() {
                edits.push(Edit::Pull(at(), "pools", pool.as_str()));
            }
            edits.push(Edit::Remove(vec!["profiles"], profile.id.as_str()));
        }
        for edit in edits {
            edit.check(text);
        }
    });
}

/// One edit: the tables, the key, and what becomes of it.
#[derive(Debug)]
enum Edit<'a> {
    Set(Vec<&'a str>, &'a str, Value),
    Push(Vec<&'a str>, &'a str, &'a str),
    Pull(Vec<&'a str>, &'a str, &'a str),
    Remove(Vec<&'a str>, &'a str),
}

impl Edit<'_> {
    fn check(&self, text: &str) {
        let mut document = Document::parse(text).expect("what is valid can be edited");
        let done = match self {
            Self::Set(tables, key, value) => document.set(tables, key, value).is_ok(),
            Self::Push(tables, key, item) => document.push(tables, key, item).is_ok(),
            Self::Pull(tables, key, gone) => {
                document.pull(tables, key, |item| item == *gone);
                true
            }
            Self::Remove(tables, key) => document.remove(tables, key),
        };
        if !done {
            return;
        }
        let edited = document.text();
        let mut before: Table = text.parse().expect("it was valid");
        let after = edited.parse::<Table>();
        assert!(after.is_ok(), "{self:?} made no TOML of\n{edited}");
        let mut after = after.unwrap_or_default();
        let (Self::Set(tables, key, _)
        | Self::Push(tables, key, _)
        | Self::Pull(tables, key, _)
        | Self::Remove(tables, key)) = self;
        let new = take(&mut after, tables, key);
        self.check_value(take(&mut before, tables, key).as_ref(), new.as_ref());
        for side in [&mut before, &mut after] {
            prune(side);
        }
        // Not a number is unequal to itself.
        assert_eq!(
            format!("{before:?}"),
            format!("{after:?}"),
            "{self:?} changed something else in\n{edited}"
        );
        if !matches!(self, Self::Remove(..)) {
            assert_eq!(
                comments(text),
                comments(&edited),
                "{self:?} changed a comment in\n{edited}"
            );
        }
    }

    fn check_value(&self, old: Option<&Toml>, new: Option<&Toml>) {
        let items = |value: Option<&Toml>| -> Vec<String> {
            let list = value.and_then(Toml::as_array).into_iter().flatten();
            list.filter_map(Toml::as_str).map(str::to_owned).collect()
        };
        match self {
            Self::Set(_, _, Value::List(wanted)) => assert_eq!(items(new), *wanted, "{self:?}"),
            Self::Set(_, _, wanted) => {
                let new = new.expect("a key that was set");
                let same = match wanted {
                    Value::Flag(flag) => new.as_bool() == Some(*flag),
                    Value::Whole(whole) => new.as_integer() == Some(*whole),
                    Value::Text(text) => new.as_str() == Some(text),
                    Value::Number(_) | Value::List(_) => true,
                };
                assert!(same, "{self:?} gave {new:?}");
            }
            Self::Push(_, _, item) => {
                let mut wanted = items(old);
                wanted.push((*item).to_owned());
                assert_eq!(items(new), wanted, "{self:?}");
            }
            Self::Pull(_, _, gone) => {
                let mut wanted = items(old);
                wanted.retain(|item| item != gone);
                assert_eq!(items(new), wanted, "{self:?}");
            }
            Self::Remove(..) => assert_eq!(new, None, "{self:?}"),
        }
    }
}

/// Takes a key out of nested tables.
fn take(table: &mut Table, tables: &[&str], key: &str) -> Option<Toml> {
    match tables.split_first() {
        Some((first, rest)) => take(table.get_mut(*first)?.as_table_mut()?, rest, key),
        None => table.remove(key),
    }
}

/// Drops tables that hold nothing: an edit may make one, or leave one behind.
fn prune(table: &mut Table) {
    for (_, value) in table.iter_mut() {
        if let Toml::Table(inner) = value {
            prune(inner);
        }
    }
    table.retain(|_, value| value.as_table().is_none_or(|inner| !inner.is_empty()));
}

/// The comments of a valid text, sorted.
fn comments(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['#', '"', '\'']) {
        rest = &rest[at..];
        let quote = ["\"\"\"", "'''", "\"", "'"]
            .into_iter()
            .find(|quote| rest.starts_with(quote));
        let Some(quote) = quote else {
            let end = rest.find('\n').unwrap_or(rest.len());
            found.push(rest[..end].trim_end().to_owned());
            rest = &rest[end..];
            continue;
        };
        rest = after_string(&rest[quote.len()..], quote);
    }
    found.sort();
    found
}

fn after_string<'a>(text: &'a str, quote: &str) -> &'a str {
    let mut at = 0;
    while !text[at..].starts_with(quote) {
        let mut letters = text[at..].chars();
        let Some(first) = letters.next() else {
            return "";
        };
        at += first.len_utf8();
        if first == '\\' && quote.starts_with('"') {
            at += letters.next().map_or(0, char::len_utf8);
        }
    }
    // Up to two quotes may stand before the closing three.
    while quote.len() == 3 && text[at + 1..].starts_with(quote) {
        at += 1;
    }
    &text[at + quote.len()..]
}

/// A list of accounts names no person, carries no secret and decides nothing that costs money.
pub fn imports(bytes: &[u8]) {
    on_ground(|ground| {
        let path = Utf8Path::new("/lists/one.json");
        let list = match list::parse(&ground.context, path, bytes) {
            Ok(list) => list,
            Err(error) => {
                assert!(!error.message.contains('@'), "{error}");
                return;
            }
        };
        for entry in list.entries {
            let (told, reason) = match entry {
                Entry::Account(account) => {
                    assert!(!account.id.as_str().contains('@'), "{account:?}");
                    assert!(account.home.as_deref().is_none_or(Utf8Path::is_absolute));
                    assert_eq!(account.wanted.allow_overage, None, "{account:?}");
                    assert_eq!(account.wanted.credential, None, "{account:?}");
                    (account.told, String::new())
                }
                Entry::Other { told, reason, .. } => (told, reason),
            };
            for text in [told, reason] {
                assert!(!text.contains('@'), "{text} names a person");
                assert!(!text.contains(char::is_control), "{text:?}");
            }
        }
    });
}
