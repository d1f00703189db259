//! `agent-fleet providers`.

use super::{App, Outcome};
use crate::contract::provider::{Provider, ProviderList};
use crate::error::Result;
use crate::registry::schema::{Anchor, ProviderSettings, QuotaReader, Registry};
use crate::snapshot;

#[derive(Debug, clap::Args)]
pub(super) struct ProvidersArguments {}

pub(super) fn run(app: &App, _: &ProvidersArguments) -> Result<Outcome> {
    let registry = snapshot::registry::load(&app.context)?;
    app.view(&ProviderList {
        providers: registry
            .providers
            .iter()
            .map(|settings| provider(&registry, settings))
            .collect(),
    })
}

fn provider(registry: &Registry, settings: &ProviderSettings) -> Provider {
    let anchor = |anchor: &Anchor| match anchor {
        Anchor::Off => None,
        Anchor::At(path) => Some(path.clone()),
    };
    Provider {
        provider: settings.kind,
        binary: settings.binary.clone(),
        binary_policy: settings.binary_policy,
        base_home: anchor(&settings.base_home),
        desktop_identity_file: anchor(&settings.desktop_identity_file),
        quota_reader: match &settings.quota_reader {
            QuotaReader::Builtin => "builtin".to_owned(),
            QuotaReader::None => "none".to_owned(),
            QuotaReader::External(path) => path.to_string(),
        },
        worker_options: settings.worker_options.clone(),
        profiles: u32::try_from(registry.of(settings.kind).count()).unwrap_or(u32::MAX),
    }
}
