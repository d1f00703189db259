//! Whose a file or directory is, and who else may write it.
//!
//! What decides about accounts must be this user's (or root's) and writable by nobody else; a group counts as
//! somebody else unless it is the user's own. Files that are written in place are opened here, so that a link, a
//! second name, a pipe or a device under one of our names never makes us write somebody else's file.
//!
//! Limits: access lists are seen only as far as they show in the mode; who may rename the directories above can
//! put another in place, which is then not this user's.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use camino::{Utf8Path, Utf8PathBuf};
use rustix::fs::OFlags;
use rustix::process::{getegid, geteuid};

use crate::env::Roots;
use crate::error::{Code, Error, Refusal, Result, code};
use crate::sys::shell;

/// Why something under one of our names is not relied on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Exposed {
    /// It belongs to another user.
    #[error("{what} `{path}` belongs to user {owner}, and this is user {user}")]
    Foreign {
        /// What it is, for people.
        what: String,
        /// Where.
        path: Utf8PathBuf,
        /// Whose it is.
        owner: u32,
        /// Who runs this.
        user: u32,
    },
    /// Others may write it.
    #[error("{what} `{path}` may be written by other users (mode {mode:o})")]
    Writable {
        /// What it is, for people.
        what: String,
        /// Where.
        path: Utf8PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Others may enter it.
    #[error("{what} `{path}` may be entered by other users (mode {mode:o})")]
    Open {
        /// What it is, for people.
        what: String,
        /// Where.
        path: Utf8PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It is a link to elsewhere.
    #[error("{what} `{path}` is a symbolic link, and must be the directory itself")]
    Link {
        /// What it is, for people.
        what: String,
        /// Where.
        path: Utf8PathBuf,
    },
}

impl Refusal for Exposed {
    fn code(&self) -> Code {
        code::EXPOSED
    }
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Foreign { path, .. } => {
                format!(
                    "sudo chown -R \"$(id -u):$(id -g)\" {}",
                    shell::quote(path.as_str())
                )
            }
            Self::Writable { path, .. } => format!("chmod go-w {}", shell::quote(path.as_str())),
            Self::Open { path, .. } => format!("chmod 700 {}", shell::quote(path.as_str())),
            Self::Link { path, .. } => format!("ls -ld {}", shell::quote(path.as_str())),
        })
    }
}

/// Refuses a file or directory of ours that others could change; links to it are followed, and one that is not
/// there is nobody's. `what` names it for people, with its article.
pub fn check(what: &str, path: &Utf8Path) -> Result<(), Exposed> {
    let Ok(found) = fs::metadata(path) else {
        return Ok(());
    };
    let (what, path) = (what.to_owned(), path.to_owned());
    let user = geteuid().as_raw();
    let others = if found.gid() == getegid().as_raw() {
        0o002
    } else {
        0o022
    };
    if found.uid() != user && found.uid() != 0 {
        Err(Exposed::Foreign {
            what,
            path,
            owner: found.uid(),
            user,
        })
    } else if found.mode() & others != 0 {
        Err(Exposed::Writable {
            what,
            path,
            mode: found.mode() & 0o7777,
        })
    } else {
        Ok(())
    }
}

/// The same for a directory that must be where its name says, and not behind a link.
pub fn check_in_place(what: &str, path: &Utf8Path) -> Result<(), Exposed> {
    if fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) {
        return Err(Exposed::Link {
            what: what.to_owned(),
            path: path.to_owned(),
        });
    }
    check(what, path)
}

/// Refuses what is not a directory of this very user, in place, that nobody else may enter: what listens in it talks
/// to nobody else. One that is not there is refused by an `io` error.
pub fn check_private(what: &str, path: &Utf8Path) -> Result<()> {
    let found = fs::symlink_metadata(path).map_err(|error| Error::io("look at", path, &error))?;
    check_in_place(what, path)?;
    let (what, path) = (what.to_owned(), path.to_owned());
    let user = geteuid().as_raw();
    let mode = found.mode() & 0o7777;
    if !found.is_dir() {
        let missing = io::Error::from(io::ErrorKind::NotADirectory);
        return Err(Error::io("enter", path, &missing));
    }
    if found.uid() != user {
        let owner = found.uid();
        return Err(Exposed::Foreign {
            what,
            path,
            owner,
            user,
        }
        .into());
    }
    if mode & 0o077 != 0 {
        return Err(Exposed::Open { what, path, mode }.into());
    }
    Ok(())
}

/// Refuses roots that others could change: the registry decides which programs run, and state who has which account.
pub fn roots(roots: &Roots) -> Result<(), Exposed> {
    if let Some(directory) = roots.config.parent() {
        check("the directory of the registry,", directory)?;
    }
    check("the registry", &roots.config)?;
    check("the state root", &roots.state)?;
    check(
        "the directory of secrets,",
        &roots.state.join("credentials"),
    )?;
    check("the share root", &roots.share)
}

/// Opens a file of ours that is written in place; `options` say how. Anything but a plain file with one name is
/// left alone.
pub fn open(options: &mut OpenOptions, path: impl AsRef<Path>) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let flags = i32::try_from(flags).map_err(io::Error::other)?;
    let path = path.as_ref();
    let strange = || {
        fs::symlink_metadata(path)
            .ok()
            .and_then(|found| strangeness(&found))
    };
    let refused = |reason: &str| io::Error::other(format!("{reason}, and is left alone"));
    let file = options
        .custom_flags(flags)
        .open(path)
        .map_err(|error| match strange() {
            Some(reason) => refused(reason),
            None => error,
        })?;
    match strangeness(&file.metadata()?) {
        Some(reason) => Err(refused(reason)),
        None => Ok(file),
    }
}

