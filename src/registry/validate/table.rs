//! Walking a parsed text: known keys checked against their shapes, problems and notes collected.
//!
//! Serves every TOML file that people write. What a key that nobody knows means is the file's to say.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Diagnostic, place, plain};
use crate::id::ProviderKind;
use crate::registry::key::{self, Key};
use crate::registry::value::Value;
use crate::withheld::withhold;

/// A finding at a byte of the text.
struct Finding {
    at: usize,
    message: String,
}

/// What a key means that this version does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// It is left alone: programs edit the file, and a newer one may have written it.
    Kept,
    /// It is a mistake: only people write the file.
    Refused,
}

/// Collects findings over one text.
pub(crate) struct Walker<'a> {
    unknown: Unknown,
    text: &'a str,
    home: &'a Utf8Path,
    /// The text could not be parsed as a whole, so that absence proves nothing.
    partial: bool,
    problems: Vec<Finding>,
    notes: Vec<Finding>,
}

/// The checked values of one table.
pub(crate) struct Fields {
    values: BTreeMap<&'static str, Value>,
    places: BTreeMap<&'static str, usize>,
    start: usize,
}

impl<'a> Walker<'a> {
    pub(crate) fn new(text: &'a str, home: &'a Utf8Path, partial: bool, unknown: Unknown) -> Self {
        Self {
            unknown,
            text,
            home,
            partial,
            problems: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Something makes the registry unusable.
    pub(crate) fn problem(&mut self, at: usize, message: String) {
        self.problems.push(Finding { at, message });
    }

    /// Something is absent; says nothing when unparsable text may have held it.
    pub(crate) fn missing(&mut self, at: usize, message: &str) {
        if !self.partial {
            self.problem(at, message.to_owned());
        }
    }

    /// A key that this version does not know.
    pub(crate) fn unknown(&mut self, at: usize, full: &str, name: &str, known: &[&str]) {
        let mut message = match self.unknown {
            Unknown::Kept => format!("unknown key `{full}` is kept but has no effect"),
            Unknown::Refused => format!("unknown key `{full}`"),
        };
        if let Some(meant) = key::nearest(known.iter().copied(), name) {
            message = format!("{message}; did you mean `{meant}`?");
        }
        let finding = Finding { at, message };
        match self.unknown {
            Unknown::Kept => self.notes.push(finding),
            Unknown::Refused => self.problems.push(finding),
        }
    }

    /// The table behind a name that must be one.
    pub(crate) fn table<'i>(
        &mut self,
        name: &str,
        value: &Spanned<DeValue<'i>>,
        tables: &[&str],
    ) -> Option<Spanned<DeTable<'i>>> {
        if !tables.contains(&name) {
            return None;
        }
        if let DeValue::Table(table) = value.get_ref() {
            return Some(Spanned::new(value.span(), table.clone()));
        }
        self.problem(value.span().start, format!("`{name}` must be a table"));
        None
    }

    /// Checks the keys of a table; `tables` are the names of subtables that are read elsewhere.
    pub(crate) fn fields(
        &mut self,
        table: &Spanned<DeTable<'_>>,
        path: &str,
        keys: &'static [Key],
        provider: Option<ProviderKind>,
        tables: &[&str],
    ) -> Fields {
        let mut fields = Fields {
            values: BTreeMap::new(),
            places: BTreeMap::new(),
            start: table.span().start,
        };
        for (name, value) in table.get_ref() {
            let full = match path {
                "" => name.get_ref().to_string(),
                path => format!("{path}.{}", name.get_ref()),
            };
            let Some(key) = key::find(keys, name.get_ref()) else {
                if !tables.contains(&name.get_ref().as_ref()) {
                    let known: Vec<&str> = keys
                        .iter()
                        .map(|key| key.name)
                        .chain(tables.iter().copied())
                        .collect();
                    self.unknown(name.span().start, &full, name.get_ref(), &known);
                }
                continue;
            };
            fields.places.insert(key.name, value.span().start);
            let checked = plain(value.get_ref())
                .ok_or_else(|| key.shape.wanted(provider))
                .and_then(|plain| key.shape.accept(&plain, place(self.home, provider)));
            match checked {
                Ok(checked) => {
                    fields.values.insert(key.name, checked);
                }
                Err(problem) => self.problem(value.span().start, format!("`{full}` {problem}")),
            }
        }
        fields
    }

    /// The notes on a text that is good, or every problem; both in the order of the text.
    pub(crate) fn finish(self) -> Result<Vec<Diagnostic>, Vec<Diagnostic>> {
        if self.problems.is_empty() {
            Ok(diagnostics(self.text, self.notes))
        } else {
            Err(diagnostics(self.text, self.problems))
        }
    }
}

fn diagnostics(text: &str, mut findings: Vec<Finding>) -> Vec<Diagnostic> {
    findings.sort_by_key(|finding| finding.at);
    findings
        .into_iter()
        .map(|Finding { at, message }| {
            // A parser's span could end inside a character; the line is still right.
            let before = text.get(..at).unwrap_or(text);
            let line = before.matches('\n').count() + 1;
            let start = before.rfind('\n').map_or(0, |newline| newline + 1);
            let column = before.get(start..).unwrap_or_default().chars().count() + 1;
            Diagnostic {
                line,
                column,
                message: withhold(&message).into_owned(),
            }
        })
        .collect()
}

impl Fields {
    pub(crate) fn value(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// Whether the key stands in the table, with a good value or not.
    pub(crate) fn written(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }

    /// Where the value of a key stands; the table's own place when it is absent.
    pub(crate) fn at(&self, name: &str) -> usize {
        self.places.get(name).copied().unwrap_or(self.start)
    }

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        match self.value(name) {
            Some(Value::Text(text)) => Some(text.clone()),
            _ => None,
        }
    }

    pub(crate) fn path(&self, name: &str) -> Option<Utf8PathBuf> {
        self.text(name).map(Utf8PathBuf::from)
    }

    pub(crate) fn whole(&self, name: &str) -> Option<i64> {
        match self.value(name) {
            Some(Value::Whole(number)) => Some(*number),
            _ => None,
        }
    }

    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        match self.value(name) {
            Some(Value::Number(number)) => Some(*number),
            _ => None,
        }
    }

    pub(crate) fn list(&self, name: &str) -> Option<Vec<String>> {
        match self.value(name) {
            Some(Value::List(items)) => Some(items.clone()),
            _ => None,
        }
    }

    pub(crate) fn word<T>(&self, name: &str, read: fn(&str) -> Option<T>, default: T) -> T {
        self.text(name)
            .and_then(|word| read(&word))
            .unwrap_or(default)
    }
}
