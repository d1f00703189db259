//! A worker's own view on a page.

use jiff::Timestamp;

use super::page::{Page, Role, paint};
use super::{Human, words};
use crate::contract::worker::Which;

impl Human for Which {
    fn page(&self, _: Timestamp) -> Page {
        let fingerprint = self.identity_fingerprint.as_deref();
        Page::new().fields(&[
            ("task", words::plain(self.task.as_str())),
            ("profile", paint(Role::Literal, self.profile.as_str())),
            ("provider", self.provider.to_string()),
            (
                "account",
                fingerprint.map_or_else(|| "not proved".to_owned(), words::fingerprint),
            ),
            ("pool", self.pool.to_string()),
            ("workspace", self.workspace.to_string()),
            ("generation", words::generation(self.generation)),
        ])
    }
}
