//! Which permission arguments a worker is started with. Pure.
//!
//! Every worker gets explicit ones: what a CLI does without them differs between its modes and versions. They
//! must let a worker do its part without a question, since nobody is there to answer, and no more. What is built in
//! stands beside what it was measured with, in [`turn::permissions`].

use std::ffi::OsString;

use super::Settings;
use super::layer::Known;
use crate::fleet::model::{Role, StepKind};
use crate::fleet::turn;
use crate::id::ProviderKind;
use crate::provider;
use crate::registry::validate;

/// The role whose permissions a step's worker gets: one that only reads gets no more than a reviewer.
pub fn role(kind: StepKind) -> Role {
    match kind {
        StepKind::Change => Role::Implementation,
        StepKind::Investigate => Role::Review,
    }
}

/// The arguments of a role at a provider.
pub fn arguments(settings: &Settings, role: Role, kind: ProviderKind) -> Vec<String> {
    match settings.permissions.get(&(role, kind)) {
        Some(arguments) => arguments.clone(),
        None => turn::permissions(kind, role),
    }
}

/// Whether a headless worker may be given these arguments, and they are options and nothing else.
pub fn check(kind: ProviderKind, arguments: &[String], known: Known<'_>) -> Result<(), String> {
    let settings = match known.registry.provider(kind) {
        Ok(settings) => settings.clone(),
        Err(_) => validate::defaults(kind, known.roots),
    };
    let mode: &[&str] = match kind {
        ProviderKind::Codex => &["exec"],
        ProviderKind::Claude | ProviderKind::Scripted => &["--print"],
    };
    // The prompt follows after `--`: an option without its value would take that for it.
    if arguments.iter().any(|argument| argument == "--") {
        return Err("`--` ends the options".to_owned());
    }
    let line: Vec<OsString> = mode
        .iter()
        .copied()
        .chain(arguments.iter().map(String::as_str))
        .map(OsString::from)
        .collect();
    let parsed = provider::of(kind)
        .parse_arguments(&line, &settings)
        .map_err(|refused| refused.to_string())?;
    if parsed.prompt.is_some() {
        return Err("a word that belongs to no option would be the prompt".to_owned());
    }
    Ok(())
}
