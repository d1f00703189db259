//! The registry as the program uses it, every default filled in.

use camino::{Utf8Path, Utf8PathBuf};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Code, Refusal, code};
use crate::id::{PoolId, ProfileId, ProviderKind};

/// Version of the registry format that this program reads and writes.
pub const VERSION: u32 = 1;

/// The whole registry. Profiles stand in the order of the file, which breaks ties when choosing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Registry {
    /// Ties the registry to its state root; written by `init`.
    pub install_id: Option<String>,
    /// Global settings.
    pub settings: Settings,
    /// Per-provider settings, in lock order; a provider that is absent is not configured.
    pub providers: Vec<ProviderSettings>,
    /// Worktree roots allowed to host workers.
    pub projects: Vec<Project>,
    /// Profiles in file order.
    pub profiles: Vec<Profile>,
}

/// `[settings]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// How long a reservation waits for its exec, in seconds.
    pub lease_ttl_seconds: u64,
    /// A reading older than this is stale, in seconds.
    pub quota_fresh_seconds: u64,
    /// What a stale reading is worth.
    pub stale_readings: StaleReadings,
    /// What a profile without any reading is worth.
    pub unmeasured: Unmeasured,
    /// Headroom points taken off per live lease.
    pub active_lease_penalty: f64,
    /// How the winner is ranked.
    pub strategy: Strategy,
    /// How a worker's environment begins.
    pub worker_env: WorkerEnvironment,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            lease_ttl_seconds: 30,
            quota_fresh_seconds: 300,
            stale_readings: StaleReadings::Presume,
            unmeasured: Unmeasured::Refuse,
            active_lease_penalty: 8.0,
            strategy: Strategy::SoonestReset,
            worker_env: WorkerEnvironment::Inherit,
        }
    }
}

macro_rules! word_enum {
    ($(#[$meta:meta])* $name:ident { $($(#[$inner:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        pub enum $name { $($(#[$inner])* #[serde(rename = $word)] $variant,)* }
        impl $name {
            /// Every word the registry accepts here.
            pub const WORDS: &'static [&'static str] = &[$($word),*];
            /// The word in the registry and in JSON.
            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
            /// Reads the word back.
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

word_enum! {
    /// What a stale reading is worth.
    StaleReadings {
        /// Windows that have reset count as full, ranked below every fresh reading.
        Presume = "presume",
        /// A stale reading routes nothing.
        Refuse = "refuse",
    }
}
word_enum! {
    /// What a profile whose quota cannot be read is worth.
    Unmeasured {
        /// It may be chosen last.
        Allow = "allow",
        /// It is not routed.
        Refuse = "refuse",
    }
}
word_enum! {
    /// How candidates are ranked.
    Strategy {
        /// Most headroom first.
        Headroom = "headroom",
        /// Headroom that would expire unused first.
        SoonestReset = "soonest-reset",
        /// Longest unpicked first.
        RoundRobin = "round-robin",
    }
}
word_enum! {
    /// How a worker's environment begins.
    WorkerEnvironment {
        /// The caller's environment less everything about identity.
        Inherit = "inherit",
        /// An allowlist.
        Minimal = "minimal",
    }
}
word_enum! {
    /// Whether updates of the provider's CLI are followed.
    BinaryPolicy {
        /// Links are resolved at every launch.
        Follow = "follow",
        /// The path names one file for good.
        Pin = "pin",
    }
}
word_enum! {
    /// What a profile may be used for.
    SafetyPolicy {
        /// Routed to workers.
        Worker = "worker",
        /// Only by hand; never in a worker pool, never probed or routed.
        ManualOnly = "manual_only",
        /// Shares its account with the Desktop app; never routed.
        DesktopShared = "desktop_shared",
    }
}
word_enum! {
    /// Where a profile's credential is.
    Credential {
        /// In the provider home, kept by the provider's CLI.
        Home = "home",
        /// A long-lived token that we keep.
        SetupToken = "setup-token",
        /// An API key, kept by us or in the home, as the CLI needs it; the money guard applies.
        ApiKey = "api-key",
    }
}

/// An identity that no worker may share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Anchor {
    /// Taken out of play by `false`.
    Off,
    /// Where it is read from.
    At(Utf8PathBuf),
}

/// Who reads quota and identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum QuotaReader {
    /// This program, one GET.
    Builtin,
    /// An external program with quota-axi's JSON.
    External(Utf8PathBuf),
    /// Nobody.
    None,
}

/// `[providers.<name>]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderSettings {
    /// Which provider.
    pub kind: ProviderKind,
    /// The native binary, where the registry names one; scripted is this program itself.
    pub binary: Option<Utf8PathBuf>,
    /// Whether links are followed at launch.
    pub binary_policy: BinaryPolicy,
    /// The default CLI login.
    pub base_home: Anchor,
    /// The Desktop app's identity file.
    pub desktop_identity_file: Anchor,
    /// Entries of the base home linked into each home.
    pub shared_entries: Vec<String>,
    /// Settings of the base home merged into each home.
    pub inherit_settings: Vec<String>,
    /// Who reads quota.
    pub quota_reader: QuotaReader,
    /// Provider options a worker may pass, on top of the built-in allowlist.
    pub worker_options: Vec<String>,
    /// Scripted only: the directory that plays the provider's server, `<share>/scripted` by default.
    pub service: Option<Utf8PathBuf>,
}

