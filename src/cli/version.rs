//! `agent-fleet version`.

use serde::Serialize;

use super::{App, Outcome};
use crate::contract;
use crate::error::Result;
use crate::render::Human;
use crate::render::page::Page;

/// Nothing to say.
#[derive(Debug, clap::Args)]
pub(super) struct VersionArguments {}

#[derive(Debug, Serialize)]
struct Version {
    cli_version: &'static str,
    contract_version: u32,
}

impl Human for Version {
    fn page(&self, _: jiff::Timestamp) -> Page {
        Page::new().line(format!(
            "agent-fleet {} (contract {})",
            self.cli_version, self.contract_version
        ))
    }
}

pub(super) fn run(app: &App, _: VersionArguments) -> Result<Outcome> {
    app.view(&Version {
        cli_version: env!("CARGO_PKG_VERSION"),
        contract_version: contract::VERSION,
    })
}
