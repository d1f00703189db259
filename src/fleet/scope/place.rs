//! What is at an owned path, looked at without following a symbolic link anywhere on the way.
//!
//! Each part is opened below the one before it, so a directory that is swapped for a link in between leads nowhere.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use camino::{Utf8Path, Utf8PathBuf};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, openat, readlinkat, statat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::path::{self, Case};
use crate::error::{Error, Result};
use crate::id::hex;

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum State {
    /// Nothing.
    Absent,
    /// A file.
    File {
        /// SHA-256 of its bytes.
        sha256: String,
        /// Bytes.
        size: u64,
        /// Whether its owner may execute it.
        executable: bool,
    },
    /// A symbolic link.
    Link {
        /// SHA-256 of the path that it names.
        sha256: String,
        /// Bytes of that path.
        size: u64,
    },
    /// Something that is neither.
    Other {
        /// What it is, in words.
        what: String,
    },
    /// A part of the path on the way is a symbolic link, which was not followed.
    Behind {
        /// That part.
        link: Utf8PathBuf,
    },
}

/// A state, and the bytes that it stands for: a file's own, or a link's target.
#[derive(Clone, Debug)]
pub struct Seen {
    /// What is there.
    pub state: State,
    /// Absent where there are none, and for a file with more than was asked for.
    pub bytes: Option<Vec<u8>>,
}

/// Looks at a path below a canonical root; bytes are kept of files with at most `keep` of them.
pub fn look(root: &Utf8Path, path: impl AsRef<Path>, keep: u64) -> Result<Seen> {
    let path = path.as_ref();
    let failed = |error: io::Error| Error::io("read", root.as_std_path().join(path), &error);
    let alone = |state| Ok(Seen { state, bytes: None });
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut directory: OwnedFd = rustix::fs::open(root.as_str(), flags, Mode::empty())
        .map_err(|error| failed(error.into()))?;
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
        let text = path.to_string_lossy();
        return Err(path::refused(&text, "it names no file"));
    };
    let mut passed = PathBuf::new();
    for part in above.components() {
        passed.push(part);
        match openat(&directory, part.as_os_str(), flags, Mode::empty()) {
            Ok(next) => directory = next,
            Err(Errno::NOENT) => return alone(State::Absent),
            Err(Errno::NOTDIR | Errno::LOOP) => {
                let found = statat(&directory, part.as_os_str(), AtFlags::SYMLINK_NOFOLLOW)
                    .map_err(|error| failed(error.into()))?;
                let is_link = FileType::from_raw_mode(found.st_mode) == FileType::Symlink;
                // A file where the directory would be: nothing can be below it.
                return alone(if is_link {
                    State::Behind {
                        link: passed.to_string_lossy().into_owned().into(),
                    }
                } else {
                    State::Absent
                });
            }
            Err(error) => return Err(failed(error.into())),
        }
    }
    let found = match statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => found,
        Err(Errno::NOENT) => return alone(State::Absent),
        Err(error) => return Err(failed(error.into())),
    };
    let what = match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = openat(&directory, name, flags, Mode::empty())
                .map_err(|error| failed(error.into()))?;
            return file_state(&File::from(file), keep).map_err(failed);
        }
        FileType::Symlink => {
            let target = readlinkat(&directory, name, Vec::new())
                .map_err(|error| failed(error.into()))?
                .into_bytes();
            let state = State::Link {
                sha256: digest(&target),
                size: target.len() as u64,
            };
            return Ok(Seen {
                state,
                bytes: Some(target),
            });
        }
        FileType::Directory => "a directory",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "something unknown",
    };
    alone(State::Other {
        what: what.to_owned(),
    })
}

/// Reads once, so that bytes and digest belong together.
fn file_state(mut file: &File, keep: u64) -> io::Result<Seen> {
    let metadata = file.metadata()?;
    let mut kept = Vec::new();
    let mut hasher = Sha256::new();
    let mut size = 0_u64;
    let mut chunk = vec![0; 64 << 10];
    loop {
        let count = file.read(&mut chunk)?;
        let Some(read @ [_, ..]) = chunk.get(..count) else {
            break;
        };
        hasher.update(read);
        size += read.len() as u64;
        if size <= keep {
            kept.extend_from_slice(read);
        }
    }
    let state = State::File {
        sha256: hex(&hasher.finalize()),
        size,
        executable: metadata.mode() & 0o100 != 0,
    };
    Ok(Seen {
        state,
        bytes: (size <= keep).then_some(kept),
    })
}

