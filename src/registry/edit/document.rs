//! The registry's text as a tree that keeps its comments: the only place that names `toml_edit`.
//!
//! What an edit does not concern stays byte for byte. A comment inside a list survives the removal of the
//! item above or beside it. With a table goes the comment that touches its header; one that a blank line
//! sets apart stays, as does everything outside the table. A text whose lines end in two ways gets one way.

use toml_edit::{Array, DocumentMut, InlineTable, Item, RawString, Table, TableLike};

use super::frame::Frame;
use crate::registry::value::Value;

/// A text under edit.
#[derive(Clone, Debug)]
pub struct Document(DocumentMut, Frame);

/// Why an edit could not be made: the text has a form that only a person should change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck(pub String);

impl Document {
    /// Reads a text that was judged valid.
    pub fn parse(text: &str) -> Result<Self, Stuck> {
        text.parse()
            .map(|tree| Self(tree, Frame::of(text)))
            .map_err(|error: toml_edit::TomlError| Stuck(error.message().to_owned()))
    }

    /// The whole text.
    pub fn text(&self) -> String {
        self.1.around(&self.0.to_string())
    }

    /// Sets a key, creating the tables on the way. A list keeps the items that stay.
    pub fn set(&mut self, tables: &[&str], key: &str, value: &Value) -> Result<(), Stuck> {
        let table = self.reach(tables)?;
        match (table.get_mut(key), value) {
            (Some(Item::Value(toml_edit::Value::Array(array))), Value::List(items)) => {
                reconcile(array, items);
            }
            (Some(Item::Value(old)), value) => {
                let decor = old.decor().clone();
                *old = written(value);
                *old.decor_mut() = decor;
            }
            (Some(_), _) => return Err(Stuck(format!("`{key}` is a table"))),
            (None, value) => {
                table.insert(key, Item::Value(written(value)));
            }
        }
        Ok(())
    }

    /// Adds an item to a list, creating both where needed.
    pub fn push(&mut self, tables: &[&str], key: &str, item: &str) -> Result<(), Stuck> {
        let table = self.reach(tables)?;
        match table.get_mut(key) {
            Some(Item::Value(toml_edit::Value::Array(array))) => push(array, item),
            Some(_) => return Err(Stuck(format!("`{key}` is not a list"))),
            None => {
                table.insert(
                    key,
                    Item::Value(written(&Value::List(vec![item.to_owned()]))),
                );
            }
        }
        Ok(())
    }

    /// Removes the items of a list that `gone` picks, by their text; false when there were none.
    pub fn pull(&mut self, tables: &[&str], key: &str, gone: impl Fn(&str) -> bool) -> bool {
        let Some(table) = self.find(tables) else {
            return false;
        };
        match table.get_mut(key) {
            Some(Item::Value(toml_edit::Value::Array(array))) => pull(array, gone),
            _ => false,
        }
    }

    /// Removes a table with all it holds; false when there was none.
    pub fn remove(&mut self, tables: &[&str], key: &str) -> bool {
        let removed = match self.find(tables) {
            Some(table) => table.remove(key),
            None => None,
        };
        if let Some(Item::Table(table)) = &removed
            && let Some(position) = table.position()
        {
            let kept = set_apart(raw(table.decor().prefix()));
            if !kept.is_empty() {
                self.give_back(position, kept);
            }
        }
        removed.is_some()
    }

    /// Puts text of a removed table before the header that follows it, or at the end.
    fn give_back(&mut self, position: isize, text: &str) {
        if let Some(next) = following(self.0.as_table_mut(), position) {
            let prefix = format!("{text}{}", raw(next.decor().prefix()));
            next.decor_mut().set_prefix(prefix);
        } else {
            let trailing = format!("{text}{}", self.0.trailing().as_str().unwrap_or_default());
            self.0.set_trailing(trailing);
        }
    }

