//! Turning an answer into bytes: one compact JSON line with sorted keys, TOON, or a page for people.

pub mod page;

use serde::Serialize;
use serde_json::Value;

use crate::error::{Error, Result};
use page::Page;

/// Output formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One compact line, keys sorted.
    Json,
    /// Token-oriented notation, for agents.
    Toon,
    /// Tables and words.
    Human,
}

/// An answer that people can read.
pub trait Human {
    /// The page for people. `now` makes ages and waits.
    fn page(&self, now: jiff::Timestamp) -> Page;
}

/// What a command answers.
#[derive(Debug)]
pub struct View {
    value: Value,
    page: Page,
}

impl View {
    /// The view of an answer.
    pub fn new<T: Serialize + Human>(answer: &T, now: jiff::Timestamp) -> Result<Self> {
        Ok(Self {
            value: to_value(answer)?,
            page: answer.page(now),
        })
    }

    /// A view from data and a page made beside it.
    pub fn with_page<T: Serialize>(answer: &T, page: Page) -> Result<Self> {
        Ok(Self {
            value: to_value(answer)?,
            page,
        })
    }

    /// The text in a format, with a newline at its end.
    pub fn text(&self, format: Format) -> Result<String> {
        match format {
            Format::Json => json(&self.value),
            Format::Toon => toon(&self.value),
            Format::Human => Ok(self.page.text()),
        }
    }
}

fn to_value<T: Serialize>(answer: &T) -> Result<Value> {
    let mut value = serde_json::to_value(answer)
        .map_err(|error| Error::internal(format!("cannot serialise: {error}")))?;
    value.sort_all_objects();
    Ok(value)
}

fn json(value: &Value) -> Result<String> {
    let text = serde_json::to_string(value)
        .map_err(|error| Error::internal(format!("cannot serialise: {error}")))?;
    Ok(text + "\n")
}

fn toon(value: &Value) -> Result<String> {
    let text = toon_format::encode_default(value)
        .map_err(|error| Error::internal(format!("cannot encode: {error}")))?;
    Ok(text + "\n")
}

/// An error in a format: data for programs, or two lines for people.
pub fn error_text(error: &Error, format: Format) -> String {
    let mut value = serde_json::json!({
        "ok": false,
        "code": error.code.name,
        "class": error.code.class.name(),
        "error": error.message,
        "hint": error.hint,
        "details": *error.details,
        "retry_at": error.retry_at.map(|at| at.to_string()),
    });
    value.sort_all_objects();
    match format {
        Format::Json => json(&value).unwrap_or_default(),
        Format::Toon => toon(&value).unwrap_or_default(),
        Format::Human => page::error(error),
    }
}
