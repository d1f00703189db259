//! The text of a plan file → what the person asked for. Pure.
//!
//! TOML, or JSON of the same shape. Unknown keys are refused with their line; what the words mean together is
//! checked in [`super::compile`].

use camino::Utf8PathBuf;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::fleet::model::{
    Accept, Acceptance, Artifact, Going, Mode, OnFailure, ReviewMode, StepKind, Tier,
};
use crate::fleet::settings::choices::{Choices, WANTED_DURATION, seconds};
use crate::fleet::settings::route::Routing;
use crate::id::ProviderKind;
use crate::id::fleet::StepId;
use crate::registry::shape::is_name;
use crate::registry::validate::Diagnostic;

/// In which language a plan is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// TOML.
    Toml,
    /// JSON.
    Json,
}

/// A plan file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanText {
    max_parallel: Option<Bounded<100>>,
    review: Option<ReviewMode>,
    accept: Option<Accept>,
    on_failure: Option<OnFailure>,
    max_attempts: Option<Bounded<20>>,
    #[serde(rename = "continue")]
    going: Option<Going>,
    sticky_max: Option<Seconds>,
    routing: Option<RoutingText>,
    /// What the lead decided beforehand.
    #[serde(default)]
    pub decisions: Vec<String>,
    /// The steps.
    #[serde(default, rename = "step")]
    pub steps: Vec<StepText>,
}

/// A step of a plan file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepText {
    /// Its name.
    pub id: StepId,
    /// The work, in words.
    pub text: Option<String>,
    /// A file that holds the work in words, relative to the checkout; read before the plan is compiled.
    pub ticket: Option<Utf8PathBuf>,
    /// More for its prompt.
    pub context: Option<String>,
    /// Steps that must be verified first.
    #[serde(default)]
    pub needs: Vec<StepId>,
    /// Files that it may change.
    #[serde(default)]
    pub files: Vec<String>,
    /// Whether it works in a worktree of its own.
    #[serde(default)]
    pub worktree: bool,
    /// How hard it is.
    pub tier: Option<Tier>,
    /// This provider and no other.
    pub provider: Option<ProviderKind>,
    /// This model and no other.
    pub model: Option<NameText>,
    /// This effort.
    pub effort: Option<NameText>,
    /// Who made its model.
    pub family: Option<NameText>,
    /// What it may do.
    pub kind: Option<StepKind>,
    /// How its worker talks.
    pub mode: Option<Mode>,
    /// Whether it is reviewed, whatever the run says.
    pub review: Option<bool>,
    /// What the program checks.
    #[serde(default)]
    pub accept: AcceptText,
}

/// `[step.accept]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcceptText {
    #[serde(default)]
    artifacts: Vec<ArtifactText>,
    #[serde(default)]
    commands: Vec<String>,
}

impl AcceptText {
    /// As the plan keeps it.
    pub fn acceptance(&self) -> Acceptance {
        let artifacts = self.artifacts.iter().map(|artifact| artifact.0.clone());
        Acceptance {
            artifacts: artifacts.collect(),
            commands: self.commands.clone(),
        }
    }
}

impl PlanText {
    /// What it says of how it is run.
    pub fn choices(&self) -> Choices {
        Choices {
            max_parallel: self.max_parallel.map(|bounded| bounded.0),
            review: self.review,
            accept: self.accept,
            on_failure: self.on_failure,
            max_attempts: self.max_attempts.map(|bounded| bounded.0),
            going: self.going,
            sticky_max_seconds: self.sticky_max.map(|seconds| seconds.0),
            routing: self.routing.as_ref().map(|routing| routing.0.clone()),
        }
    }
}

impl StepText {
    /// A step of which only name and work are given.
    pub fn new(id: StepId, text: String) -> Self {
        Self {
            id,
            text: Some(text),
            ticket: None,
            context: None,
            needs: Vec::new(),
            files: Vec::new(),
            worktree: false,
            tier: None,
            provider: None,
            model: None,
            effort: None,
            family: None,
            kind: None,
            mode: None,
            review: None,
            accept: AcceptText::default(),
        }
    }
}

/// A whole number from 1 to `MOST`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounded<const MOST: u32>(u32);

impl<'de, const MOST: u32> Deserialize<'de> for Bounded<MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = i64::deserialize(deserializer)?;
        u32::try_from(number)
            .ok()
            .filter(|number| (1..=MOST).contains(number))
            .map(Self)
            .ok_or_else(|| D::Error::custom(format!("must be a whole number between 1 and {MOST}")))
    }
}

/// A time in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seconds(u64);

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        seconds(&text)
            .map(Self)
            .ok_or_else(|| D::Error::custom(WANTED_DURATION))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct RoutingText(Routing);

impl<'de> Deserialize<'de> for RoutingText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(D::Error::custom)
    }
}

/// The name of a model, an effort or a family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameText(pub String);

impl<'de> Deserialize<'de> for NameText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if is_name(&text) {
            Ok(Self(text))
        } else {
            let wanted = crate::registry::shape::Shape::Name.wanted(None);
            Err(D::Error::custom(wanted))
        }
    }
}

/// A path alone, or a table with what its file must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ArtifactText(Artifact);

impl<'de> Deserialize<'de> for ArtifactText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Artifact;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("a path, or a table with `path`")
            }

            fn visit_str<E: serde::de::Error>(self, path: &str) -> Result<Artifact, E> {
                Ok(Artifact {
                    path: path.into(),
                    min_chars: None,
                    contains: Vec::new(),
                })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Artifact, A::Error> {
                Artifact::deserialize(MapAccessDeserializer::new(map))
            }
        }
        deserializer.deserialize_any(Either).map(Self)
    }
}

/// Reads the text of a plan file.
pub fn parse(text: &str, form: Form) -> Result<PlanText, Diagnostic> {
    match form {
        Form::Toml => toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let before = text.get(..at).unwrap_or(text);
            let line = before.matches('\n').count() + 1;
            let start = before.rfind('\n').map_or(0, |newline| newline + 1);
            let column = before.get(start..).unwrap_or_default().chars().count() + 1;
            diagnostic(text, line, column, error.message())
        }),
        Form::Json => serde_json::from_str(text).map_err(|error| {
            let message = error.to_string();
            let message = match message.rfind(" at line ") {
                Some(end) => message.get(..end).unwrap_or(&message),
                None => &message,
            };
            diagnostic(text, error.line(), error.column(), message)
        }),
    }
}

/// What is wrong at a place, with the key that stands there.
fn diagnostic(text: &str, line: usize, column: usize, message: &str) -> Diagnostic {
    let message = message.replace('\n', "; ");
    let there = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
    let key = there
        .split(['=', ':'])
        .next()
        .unwrap_or_default()
        .trim_matches(|letter: char| letter.is_whitespace() || "\"'{[,".contains(letter));
    let is_key = !key.is_empty()
        && key.len() <= 64
        && key
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'));
    let message = if is_key && !message.contains(&format!("`{key}`")) {
        // A sentence of ours goes on from the key.
        let colon = if message.starts_with("must ") {
            ""
        } else {
            ":"
        };
        format!("`{key}`{colon} {message}")
    } else {
        message
    };
    Diagnostic {
        line: line.max(1),
        column: column.max(1),
        message: crate::withheld::withhold(&message).into_owned(),
    }
}