    fn find(&mut self, tables: &[&str]) -> Option<&mut dyn TableLike> {
        let mut table: &mut dyn TableLike = self.0.as_table_mut();
        for name in tables {
            table = table.get_mut(name)?.as_table_like_mut()?;
        }
        Some(table)
    }

    fn reach(&mut self, tables: &[&str]) -> Result<&mut dyn TableLike, Stuck> {
        let mut table: &mut dyn TableLike = self.0.as_table_mut();
        let mut inline = false;
        for (depth, name) in tables.iter().enumerate() {
            if !table.contains_key(name) {
                let mut made = Table::new();
                made.set_implicit(depth + 1 < tables.len());
                table.insert(
                    name,
                    if inline {
                        Item::Value(InlineTable::new().into())
                    } else {
                        Item::Table(made)
                    },
                );
            }
            let item = table
                .get_mut(name)
                .ok_or_else(|| Stuck(format!("`{name}` is missing")))?;
            inline = item.is_value();
            table = item
                .as_table_like_mut()
                .ok_or_else(|| Stuck(format!("`{name}` is not a table")))?;
        }
        Ok(table)
    }
}

fn written(value: &Value) -> toml_edit::Value {
    match value {
        Value::Flag(flag) => (*flag).into(),
        Value::Whole(whole) => (*whole).into(),
        Value::Number(number) => (*number).into(),
        Value::Text(text) => text.as_str().into(),
        Value::List(items) => items.iter().map(String::as_str).collect::<Array>().into(),
    }
}

fn raw(text: Option<&RawString>) -> &str {
    text.and_then(RawString::as_str).unwrap_or_default()
}

/// The part of a header's comments that a blank line sets apart from it.
fn set_apart(prefix: &str) -> &str {
    let end = prefix.rfind("\n\n").map_or(0, |at| at + 1);
    let kept = &prefix[..end];
    if kept.contains('#') { kept } else { "" }
}

/// The table whose header is the first after a position of the text.
fn following(table: &mut Table, position: isize) -> Option<&mut Table> {
    fn first(table: &Table, after: isize) -> Option<isize> {
        table
            .iter()
            .filter_map(|(_, item)| item.as_table())
            .flat_map(|inner| {
                let own = inner
                    .position()
                    .filter(|at| *at > after && !inner.is_implicit());
                [own, first(inner, after)]
            })
            .flatten()
            .min()
    }
    fn at(table: &mut Table, wanted: isize) -> Option<&mut Table> {
        for (_, item) in table.iter_mut() {
            if let Some(inner) = item.as_table_mut() {
                if inner.position() == Some(wanted) && !inner.is_implicit() {
                    return Some(inner);
                }
                if let Some(found) = at(inner, wanted) {
                    return Some(found);
                }
            }
        }
        None
    }
    let wanted = first(table, position)?;
    at(table, wanted)
}

fn reconcile(array: &mut Array, items: &[String]) {
    pull(array, |old| !items.iter().any(|item| item == old));
    for item in items {
        if !array.iter().any(|old| old.as_str() == Some(item)) {
            push(array, item);
        }
    }
}

fn push(array: &mut Array, item: &str) {
    let mut value = toml_edit::Value::from(item);
    let trailing = array.trailing().as_str().unwrap_or_default().to_owned();
    let count = array.len();
    if let Some(last) = count.checked_sub(1).and_then(|at| array.get_mut(at)) {
        let prefix = raw(last.decor().prefix()).to_owned();
        // Without a final comma, a comment beside the last item belongs to that item.
        let beside = raw(last.decor().suffix()).to_owned() + &trailing;
        let multiline = beside.contains('\n') || prefix.contains('\n');
        let indent = if multiline {
            let line = prefix.rfind('\n').map_or("    ", |at| &prefix[at + 1..]);
            format!("\n{line}")
        } else {
            " ".to_owned()
        };
        last.decor_mut().set_suffix("");
        if beside.contains('#') {
            value
                .decor_mut()
                .set_prefix(format!("{}{indent}", beside.trim_end()));
            array.set_trailing("\n");
        } else {
            value.decor_mut().set_prefix(indent);
            array.set_trailing(beside);
        }
        array.push_formatted(value);
    } else {
        array.push(item);
    }
}

