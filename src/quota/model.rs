//! Which windows limit work with a model. Pure.
//!
//! A provider may limit some models apart, in windows that carry a scope: `opus`, `Sonnet`, `GPT-6-Sol`. A caller
//! names its model as the CLIs take it: an alias (`opus`), a full id (`claude-opus-4-1-20250805`), a display name
//! (`Opus 4.1`). Both are taken apart into words and version numbers and compared:
//!
//! - Case, punctuation, a `[1m]` at the end, dates, and the words of the maker (`claude`, `anthropic`, `openai`,
//!   `latest`) say nothing about which model it is.
//! - They are the same model when every word of the scope is in the model's name, and neither names a version that
//!   the other contradicts: `opus` limits `claude-opus-4-1`, `Opus 4.1` does not limit `claude-opus-4-5`.
//! - A model without a version may be any: `gpt` is limited by `gpt-6-sol` too.
//! - A window is left out only when both sides name a family that is known here and they differ. A new family, a
//!   code name, an alias whose model depends on the release (`best`, `default`) might be anything, so it is gated
//!   by every window: too little headroom is the safer mistake.
//! - `opusplan` works with Opus and with Sonnet, and `haiku` plans with Sonnet (Claude Code 2.1.332), so the
//!   windows of both gate.
//!
//! Limit: it is the model that was named. What a worker's subagents use beside it is not known here.

use std::fmt;
use std::str::FromStr;

use super::window::Window;

/// Families of models as both CLIs name them (Claude Code 2.1.332, Codex 0.171).
const FAMILIES: [&str; 6] = ["fable", "gpt", "haiku", "mythos", "opus", "sonnet"];
/// Words that say nothing about which model it is.
const EMPTY: [&str; 4] = ["anthropic", "claude", "latest", "openai"];
/// Aliases that work with two models.
const BOTH: [(&str, [&str; 2]); 2] = [
    ("haiku", ["haiku", "sonnet"]),
    ("opusplan", ["opus", "sonnet"]),
];
/// Digits of a number that is a date and no version.
const DATE_DIGITS: usize = 6;
/// Longest name that is taken.
const LONGEST: usize = 128;

/// A model as its caller named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model(String);

impl Model {
    /// The name as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Model {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Text that cannot be the name of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a model's name has 1 to 128 printable characters")]
pub struct NoModel;

impl FromStr for Model {
    type Err = NoModel;

    fn from_str(text: &str) -> Result<Self, NoModel> {
        let text = text.trim();
        let length = text.chars().count();
        if (1..=LONGEST).contains(&length) && !text.chars().any(char::is_control) {
            Ok(Self(text.to_owned()))
        } else {
            Err(NoModel)
        }
    }
}

/// Whether a window limits work with this model; without a model every window does.
pub fn gates(window: &Window, model: Option<&Model>) -> bool {
    let (Some(scope), Some(model)) = (&window.scope, model) else {
        return true;
    };
    let scope = Name::of(scope);
    let bare = model.0.split('[').next().unwrap_or_default();
    let both = BOTH
        .iter()
        .find(|(alias, _)| bare.eq_ignore_ascii_case(alias));
    match both {
        Some((_, models)) => models.iter().any(|model| scope.limits(&Name::of(model))),
        None => scope.limits(&Name::of(bare)),
    }
}

/// A name of a model or of a scope, taken apart.
struct Name {
    words: Vec<String>,
    version: Vec<String>,
}

impl Name {
    fn of(text: &str) -> Self {
        let parts = text
            .split(|letter: char| !letter.is_ascii_alphanumeric())
            .map(str::to_ascii_lowercase)
            .filter(|part| !part.is_empty() && !EMPTY.contains(&part.as_str()));
        let (version, words): (Vec<_>, Vec<_>) =
            parts.partition(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
        Self {
            words,
            version: version
                .into_iter()
                .filter(|number| number.len() < DATE_DIGITS)
                .collect(),
        }
    }

    fn is_known(&self) -> bool {
        self.words
            .iter()
            .any(|word| FAMILIES.contains(&word.as_str()))
    }

    /// Whether a window of this scope may limit the model.
    fn limits(&self, model: &Self) -> bool {
        if !self.is_known() || !model.is_known() {
            return true;
        }
        let all_in = |some: &[String], all: &[String]| some.iter().all(|word| all.contains(word));
        let any_version = model.version.is_empty();
        let same_words =
            all_in(&self.words, &model.words) || (any_version && all_in(&model.words, &self.words));
        same_words
            && self
                .version
                .iter()
                .zip(&model.version)
                .all(|(mine, other)| mine == other)
    }
}

#[cfg(test)]
mod tests {
    use super::{Model, gates};
    use crate::quota::window::{Kind, Window};
    use proptest::prelude::*;

