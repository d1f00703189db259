//! `agent-fleet contract`.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::{App, Outcome};
use crate::contract::document::Contract;
use crate::contract::schema;
use crate::error::Result;
use crate::render::Human;
use crate::render::page::Page;

#[derive(Debug, clap::Args)]
pub(super) struct ContractArguments {
    /// Print the JSON Schema (2020-12) of every answer instead
    #[arg(long)]
    schema: bool,
}

#[derive(Serialize)]
#[serde(transparent)]
struct Schema(Value);

impl Human for Schema {
    fn page(&self, _: Timestamp) -> Page {
        Page::new().line(format!("{:#}", self.0))
    }
}

pub(super) fn run(app: &App, arguments: &ContractArguments) -> Result<Outcome> {
    if arguments.schema {
        app.view(&Schema(schema::document()))
    } else {
        app.view(&Contract::this())
    }
}
