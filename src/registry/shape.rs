//! What values a key takes: checked, brought into one form, and said in words when they do not fit.

use camino::{Utf8Path, Utf8PathBuf};

use super::key::{linkable, never_inherited};
use super::path;
use super::value::Value;
use crate::id::{PoolId, ProviderKind};
use crate::provider::argument::{LONGEST, check_entry};

/// What values a key takes.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// `true` or `false`.
    Flag,
    /// A whole number in a closed range.
    Whole(i64, i64),
    /// A number in a closed range.
    Number(f64, f64),
    /// One of these words.
    Word(&'static [&'static str]),
    /// A path.
    Path,
    /// A path, or `false` to do without.
    PathOrFalse,
    /// `builtin`, `none` or the path of a program.
    Reader,
    /// A list of pool ids.
    Pools,
    /// A list of paths.
    Paths,
    /// A list of entries of the base home that may be linked into a home.
    Entries,
    /// A list of settings of the base home that may be merged into a home.
    Inherited,
    /// A list of option names.
    Options,
    /// An opaque word.
    Token,
    /// The name of a model, an effort or a model family, as it may stand in an argument.
    Name,
    /// A pool id.
    Pool,
    /// One line of text, which its reader takes apart.
    Line,
    /// A list of provider names.
    Providers,
    /// A list of arguments for a program.
    Arguments,
}

/// Where a value is checked: what `~/` means, and in whose table it stands.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The person's home directory.
    pub home: &'a Utf8Path,
    /// The provider whose table it is, if it is one.
    pub provider: Option<ProviderKind>,
}

impl Shape {
    /// The value as this shape takes it, or what it must be.
    pub fn accept(self, value: &Value, place: Place<'_>) -> Result<Value, String> {
        let path = |text: &str| path::parse(text, place.home).map(Utf8PathBuf::into_string);
        match (self, value) {
            (Self::Whole(least, most), Value::Whole(number)) if (least..=most).contains(number) => {
                Ok(value.clone())
            }
            (Self::Number(least, most), Value::Number(number))
                if (least..=most).contains(number) =>
            {
                Ok(value.clone())
            }
            (Self::Number(..), Value::Whole(whole)) if whole.unsigned_abs() < 1_000_000 => {
                let number = f64::from(i32::try_from(*whole).unwrap_or(i32::MAX));
                self.accept(&Value::Number(number), place)
            }
            (Self::Flag, Value::Flag(_)) | (Self::PathOrFalse, Value::Flag(false)) => {
                Ok(value.clone())
            }
            (Self::Word(words), Value::Text(text)) if words.contains(&text.as_str()) => {
                Ok(value.clone())
            }
            (Self::Token, Value::Text(text))
                if !text.is_empty()
                    && text.len() <= 64
                    && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') =>
            {
                Ok(value.clone())
            }
            (Self::Name, Value::Text(text)) if is_name(text) => Ok(value.clone()),
            (Self::Pool, Value::Text(text)) => match text.parse::<PoolId>() {
                Ok(_) => Ok(value.clone()),
                Err(error) => Err(format!("is no pool: {error}")),
            },
            (Self::Line, Value::Text(text))
                if !text.trim().is_empty()
                    && text.len() <= 1000
                    && !text.chars().any(char::is_control) =>
            {
                Ok(value.clone())
            }
            (Self::Reader, Value::Text(text)) if text == "builtin" || text == "none" => {
                Ok(value.clone())
            }
            (Self::Path | Self::PathOrFalse, Value::Text(text)) => path(text).map(Value::Text),
            (Self::Reader, Value::Text(text)) => path(text)
                .map(Value::Text)
                .map_err(|_| self.wanted(place.provider)),
            (Self::Paths, Value::List(items)) => items
                .iter()
                .map(|item| path(item))
                .collect::<Result<_, _>>()
                .map(Value::List),
            (
                Self::Pools
                | Self::Entries
                | Self::Inherited
                | Self::Options
                | Self::Providers
                | Self::Arguments,
                Value::List(items),
            ) => {
                match items
                    .iter()
                    .find_map(|item| self.item(item, place.provider))
                {
                    Some(problem) => Err(problem),
                    None => Ok(value.clone()),
                }
            }
            _ => Err(self.wanted(place.provider)),
        }
    }

    /// What is wrong with one item of a list.
    fn item(self, item: &str, provider: Option<ProviderKind>) -> Option<String> {
        match self {
            Self::Pools => item.parse::<PoolId>().err().map(|error| error.to_string()),
            Self::Entries => {
                let allowed = provider.map_or(&[][..], linkable);
                (!allowed.contains(&item))
                    .then(|| format!("may hold only {}, not `{item}`", listed(allowed)))
            }
            Self::Inherited => {
                let refused = provider.map_or(&[][..], never_inherited);
                (refused.contains(&item) || item.is_empty()).then(|| {
                    format!("must not hold `{item}`: it could move a worker to another account")
                })
            }
            Self::Options => check_entry(item)
                .err()
                .map(|problem| format!("must not hold `{item}`: {problem}")),
            Self::Providers => item
                .parse::<ProviderKind>()
                .err()
                .map(|error| error.to_string()),
            Self::Arguments => (item.len() > LONGEST || item.contains('\0'))
                .then(|| "must not hold an argument that is too long or has a NUL".to_owned()),
            Self::Flag
            | Self::Whole(..)
            | Self::Number(..)
            | Self::Word(_)
            | Self::Path
            | Self::PathOrFalse
            | Self::Reader
            | Self::Paths
            | Self::Token
            | Self::Name
            | Self::Pool
            | Self::Line => None,
        }
    }

