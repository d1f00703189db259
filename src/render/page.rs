//! Pages for people: aligned tables, ages and waits in words, colour by role.
//!
//! Text is built with ANSI styles; the stream it is written to strips them where they are not wanted.

use anstyle::{AnsiColor, Style};
use comfy_table::{ContentArrangement, Table, presets};

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

    /// Adds `name  value` lines with the values aligned.
    #[must_use]
    pub fn fields(mut self, fields: &[(&str, String)]) -> Self {
        let width = fields
            .iter()
            .map(|(name, _)| name.chars().count())
            .max()
            .unwrap_or(0);
        for (name, value) in fields {
            let label = paint(Role::Faint, &format!("{name:width$}"));
            self = self.line(format!("{label}  {value}"));
        }
        self
    }

    /// Adds a table; an empty one shows only `nothing`.
    #[must_use]
    pub fn table(mut self, columns: &[&str], rows: Vec<Vec<String>>, nothing: &str) -> Self {
        if rows.is_empty() {
            return self.line(paint(Role::Faint, nothing));
        }
        let mut table = Table::new();
        table
            .load_style(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(columns.iter().map(|column| paint(Role::Heading, column)));
        for row in rows {
            table.add_row(row);
        }
        for line in table.lines() {
            self.text.push_str(line.trim_end());
            self.text.push('\n');
        }
        self
    }

    /// Adds the command to type next.
    #[must_use]
    pub fn next(self, command: &str) -> Self {
        self.line(format!(
            "{} {}",
            paint(Role::Faint, "next:"),
            paint(Role::Literal, command)
        ))
    }

    /// The text, ending in a newline.
    pub fn text(&self) -> String {
        self.text.clone()
    }
}

/// An error for people: the sentence, then what to type.
pub fn error(error: &Error) -> String {
    let code = paint(Role::Faint, &format!("[{}]", error.code.name));
    let mut page = Page::new().line(format!(
        "{} {} {code}",
        paint(Role::Bad, "error:"),
        error.message
    ));
    if let Some(at) = error.retry_at {
        page = page.line(format!("{} {at}", paint(Role::Faint, "retry at:")));
    }
    if let Some(hint) = &error.hint {
        page = page.next(hint);
    }
    page.text
}