fn pull(array: &mut Array, gone: impl Fn(&str) -> bool) -> bool {
    let before = array.len();
    let mut at = 0;
    while at < array.len() {
        if !array
            .get(at)
            .and_then(toml_edit::Value::as_str)
            .is_some_and(&gone)
        {
            at += 1;
            continue;
        }
        let removed = array.remove(at);
        let suffix = raw(removed.decor().suffix());
        let kept = raw(removed.decor().prefix()).to_owned() + suffix;
        let next = array
            .get(at)
            .map(|next| raw(next.decor().prefix()).to_owned());
        let (target, is_last) = match next {
            Some(next) => (next, false),
            None => (
                array.trailing().as_str().unwrap_or_default().to_owned(),
                true,
            ),
        };
        let merged = if kept.contains('#') {
            // The comment line must end before what follows it.
            let line = if kept.contains('\n') {
                kept
            } else {
                kept + "\n"
            };
            let rest = if target.contains('#') {
                target.trim_start()
            } else {
                ""
            };
            let line = if is_last && rest.is_empty() {
                format!("{}\n", line.trim_end())
            } else {
                line
            };
            format!("{line}{rest}")
        } else if at == 0 && !target.contains(['#', '\n']) && !is_last {
            kept
        } else {
            target
        };
        match array.get_mut(at) {
            Some(next) => next.decor_mut().set_prefix(merged),
            None => array.set_trailing(merged),
        }
    }
    if array.is_empty() && !array.trailing().as_str().unwrap_or_default().contains('#') {
        array.set_trailing("");
    }
    array.len() < before
}

#[cfg(test)]
mod tests {
    use super::Document;
    use crate::registry::value::Value;

    const TEXT: &str = r#"# my accounts
version = 1 # do not touch

[settings] # tuned
# short, on purpose
lease_ttl_seconds   =  10   # seconds

# --- work ---

# the first one
[profiles."claude-1"] # paid by me
provider = "claude"
pools = [ # where
    "crew", # everyday
    # rarely
    "night", # late
] # end
future = { kept = true } # unknown to us

# the second one
[profiles.codex-1]
provider = "codex"
"#;

    fn text(edit: impl FnOnce(&mut Document)) -> String {
        let mut document = Document::parse(TEXT).unwrap();
        edit(&mut document);
        document.text()
    }

    #[test]
    fn an_untouched_text_is_the_same_bytes() {
        assert_eq!(text(|_| ()), TEXT);
    }

    #[test]
    fn line_ends_stay_what_they_are() {
        for text in [
            "version = 1\r\n[settings]\r\n# note\r\nlease_ttl_seconds = 10\r\n",
            "\u{feff}version = 1\n",
            "version = 1\n[settings] # end",
            "\u{feff}version = 1\r\n# note",
            "version = 1",
        ] {
            let mut document = Document::parse(text).unwrap();
            assert_eq!(document.text(), text);
            document.set(&[], "version", &Value::Whole(2)).unwrap();
            assert_eq!(document.text(), text.replace("version = 1", "version = 2"));
        }
    }

    #[test]
    fn a_value_changes_in_its_place() {
        let set = |document: &mut Document| {
            document
                .set(&["settings"], "lease_ttl_seconds", &Value::Whole(30))
                .unwrap();
        };
        assert_eq!(text(set), TEXT.replace("=  10 ", "=  30 "));
    }

    #[test]
    fn new_tables_and_keys_come_last_and_leave_the_rest_alone() {
        let added = text(|document| {
            document
                .set(
                    &["providers", "claude"],
                    "binary",
                    &Value::Text("/a b".into()),
                )
                .unwrap();
            document
                .set(&["profiles", "codex-1"], "enabled", &Value::Flag(true))
                .unwrap();
        });
        assert_eq!(
            added,
            format!("{TEXT}enabled = true\n\n[providers.claude]\nbinary = \"/a b\"\n")
        );
    }