    fn limits(scope: &str, model: &str) -> bool {
        let window = Window {
            id: "w".to_owned(),
            kind: Kind::Weekly,
            scope: Some(scope.to_owned()),
            remaining_percent: 0.0,
            resets_at: None,
        };
        gates(&window, Some(&model.parse().unwrap()))
    }

    #[test]
    fn an_alias_an_id_and_a_display_name_mean_the_same_scope() {
        for model in [
            "opus",
            "Opus",
            "OPUS[1m]",
            "claude-opus-4-1",
            "claude-opus-4-1-20250805",
            "us.anthropic.claude-opus-4-1-20250805-v1:0",
            "Claude Opus 4.1",
            "opusplan",
            "opusplan[1m]",
        ] {
            assert!(limits("opus", model), "{model}");
            assert!(limits("Opus", model), "{model}");
            let other = model.starts_with("opusplan");
            assert_eq!(limits("sonnet", model), other, "{model}");
            assert!(!limits("gpt-6-sol", model), "{model}");
        }
    }

    #[test]
    fn versions_that_contradict_one_another_are_different_models() {
        assert!(limits("Opus 4.1", "claude-opus-4-1-20250805"));
        assert!(limits("Opus 4", "claude-opus-4-1"));
        assert!(limits("Opus 4.1", "opus"), "it may be that one");
        assert!(!limits("Opus 4.1", "claude-opus-4-5"));
        assert!(limits("Sonnet 3.5", "claude-3-5-sonnet-20241022"));
        assert!(!limits("gpt-6.1-sol", "gpt-6.2-sol"));
    }

    #[test]
    fn a_variant_is_limited_by_its_own_window_and_by_its_familys() {
        assert!(limits("gpt-5.3-codex-spark", "gpt-5.3-codex-spark"));
        assert!(!limits("gpt-5.3-codex-spark", "gpt-5.3-codex"));
        assert!(limits("gpt-6-sol", "gpt"), "any of them");
        assert!(!limits("gpt-6-luna", "gpt-6-sol"));
    }

    #[test]
    fn what_nobody_here_knows_is_gated_by_every_window() {
        for model in ["default", "best", "inherit", "claude-newcomer-1"] {
            assert!(limits("opus", model), "{model}");
        }
        for scope in ["additional", "overage_included", "omelette", ""] {
            assert!(limits(scope, "sonnet"), "{scope}");
        }
    }

    #[test]
    fn haiku_plans_with_sonnet() {
        assert!(limits("sonnet", "haiku") && limits("haiku", "haiku"));
        assert!(!limits("sonnet", "claude-haiku-4-5") && !limits("opus", "haiku"));
    }

    #[test]
    fn a_name_is_short_and_printable() {
        for bad in ["", "  ", "a\nb", "\u{1b}[2J", &"x".repeat(129)] {
            assert!(bad.parse::<Model>().is_err(), "{bad:?}");
        }
        assert_eq!(" opus ".parse::<Model>().unwrap().as_str(), "opus");
    }

    proptest! {
        /// Whatever a provider calls a window, the model of that very name is limited by it.
        #[test]
        fn a_scope_always_limits_the_model_of_its_own_name(name in "[A-Za-z0-9][A-Za-z0-9 .:-]{0,40}") {
            prop_assert!(limits(&name, &name));
        }
    }
}
