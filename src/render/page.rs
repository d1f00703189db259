//! Pages for people: aligned tables, fields and the command to type next.
//!
//! Text is built with ANSI styles; the stream it is written to strips them where they are not wanted.

use anstream::adapter::strip_str;
use anstyle::{AnsiColor, Style};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use jiff::Timestamp;
use serde_json::Value;

use super::{Detail, selection, words};
use crate::error::Error;

/// What a piece of text says, and so how it looks; colour never carries meaning alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A heading or a column name.
    Heading,
    /// All is well.
    Good,
    /// Worth a look.
    Warning,
    /// Something is wrong.
    Bad,
    /// An id or a command that can be typed.
    Literal,
    /// Less important.
    Faint,
}

/// Text in a role.
pub fn paint(role: Role, text: &str) -> String {
    let style = match role {
        Role::Heading => Style::new().bold(),
        Role::Good => AnsiColor::Green.on_default(),
        Role::Warning => AnsiColor::Yellow.on_default(),
        Role::Bad => AnsiColor::Red.on_default().bold(),
        Role::Literal => AnsiColor::Cyan.on_default(),
        Role::Faint => Style::new().dimmed(),
    };
    format!("{style}{text}{style:#}")
}

/// What is shown where there is nothing to show.
pub(super) fn nothing() -> String {
    paint(Role::Faint, "-")
}

/// A value as text, or [`nothing`].
pub(super) fn or_nothing(value: Option<&impl ToString>) -> String {
    value.map_or_else(nothing, ToString::to_string)
}

/// A page under construction.
#[derive(Clone, Debug, Default)]
pub struct Page {
    text: String,
}

impl Page {
    /// An empty page.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a line of text.
    #[must_use]
    pub fn line(mut self, text: impl AsRef<str>) -> Self {
        self.text.push_str(text.as_ref());
        self.text.push('\n');
        self
    }

    /// Adds an empty line between two parts.
    #[must_use]
    pub fn gap(self) -> Self {
        self.line("")
    }

    /// Adds a heading.
    #[must_use]
    pub fn heading(self, text: &str) -> Self {
        self.line(paint(Role::Heading, text))
    }

    /// Adds `name  value` lines with the values aligned.
    #[must_use]
    pub fn fields<N: AsRef<str>>(mut self, fields: &[(N, String)]) -> Self {
        let width = fields
            .iter()
            .map(|(name, _)| name.as_ref().chars().count())
            .max()
            .unwrap_or(0);
        for (name, value) in fields {
            let label = paint(Role::Faint, &format!("{:width$}", name.as_ref()));
            self = self.line(format!("{label}  {value}"));
        }
        self
    }

    /// Adds a table; an empty one shows only `nothing`. Columns of numbers are aligned on the right.
    #[must_use]
    pub fn table(mut self, columns: &[&str], rows: Vec<Vec<String>>, nothing: &str) -> Self {
        if rows.is_empty() {
            return self.line(paint(Role::Faint, nothing));
        }
        let numbers: Vec<bool> = (0..columns.len())
            .map(|column| has_numbers(rows.iter().filter_map(|row| row.get(column))))
            .collect();
        let mut table = Table::new();
        table
            .load_style(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(
            columns
                .iter()
                .map(|column| paint(Role::Heading, &column.to_uppercase())),
        );
        for row in rows {
            table.add_row(row);
        }
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, 2));
            if numbers.get(index) == Some(&true) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        for line in table.lines() {
            self.text.push_str(line.trim_end());
            self.text.push('\n');
        }
        self
    }

    /// Adds the rows of a detail that is a list of records, such as holders or diagnostics; nothing for any
    /// other value.
    fn records(self, name: &str, value: &Value, now: Timestamp) -> Self {
        let Some(rows) = value.as_array() else {
            return self;
        };
        let records: Vec<_> = rows.iter().filter_map(Value::as_object).collect();
        let Some(first) = records.first() else {
            return self;
        };
        let columns: Vec<_> = first.keys().map(|key| column_name(key)).collect();
        let columns: Vec<_> = columns.iter().map(String::as_str).collect();
        let cells = records
            .iter()
            .map(|record| {
                first
                    .keys()
                    .map(|key| cell(key, record.get(key), now))
                    .collect()
            })
            .collect();
        self.heading(&format!("{}:", name.replace('_', " ")))
            .table(&columns, cells, "")
    }

    /// Adds the command to type next.
    #[must_use]
    pub fn next(self, command: &str) -> Self {
        self.line(format!(
            "{}  {}",
            paint(Role::Faint, "next:"),
            paint(Role::Literal, command)
        ))
    }

    /// Adds another page below this one.
    #[must_use]
    pub fn below(mut self, other: &Self) -> Self {
        self.text.push_str(&other.text);
        self
    }

    /// The text, ending in a newline.
    pub fn text(&self) -> String {
        self.text.clone()
    }
}

