//! How a profile's credential reaches the provider's CLI, and so in which file it is.

use camino::Utf8PathBuf;

use crate::env::Context;
use crate::registry::schema::{Profile, ProviderSettings, QuotaReader};
use crate::secret::kept;

/// How a credential reaches the CLI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conveyance {
    /// It is in the home, where the CLI finds it.
    Home,
    /// We keep it, and hand it to the worker on a descriptor whose number is in this variable. The CLI reads and
    /// closes it before it starts anything.
    Descriptor(&'static str),
    /// There is no way, for this reason: a clause.
    Never(&'static str),
}

/// How the credential of a profile reaches its CLI.
pub fn of(profile: &Profile) -> Conveyance {
    super::of(profile.provider).conveys(profile.credential)
}

/// Whether we keep the credential of a profile, and not the provider's CLI in the home.
pub fn is_ours(profile: &Profile) -> bool {
    match of(profile) {
        Conveyance::Home => false,
        Conveyance::Descriptor(_) | Conveyance::Never(_) => true,
    }
}

/// Who asks about a profile: another program reads homes alone.
pub fn reader<'a>(profile: &Profile, settings: &'a ProviderSettings) -> &'a QuotaReader {
    match &settings.quota_reader {
        QuotaReader::External(_) if is_ours(profile) => &QuotaReader::Builtin,
        reader @ (QuotaReader::Builtin | QuotaReader::External(_) | QuotaReader::None) => reader,
    }
}

/// The file that the credential of a profile is in.
pub fn file(context: &Context, profile: &Profile) -> Utf8PathBuf {
    if is_ours(profile) {
        kept::file(context, &profile.id, profile.credential.word())
    } else {
        profile
            .home
            .join(super::of(profile.provider).credential_file())
    }
}
