//! Watching: the same answer again and again, told whenever it became different.
//!
//! On a terminal the page is drawn in place, cut to the screen, each time it looks different. Anywhere else,
//! and wherever JSON or TOON was asked for, the first line is the whole answer and every later one is a
//! [`Change`] of one row of it. Pages that do not go to a terminal are written below one another.
//!
//! A look that is refused is told once and tried again: a registry that is being edited must not end a watch.
//! Only the first one ends it, since then nothing can be watched. It also ends when nobody reads any more,
//! within one interval also where nothing changes. Ctrl-C ends the process by its signal, so that a shell
//! sees why; every line is one write, so none is torn.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::output::{Told, tell};
use super::screen::Screen;
use super::{App, Outcome};
use crate::contract::watch::{Change, ChangeKind};
use crate::error::{Class, Error, Result};
use crate::render::{self, Detail, Format, Human, View};
use crate::sys::descriptor;

/// An answer that can be watched.
pub(super) trait Watched: serde::Serialize + Human {
    /// Its parts, each of which changes by itself.
    fn rows(&self) -> Result<Vec<Row>>;
}

/// One part of an answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    /// What it is, such as `lease`.
    kind: &'static str,
    /// Which one it is, among those of its kind.
    name: String,
    /// The part as it is in the whole answer.
    value: Value,
    /// What decides whether it changed.
    compared: Value,
}

impl Row {
    /// The part `value`, called `name` among those of its kind. The fields `volatile`, such as an age, differ
    /// at each look and are no change.
    pub(super) fn new(
        kind: &'static str,
        name: impl Into<String>,
        value: &impl serde::Serialize,
        volatile: &[&str],
    ) -> Result<Self> {
        let value = serde_json::to_value(value)
            .map_err(|error| Error::internal(format!("cannot serialise: {error}")))?;
        let mut compared = value.clone();
        if let Some(fields) = compared.as_object_mut() {
            fields.retain(|name, _| !volatile.contains(&name.as_str()));
        }
        Ok(Self {
            kind,
            name: name.into(),
            value,
            compared,
        })
    }
}

/// Looks every `interval` and tells what changed, until nobody reads any more.
pub(super) fn watch<T: Watched>(
    app: &App,
    interval: Duration,
    mut look: impl FnMut() -> Result<T>,
) -> Result<Outcome> {
    let mut teller = Teller::new(app);
    let mut first = true;
    loop {
        let now = app.context.clock.now();
        let told = match look() {
            Ok(answer) => teller.tell(&answer, now)?,
            Err(error) if first || error.code.class == Class::Internal => return Err(error),
            Err(error) => teller.tell_refusal(&error, now)?,
        };
        first = false;
        if told == Told::Nobody || descriptor::reader_left(interval) {
            return Ok(Outcome::Done(0));
        }
    }
}

/// What has been told so far, and in which way.
#[derive(Debug)]
struct Teller {
    format: Format,
    screen: Option<Screen>,
    /// The page or the refusal that was told last.
    last: String,
    rows: Option<Vec<Row>>,
}

impl Teller {
    fn new(app: &App) -> Self {
        let screen = match app.format {
            Format::Human => Screen::of_stdout(&app.context.variables),
            Format::Json | Format::Toon => None,
        };
        Self {
            format: app.format,
            screen,
            last: String::new(),
            rows: None,
        }
    }

    fn tell<T: Watched>(&mut self, answer: &T, now: Timestamp) -> Result<Told> {
        if self.format == Format::Human {
            let view = View::new(answer, now, self.format)?;
            return self.page(view.text());
        }
        let rows = answer.rows()?;
        let mut text = String::new();
        match &self.rows {
            None => text.push_str(View::new(answer, now, self.format)?.text()),
            Some(earlier) => {
                for change in changes(earlier, &rows, now) {
                    text.push_str(&render::data(&change, self.format)?);
                }
            }
        }
        self.rows = Some(rows);
        // A refusal that comes back later is news again.
        self.last.clear();
        tell(&text)
    }

    fn tell_refusal(&mut self, error: &Error, now: Timestamp) -> Result<Told> {
        let text = render::error_text(error, now, self.format, Detail::Sentence);
        if self.format == Format::Human {
            return self.page(&text);
        }
        if text == self.last {
            return Ok(Told::Somebody);
        }
        let told = tell(&text);
        self.last = text;
        told
    }

    /// Shows a page that looks different from the last one.
    fn page(&mut self, text: &str) -> Result<Told> {
        if text == self.last {
            return Ok(Told::Somebody);
        }
        let first = self.last.is_empty();
        text.clone_into(&mut self.last);
        match &self.screen {
            Some(screen) => screen.draw(text),
            None if first => tell(text),
            None => tell(&format!("\n{text}")),
        }
    }
}

/// What became different between two looks, in the order of the later one, what is gone at its end.
pub(super) fn changes(earlier: &[Row], later: &[Row], at: Timestamp) -> Vec<Change> {
    let by_name = |rows: &[Row]| -> BTreeMap<(&'static str, String), Row> {
        rows.iter()
            .map(|row| ((row.kind, row.name.clone()), row.clone()))
            .collect()
    };
    let (before, after) = (by_name(earlier), by_name(later));
    let change = |change, row: &Row| Change {
        at,
        change,
        kind: row.kind.to_owned(),
        row: row.value.clone(),
    };
    let mut found = Vec::new();
    for row in later {
        match before.get(&(row.kind, row.name.clone())) {
            None => found.push(change(ChangeKind::New, row)),
            Some(old) if old.compared != row.compared => {
                found.push(change(ChangeKind::Changed, row));
            }
            Some(_) => {}
        }
    }
    let is_gone = |row: &&Row| !after.contains_key(&(row.kind, row.name.clone()));
    found.extend(
        earlier
            .iter()
            .filter(is_gone)
            .map(|row| change(ChangeKind::Gone, row)),
    );
    found
}

#[cfg(test)]
mod tests {
    use super::{Row, changes};
    use crate::contract::watch::ChangeKind;
    use jiff::Timestamp;
    use serde_json::{Value, json};

    fn rows(values: &[(&str, Value)]) -> Vec<Row> {
        values
            .iter()
            .map(|(name, value)| Row::new("lease", *name, value, &["age"]).unwrap())
            .collect()
    }

    #[test]
    fn each_row_that_came_changed_or_went_is_one_change_and_an_age_is_none() {
        let before = rows(&[
            ("kept", json!({"age": 1, "verdict": "alive"})),
            ("changed", json!({"age": 1, "verdict": "reserved"})),
            ("gone", json!({"age": 1})),
        ]);
        let after = rows(&[
            ("changed", json!({"age": 2, "verdict": "alive"})),
            ("kept", json!({"age": 2, "verdict": "alive"})),
            ("new", json!({"age": 0})),
        ]);
        let found = changes(&before, &after, Timestamp::UNIX_EPOCH);
        let told: Vec<_> = found
            .iter()
            .map(|change| (change.change, change.row["age"].as_u64()))
            .collect();
        assert_eq!(
            told,
            [
                (ChangeKind::Changed, Some(2)),
                (ChangeKind::New, Some(0)),
                (ChangeKind::Gone, Some(1)),
            ]
        );
        assert!(changes(&after, &after, Timestamp::UNIX_EPOCH).is_empty());
    }
}
