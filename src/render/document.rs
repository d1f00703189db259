//! The contract about itself, on a page.

use jiff::Timestamp;

use super::Human;
use super::page::{Page, Role, paint};
use crate::contract::document::{Contract, Version};

impl Human for Version {
    fn page(&self, _: Timestamp) -> Page {
        Page::new().line(format!(
            "agent-fleet {} (contract {})",
            self.cli_version, self.contract_version
        ))
    }
}

impl Human for Contract {
    fn page(&self, _: Timestamp) -> Page {
        let rows = self
            .commands
            .iter()
            .map(|(key, usage)| vec![(*key).to_owned(), paint(Role::Literal, usage)])
            .collect();
        Page::new()
            .fields(&[
                ("contract", self.contract_version.to_string()),
                ("program", self.cli_version.to_owned()),
                ("formats", self.formats.join(", ")),
                ("selection", self.selection_fields.join(", ")),
            ])
            .gap()
            .table(&["key", "usage"], rows, "no commands")
    }
}
