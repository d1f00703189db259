//! What a pool can take, on a page.

use jiff::Timestamp;

use super::page::{Page, Role, paint};
use super::{Human, profile, words};
use crate::contract::pool::{PoolStatus, ProviderStatus};

impl Human for PoolStatus {
    fn page(&self, now: Timestamp) -> Page {
        let mut page = Page::new();
        for (index, provider) in self.providers.iter().enumerate() {
            if index > 0 {
                page = page.gap();
            }
            page = page
                .line(summary(provider, now))
                .below(&profile::table(&provider.profiles, now));
            page = profile::hints(page, &provider.profiles);
        }
        page
    }
}

fn summary(provider: &ProviderStatus, now: Timestamp) -> String {
    let state = match (provider.available, provider.retry_at) {
        (true, _) if provider.degraded => paint(Role::Warning, "available, on no fresh reading"),
        (true, _) => paint(Role::Good, "available"),
        (false, Some(at)) => format!(
            "{}, again {}",
            paint(Role::Bad, "unavailable"),
            words::due(now, at)
        ),
        (false, None) => paint(Role::Bad, "unavailable"),
    };
    let best = provider
        .best_adjusted_headroom_percent
        .map_or_else(String::new, |best| {
            format!(", best {}", words::percent(best))
        });
    format!(
        "{}: {state}, {} eligible{best}, {}",
        paint(Role::Heading, provider.provider.name()),
        words::count(provider.eligible_profiles, "profile"),
        words::count(provider.active_leases, "lease")
    )
}
