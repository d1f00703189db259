//! The text of one `fleet.toml` → what it says, or everything that is wrong with it at once. Pure.
//!
//! # What a checkout may say
//! A checkout's file is written by whoever can push to it, and is read as soon as somebody runs a fleet in a
//! clone. So it may say how its work is best done, and nothing about the machine or the accounts of the person who
//! runs it. Refused in it, whatever the value:
//!
//! - `on_event`: it is a command, run on the host outside every sandbox.
//! - `[permissions]`: they are what keeps a worker in its workspace. Whether one list of provider options is
//!   narrower than another cannot be told from the options, so no list of a checkout's is taken at all.
//! - `pool`: it picks which of the person's accounts pays.
//!
//! What is left cannot reach further: tiers and models go through the provider's grammar and the broker's money
//! guard, `review` and `accept` judge the checkout's own content, limits are bounded here and by the slots of
//! the accounts.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::choices::{Choices, WANTED_DURATION, seconds};
use super::key;
use super::permission;
use super::route::Routing;
use crate::env::Roots;
use crate::fleet::model::{Role, Tier};
use crate::id::{PoolId, ProviderKind};
use crate::registry::schema::Registry;
use crate::registry::shape::is_name;
use crate::registry::validate::Diagnostic;
use crate::registry::validate::table::{Fields, Unknown, Walker};

/// Whose file it is, which decides what it may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The person's own, beside `accounts.toml`.
    Person,
    /// The checkout's.
    Checkout,
}

/// One kind of worker of a tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Which service.
    pub provider: ProviderKind,
    /// Which pool; the provider's when absent.
    pub pool: Option<PoolId>,
    /// Model; the CLI's default when absent.
    pub model: Option<String>,
    /// Effort; the CLI's default when absent.
    pub effort: Option<String>,
    /// Who made the model.
    pub family: Option<String>,
}

impl Entry {
    /// Whatever the provider's CLI takes by default.
    pub fn plain(provider: ProviderKind) -> Self {
        Self {
            provider,
            pool: None,
            model: None,
            effort: None,
            family: None,
        }
    }
}

/// What one file says about a provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderLayer {
    /// Who made its models.
    pub family: Option<String>,
    /// Who made which of its models.
    pub model_families: BTreeMap<String, String>,
    /// Most workers of it at once.
    pub max: Option<u32>,
    /// Its pool.
    pub pool: Option<PoolId>,
}

/// What one file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layer {
    /// `[defaults]`.
    pub choices: Choices,
    /// Order of providers for a tier that lists none.
    pub prefer: Option<Vec<ProviderKind>>,
    /// `[[tiers.<tier>]]`.
    pub tiers: BTreeMap<Tier, Vec<Entry>>,
    /// `[providers.<provider>]`.
    pub providers: BTreeMap<ProviderKind, ProviderLayer>,
    /// `[permissions.<role>]`.
    pub permissions: BTreeMap<(Role, ProviderKind), Vec<String>>,
    /// Program of an event, with its arguments.
    pub on_event: Option<Vec<String>>,
}

impl ProviderLayer {
    fn over(self, below: Self) -> Self {
        let mut model_families = below.model_families;
        model_families.extend(self.model_families);
        Self {
            family: self.family.or(below.family),
            model_families,
            max: self.max.or(below.max),
            pool: self.pool.or(below.pool),
        }
    }
}

impl Layer {
    /// This file over another: tables merge, everything else is replaced.
    #[must_use]
    pub fn over(self, below: Self) -> Self {
        let mut merged = below;
        merged.tiers.extend(self.tiers);
        merged.permissions.extend(self.permissions);
        for (kind, provider) in self.providers {
            let under = merged.providers.remove(&kind).unwrap_or_default();
            merged.providers.insert(kind, provider.over(under));
        }
        Self {
            choices: self.choices.over(merged.choices),
            prefer: self.prefer.or(merged.prefer),
            on_event: self.on_event.or(merged.on_event),
            ..merged
        }
    }
}

/// What a file is read against.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// The accounts, for the options that their providers' workers may have.
    pub registry: &'a Registry,
    /// Where things are.
    pub roots: &'a Roots,
}

const TABLES: [&str; 4] = ["defaults", "tiers", "providers", "permissions"];

