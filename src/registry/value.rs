//! A plain value of the registry: what stands between TOML, the command line and JSON.

use std::fmt;

use serde::Serialize;

/// A value without formatting.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// `true` or `false`.
    Flag(bool),
    /// A whole number.
    Whole(i64),
    /// Any other number.
    Number(f64),
    /// Text.
    Text(String),
    /// A list of texts.
    List(Vec<String>),
}

impl Value {
    /// What kind of value it is, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Flag(_) => "true or false",
            Self::Whole(_) => "a whole number",
            Self::Number(_) => "a number",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
        }
    }

    /// Reads a word of the command line: flags and numbers by their form, everything else is text.
    pub fn from_word(word: &str) -> Self {
        match word {
            "true" => return Self::Flag(true),
            "false" => return Self::Flag(false),
            _ => {}
        }
        if let Ok(whole) = word.parse::<i64>() {
            return Self::Whole(whole);
        }
        // `nan`, `inf` and `infinity` parse as numbers, but nobody means one.
        match word.parse::<f64>() {
            Ok(number) if number.is_finite() && word.bytes().all(|b| !b.is_ascii_alphabetic()) => {
                Self::Number(number)
            }
            _ => Self::Text(word.to_owned()),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => write!(formatter, "{flag}"),
            Self::Whole(whole) => write!(formatter, "{whole}"),
            Self::Number(number) => write!(formatter, "{number}"),
            Self::Text(text) => formatter.write_str(text),
            Self::List(items) => formatter.write_str(&items.join(",")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Value;

    #[test]
    fn words_become_what_they_look_like() {
        for (word, value) in [
            ("true", Value::Flag(true)),
            ("30", Value::Whole(30)),
            ("-1", Value::Whole(-1)),
            ("2.5", Value::Number(2.5)),
            ("nan", Value::Text("nan".to_owned())),
            ("inf", Value::Text("inf".to_owned())),
            ("1e5", Value::Text("1e5".to_owned())),
            ("~/.claude", Value::Text("~/.claude".to_owned())),
        ] {
            assert_eq!(Value::from_word(word), value, "{word}");
        }
    }
}