fn column_name(key: &str) -> String {
    key.trim_end_matches("_seconds")
        .trim_start_matches("identity_")
        .replace('_', " ")
}

fn cell(key: &str, value: Option<&Value>, now: Timestamp) -> String {
    match value {
        None | Some(Value::Null) => nothing(),
        Some(Value::String(text)) if key.ends_with("fingerprint") => {
            words::plain(&words::fingerprint(text))
        }
        Some(Value::String(text)) => match text.parse::<Timestamp>() {
            Ok(at) if key.ends_with("_at") => words::ago(now, at),
            _ => words::plain(text),
        },
        Some(Value::Bool(flag)) => if *flag { "yes" } else { "no" }.to_owned(),
        Some(value) => match value.as_u64() {
            Some(seconds) if key.ends_with("_seconds") => words::span(seconds),
            _ => value.to_string(),
        },
    }
}

/// Whether a column has numbers or shares, and nothing else but gaps.
fn has_numbers<'a>(cells: impl Iterator<Item = &'a String>) -> bool {
    let text: String = cells.map(|cell| strip_str(cell).to_string()).collect();
    text.contains(|letter: char| letter.is_ascii_digit())
        && text
            .chars()
            .all(|letter| letter.is_ascii_digit() || matches!(letter, '.' | '%' | '-' | ' '))
}

/// An error for people: the sentence, the reason of each profile where there are any, when trying again
/// may work, and what to type.
pub(super) fn error(error: &Error, now: Timestamp, detail: Detail) -> String {
    let code = paint(Role::Faint, &format!("[{}]", error.code.name));
    let mut page = Page::new().line(format!(
        "{} {} {code}",
        paint(Role::Bad, "error:"),
        words::plain(&error.message)
    ));
    if let Some(explanations) = selection::explanations(&error.details) {
        page = page.below(&selection::table(&explanations, now));
    }
    for (name, value) in error.details.iter().filter(|(name, _)| *name != "explain") {
        page = page.records(name, value, now);
    }
    if detail == Detail::Everything {
        let facts: Vec<_> = error
            .details
            .iter()
            .map(|(name, value)| (format!("  {name}"), words::plain(&value.to_string())))
            .collect();
        page = page.fields(&facts);
    }
    if let Some(at) = error.retry_at {
        let label = paint(Role::Faint, "retry:");
        page = page.line(format!("{label} {}", words::due(now, at)));
    }
    if let Some(hint) = &error.hint {
        page = page.next(&words::plain(hint));
    }
    page.text
}

#[cfg(test)]
mod tests {
    use super::{Page, Role, paint};
    use crate::error::{Error, code};
    use crate::render::Detail;
    use anstream::adapter::strip_str;
    use serde_json::json;

    fn plain(page: &Page) -> String {
        strip_str(&page.text()).to_string()
    }

    #[test]
    fn styles_do_not_move_columns_and_numbers_end_on_the_right() {
        let rows = vec![
            vec![paint(Role::Good, "a"), "9%".to_owned(), "x".to_owned()],
            vec!["long-name".to_owned(), "100%".to_owned(), String::new()],
        ];
        let page = Page::new().table(&["profile", "left", "note"], rows, "none");
        assert_eq!(
            plain(&page),
            "PROFILE    LEFT  NOTE\na            9%  x\nlong-name  100%\n"
        );
    }

    #[test]
    fn an_empty_table_says_so_instead_of_showing_a_header() {
        let page = Page::new().table(&["profile"], Vec::new(), "no profiles");
        assert_eq!(plain(&page), "no profiles\n");
    }

    #[test]
    fn a_list_of_records_in_the_details_is_a_table() {
        let error = Error::new(code::CAPACITY, "full").detail(
            "holders",
            json!([{"pid": 7, "age_seconds": 130, "task": "a"}, {"pid": null, "age_seconds": 5, "task": "b"}]),
        );
        let page = super::error(&error, jiff::Timestamp::UNIX_EPOCH, Detail::Sentence);
        assert_eq!(
            strip_str(&page).to_string(),
            "error: full [capacity]\nholders:\nPID  AGE    TASK\n  7  2 min  a\n  -  5 s    b\n"
        );
    }

    #[test]
    fn fields_align_their_values() {
        let page = Page::new().fields(&[("a", "1".to_owned()), ("longer", "2".to_owned())]);
        assert_eq!(plain(&page), "a       1\nlonger  2\n");
    }
}