/// Reads and checks the text of a file.
pub fn parse(text: &str, whose: Whose, known: Known<'_>) -> Result<Layer, Vec<Diagnostic>> {
    let (document, errors) = DeTable::parse_recoverable(text);
    let mut walker = Walker::new(
        text,
        &known.roots.home,
        !errors.is_empty(),
        Unknown::Refused,
    );
    for error in errors {
        let at = error.span().map_or(0, |span| span.start);
        walker.problem(at, error.message().replace('\n', "; "));
    }
    let mut reader = Reader {
        walker,
        whose,
        known,
    };
    let top = reader.walker.fields(&document, "", key::TOP, None, &TABLES);
    let mut layer = Layer {
        on_event: top.list("on_event"),
        ..Layer::default()
    };
    if top.written("on_event") {
        reader.own(
            top.at("on_event"),
            "on_event",
            "it is a command that runs on your machine",
        );
    }
    if layer
        .on_event
        .as_ref()
        .is_some_and(|command| command.first().is_none_or(String::is_empty))
    {
        let message = "`on_event` must name a program, then its arguments".to_owned();
        reader.walker.problem(top.at("on_event"), message);
    }
    for (name, value) in document.get_ref() {
        let Some(table) = reader.walker.table(name.get_ref(), value, &TABLES) else {
            continue;
        };
        match name.get_ref().as_ref() {
            "defaults" => reader.defaults(&table, &mut layer),
            "tiers" => layer.tiers = reader.tiers(&table),
            "providers" => layer.providers = reader.providers(&table),
            "permissions" => {
                let why = "they keep a worker in its workspace";
                reader.own(name.span().start, "permissions", why);
                layer.permissions = reader.permissions(&table);
            }
            _ => {}
        }
    }
    reader.walker.finish().map(|_| layer)
}

struct Reader<'a> {
    walker: Walker<'a>,
    whose: Whose,
    known: Known<'a>,
}

type Table<'t, 'i> = &'t Spanned<DeTable<'i>>;

