//! Putting a new credential in force.

use std::io;

use camino::{Utf8Path, Utf8PathBuf};

use super::journal::{Digest, Entry};
use crate::crash_point;
use crate::store::files::Files;

/// How a promotion ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Promoted {
    /// The new credential is in force for good.
    Done {
        /// A credential that the provider wrote while it was being replaced, or one that could not be removed,
        /// kept here.
        kept: Option<Utf8PathBuf>,
    },
    /// The credential file is not the one that was to be replaced: nothing was changed.
    Changed,
    /// It did not stand the last look and was taken back.
    TakenBack {
        /// A credential that the provider wrote meanwhile and that is not in force, kept here.
        kept: Option<Utf8PathBuf>,
    },
}

/// Puts `new` in force as the entry says. `stands` looks at what is in force last, before there is no way
/// back.
///
/// The caller holds the provider's lock. A failure before the exchange leaves nothing behind; after it the
/// entry stays and fences the provider until it is recovered.
pub fn promote(
    files: &dyn Files,
    journals: &Utf8Path,
    entry: &Entry,
    new: &[u8],
    stands: &mut dyn FnMut() -> bool,
) -> io::Result<Promoted> {
    let staged = entry.staged();
    files.create(&staged, new)?;
    crash_point!("promote.staged");
    let prepared = files
        .sync(&staged)
        .and_then(|()| files.sync_directory(entry.home()))
        .and_then(|()| {
            crash_point!("promote.staged_for_good");
            entry.write(files, journals)
        });
    if let Err(error) = prepared {
        withdraw(files, journals, entry, &staged);
        return Err(error);
    }
    crash_point!("promote.written_down");
    let traded = match &entry.old {
        Some(_) => files.exchange(&staged, &entry.target),
        None => files.rename(&staged, &entry.target),
    };
    if let Err(error) = traded {
        withdraw(files, journals, entry, &staged);
        let changed = [io::ErrorKind::NotFound, io::ErrorKind::AlreadyExists];
        return if changed.contains(&error.kind()) {
            Ok(Promoted::Changed)
        } else {
            Err(error)
        };
    }
    crash_point!("promote.traded");
    files.sync_directory(entry.home())?;
    crash_point!("promote.in_force");
    let in_force = files.read(&entry.target)?;
    let ours = in_force.is_some_and(|bytes| Digest::of(&bytes) == entry.new);
    if ours && !stands() {
        take_back(files, entry)?;
        crash_point!("promote.taken_back");
        let kept = clear(files, entry)?;
        entry.close(files, journals)?;
        return Ok(Promoted::TakenBack { kept });
    }
    entry.close(files, journals)?;
    crash_point!("promote.committed");
    // There is no way back from here: what cannot be removed stays beside, and is listed as litter.
    let kept = clear(files, entry).unwrap_or_else(|_| Some(entry.staged()));
    Ok(Promoted::Done { kept })
}

/// Undoes what came before the exchange. What cannot be removed is listed as litter later.
fn withdraw(files: &dyn Files, journals: &Utf8Path, entry: &Entry, staged: &Utf8Path) {
    drop(entry.close(files, journals));
    drop(files.remove(staged));
}

/// Takes the new credential back if it is in force. A credential that the provider put in its place stays.
pub(super) fn take_back(files: &dyn Files, entry: &Entry) -> io::Result<()> {
    let staged = entry.staged();
    let is_new = |path: &Utf8Path| -> io::Result<bool> {
        let bytes = files.read(path)?;
        Ok(bytes.is_some_and(|bytes| Digest::of(&bytes) == entry.new))
    };
    if is_new(&entry.target)? {
        let trade = || match &entry.old {
            Some(_) => files.exchange(&entry.target, &staged),
            None => files.rename(&entry.target, &staged),
        };
        match trade() {
            Ok(()) => {
                crash_point!("take_back.traded");
                if !is_new(&staged)? {
                    // The provider wrote it between the look and the trade: its file goes back.
                    let back = match &entry.old {
                        Some(_) => files.exchange(&entry.target, &staged),
                        None => files.rename(&staged, &entry.target),
                    };
                    match back {
                        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                            return Err(error);
                        }
                        _ => {}
                    }
                }
            }
            // The old one is gone, whoever took it: a login in force is better than none.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    files.sync_directory(entry.home())
}

/// Removes what came out of the exchange, if it is known; else keeps it under a name that says so.
pub(super) fn clear(files: &dyn Files, entry: &Entry) -> io::Result<Option<Utf8PathBuf>> {
    let staged = entry.staged();
    let Some(bytes) = files.read(&staged)? else {
        return Ok(None);
    };
    let digest = Digest::of(&bytes);
    if digest == entry.new || Some(&digest) == entry.old.as_ref() {
        files.remove(&staged)?;
        return Ok(None);
    }
    let orphan = entry.orphan();
    match files.rename(&staged, &orphan) {
        Ok(()) => Ok(Some(orphan)),
        // Kept under its first name, which also says what it is.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Some(staged)),
        Err(error) => Err(error),
    }
}
