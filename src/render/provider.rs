//! Providers on a page.

use jiff::Timestamp;

use super::page::{Page, Role, nothing, paint};
use super::{Human, words};
use crate::contract::provider::{Provider, ProviderList};

impl Human for ProviderList {
    fn page(&self, _: Timestamp) -> Page {
        let rows = self
            .providers
            .iter()
            .map(|provider| {
                vec![
                    paint(Role::Literal, provider.provider.name()),
                    provider.profiles.to_string(),
                    words::plain(&provider.quota_reader),
                    provider.binary_policy.word().to_owned(),
                    binary(provider),
                ]
            })
            .collect();
        let columns = ["provider", "profiles", "quota", "updates", "binary"];
        let page = Page::new().table(&columns, rows, "no provider is configured");
        if self.providers.is_empty() {
            page.next("agent-fleet init")
        } else {
            page
        }
    }
}

fn binary(provider: &Provider) -> String {
    provider
        .binary
        .as_ref()
        .map_or_else(nothing, |path| words::plain(path.as_str()))
}