    #[test]
    fn items_come_and_go_without_their_neighbours_comments() {
        let at = &["profiles", "claude-1"];
        let pushed = text(|document| document.push(at, "pools", "new").unwrap());
        assert_eq!(
            pushed,
            TEXT.replace("\"night\", # late\n", "\"night\", # late\n    \"new\",\n")
        );
        let pulled = text(|document| {
            assert!(document.pull(at, "pools", |item| item == "night"));
        });
        assert_eq!(
            pulled,
            TEXT.replace("    \"night\", # late\n", "    # late\n"),
            "only the item went"
        );
        let first = text(|document| {
            assert!(document.pull(at, "pools", |item| item == "crew"));
        });
        for comment in ["# where", "# everyday", "# rarely", "# late"] {
            assert!(first.contains(comment), "{comment} is gone from {first}");
        }
        let none = text(|document| {
            document.set(at, "pools", &Value::List(Vec::new())).unwrap();
        });
        for comment in ["# where", "# everyday", "# rarely", "# late"] {
            assert!(none.contains(comment), "{comment} is gone from {none}");
        }
        Document::parse(&none).unwrap();
    }

    #[test]
    fn a_removed_table_takes_only_the_comment_that_touches_it() {
        let removed = text(|document| assert!(document.remove(&["profiles"], "claude-1")));
        let begin = TEXT.find("# the first one").unwrap();
        let end = TEXT.find("\n# the second one").unwrap();
        assert_eq!(removed, format!("{}{}", &TEXT[..begin], &TEXT[end + 1..]));
        let last = text(|document| assert!(document.remove(&["profiles"], "codex-1")));
        assert_eq!(last, TEXT[..end]);
    }

    #[test]
    fn short_and_inline_forms_stay_what_they_are() {
        let mut document =
            Document::parse("version = 1\nprofiles = { a = { pools = [\"x\"] } }\n").unwrap();
        document.push(&["profiles", "a"], "pools", "y").unwrap();
        document
            .set(&["profiles", "b"], "home", &Value::Text("/b".into()))
            .unwrap();
        assert_eq!(
            document.text(),
            "version = 1\nprofiles = { a = { pools = [\"x\", \"y\"] } , b = { home = \"/b\" } }\n"
        );
        assert!(document.pull(&["profiles", "a"], "pools", |item| item == "x"));
        assert!(document.text().contains("pools = [\"y\"]"));
        assert!(document.set(&["version"], "x", &Value::Flag(true)).is_err());
    }

    proptest::proptest! {
        #[test]
        fn edits_keep_every_comment_and_read_back(
            before in proptest::collection::vec("[a-c]", 0..5),
            after in proptest::collection::vec("[a-e]", 0..5),
            multiline: bool,
            trailing: bool,
        ) {
            let separator = if multiline { " # note\n    " } else { " " };
            let mut list = before.iter().map(|item| format!("\"{item}\"")).collect::<Vec<_>>();
            if trailing && !list.is_empty() {
                list.push(String::new());
            }
            let text = format!("# top\n[t] # head\nlist = [{}] # beside\nother = 1 # last\n", list.join(&format!(",{separator}")));
            let mut document = Document::parse(&text).unwrap();
            document.set(&["t"], "list", &Value::List(after.clone())).unwrap();
            let edited = document.text();
            let count = |text: &str| text.matches('#').count();
            proptest::prop_assert_eq!(count(&text), count(&edited), "{}\n{}", text, edited);
            let again: toml::Table = toml::from_str(&edited).unwrap();
            let found: std::collections::BTreeSet<&str> = again["t"]["list"].as_array().unwrap().iter().filter_map(toml::Value::as_str).collect();
            let wanted: std::collections::BTreeSet<&str> = after.iter().map(String::as_str).collect();
            proptest::prop_assert_eq!(found, wanted);
            proptest::prop_assert!(edited.ends_with("# beside\nother = 1 # last\n"));
        }
    }
}
