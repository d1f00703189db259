//! Everything known of one profile: durable facts, proof, reading, cooldown.

use camino::Utf8PathBuf;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::ProfileId;
use crate::identity::fingerprint::Fingerprint;
use crate::quota::window::{Cooldown, Reading};
use crate::sys::filesystem::Identity;

/// Facts that must survive: kept in `state/profiles/<profile>.json`, mirrored in the snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Durable {
    /// The account that this profile is, once it has been proved.
    pub pinned: Option<Pinned>,
    /// Why it is isolated until a person acts.
    pub quarantine: Option<Note>,
    /// Takes no new leases.
    pub drain: Option<Note>,
    /// Blocked by the provider's billing until a person acts.
    pub billing_block: Option<Note>,
    /// A cooldown that lasts longer than an hour.
    pub cooldown: Option<Cooldown>,
    /// When a person lifted the limits last: older evidence of limits counts no more, however often it is
    /// read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits_cleared: Option<Timestamp>,
}

/// A reason with its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// In the person's or the program's words; never secret.
    pub reason: String,
    /// When it was set.
    pub at: Timestamp,
}

/// The account that a profile is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pinned {
    /// Its opaque name.
    pub fingerprint: Fingerprint,
    /// How it was learned.
    pub source: String,
    /// When.
    pub at: Timestamp,
}

/// What a proof is bound to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Binding {
    /// Digest (64 hex) of the login tokens in the home.
    Tokens(String),
    /// The home holds no credential file; only an external reader's proof can say so.
    NoCredential,
}

/// Fingerprint, how it was learned, and which login it is bound to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// Whom the server named.
    pub fingerprint: Fingerprint,
    /// `oauth-profile`, `usage`, `quota-account`, `scripted`; [`ASSERTED`]; `api-key` for a key, which is its own account.
    pub source: String,
    /// When the server said so.
    pub at: Timestamp,
    /// The login it holds for.
    pub binding: Binding,
    /// Stat of the credential file when it was digested; equal again means unchanged, nothing read.
    pub file: Option<Identity>,
    /// Wall time of that digest in nanoseconds: a file younger than 2 s then may still have changed.
    pub digested_at: i128,
}

/// When and why a fetch may not be repeated yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Poll {
    /// Earliest next fetch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_at: Option<Timestamp>,
    /// When the last fetch ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_at: Option<Timestamp>,
    /// Digest of the login it was made with; another login may be asked about at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Failures in a row.
    pub failures: u32,
    /// What the last failure was, as a reason word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When the fetch began that is under way, or whose process died.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begun_at: Option<Timestamp>,
    /// When the fetches of the last hour began, in seconds since 1970.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<i64>,
}

/// Where a lease's conversation is written down, and what was read of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transcript {
    /// Generation of the lease.
    pub generation: u64,
    /// The file that its last session start named.
    pub path: Utf8PathBuf,
    /// The file as it was when its end was read last; `None` when it never was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<Identity>,
}

/// The source of a proof for which a person vouches: the server takes the token and may not say whose it is.
pub const ASSERTED: &str = "asserted";

/// The name under which a provider's base CLI login stands in the snapshot; no profile id has an `@`.
pub const BASE: &str = "@base";

/// One line of a provider's snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProfileState {
    /// Whose; the base CLI login is [`BASE`].
    pub profile: String,
    /// Mirror of the durable file.
    #[serde(skip_serializing_if = "is_empty")]
    pub durable: Durable,
    /// The last proof.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proof: Option<Proof>,
    /// The last good reading.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reading: Option<Reading>,
    /// A cooldown of at most an hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cooldown: Option<Cooldown>,
    /// When a worker of ours last used the account, as its own events tell.
    pub last_used: Option<Timestamp>,
    /// When the login itself ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub login_expires_at: Option<Timestamp>,
    /// `auth_broken` seen in evidence or by a reader, with its time; cleared by a newer proof.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_broken: Option<Note>,
    /// Digest of the login that the server refused; another one in the home may be asked about again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_login: Option<String>,
    /// Fetch budget.
    pub poll: Poll,
    /// The transcripts of leases that were not seen to end, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub transcripts: Vec<Transcript>,
}

fn is_empty(durable: &Durable) -> bool {
    *durable == Durable::default()
}

impl ProfileState {
    /// Nothing known yet.
    pub fn new(profile: &ProfileId) -> Self {
        Self::named(profile.as_str())
    }

    /// Nothing known yet of a profile or an anchor.
    pub fn named(name: &str) -> Self {
        Self {
            profile: name.to_owned(),
            ..Self::default()
        }
    }

    /// The cooldown that holds now and ends last.
    pub fn rest(&self, now: Timestamp) -> Option<&Cooldown> {
        [&self.cooldown, &self.durable.cooldown]
            .into_iter()
            .flatten()
            .filter(|cooldown| cooldown.holds(now))
            .max_by_key(|cooldown| cooldown.until)
    }

    /// Whether this may be the account that the profile is pinned to, as far as is known.
    pub fn may_be(&self, account: &Fingerprint) -> bool {
        let pinned = self.durable.pinned.as_ref();
        pinned.is_none_or(|pinned| pinned.fingerprint.overlaps(account))
    }

    /// Whose account it is: as proved last, else as pinned.
    pub fn fingerprint(&self) -> Option<&Fingerprint> {
        let proved = self.proof.as_ref().map(|proof| &proof.fingerprint);
        let pinned = || self.durable.pinned.as_ref();
        proved.or_else(|| pinned().map(|pinned| &pinned.fingerprint))
    }
}
