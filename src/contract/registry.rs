//! Settings, projects and pools as callers see them.

use std::collections::BTreeMap;

use camino::Utf8PathBuf;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::profile::Profile;
use crate::id::{PoolId, ProfileId, ProviderKind};

/// One setting: the answer of `config get` and `config set`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Setting {
    /// Its dotted name.
    pub key: String,
    /// The value in force; `null` when there is none.
    pub value: Value,
    /// The value that holds when the registry says nothing.
    pub default: Value,
    /// What it is for.
    pub meaning: String,
}

/// The answer of `config list`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SettingList {
    /// The registry file.
    #[schemars(with = "String")]
    pub registry: Utf8PathBuf,
    /// In the order of the documentation.
    pub settings: Vec<Setting>,
    /// Keys of the file that have no effect.
    pub notes: Vec<String>,
}

/// The projects of one provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Projects {
    /// Which provider.
    pub provider: ProviderKind,
    /// Sorted roots.
    #[schemars(with = "Vec<String>")]
    pub trusted_projects: Vec<Utf8PathBuf>,
}

/// The answer of `project list`; `project register` and `project remove` answer with it too, or with the
/// one provider's entry when `--provider` was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ProjectList {
    /// All providers, in their order.
    All {
        /// One entry per configured provider.
        providers: Vec<Projects>,
    },
    /// The provider that was named.
    One(Projects),
}

/// One pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Pool {
    /// Its id.
    pub pool: PoolId,
    /// Its profiles, sorted.
    pub profiles: Vec<ProfileId>,
    /// How many of them are enabled.
    pub enabled: u32,
    /// Slots of the enabled ones.
    pub slots: u32,
    /// Their providers.
    pub providers: Vec<ProviderKind>,
}

/// The answer of `pool list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PoolList {
    /// Sorted by id.
    pub pools: Vec<Pool>,
}

/// The answer of `init`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Initialised {
    /// The registry that was written.
    #[schemars(with = "String")]
    pub registry: Utf8PathBuf,
    /// The binary pinned for each configured provider; `null` where it is this program.
    #[schemars(with = "BTreeMap<String, Option<String>>")]
    pub binaries: BTreeMap<ProviderKind, Option<Utf8PathBuf>>,
    /// The profiles that were made, all disabled.
    pub profiles: Vec<Profile>,
    /// How many are enabled: none.
    pub enabled: u32,
    /// What to type next.
    pub next: Vec<String>,
}
