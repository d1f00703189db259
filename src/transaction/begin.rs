//! One promotion from the caller's side: its name, its directory, and what its failures mean.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;

use camino::{Utf8Path, Utf8PathBuf};
use rustix::io::Errno;

use super::journal::{Digest, Entry};
use super::pending::{Pending, folder};
use super::promote::{Promoted, promote};
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::id::{ProfileId, ProviderKind};
use crate::store::directory;
use crate::store::files::{Disk, Files};
use crate::store::lock::{Guard, Mode, Name};
use crate::sys::shell;

/// A promotion that has been put down in words and not yet begun on disk.
#[derive(Clone, Debug)]
pub struct Promotion {
    /// What the journal will say.
    pub entry: Entry,
    journals: Utf8PathBuf,
}

/// Prepares to put `new` in the place of the credential file `target`; its home must be there. Under the
/// provider's lock held exclusively, or what is in force may be another file by the time of the promotion.
///
/// Refuses a credential that is a link or has a second name: another home may share it.
pub fn begin(
    context: &Context,
    (kind, profile): (ProviderKind, &ProfileId),
    target: &Utf8Path,
    new: &[u8],
) -> Result<Promotion> {
    let old = in_force(target)?;
    let at = context.clock.now();
    let id = format!(
        "{kind}-{profile}-{}-{:x}",
        at.strftime("%Y%m%dT%H%M%SZ"),
        std::process::id()
    );
    let journals = folder(context);
    directory::ensure(&journals)?;
    // An entry in a directory whose own name is lost in a power cut would be lost with it.
    let state = &context.roots.state;
    Disk.sync_directory(state)
        .map_err(|error| Error::io("sync", state, &error))?;
    Ok(Promotion {
        entry: Entry {
            id,
            profile: profile.clone(),
            provider: kind,
            target: target.to_owned(),
            old,
            new: Digest::of(new),
            at,
        },
        journals,
    })
}

fn in_force(target: &Utf8Path) -> Result<Option<Digest>> {
    let failed = |error: io::Error| Error::io("read", target, &error);
    let metadata = match fs::symlink_metadata(target) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    if !metadata.is_file() || metadata.nlink() > 1 {
        let message = format!(
            "the credential file `{target}` is a link, has a second name or is no regular file, so it is not replaced"
        );
        let path = shell::quote(target.as_str());
        return Err(Error::new(code::IDENTITY_UNPROVEN, message).hint(format!("ls -li {path}")));
    }
    let bytes = Disk.read(target).map_err(failed)?;
    Ok(bytes.map(|bytes| Digest::of(&bytes)))
}

impl Promotion {
    /// Puts `new` in force; `stands` looks at it last, before there is no way back.
    ///
    /// A refusal says what it left: `transaction_pending` that the new login may be in force until the next
    /// command that touches the provider takes it back; any other that nothing was changed, unless its sentence
    /// says that the new login is in force.
    pub fn carry_out(
        &self,
        guard: &Guard,
        new: &[u8],
        stands: &mut dyn FnMut() -> bool,
    ) -> Result<Promoted> {
        self.carry_out_on(&Disk, guard, new, stands)
    }

    pub(super) fn carry_out_on(
        &self,
        files: &dyn Files,
        guard: &Guard,
        new: &[u8],
        stands: &mut dyn FnMut() -> bool,
    ) -> Result<Promoted> {
        let entry = &self.entry;
        let held =
            (guard.name(), guard.mode()) == (&Name::Provider(entry.provider), Mode::Exclusive);
        if !held || Digest::of(new) != entry.new {
            let message = format!("transaction `{}` was begun otherwise", entry.id);
            return Err(Error::internal(message));
        }
        promote(files, &self.journals, entry, new, stands).map_err(|error| {
            let path = entry.path(&self.journals);
            let mut cause = Error::io("put the new login into", entry.home(), &error);
            if matches!(
                Errno::from_io_error(&error),
                Some(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)
            ) {
                cause.code = code::UNSUPPORTED_FILESYSTEM;
                cause.message = format!(
                    "the file system of `{}` cannot make two files trade their names, which is the only way to change a login that loses none",
                    entry.home()
                );
            }
            match (files.read(&path), files.read(&entry.target)) {
                (Ok(None), Ok(Some(bytes))) if Digest::of(&bytes) == entry.new => Error {
                    message: format!(
                        "the new login of profile `{}` is in force, but a power cut may undo it: {}",
                        entry.profile, cause.message
                    ),
                    ..cause
                },
                (Ok(None), Ok(_)) => cause,
                (Ok(Some(_)) | Err(_), _) | (Ok(None), Err(_)) => {
                    Pending::of(entry, path).refusal(Some(&cause))
                }
            }
        })
    }
}
