//! Accounts as callers see them: opaque, and how they were proved.

use camino::Utf8PathBuf;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::profile::AuthOverride;
use crate::id::{ProfileId, ProviderKind};

/// The answer of `profile verify`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct VerificationList {
    /// One row per profile, sorted by id.
    pub verified: Vec<Verification>,
}

/// Whether one profile's account is proved, and distinct from every other.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Verification {
    /// Which profile.
    pub profile: ProfileId,
    /// Its provider.
    pub provider: ProviderKind,
    /// True when the account is proved for the login in the home now and nobody else holds it.
    pub verified: bool,
    /// `proven`, or the stable word for what is in the way.
    pub reason: String,
    /// 64 hex digits.
    pub identity_fingerprint: Option<String>,
    /// Who proved the account.
    pub identity_source: Option<String>,
    /// When the account was proved.
    #[schemars(with = "Option<String>")]
    pub verified_at: Option<Timestamp>,
}

/// The answer of `profile identity show`: everything known of whose account a profile holds, names never.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ProfileIdentity {
    /// Which profile.
    pub profile: ProfileId,
    /// Its provider.
    pub provider: ProviderKind,
    /// True when the account is proved for the login in the home now and nobody else holds it.
    pub verified: bool,
    /// `proven`, or the stable word for what is in the way.
    pub reason: String,
    /// The account that the profile is; `null` until it was proved once.
    pub pinned: Option<Pinned>,
    /// The last proof; `null` when there is none or it was of another account.
    pub proof: Option<Proof>,
    /// Why it is quarantined, until a person acts.
    pub quarantine: Option<Quarantine>,
    /// Who else holds the account, or may hold it.
    pub conflict: Option<Conflict>,
    /// The base CLI login, which no worker may share.
    pub base: Anchor,
    /// The Desktop app's login, which no worker may share.
    pub desktop: Anchor,
    /// The command that settles what is in the way.
    pub hint: Option<String>,
}

/// An account that a profile is pinned to.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Pinned {
    /// 64 hex digits.
    pub fingerprint: String,
    /// What is known of it: any of `account`, `organization`, `user`.
    pub components: Vec<String>,
    /// Who named it.
    pub source: String,
    /// When.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub at: Timestamp,
}

/// A proof of an account.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Proof {
    /// 64 hex digits.
    pub fingerprint: String,
    /// What is known of it: any of `account`, `organization`, `user`.
    pub components: Vec<String>,
    /// Who named it.
    pub source: String,
    /// When.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub at: Timestamp,
    /// How long ago it was bound to its login.
    pub age_seconds: u64,
    /// What it is bound to: `tokens` or `no_credential`.
    pub binding: String,
    /// Whether that is what the home holds now; a proof that holds does not age.
    pub holds: bool,
}

/// Why and since when a profile is isolated.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Quarantine {
    /// `identity_changed`.
    pub reason: String,
    /// Since when.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub at: Timestamp,
}

/// With whom a profile shares, or may share, its account.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Conflict {
    /// The code that refuses it.
    pub code: String,
    /// Profiles, sorted, or `base` or `desktop`.
    pub with: Vec<String>,
}

/// A login that no worker may share.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Anchor {
    /// `off` (not configured), `nobody` (logged out, or paid by key), `account` or `unverified`.
    pub state: String,
    /// Why it is not verified, as a stable word.
    pub reason: Option<String>,
    /// 64 hex digits; those of the Desktop app are made of less than those of a login.
    pub fingerprint: Option<String>,
    /// What is known of it: any of `account`, `organization`, `user`.
    pub components: Vec<String>,
    /// Where it is looked for.
    #[schemars(with = "Option<String>")]
    pub path: Option<Utf8PathBuf>,
}

/// The answer of `profile auth-status`: what the credential file of a profile says, which proves nothing.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AuthStatus {
    /// Which profile.
    pub profile: ProfileId,
    /// Its provider.
    pub provider: ProviderKind,
    /// `logged_in`, `refreshable` (the access token ran out, the CLI can renew it), `logged_out`, `expired` (the
    /// login ran out), `api_key` or `unknown`.
    pub auth_status: String,
    /// The stable word for what is wrong with the file, where something is.
    pub reason: Option<String>,
    /// The credential file.
    #[schemars(with = "String")]
    pub credential_file: Utf8PathBuf,
    /// Whether there is one.
    pub present: bool,
    /// When its access token expires.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub access_expires_at: Option<Timestamp>,
    /// Whether the provider's CLI can renew the access token.
    pub refreshable: bool,
    /// When the whole login ends, where the file says so.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub login_expires_at: Option<Timestamp>,
    /// What would replace the login: in the home, in any project of the provider, on the machine, and in the
    /// environment of this command.
    pub auth_overrides: Vec<AuthOverride>,
    /// The command that settles what is in the way.
    pub hint: Option<String>,
}

/// The answer of `profile auth-status` without a name or with `--all`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AuthStatusList {
    /// Sorted by id.
    pub profiles: Vec<AuthStatus>,
}
