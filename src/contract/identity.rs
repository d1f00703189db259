//! Accounts as callers see them: opaque, and how they were proved.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

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
