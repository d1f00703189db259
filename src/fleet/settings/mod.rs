//! How fleets are run here: the checkout's `.fleet/fleet.toml` over the person's `fleet.toml` over what is built in.
//!
//! Tables merge, everything else is replaced. With neither file, a person with one pool of a provider can run a
//! fleet. What a checkout's file may say is in [`layer`].

pub mod choices;
pub mod family;
pub mod file;
pub mod key;
pub mod layer;
pub mod permission;
pub mod pools;
pub mod route;
pub mod routing;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};

use crate::env::{Context, Roots};
use crate::error::Result;
use crate::fleet::model::{Options, Role, Tier};
use crate::id::{PoolId, ProviderKind};
use crate::registry::schema::Registry;
use layer::{Entry, Known, Layer, Whose};
use route::Routing;

/// Name of the settings file in both places.
pub const FILE: &str = "fleet.toml";

/// Most workers of a provider at once, where nothing says so.
pub const DEFAULT_MAX: u32 = 6;

/// Everything that is settled before a plan is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How a run is run that says nothing itself.
    pub options: Options,
    /// Which providers may be used at all.
    pub routing: Routing,
    /// Order of providers for a tier that lists none.
    pub prefer: Vec<ProviderKind>,
    /// What is listed for a tier; one that is absent takes any provider.
    pub tiers: BTreeMap<Tier, Vec<Entry>>,
    /// Every provider.
    pub providers: BTreeMap<ProviderKind, ProviderRules>,
    /// Permission arguments that replace the built-in ones.
    pub permissions: BTreeMap<(Role, ProviderKind), Vec<String>>,
    /// The program of an event with its arguments; empty for none.
    pub on_event: Vec<String>,
}

/// What holds for every worker of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderRules {
    /// Who made its models; `None` when that differs or is not known.
    pub family: Option<String>,
    /// Who made which of its models.
    pub model_families: BTreeMap<String, String>,
    /// Most workers of it at once.
    pub max: u32,
    /// Its pool, where the person named one.
    pub pool: Option<PoolId>,
}

impl Settings {
    /// What one or two files come to.
    pub fn of(layer: Layer) -> Self {
        let providers = ProviderKind::ALL.map(|kind| {
            let said = layer.providers.get(&kind).cloned().unwrap_or_default();
            let family = said
                .family
                .unwrap_or_else(|| family::built_in(kind).to_owned());
            let rules = ProviderRules {
                family: family::known(&family).map(str::to_owned),
                model_families: said.model_families,
                max: said.max.unwrap_or(DEFAULT_MAX),
                pool: said.pool,
            };
            (kind, rules)
        });
        Self {
            options: layer.choices.options(&Options::default()),
            routing: layer.choices.routing.unwrap_or(Routing::Auto),
            prefer: layer.prefer.unwrap_or_else(|| ProviderKind::ALL.to_vec()),
            tiers: layer.tiers,
            providers: providers.into_iter().collect(),
            permissions: layer.permissions,
            on_event: layer.on_event.unwrap_or_default(),
        }
    }

    /// What holds for a provider.
    pub fn provider(&self, kind: ProviderKind) -> &ProviderRules {
        self.providers
            .get(&kind)
            .expect("settings have every provider")
    }
}

/// The person's file.
pub fn own_file(roots: &Roots) -> Utf8PathBuf {
    roots.config.with_file_name(FILE)
}

/// The program of an event with its arguments, by the person's file alone; empty for none.
pub fn on_event(context: &Context) -> Result<Vec<String>> {
    let own = own_file(&context.roots);
    let Some(text) = file::read(context, &own)? else {
        return Ok(Vec::new());
    };
    let known = Known {
        registry: &crate::snapshot::registry::load(context)?,
        roots: &context.roots,
    };
    let person = file::parse(context, &own, Some(&text), Whose::Person, known)?;
    Ok(person.on_event.unwrap_or_default())
}

/// Reads what holds in a checkout; `root` is its canonical root.
///
/// Fails with `settings_invalid` and every problem of the file that is wrong.
pub fn load(context: &Context, registry: &Registry, root: &Utf8Path) -> Result<Settings> {
    let known = Known {
        registry,
        roots: &context.roots,
    };
    let own = own_file(&context.roots);
    let text = file::read(context, &own)?;
    let person = file::parse(context, &own, text.as_deref(), Whose::Person, known)?;
    let path = root.join(file::DIRECTORY).join(FILE);
    let text = file::of_checkout(context, root, &Utf8Path::new(file::DIRECTORY).join(FILE))?;
    let checkout = file::parse(context, &path, text.as_deref(), Whose::Checkout, known)?;
    Ok(Settings::of(checkout.over(person)))
}
