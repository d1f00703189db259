//! The page of a launch that was only checked.

use jiff::Timestamp;

use super::Human;
use super::page::Page;
use crate::contract::launch::Validated;

impl Human for Validated {
    fn page(&self, _: Timestamp) -> Page {
        let scrubbed = if self.scrubbed.is_empty() {
            "none".to_owned()
        } else {
            self.scrubbed.join(", ")
        };
        Page::new().fields(&[
            ("arguments", "accepted".to_owned()),
            ("provider", self.provider.to_string()),
            ("mode", self.mode.clone()),
            ("variables kept from the worker", scrubbed),
        ])
    }
}
