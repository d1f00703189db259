//! What an enrollment came to.

use camino::Utf8PathBuf;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::id::{ProfileId, ProviderKind};

/// The answer of `profile enroll`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Enrolled {
    /// Which profile.
    pub profile: ProfileId,
    /// Its provider.
    pub provider: ProviderKind,
    /// What was done about its login.
    pub outcome: EnrollmentOutcome,
    /// Whose account it is: 64 hex digits.
    pub identity_fingerprint: String,
    /// Who proved it.
    pub identity_source: String,
    /// When it was proved last.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub verified_at: Timestamp,
    /// Whether the profile takes work from now on.
    pub routeable: bool,
    /// `ready`, or the stable word for what is missing.
    pub reason: String,
    /// The command that settles it.
    pub hint: Option<String>,
    /// A login that the provider's CLI wrote while this one was put in its place, kept here.
    #[schemars(with = "Option<String>")]
    pub kept: Option<Utf8PathBuf>,
}

/// What an enrollment did about the login in the profile's home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EnrollmentOutcome {
    /// The new login is in force.
    Promoted,
    /// The login in force is good and of the same account: it stayed, byte for byte.
    Unchanged,
    /// The login that was in the home already is the profile's.
    Adopted,
}

impl EnrollmentOutcome {
    /// As it is written in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Promoted => "promoted",
            Self::Unchanged => "unchanged",
            Self::Adopted => "adopted",
        }
    }
}

/// The answer of `profile enroll --all-missing`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct EnrollmentList {
    /// One row per profile that had no usable login, in registry order.
    pub enrollments: Vec<Enrollment>,
}

/// One profile of `profile enroll --all-missing`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Enrollment {
    /// Which profile.
    pub profile: ProfileId,
    /// Its provider.
    pub provider: ProviderKind,
    /// The enrollment; `null` when it was refused.
    pub enrolled: Option<Enrolled>,
    /// The error code of a refused one.
    pub code: Option<String>,
    /// Why it was refused, in one sentence.
    pub error: Option<String>,
}