/// A worktree root allowed to host workers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Project {
    /// Canonical absolute root.
    pub path: Utf8PathBuf,
    /// One provider, or all when `None`.
    pub provider: Option<ProviderKind>,
}

/// `[profiles."<id>"]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Our name for it.
    pub id: ProfileId,
    /// Which service.
    pub provider: ProviderKind,
    /// Canonical absolute NFC path, passed byte for byte the same for ever.
    pub home: Utf8PathBuf,
    /// Pools it joins.
    pub pools: Vec<PoolId>,
    /// Whether it is routed.
    pub enabled: bool,
    /// Where its credential is.
    pub credential: Credential,
    /// Slots.
    pub max_concurrent: u32,
    /// Percent of each window that routing leaves untouched.
    pub reserve_percent: f64,
    /// Preference: each step above 1 is worth five points of headroom.
    pub weight: u32,
    /// What it may be used for.
    pub safety_policy: SafetyPolicy,
    /// Whether usage beyond the subscription may be paid for.
    pub allow_overage: bool,
}

/// A lookup that found nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// No such profile.
    #[error("there is no profile `{0}`")]
    Profile(ProfileId),
    /// No such pool.
    #[error("no profile is in the pool `{0}`")]
    Pool(PoolId),
    /// The provider has no table.
    #[error("the provider `{0}` is not configured")]
    Provider(ProviderKind),
}

impl Refusal for Missing {
    fn code(&self) -> Code {
        code::NOT_FOUND
    }
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Profile(_) => "agent-fleet profile list".to_owned(),
            Self::Pool(_) => "agent-fleet pool list".to_owned(),
            Self::Provider(provider) => {
                format!("agent-fleet config set providers.{provider}.binary /path/to/{provider}")
            }
        })
    }
}

impl Registry {
    /// The profile with this id.
    pub fn profile(&self, id: &ProfileId) -> Result<&Profile, Missing> {
        self.profiles
            .iter()
            .find(|profile| profile.id == *id)
            .ok_or_else(|| Missing::Profile(id.clone()))
    }

    /// The settings of a provider.
    pub fn provider(&self, kind: ProviderKind) -> Result<&ProviderSettings, Missing> {
        self.providers
            .iter()
            .find(|settings| settings.kind == kind)
            .ok_or(Missing::Provider(kind))
    }

    /// The profiles of one provider in file order.
    pub fn of(&self, kind: ProviderKind) -> impl Iterator<Item = &Profile> {
        self.profiles
            .iter()
            .filter(move |profile| profile.provider == kind)
    }

    /// Whether workers of `provider` may run in the worktree root `root`.
    pub fn trusts(&self, provider: ProviderKind, root: &Utf8Path) -> bool {
        self.projects.iter().any(|project| {
            project.path == root && project.provider.is_none_or(|only| only == provider)
        })
    }

    /// The roots on which workers of `provider` may run, sorted.
    pub fn trusted(&self, provider: ProviderKind) -> Vec<&Utf8Path> {
        let mut roots: Vec<_> = self
            .projects
            .iter()
            .filter(|project| project.provider.is_none_or(|only| only == provider))
            .map(|project| project.path.as_path())
            .collect();
        roots.sort_unstable();
        roots.dedup();
        roots
    }
}
