//! Settling a promotion that was cut short.

use std::io;

use camino::{Utf8Path, Utf8PathBuf};

use super::journal::Entry;
use super::promote::{clear, take_back};
use crate::crash_point;
use crate::id::ProfileId;
use crate::store::files::Files;

/// What was done about a pending promotion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The transaction.
    pub id: String,
    /// Whose login is the old one again, or the one that the provider's CLI wrote meanwhile.
    pub profile: ProfileId,
    /// A credential that the provider wrote meanwhile and that is not in force, kept here.
    pub kept: Option<Utf8PathBuf>,
}

impl Recovered {
    /// What was done, as a sentence.
    pub fn told(&self) -> String {
        let kept = match &self.kept {
            Some(kept) => format!("; what its CLI wrote meanwhile is kept in `{kept}`"),
            None => String::new(),
        };
        format!(
            "took back the change of the login of `{}` that was cut short: the login from before is in force{kept}",
            self.profile
        )
    }
}

/// Takes the new credential back if it is in force, and closes the entry. May be cut short and repeated.
///
/// The caller holds the provider's lock, so that no promotion is under way.
pub fn recover(files: &dyn Files, journals: &Utf8Path, entry: &Entry) -> io::Result<Recovered> {
    take_back(files, entry)?;
    crash_point!("recover.taken_back");
    let kept = clear(files, entry)?;
    crash_point!("recover.cleared");
    entry.close(files, journals)?;
    crash_point!("recover.closed");
    Ok(Recovered {
        id: entry.id.clone(),
        profile: entry.profile.clone(),
        kept,
    })
}
