//! What changes of a login left beside it, and which of that is proved ours.

use camino::Utf8PathBuf;

use crate::env::Context;
use crate::error::{Error, Result};
use crate::provider::conveyance;
use crate::registry::schema::Profile;
use crate::store::directory;
use crate::store::files::{Disk, Files as _};
use crate::store::lock::{Locks, Name};
use crate::transaction::beside::{self, Beside, Holds, Role};
use crate::transaction::pending;

/// A file that no transaction needs any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Leftover {
    pub(super) path: Utf8PathBuf,
    pub(super) standing: Standing,
}

/// Whose a leftover is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It holds what its name says, and another login is in force.
    Ours,
    /// The provider's CLI wrote it.
    Providers,
    /// The record that would tell what it is was set aside: this transaction.
    Aside(String),
    /// There is no login in force.
    Needed,
    /// It cannot be read.
    Unreadable,
}

/// The leftovers in the home of a profile. While its provider is under maintenance or a transaction of its is
/// pending, nothing is left over.
pub(super) fn find(context: &Context, profile: &Profile) -> Result<Vec<Leftover>> {
    let locks = Locks::of(context);
    if locks.holder(&Name::Provider(profile.provider)).is_some() {
        return Ok(Vec::new());
    }
    left(context, profile)
}

/// Removes what is proved ours, under the provider's maintenance; returns what was removed.
pub(super) fn remove(context: &Context, profile: &Profile) -> Result<Vec<Utf8PathBuf>> {
    let locks = Locks::of(context);
    let _maintenance = locks.maintenance(profile.provider, "doctor --fix")?;
    let mut ours = left(context, profile)?;
    ours.retain(|one| one.standing == Standing::Ours);
    ours.into_iter()
        .map(|one| directory::remove_file(&one.path).map(|()| one.path))
        .collect()
}

fn left(context: &Context, profile: &Profile) -> Result<Vec<Leftover>> {
    let credential = conveyance::file(context, profile);
    let found = beside::find(&credential)
        .map_err(|error| Error::io("list what lies beside", &credential, &error))?;
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let pending = pending::list(context)?;
    let aside = pending::aside(context)?;
    let in_force = matches!(Disk.read(&credential), Ok(Some(_)));
    let left = found
        .into_iter()
        .filter(|one| !pending.iter().any(|entry| entry.id == one.id));
    Ok(left
        .map(|one| Leftover {
            standing: if aside.iter().any(|entry| entry.id == one.id) {
                Standing::Aside(one.id.clone())
            } else {
                standing(&one, in_force)
            },
            path: one.path,
        })
        .collect())
}

fn standing(one: &Beside, in_force: bool) -> Standing {
    match (&one.role, one.holds()) {
        (_, Holds::Unreadable) => Standing::Unreadable,
        (Role::Staged { .. }, Holds::New | Holds::Old) if in_force => Standing::Ours,
        (Role::Staged { .. }, Holds::New | Holds::Old) => Standing::Needed,
        (Role::Staged { .. }, Holds::Other) | (Role::Kept, _) => Standing::Providers,
    }
}
