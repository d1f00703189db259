//! The keys of `fleet.toml`: name, range and meaning, once for reading and for the page about them.

use crate::fleet::model::{Accept, Going, OnFailure, ReviewMode};
use crate::id::ProviderKind;
use crate::registry::key::Key;
use crate::registry::shape::Shape;

const fn key(name: &'static str, shape: Shape, meaning: &'static str) -> Key {
    Key {
        name,
        shape,
        meaning,
    }
}

/// `[defaults]`: how a run is run that says nothing itself.
pub const DEFAULTS: &[Key] = &[
    key(
        "max_parallel",
        Shape::Whole(1, 100),
        "most workers with a process at once",
    ),
    key(
        "review",
        Shape::Word(&REVIEW),
        "which steps another model family has to review",
    ),
    key(
        "accept",
        Shape::Word(&ACCEPT),
        "who says that a step is done",
    ),
    key(
        "on_failure",
        Shape::Word(&ON_FAILURE),
        "what a failed step means for the rest",
    ),
    key(
        "max_attempts",
        Shape::Whole(1, 20),
        "most launches of a step that count as attempts",
    ),
    key(
        "continue",
        Shape::Word(&GOING),
        "how work goes on after a usage limit",
    ),
    key(
        "sticky_max",
        Shape::Line,
        "longest wait for a reset that keeps the conversation, such as `20m`",
    ),
    key(
        "routing",
        Shape::Line,
        "`auto`, `single:PROVIDER` or `agents=PROVIDER[:MODEL],…`",
    ),
    key(
        "prefer",
        Shape::Providers,
        "the order of providers for a tier that lists none",
    ),
];

/// `[[tiers.<tier>]]`: one kind of worker, in order of preference.
pub const ENTRY: &[Key] = &[
    key("provider", Shape::Word(&PROVIDERS), "which service"),
    key("pool", Shape::Pool, "which pool; your own file only"),
    key(
        "model",
        Shape::Name,
        "as the provider's CLI calls it; its own default when absent",
    ),
    key(
        "effort",
        Shape::Name,
        "as the provider's CLI calls it; its own default when absent",
    ),
    key(
        "family",
        Shape::Name,
        "who made the model, where that is not the provider's",
    ),
];

/// `[providers.<provider>]`.
pub const PROVIDER: &[Key] = &[
    key(
        "family",
        Shape::Name,
        "who made its models; `mixed` when that differs by model",
    ),
    key("max", Shape::Whole(1, 100), "most workers of it at once"),
    key(
        "pool",
        Shape::Pool,
        "the pool of entries that name none; your own file only",
    ),
];

/// The subtable of a provider that says who made which model.
pub const MODEL_FAMILIES: &str = "model_families";

/// Beside the tables; your own file only.
pub const TOP: &[Key] = &[key(
    "on_event",
    Shape::Arguments,
    "a program that is run for each event of a run; your own file only",
)];

/// `[permissions.<role>]`: one list per provider; your own file only.
pub const PERMISSIONS: &[Key] = &[
    key(
        "claude",
        Shape::Arguments,
        "arguments for Claude Code; your own file only",
    ),
    key(
        "codex",
        Shape::Arguments,
        "arguments for Codex; your own file only",
    ),
    key(
        "scripted",
        Shape::Arguments,
        "arguments for scripted workers; your own file only",
    ),
];

const REVIEW: [&str; 3] = [
    ReviewMode::ALL[0].word(),
    ReviewMode::ALL[1].word(),
    ReviewMode::ALL[2].word(),
];
const ACCEPT: [&str; 2] = [Accept::ALL[0].word(), Accept::ALL[1].word()];
const ON_FAILURE: [&str; 2] = [OnFailure::ALL[0].word(), OnFailure::ALL[1].word()];
const GOING: [&str; 2] = [Going::ALL[0].word(), Going::ALL[1].word()];
const PROVIDERS: [&str; 3] = [
    ProviderKind::ALL[0].name(),
    ProviderKind::ALL[1].name(),
    ProviderKind::ALL[2].name(),
];