impl Reader<'_> {
    /// Refuses what only the person's own file may hold.
    fn own(&mut self, at: usize, name: &str, why: &str) {
        if self.whose == Whose::Checkout {
            let file = self.known.roots.config.with_file_name(super::FILE);
            self.walker.problem(
                at,
                format!("`{name}` must not stand in a checkout's file, since {why}; write it in `{file}`"),
            );
        }
    }

    fn defaults(&mut self, table: Table<'_, '_>, layer: &mut Layer) {
        let fields = self
            .walker
            .fields(table, "defaults", key::DEFAULTS, None, &[]);
        let sticky = self.read(&fields, "sticky_max", |text| {
            seconds(text).ok_or_else(|| WANTED_DURATION.to_owned())
        });
        let routing = self.read(&fields, "routing", |text| {
            text.parse::<Routing>().map_err(|error| error.to_string())
        });
        layer.choices = Choices {
            max_parallel: count(&fields, "max_parallel"),
            review: word(&fields, "review"),
            accept: word(&fields, "accept"),
            on_failure: word(&fields, "on_failure"),
            max_attempts: count(&fields, "max_attempts"),
            going: word(&fields, "continue"),
            sticky_max_seconds: sticky,
            routing,
        };
        layer.prefer = fields
            .list("prefer")
            .map(|names| names.iter().filter_map(|name| name.parse().ok()).collect());
    }

    /// Reads a text by a grammar of its own.
    fn read<T>(
        &mut self,
        fields: &Fields,
        name: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        match read(&fields.text(name)?) {
            Ok(value) => Some(value),
            Err(problem) => {
                let message = format!("`defaults.{name}` {problem}");
                self.walker.problem(fields.at(name), message);
                None
            }
        }
    }

    fn tiers(&mut self, table: Table<'_, '_>) -> BTreeMap<Tier, Vec<Entry>> {
        let mut tiers = BTreeMap::new();
        for (name, value) in table.get_ref() {
            let full = format!("tiers.{}", name.get_ref());
            let Ok(tier) = name.get_ref().parse::<Tier>() else {
                let known: Vec<&str> = Tier::ALL.iter().map(|tier| tier.word()).collect();
                self.walker
                    .unknown(name.span().start, &full, name.get_ref(), &known);
                continue;
            };
            let DeValue::Array(items) = value.get_ref() else {
                let message =
                    format!("`{full}` must be a list: begin each entry with `[[{full}]]`");
                self.walker.problem(value.span().start, message);
                continue;
            };
            if items.is_empty() {
                let message = format!("`{full}` must list at least one entry");
                self.walker.problem(value.span().start, message);
            }
            let entries = items.iter().filter_map(|item| self.entry(&full, item));
            tiers.insert(tier, entries.collect());
        }
        tiers
    }

    fn entry(&mut self, full: &str, item: &Spanned<DeValue<'_>>) -> Option<Entry> {
        let DeValue::Table(table) = item.get_ref() else {
            let message = format!("`{full}` must be a list of tables with a `provider` each");
            self.walker.problem(item.span().start, message);
            return None;
        };
        let table = Spanned::new(item.span(), table.clone());
        let fields = self.walker.fields(&table, full, key::ENTRY, None, &[]);
        if !fields.written("provider") {
            let message = format!("`{full}.provider` is missing");
            self.walker.problem(item.span().start, message);
        }
        if fields.written("pool") {
            self.own(fields.at("pool"), &format!("{full}.pool"), WHY_POOL);
        }
        Some(Entry {
            provider: fields.text("provider")?.parse().ok()?,
            pool: fields.text("pool").and_then(|pool| pool.parse().ok()),
            model: fields.text("model"),
            effort: fields.text("effort"),
            family: fields.text("family"),
        })
    }

    fn providers(&mut self, table: Table<'_, '_>) -> BTreeMap<ProviderKind, ProviderLayer> {
        let mut providers = BTreeMap::new();
        for (name, value) in table.get_ref() {
            let full = format!("providers.{}", name.get_ref());
            let Ok(kind) = name.get_ref().parse::<ProviderKind>() else {
                let known = ProviderKind::ALL.map(ProviderKind::name);
                self.walker
                    .unknown(name.span().start, &full, name.get_ref(), &known);
                continue;
            };
            let Some(table) = self.walker.table(&full, value, &[&full]) else {
                continue;
            };
            let beside = [key::MODEL_FAMILIES];
            let fields = self
                .walker
                .fields(&table, &full, key::PROVIDER, Some(kind), &beside);
            if fields.written("pool") {
                self.own(fields.at("pool"), &format!("{full}.pool"), WHY_POOL);
            }
            let families = table.get_ref().get(key::MODEL_FAMILIES);
            let layer = ProviderLayer {
                family: fields.text("family"),
                model_families: families
                    .map(|families| self.model_families(&full, families))
                    .unwrap_or_default(),
                max: count(&fields, "max"),
                pool: fields.text("pool").and_then(|pool| pool.parse().ok()),
            };
            providers.insert(kind, layer);
        }
        providers
    }

    fn model_families(
        &mut self,
        provider: &str,
        value: &Spanned<DeValue<'_>>,
    ) -> BTreeMap<String, String> {
        let full = format!("{provider}.{}", key::MODEL_FAMILIES);
        let mut families = BTreeMap::new();
        let Some(table) = self.walker.table(&full, value, &[&full]) else {
            return families;
        };
        for (model, family) in table.get_ref() {
            let text = family.get_ref().as_str();
            match text.filter(|family| is_name(family) && is_name(model.get_ref())) {
                Some(family) => {
                    families.insert(model.get_ref().to_string(), family.to_owned());
                }
                None => self.walker.problem(
                    family.span().start,
                    format!("`{full}` must give each model the name of its family"),
                ),
            }
        }
        families
    }

    fn permissions(&mut self, table: Table<'_, '_>) -> BTreeMap<(Role, ProviderKind), Vec<String>> {
        let mut permissions = BTreeMap::new();
        for (name, value) in table.get_ref() {
            let full = format!("permissions.{}", name.get_ref());
            let Ok(role) = name.get_ref().parse::<Role>() else {
                let known: Vec<&str> = Role::ALL.iter().map(|role| role.word()).collect();
                self.walker
                    .unknown(name.span().start, &full, name.get_ref(), &known);
                continue;
            };
            let Some(table) = self.walker.table(&full, value, &[&full]) else {
                continue;
            };
            let fields = self
                .walker
                .fields(&table, &full, key::PERMISSIONS, None, &[]);
            for kind in ProviderKind::ALL {
                let Some(arguments) = fields.list(kind.name()) else {
                    continue;
                };
                match permission::check(kind, &arguments, self.known) {
                    Ok(()) => {
                        permissions.insert((role, kind), arguments);
                    }
                    Err(problem) => self.walker.problem(
                        fields.at(kind.name()),
                        format!("`{full}.{kind}` must not be passed to a worker: {problem}"),
                    ),
                }
            }
        }
        permissions
    }
}

const WHY_POOL: &str = "it picks which of your accounts pays";

fn count(fields: &Fields, name: &str) -> Option<u32> {
    u32::try_from(fields.whole(name)?).ok()
}

fn word<T: std::str::FromStr>(fields: &Fields, name: &str) -> Option<T> {
    fields.text(name)?.parse().ok()
}