    /// What a value must be, as the end of a sentence.
    pub fn wanted(self, provider: Option<ProviderKind>) -> String {
        match self {
            Self::Flag => "must be true or false".to_owned(),
            Self::Whole(least, i64::MAX) => {
                format!("must be a whole number of at least {least}")
            }
            Self::Whole(least, most) => {
                format!("must be a whole number between {least} and {most}")
            }
            Self::Number(least, most) => format!("must be a number between {least} and {most}"),
            Self::Word(words) => format!("must be {}", listed(words)),
            Self::Path => "must be an absolute path or begin with `~/`".to_owned(),
            Self::PathOrFalse => {
                "must be a path that is absolute or begins with `~/`, or false".to_owned()
            }
            Self::Reader => "must be `builtin`, `none` or the path of a program".to_owned(),
            Self::Pools => "must be a list of pool ids".to_owned(),
            Self::Paths => "must be a list of paths".to_owned(),
            Self::Entries => format!(
                "must be a list of {}",
                listed(provider.map_or(&[][..], linkable))
            ),
            Self::Inherited => "must be a list of settings".to_owned(),
            Self::Options => "must be a list of option names such as `--name`".to_owned(),
            Self::Token => "must be 1 to 64 letters, digits or `-`".to_owned(),
            Self::Name => {
                "must be 1 to 128 letters, digits or `._-:/@[]`, the first a letter or digit"
                    .to_owned()
            }
            Self::Pool => "must be a pool id".to_owned(),
            Self::Line => "must be one line of text".to_owned(),
            Self::Providers => "must be a list of providers".to_owned(),
            Self::Arguments => "must be a list of arguments, each a text of its own".to_owned(),
        }
    }

    /// Reads a value of the command line; lists are separated by commas.
    pub fn read(self, word: &str) -> Value {
        match self {
            Self::Pools
            | Self::Paths
            | Self::Entries
            | Self::Inherited
            | Self::Options
            | Self::Providers
            | Self::Arguments => {
                let items = word.split(',').map(str::trim);
                Value::List(
                    items
                        .filter(|item| !item.is_empty())
                        .map(str::to_owned)
                        .collect(),
                )
            }
            Self::Word(_)
            | Self::Path
            | Self::Reader
            | Self::Token
            | Self::Name
            | Self::Pool
            | Self::Line => Value::Text(word.to_owned()),
            Self::Flag | Self::Whole(..) | Self::Number(..) | Self::PathOrFalse => {
                Value::from_word(word)
            }
        }
    }
}

/// Whether a text may name a model, an effort or a family: it becomes part of an argument, and of a
/// configuration value of Codex, so it can neither begin an option nor end a quoted text.
pub fn is_name(text: &str) -> bool {
    text.len() <= 128
        && text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-:/@[]".contains(&byte))
}

fn listed(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match words.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => "nothing".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Place, Shape};
    use crate::id::ProviderKind;
    use crate::registry::key::{PROFILE, find};
    use crate::registry::value::Value;
    use camino::Utf8Path;

    fn place(provider: Option<ProviderKind>) -> Place<'static> {
        Place {
            home: Utf8Path::new("/h"),
            provider,
        }
    }

    #[test]
    fn ranges_are_closed_and_whole_numbers_serve_as_numbers() {
        let reserve = find(PROFILE, "reserve_percent").unwrap().shape;
        assert_eq!(
            reserve.accept(&Value::Whole(15), place(None)),
            Ok(Value::Number(15.0))
        );
        assert!(
            reserve
                .accept(&Value::Whole(i64::MIN), place(None))
                .is_err()
        );
        for bad in [
            Value::Whole(100),
            Value::Whole(-1),
            Value::Whole(i64::MAX),
            Value::Number(f64::NAN),
            Value::Text("15".to_owned()),
        ] {
            assert!(reserve.accept(&bad, place(None)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn credentials_and_account_settings_cannot_be_shared() {
        let list = |item: &str| Value::List(vec![item.to_owned()]);
        let claude = place(Some(ProviderKind::Claude));
        assert!(Shape::Entries.accept(&list("skills"), claude).is_ok());
        assert!(
            Shape::Entries
                .accept(&list(".credentials.json"), claude)
                .is_err()
        );
        assert!(Shape::Entries.accept(&list("../x"), claude).is_err());
        assert!(
            Shape::Inherited
                .accept(&list("apiKeyHelper"), claude)
                .is_err()
        );
        assert!(Shape::Inherited.accept(&list("model"), claude).is_ok());
        assert!(
            Shape::Options
                .accept(&list("--settings=x"), claude)
                .is_err()
        );
    }
}
