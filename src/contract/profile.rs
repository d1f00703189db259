//! Profiles as callers see them.

use camino::Utf8PathBuf;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::quota::Quota;
use crate::id::{PoolId, ProfileId, ProviderKind};
use crate::registry::schema::{self, Credential, SafetyPolicy};

/// A profile.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Profile {
    /// Our name for it.
    pub id: ProfileId,
    /// Its provider.
    pub provider: ProviderKind,
    /// Its home.
    #[schemars(with = "String")]
    pub home: Utf8PathBuf,
    /// Whether it is routed.
    pub enabled: bool,
    /// Pools it joins.
    pub pools: Vec<PoolId>,
    /// Preference.
    pub weight: u32,
    /// Slots.
    pub max_concurrent: u32,
    /// Percent left untouched.
    pub reserve_percent: f64,
    /// What it may be used for.
    pub safety_policy: SafetyPolicy,
    /// Where its credential is.
    pub credential: Credential,
}

impl From<&schema::Profile> for Profile {
    fn from(profile: &schema::Profile) -> Self {
        Self {
            id: profile.id.clone(),
            provider: profile.provider,
            home: profile.home.clone(),
            enabled: profile.enabled,
            pools: profile.pools.clone(),
            weight: profile.weight,
            max_concurrent: profile.max_concurrent,
            reserve_percent: profile.reserve_percent,
            safety_policy: profile.safety_policy,
            credential: profile.credential,
        }
    }
}

/// The answer of `profile drain` and `profile undrain`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Drained {
    /// Which profile.
    pub profile: ProfileId,
    /// The drain now in force.
    pub drain: Option<Note>,
    /// Whether this command changed anything.
    pub changed: bool,
}

/// The answer of `profile cooldown`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CooldownSet {
    /// Which profile.
    pub profile: ProfileId,
    /// The cooldown in force, which may be a longer one.
    pub cooldown: Option<Note>,
    /// Whether this command changed anything.
    pub changed: bool,
}

/// The answer of `profile cooldown-clear`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CooldownCleared {
    /// Which profile.
    pub profile: ProfileId,
    /// Whether there was a cooldown or a billing block.
    pub changed: bool,
}

/// The answer of `profile list`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ProfileList {
    /// Sorted by id.
    pub profiles: Vec<Profile>,
}

/// The answer of `profile provision`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Provisioned {
    /// Which profile.
    pub profile: ProfileId,
    /// Always true: anything less is refused.
    pub provisioned: bool,
    /// Its home.
    #[schemars(with = "String")]
    pub home: Utf8PathBuf,
    /// What was changed, one line each; empty when nothing had to be.
    pub changes: Vec<String>,
    /// What to type next; `null` when the profile needs nothing more.
    pub hint: Option<String>,
}

/// The answer of `profile provision --all`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ProvisionedList {
    /// Sorted by id.
    pub profiles: Vec<Provisioned>,
}

/// The answer of `profile remove`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Removed {
    /// Which profile.
    pub profile: ProfileId,
    /// Always true.
    pub removed: bool,
    /// Always false: a login is never deleted.
    pub home_deleted: bool,
    /// Where the login still is.
    #[schemars(with = "String")]
    pub home: Utf8PathBuf,
    /// Where a token or a key still is that was kept outside of the home; left out when there is none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub credentials: Vec<Utf8PathBuf>,
}

/// What choose would say of one profile.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Routeability {
    /// Whether it could take a task if it were enabled.
    pub eligible: bool,
    /// `quota` when routed by its reading, `unavailable` otherwise.
    pub mode: String,
    /// Stable reason word: `fresh`, `stale`, `presumed`, `unmeasured`, `overage` (beyond the subscription, paid),
    /// or what is in the way.
    pub reason: String,
    /// When that may have passed.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub retry_at: Option<Timestamp>,
    /// The command that puts the profile into use, where more than waiting is needed.
    pub hint: Option<String>,
}

/// Whose something is that would replace a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OverrideScope {
    /// A file in the profile's home.
    Home,
    /// A file in a project.
    Project,
    /// A file of the machine's administrator.
    Machine,
    /// A variable of the caller's environment.
    Environment,
}

/// Something that would replace a profile's login; never its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AuthOverride {
    /// Whose it is.
    pub scope: OverrideScope,
    /// Where: a path and the key in it, or `environment: ` and the variable.
    pub source: String,
    /// The file alone, to be edited.
    #[schemars(with = "Option<String>")]
    pub file: Option<Utf8PathBuf>,
    /// What it would do.
    pub effect: String,
    /// Whether workers are refused because of it; else it is only kept from them.
    pub refuses: bool,
}

/// Usage beyond the subscription, which is paid for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Overage {
    /// Whether it is switched on at the provider; null when its last reading did not say.
    pub enabled: Option<bool>,
    /// Whether the profile may use it (`allow_overage`). When not, nothing is routed here at 100 %; a worker that
    /// is running then goes on, and is billed if the account has it on.
    pub allowed: bool,
}

/// A reason with its time.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Note {
    /// In the person's or the program's words.
    pub reason: String,
    /// When it was set.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub at: Timestamp,
    /// When it ends by itself.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub until: Option<Timestamp>,
    /// True when that end was read out of a sentence that did not say everything; then it is rather late.
    pub guessed: bool,
}

/// The answer of `profile status`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ProfileStatus {
    /// The profile's own fields.
    #[serde(flatten)]
    pub profile: Profile,
    /// Live leases on it.
    pub active_leases: u32,
    /// `logged_in`, `refreshable`, `logged_out`, `expired`, `api_key` or `unknown`, from the credential file alone.
    pub auth_status: String,
    /// A cooldown in force.
    pub cooldown: Option<Note>,
    /// A drain in force.
    pub drain: Option<Note>,
    /// Whether the home is set up for workers.
    pub provisioned: bool,
    /// Why it is not.
    pub provision_reason: Option<String>,
    /// Its quota.
    pub quota: Quota,
    /// What happens when the subscription is used up.
    pub overage: Overage,
    /// What choose would say.
    pub routeability: Routeability,
    /// What would replace its login: in its home, in any project of its provider, on the machine, and in the
    /// environment of this command.
    pub auth_overrides: Vec<AuthOverride>,
    /// When the login itself ends.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub login_expires_at: Option<Timestamp>,
}

/// The answer of `profile status` without a name.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ProfileStatusList {
    /// Sorted by id.
    pub profiles: Vec<ProfileStatus>,
}
