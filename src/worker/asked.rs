//! What a launch asks of choosing: where, by whom, with which model.

use std::collections::BTreeSet;

use super::conversation;
use super::launch::{Request, Start};
use crate::choose::candidate::{Asked, Reserve};
use crate::env::Context;
use crate::error::Result;
use crate::id::ProviderKind;
use crate::provider::{self, Invocation};
use crate::quota::model::Model;
use crate::registry::schema::Registry;

/// What is asked for, and for old work the conversation to go on with.
pub(super) fn terms(
    context: &Context,
    registry: &Registry,
    request: &Request,
) -> Result<(Asked, Option<conversation::Recorded>)> {
    match &request.start {
        Start::New {
            pool,
            provider,
            profile,
        } => {
            let asked = Asked {
                pool: pool.clone(),
                provider: *provider,
                profile: profile.clone(),
                model: None,
                reserve: Reserve::Keep,
            };
            Ok((asked, None))
        }
        Start::Resume { profile } => {
            let recorded = conversation::recorded(context, registry, &request.task)?;
            recorded.belongs(context, &request.workspace, profile.as_ref())?;
            Ok((recorded.asked(), Some(recorded)))
        }
    }
}

/// The providers of the profiles that are asked for.
fn providers(registry: &Registry, asked: &Asked) -> BTreeSet<ProviderKind> {
    registry
        .profiles
        .iter()
        .filter(|profile| crate::choose::candidate::is_asked(profile, asked))
        .map(|profile| profile.provider)
        .collect()
}

/// The provider that alone can be meant.
pub(super) fn only_provider(registry: &Registry, asked: &Asked) -> Option<ProviderKind> {
    let kinds = providers(registry, asked);
    kinds.first().copied().filter(|_| kinds.len() == 1)
}

/// The model that the caller names, or else the one that the worker's own arguments name: to every provider that
/// takes them, the same.
pub(super) fn model(registry: &Registry, asked: &Asked, request: &Request) -> Option<Model> {
    let named = || {
        let kinds = providers(registry, asked);
        let understood = kinds
            .into_iter()
            .filter_map(|kind| parse(registry, kind, request).ok());
        let mut models = understood.map(|invocation| invocation.model());
        let first = models.next()??;
        models
            .all(|other| other.as_ref() == Some(&first))
            .then_some(first)
    };
    request.model.clone().or_else(named)
}

/// The worker's arguments, by the grammar of one provider.
pub(super) fn parse(
    registry: &Registry,
    kind: ProviderKind,
    request: &Request,
) -> Result<Invocation> {
    Ok(provider::of(kind).parse_arguments(&request.arguments, registry.provider(kind)?)?)
}
