//! Who made the model of a worker. Pure.
//!
//! A review by the same family shares the author's blind spots, so reviews must cross families; and a family that is
//! not known crosses nothing.

use super::ProviderRules;
use crate::id::ProviderKind;

/// The family of a provider's models when no file says.
pub fn built_in(kind: ProviderKind) -> &'static str {
    match kind {
        ProviderKind::Claude => "anthropic",
        ProviderKind::Codex => "openai",
        ProviderKind::Scripted => "scripted",
    }
}

/// A family, unless the word says that there is no single one.
pub fn known(word: &str) -> Option<&str> {
    (!matches!(word, "mixed" | "unknown")).then_some(word)
}

/// The family of a model: the step's word, what its provider's table says of the model, what the tier says of the
/// same model, what holds for all of the provider's.
pub fn resolve(
    step: Option<&str>,
    model: Option<&str>,
    tier: Option<(Option<&str>, &str)>,
    rules: &ProviderRules,
) -> Option<String> {
    if let Some(family) = step {
        return known(family).map(str::to_owned);
    }
    if let Some(family) = model.and_then(|model| rules.model_families.get(model)) {
        return known(family).map(str::to_owned);
    }
    match tier {
        Some((of, family)) if of == model => known(family).map(str::to_owned),
        _ => rules.family.clone(),
    }
}