/// SHA-256 in hex.
pub fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Checks that a path may be owned in this checkout: by its text, and that it is a file or nothing yet, reached
/// through no symbolic link.
pub fn check(root: &Utf8Path, text: &str) -> Result<Utf8PathBuf> {
    let path = path::check(text)?;
    let seen = look(root, &path, 0).map_err(|error| match error.code {
        // Too long a name, most likely: the plan's fault, said in the plan's terms.
        crate::error::code::IO => path::refused(text, &error.message),
        _ => error,
    })?;
    match seen.state {
        State::Absent | State::File { .. } => Ok(path),
        State::Link { .. } => Err(path::refused(
            text,
            "it is a symbolic link: name the file that it leads to",
        )),
        State::Other { what } => Err(path::refused(text, &format!("it is {what}"))),
        State::Behind { link } => Err(path::refused(
            text,
            &format!("`{link}` on the way is a symbolic link"),
        )),
    }
}

/// Whether names in a checkout differ by case: looked up by `.git`, which every checkout has.
pub fn case(root: &Utf8Path) -> Case {
    let look = |name: &str| {
        let found = root.join(name).symlink_metadata().ok()?;
        Some((found.dev(), found.ino()))
    };
    match (look(".git"), look(".GIT")) {
        (Some(one), Some(other)) if one == other => Case::Insensitive,
        _ => Case::Sensitive,
    }
}

#[cfg(test)]
mod tests {
    use super::{Case, State, case, check, look};
    use crate::error::code;
    use camino::Utf8PathBuf;
    use std::os::unix::fs::symlink;

    fn root() -> (tempfile::TempDir, Utf8PathBuf) {
        let kept = tempfile::tempdir().unwrap();
        let root = Utf8PathBuf::from_path_buf(kept.path().canonicalize().unwrap()).unwrap();
        (kept, root)
    }

    #[test]
    fn links_are_seen_and_never_followed() {
        let (_kept, root) = root();
        std::fs::create_dir_all(root.join("real/below")).unwrap();
        symlink("real", root.join("way")).unwrap();
        symlink("/etc/passwd", root.join("escape")).unwrap();
        symlink("nowhere", root.join("real/dangling")).unwrap();
        let state = |path: &str| look(&root, path, 10).unwrap().state;
        assert_eq!(
            state("way/below/x"),
            State::Behind { link: "way".into() },
            "it would be `real/below/x`"
        );
        assert!(matches!(state("escape"), State::Link { size: 11, .. }));
        assert!(matches!(state("real/dangling"), State::Link { .. }));
        assert_eq!(state("real/none/x"), State::Absent);
        for bad in ["way/x", "escape", "real/dangling", "real", "real/below"] {
            let refusal = check(&root, bad).unwrap_err();
            assert_eq!(refusal.code, code::SCOPE_INVALID, "{refusal}");
        }
        assert_eq!(check(&root, "real/new/file").unwrap(), "real/new/file");
        let long = "x".repeat(300);
        assert_eq!(check(&root, &long).unwrap_err().code, code::SCOPE_INVALID);
    }

    #[test]
    fn bytes_are_kept_up_to_the_limit_and_always_digested() {
        let (_kept, root) = root();
        crate::store::replace::create(root.join("ten"), b"0123456789").unwrap();
        let at = |keep| look(&root, "ten", keep).unwrap();
        assert_eq!(at(10).bytes.unwrap(), b"0123456789");
        assert!(at(9).bytes.is_none());
        assert_eq!(at(9).state, at(10).state);
        // A file is no directory.
        let below = look(&root, "ten/below", 1).unwrap();
        assert_eq!(below.state, State::Absent);
        let permissions = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, root.join("pipe").as_str(), permissions).unwrap();
        assert!(check(&root, "pipe").unwrap_err().message.contains("pipe"));
    }

    #[test]
    fn case_is_looked_up_in_the_file_system() {
        let (_kept, root) = root();
        assert_eq!(case(&root), Case::Sensitive);
        std::fs::create_dir(root.join(".git")).unwrap();
        let same = root.join(".GIT").exists();
        assert_eq!(case(&root) == Case::Insensitive, same);
        if !same {
            // Two of them are two.
            std::fs::create_dir(root.join(".GIT")).unwrap();
            assert_eq!(case(&root), Case::Sensitive);
        }
    }
}
