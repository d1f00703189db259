//! `agent-fleet config get|set|list`.

use super::{App, Outcome};
use crate::contract::registry::SettingList;
use crate::error::Result;
use crate::id::ProviderKind;
use crate::registry::file;
use crate::registry::settings::{self, Name};
use crate::snapshot;

#[derive(Debug, clap::Args)]
pub(super) struct ConfigArguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
enum Verb {
    /// Print one setting, its default and its meaning
    Get {
        /// Dotted name, such as `settings.strategy` or `providers.claude.binary`
        key: String,
    },
    /// Change one setting; comments in the registry survive
    Set {
        /// Dotted name
        key: String,
        /// New value; the items of a list are separated by commas
        #[arg(allow_hyphen_values = true)]
        value: String,
    },
    /// Print every setting, and keys of the registry that have no effect
    List,
}

pub(super) fn run(app: &App, arguments: &ConfigArguments) -> Result<Outcome> {
    let context = &app.context;
    match &arguments.verb {
        Verb::Get { key } => {
            let name = Name::parse(key)?;
            let registry = snapshot::registry::load(context)?;
            app.view(&settings::setting(context, &registry, name))
        }
        Verb::Set { key, value } => {
            let changed = settings::set(context, Name::parse(key)?, value)?;
            app.notes(&changed.notes);
            app.view(&changed.answer)
        }
        Verb::List => {
            let source = file::read(context)?;
            let parsed = file::parse(context, &source.text)?;
            let configured: Vec<ProviderKind> = parsed
                .registry
                .providers
                .iter()
                .map(|settings| settings.kind)
                .collect();
            app.view(&SettingList {
                registry: context.roots.config.clone(),
                settings: Name::all(&configured)
                    .map(|name| settings::setting(context, &parsed.registry, name))
                    .collect(),
                notes: parsed
                    .notes
                    .iter()
                    .map(|note| format!("line {}: {}", note.line, note.message))
                    .collect(),
            })
        }
    }
}
