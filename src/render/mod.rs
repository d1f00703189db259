//! Turning an answer into bytes: one compact JSON line with sorted keys, TOON, or a page for people.
//!
//! Pages of the contract's types live here, one file per noun; a command with a small answer of its own
//! keeps its page beside it. Nothing in here decides anything.

mod audit;
mod doctor;
mod document;
mod enrollment;
mod fleet;
mod identity;
mod import;
mod launch;
mod lease;
pub mod page;
mod pool;
mod profile;
mod provider;
mod quota;
mod reason;
mod registry;
mod selection;
mod session;
mod status;
mod transaction;
pub mod words;
mod worker;

use serde::Serialize;
use serde_json::Value;

use crate::contract::failure::Failure;
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

impl Format {
    /// Every format, in the order of the contract.
    pub const ALL: [Self; 3] = [Self::Json, Self::Toon, Self::Human];

    /// The word on the command line and in `AGENT_FLEET_FORMAT`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Toon => "toon",
            Self::Human => "human",
        }
    }

    /// The format of a word, in any case.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|format| format.name().eq_ignore_ascii_case(word))
    }
}

/// How much people are told of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The sentence and the next command.
    Sentence,
    /// Also every fact that programs get.
    Everything,
}

/// An answer that people can read.
pub trait Human {
    /// The page for people. `now` makes ages and waits.
    fn page(&self, now: jiff::Timestamp) -> Page;
}

/// What a command answers, as text in the format that was asked for.
#[derive(Debug)]
pub struct View {
    text: String,
}

impl View {
    /// The view of an answer. Only the format asked for is made: a page needs the time zone, which programs
    /// that read JSON do not pay for.
    pub fn new<T: Serialize + Human>(
        answer: &T,
        now: jiff::Timestamp,
        format: Format,
    ) -> Result<Self> {
        Self::with_page(answer, || answer.page(now), format)
    }

    /// A view from data and a page made beside it.
    pub fn with_page<T: Serialize>(
        answer: &T,
        page: impl FnOnce() -> Page,
        format: Format,
    ) -> Result<Self> {
        let text = match format {
            Format::Json => json(&to_value(answer)?)?,
            Format::Toon => toon(&to_value(answer)?)?,
            Format::Human => page().text(),
        };
        Ok(Self { text })
    }

    /// The text, with a newline at its end.
    pub fn text(&self) -> &str {
        &self.text
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

/// An answer for programs alone, in their format.
pub fn data<T: Serialize>(answer: &T, format: Format) -> Result<String> {
    let value = to_value(answer)?;
    match format {
        Format::Json | Format::Human => json(&value),
        Format::Toon => toon(&value),
    }
}

/// An error in a format: data for programs, or the sentence and the next command for people.
pub fn error_text(error: &Error, now: jiff::Timestamp, format: Format, detail: Detail) -> String {
    let data = || to_value(&Failure::from(error));
    match format {
        Format::Json => data().and_then(|value| json(&value)).unwrap_or_default(),
        Format::Toon => data().and_then(|value| toon(&value)).unwrap_or_default(),
        Format::Human => page::error(error, now, detail),
    }
}

#[cfg(test)]
mod tests {
    use super::{Detail, Format, Human, View, error_text};
    use crate::error::{Error, code};
    use crate::render::page::Page;
    use jiff::Timestamp;
    use std::collections::BTreeMap;

    #[derive(serde::Serialize)]
    struct Answer {
        zebra: f64,
        apple: BTreeMap<&'static str, u64>,
        none: Option<u32>,
    }

    impl Human for Answer {
        fn page(&self, _: Timestamp) -> Page {
            Page::new().line("a page")
        }
    }

    fn answer() -> Answer {
        Answer {
            zebra: 80.0,
            apple: BTreeMap::from([("b", 1), ("a", 2)]),
            none: None,
        }
    }

    fn text(format: Format) -> String {
        View::new(&answer(), Timestamp::UNIX_EPOCH, format)
            .unwrap()
            .text()
            .to_owned()
    }

    #[test]
    fn json_is_one_compact_line_with_sorted_keys_and_percents_stay_fractions() {
        assert_eq!(
            text(Format::Json),
            "{\"apple\":{\"a\":2,\"b\":1},\"none\":null,\"zebra\":80.0}\n"
        );
    }

    #[test]
    fn toon_says_the_same_as_json() {
        let back: serde_json::Value =
            toon_format::decode_default(&text(Format::Toon)).expect("what we encoded");
        assert_eq!(back["apple"]["a"], 2);
        assert_eq!(back["zebra"].as_f64(), Some(80.0));
    }

    #[test]
    fn people_get_the_page() {
        assert_eq!(text(Format::Human), "a page\n");
    }

    #[test]
    fn an_error_is_data_for_programs_and_two_lines_for_people() {
        let error = Error::new(code::NOT_FOUND, "there is no profile `x`")
            .hint("agent-fleet profile list")
            .detail("profile", "x");
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(
            error_text(&error, now, Format::Json, Detail::Sentence),
            concat!(
                r#"{"class":"refused","code":"not_found","details":{"profile":"x"},"#,
                r#""error":"there is no profile `x`","hint":"agent-fleet profile list","#,
                r#""ok":false,"retry_at":null}"#,
                "\n"
            )
        );
        let styled = error_text(&error, now, Format::Human, Detail::Sentence);
        let page = anstream::adapter::strip_str(&styled).to_string();
        assert_eq!(
            page,
            "error: there is no profile `x` [not_found]\nnext:  agent-fleet profile list\n"
        );
    }
}
