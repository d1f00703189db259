//! Providers as callers see them.

use camino::Utf8PathBuf;
use schemars::JsonSchema;
use serde::Serialize;

use crate::id::ProviderKind;
use crate::registry::schema::BinaryPolicy;

/// A configured provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Provider {
    /// Which one.
    pub provider: ProviderKind,
    /// Its native binary; `null` for the scripted one, which is this program.
    #[schemars(with = "Option<String>")]
    pub binary: Option<Utf8PathBuf>,
    /// Whether updates of the binary are followed.
    pub binary_policy: BinaryPolicy,
    /// The default CLI login, whose account no worker may share; `null` when that is not checked.
    #[schemars(with = "Option<String>")]
    pub base_home: Option<Utf8PathBuf>,
    /// The Desktop app's identity file, whose account no worker may share; `null` when that is not checked.
    #[schemars(with = "Option<String>")]
    pub desktop_identity_file: Option<Utf8PathBuf>,
    /// `builtin`, `none`, or the path of an external reader.
    pub quota_reader: String,
    /// Provider options that workers may pass on top of the built-in list.
    pub worker_options: Vec<String>,
    /// How many profiles it has.
    pub profiles: u32,
}

/// The answer of `providers`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ProviderList {
    /// In the order in which their locks are taken.
    pub providers: Vec<Provider>,
}
