//! What was seen of one profile, for its checks.

use camino::Utf8PathBuf;
use jiff::Timestamp;

use crate::contract::lease::Lease;
use crate::contract::profile::{AuthOverride, Routeability};
use crate::contract::quota::Quota;
use crate::contract::unleased::Unleased;
use crate::error::Error;
use crate::provider::LoginKind;
use crate::registry::schema::{Profile, Unmeasured};
use crate::report::refresh_lock::RefreshLock;
use crate::snapshot::profile::ProfileState;

use super::leftover::Leftover;
use super::storage::Entry;

/// What was seen of one profile.
#[derive(Clone, Debug)]
pub(super) struct ProfileFacts {
    pub(super) now: Timestamp,
    pub(super) profile: Profile,
    /// Everything the snapshot holds.
    pub(super) state: ProfileState,
    /// The provider's own command by which a person logs in to this home.
    pub(super) login_command: String,
    pub(super) home: HomeFacts,
    /// Why the home cannot take workers.
    pub(super) not_ready: Option<Error>,
    pub(super) credential: CredentialFacts,
    /// What the credential file says; `None` when it says nothing.
    pub(super) login: Option<LoginFacts>,
    /// Whose record cannot be read.
    pub(super) record: Option<Error>,
    /// The word of its standing, and the refusal where it is not proven.
    pub(super) standing: (String, Option<Error>),
    /// With whom it shares its account.
    pub(super) conflict: Option<Error>,
    /// What would replace its login, variables of the caller left out.
    pub(super) overrides: Vec<AuthOverride>,
    pub(super) quota: Result<Quota, Error>,
    /// What a profile whose quota was never read is worth.
    pub(super) unmeasured: Unmeasured,
    /// Its leases.
    pub(super) leases: Vec<Lease>,
    /// Provider processes in its home that no lease accounts for.
    pub(super) unleased: Vec<Unleased>,
    /// Where some may be published that could not be read.
    pub(super) unreadable: Vec<Utf8PathBuf>,
    /// Refresh locks, and whether nobody lives in the home.
    pub(super) locks: (Vec<RefreshLock>, bool),
    /// What changes of the login left beside it; or why that cannot be told.
    pub(super) leftovers: Result<Vec<Leftover>, Error>,
    /// Databases in the home that are links, with where they lead.
    pub(super) databases: Vec<(Utf8PathBuf, String)>,
    /// What choosing would say, and the refusal; or why it cannot be told.
    pub(super) routing: Result<(Routeability, Option<Error>), Error>,
}

/// What was seen of a home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HomeFacts {
    pub(super) entry: Entry,
    /// How its path leads to it.
    pub(super) reached: Reached,
    /// The kind of file system, where it is worth a word.
    pub(super) kind: Option<&'static str>,
}

/// How a path leads to a home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reached {
    /// Without a link.
    Directly,
    /// Over a link further up, to here.
    Over(Utf8PathBuf),
    /// It is a link itself, to here.
    Link(Utf8PathBuf),
}

/// What was seen of a credential file, not what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CredentialFacts {
    pub(super) path: Utf8PathBuf,
    pub(super) file: CredentialFile,
}

/// What a credential file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CredentialFile {
    /// There is none.
    Missing,
    /// Another place may share it, this way.
    Linked(String),
    /// It cannot be looked at or read.
    Unreadable(String),
    /// A file of its own.
    File {
        /// Its permission bits.
        mode: u32,
        /// Whether it is this user's.
        ours: bool,
        /// Seconds since it was written.
        age: u64,
    },
}

/// What a credential file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LoginFacts {
    pub(super) kind: LoginKind,
    pub(super) access_expires_at: Option<Timestamp>,
    pub(super) refreshable: bool,
    pub(super) login_expires_at: Option<Timestamp>,
}