/// Why something is no file that only we write.
fn strangeness(found: &Metadata) -> Option<&'static str> {
    let kind = found.file_type();
    if kind.is_symlink() {
        Some("it is a symbolic link")
    } else if kind.is_dir() {
        Some("it is a directory")
    } else if kind.is_fifo() {
        Some("it is a pipe")
    } else if !kind.is_file() {
        Some("it is no regular file")
    } else if found.nlink() > 1 {
        Some("it has another name too (a hard link)")
    } else {
        None
    }
}

/// The failure of [`open`] as an error that names the file, with a way out where something strange has its name.
pub fn refused(what: &str, path: impl AsRef<Path>, error: &io::Error) -> Error {
    let path = path.as_ref();
    let refusal = Error::io(what, path, error);
    let strange = fs::symlink_metadata(path).ok();
    match strange.filter(|found| strangeness(found).is_some()) {
        // Only the name goes: what it leads to stays.
        Some(found) if !found.is_dir() => {
            refusal.hint(format!("rm {}", shell::quote(&path.display().to_string())))
        }
        _ => refusal,
    }
}

#[cfg(test)]
mod tests {
    use super::{Exposed, check, check_in_place, check_private, open};
    use crate::error::code;
    use camino::{Utf8Path, Utf8PathBuf};
    use std::fs::{OpenOptions, Permissions, set_permissions};
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    fn directory() -> (tempfile::TempDir, Utf8PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(directory.path()).unwrap().to_owned();
        (directory, path)
    }

    #[test]
    fn what_others_may_write_is_refused_and_an_own_group_is_nobody_else() {
        let (_kept, root) = directory();
        let group = rustix::process::getegid().as_raw();
        for (mode, refused) in [
            (0o700, false),
            (0o755, false),
            (0o775, false),
            (0o777, true),
            (0o1777, true),
        ] {
            set_permissions(&root, Permissions::from_mode(mode)).unwrap();
            chown(&root, None, Some(group)).unwrap();
            let found = check("the directory", &root);
            assert_eq!(found.is_err(), refused, "{mode:o}: {found:?}");
        }
        assert_eq!(check("the directory", &root.join("missing")), Ok(()));
        set_permissions(&root, Permissions::from_mode(0o700)).unwrap();
        let link = root.join("link");
        symlink(&root, &link).unwrap();
        assert_eq!(check("the directory", &link), Ok(()));
        assert!(matches!(
            check_in_place("the directory", &link),
            Err(Exposed::Link { .. })
        ));
    }

    #[test]
    fn what_belongs_to_somebody_else_is_refused() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let (_kept, root) = directory();
        set_permissions(&root, Permissions::from_mode(0o770)).unwrap();
        chown(&root, None, Some(4_242)).unwrap();
        assert!(matches!(
            check("the directory", &root),
            Err(Exposed::Writable { .. })
        ));
        chown(&root, Some(4_242), None).unwrap();
        assert!(matches!(
            check("the directory", &root),
            Err(Exposed::Foreign { owner: 4_242, .. })
        ));
        set_permissions(&root, Permissions::from_mode(0o700)).unwrap();
        let refused = check_private("the directory", &root).unwrap_err();
        assert!(refused.message.contains("user 4242"), "{refused:?}");
    }

    #[test]
    fn a_private_directory_is_in_place_and_nobody_else_may_enter_it() {
        let (_kept, root) = directory();
        set_permissions(&root, Permissions::from_mode(0o700)).unwrap();
        check_private("the directory", &root).unwrap();
        for mode in [0o750, 0o701, 0o777] {
            set_permissions(&root, Permissions::from_mode(mode)).unwrap();
            let refused = check_private("the directory", &root).unwrap_err();
            assert_eq!(refused.code, code::EXPOSED, "{mode:o}");
        }
        set_permissions(&root, Permissions::from_mode(0o700)).unwrap();
        symlink(&root, root.join("link")).unwrap();
        let refused = check_private("the directory", &root.join("link")).unwrap_err();
        assert!(refused.message.contains("symbolic link"), "{refused:?}");
        super::super::replace::create(root.join("file"), b"").unwrap();
        for name in ["file", "missing"] {
            let refused = check_private("the directory", &root.join(name)).unwrap_err();
            assert_eq!(refused.code, code::IO, "{name}");
        }
    }

    #[test]
    fn only_a_plain_file_with_one_name_is_opened() {
        let (_kept, root) = directory();
        let plain = root.join("plain");
        super::super::replace::create(&plain, b"theirs").unwrap();
        let append = |path: &Utf8Path| open(OpenOptions::new().append(true).create(true), path);
        append(&plain).unwrap();
        append(&root.join("new")).unwrap();
        symlink(&plain, root.join("link")).unwrap();
        symlink(root.join("nowhere"), root.join("dangling")).unwrap();
        rustix::fs::mkfifoat(
            rustix::fs::CWD,
            root.join("pipe").as_str(),
            rustix::fs::Mode::RWXU,
        )
        .unwrap();
        for (name, reason) in [
            ("link", "symbolic link"),
            ("dangling", "symbolic link"),
            ("pipe", "pipe"),
            ("", "directory"),
        ] {
            let error = append(&root.join(name)).unwrap_err().to_string();
            assert!(error.contains(reason), "{name}: {error}");
        }
        assert!(!root.join("nowhere").exists());
        std::fs::hard_link(&plain, root.join("second")).unwrap();
        assert!(
            append(&plain)
                .unwrap_err()
                .to_string()
                .contains("hard link")
        );
    }
}
