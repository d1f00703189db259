//! Checks of the directories that this program keeps: who may enter them, and what they lie on. Pure.

use camino::Utf8PathBuf;

use super::finding::{Finding, Rule};
use crate::sys::filesystem::Space;
use crate::sys::shell;

/// Less than this is as good as nothing: a lease, an event and a snapshot are a few kilobytes each.
const LEAST_BYTES: u64 = 16 << 20;
/// Less than this is gone within a day of work.
const FEW_BYTES: u64 = 512 << 20;
/// The same for files.
const LEAST_FILES: u64 = 200;
const FEW_FILES: u64 = 10_000;

/// What a path is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// Nothing is there yet.
    Missing,
    /// A directory.
    Directory {
        /// Its permission bits.
        mode: u32,
        /// Whether it is this user's.
        ours: bool,
        /// Whether this process may make files in it.
        writable: bool,
    },
    /// Something else, or nobody may look.
    Unusable(String),
}

/// One of our directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Folder {
    /// `config`, `state` or `share`.
    pub(super) name: &'static str,
    pub(super) path: Utf8PathBuf,
    pub(super) entry: Entry,
    /// The kind of file system below it, or below one of its directories, where it is worth a word.
    pub(super) kind: Option<&'static str>,
    /// Directories in it that another file system is mounted on.
    pub(super) mounts: Vec<Utf8PathBuf>,
    pub(super) space: Option<Space>,
}

/// The checks of our directories.
pub(super) const RULES: &[Rule<[Folder]>] = &[
    Rule {
        id: "permissions",
        looks_at: "config, state and share root: directories of this user that nobody else may enter or write",
        cure: "`chmod 700 DIR`, or another root by its variable",
        decide: permissions,
    },
    Rule {
        id: "file_system",
        looks_at: "whether locks can be trusted where the state lies: not on NFS, CIFS, FUSE or 9p",
        cure: "`export AGENT_FLEET_STATE_DIR=/a/local/directory`",
        decide: file_system,
    },
    Rule {
        id: "mounts",
        looks_at: "whether another file system is mounted inside a root: files cannot be renamed across its edge",
        cure: "`umount DIR`, or mount the whole root",
        decide: mounts,
    },
    Rule {
        id: "disk_space",
        looks_at: "room for state: less than 512 MiB wants a look, less than 16 MiB fails",
        cure: "`df -h DIR` shows what is full",
        decide: disk_space,
    },
    Rule {
        id: "inodes",
        looks_at: "room for files: fewer than 10000 want a look, fewer than 200 fail",
        cure: "`df -i DIR` shows what is full",
        decide: inodes,
    },
];

fn quoted(folder: &Folder) -> String {
    shell::quote(folder.path.as_str())
}

/// The first finding that is not ok, else the last.
fn worst(findings: impl Iterator<Item = Finding>, ok: &str) -> Finding {
    findings
        .max_by_key(|finding| finding.level)
        .unwrap_or_else(|| Finding::ok(ok))
}

fn permissions(folders: &[Folder]) -> Finding {
    let bad = folders.iter().filter_map(|folder| {
        let (name, path) = (folder.name, quoted(folder));
        match &folder.entry {
            Entry::Unusable(problem) => Some(Finding::fail(
                format!("the {name} root `{}` {problem}", folder.path),
                format!("ls -ld {path}"),
            )),
            Entry::Directory { ours: false, .. } => Some(Finding::fail(
                format!("the {name} root `{}` belongs to another user", folder.path),
                format!("ls -ld {path}"),
            )),
            Entry::Directory {
                writable: false, ..
            } => Some(Finding::fail(
                format!(
                    "nothing can be written in the {name} root `{}`",
                    folder.path
                ),
                format!("ls -ld {path} && df {path}"),
            )),
            // Others may read no token there, but names, tasks and paths; or put files of their own in.
            Entry::Directory { mode, .. } if mode & 0o002 != 0 => Some(Finding::fail(
                format!(
                    "others may write in the {name} root `{}` ({mode:o})",
                    folder.path
                ),
                format!("chmod 700 {path}"),
            )),
            Entry::Directory { mode, .. }
                if mode & 0o020 != 0 || (mode & 0o077 != 0 && name != "config") =>
            {
                Some(Finding::warn(
                    format!(
                        "others may enter the {name} root `{}` ({mode:o})",
                        folder.path
                    ),
                    format!("chmod 700 {path}"),
                ))
            }
            Entry::Missing | Entry::Directory { .. } => None,
        }
    });
    worst(bad, "the roots are this user's alone")
}

fn file_system(folders: &[Folder]) -> Finding {
    let bad = folders.iter().filter_map(|folder| {
        let kind = folder
            .kind
            .filter(|kind| *kind != crate::sys::filesystem::OVERLAY)?;
        let said = format!("the {} root `{}` is on {kind}", folder.name, folder.path);
        Some(if folder.name == "state" {
            Finding::fail(
                format!("{said}, where locks cannot be trusted"),
                "export AGENT_FLEET_STATE_DIR=/a/local/directory",
            )
        } else {
            Finding::warn(said, format!("df {}", quoted(folder)))
        })
    });
    worst(bad, "locks can be trusted")
}

fn mounts(folders: &[Folder]) -> Finding {
    let bad = folders.iter().filter_map(|folder| {
        let mount = folder.mounts.first()?;
        Some(Finding::warn(
            format!("another file system is mounted on `{mount}`"),
            format!("df {} {}", quoted(folder), shell::quote(mount.as_str())),
        ))
    });
    worst(bad, "each root is on one file system")
}

fn disk_space(folders: &[Folder]) -> Finding {
    let least = folders
        .iter()
        .filter_map(|folder| Some((folder.space?.bytes, folder)))
        .min_by_key(|(bytes, _)| *bytes);
    let Some((bytes, folder)) = least else {
        return Finding::ok("the roots do not exist yet");
    };
    let said = format!("{} MiB are left for `{}`", bytes >> 20, folder.path);
    let fix = format!("df -h {}", quoted(folder));
    match bytes {
        ..LEAST_BYTES => Finding::fail(said, fix),
        LEAST_BYTES..FEW_BYTES => Finding::warn(said, fix),
        FEW_BYTES.. => Finding::ok(said),
    }
}

fn inodes(folders: &[Folder]) -> Finding {
    let least = folders
        .iter()
        .filter_map(|folder| Some((folder.space?.files?, folder)))
        .min_by_key(|(files, _)| *files);
    let Some((files, folder)) = least else {
        return Finding::ok("the file system makes room for files as it goes");
    };
    let said = format!("{files} more files can be made in `{}`", folder.path);
    let fix = format!("df -i {}", quoted(folder));
    match files {
        ..LEAST_FILES => Finding::fail(said, fix),
        LEAST_FILES..FEW_FILES => Finding::warn(said, fix),
        FEW_FILES.. => Finding::ok(said),
    }
}

#[cfg(test)]
mod tests {
    use super::{Entry, Folder, RULES};
    use crate::contract::doctor::Level;
    use crate::sys::filesystem::Space;

    fn good() -> Vec<Folder> {
        ["config", "state", "share"]
            .into_iter()
            .map(|name| Folder {
                name,
                path: format!("/f/{name}").into(),
                entry: directory(0o700),
                kind: None,
                mounts: Vec::new(),
                space: Some(Space {
                    bytes: 1 << 40,
                    files: Some(1 << 20),
                }),
            })
            .collect()
    }

    fn directory(mode: u32) -> Entry {
        Entry::Directory {
            mode,
            ours: true,
            writable: true,
        }
    }

    /// What each check says of the good folders, one of which was changed.
    fn levels(which: usize, change: impl Fn(&mut Folder)) -> Vec<(&'static str, Level)> {
        let mut folders = good();
        change(&mut folders[which]);
        RULES
            .iter()
            .map(|rule| (rule.id, (rule.decide)(&folders).level))
            .filter(|(_, level)| *level != Level::Ok)
            .collect()
    }

    #[test]
    fn good_folders_are_ok_and_so_are_those_that_are_not_made_yet() {
        assert_eq!(levels(0, |_| {}), []);
        let missing = |folder: &mut Folder| {
            folder.entry = Entry::Missing;
            folder.space = None;
        };
        assert_eq!(levels(1, missing), []);
    }

    #[test]
    fn each_check_can_fail_by_itself() {
        use Level::{Fail, Warn};
        type Change = fn(&mut Folder);
        let cases: &[(usize, Change, &str, Level)] = &[
            (1, |f| f.entry = directory(0o750), "permissions", Warn),
            (0, |f| f.entry = directory(0o775), "permissions", Warn),
            (0, |f| f.entry = directory(0o777), "permissions", Fail),
            (
                1,
                |f| f.entry = Entry::Unusable("is a file".into()),
                "permissions",
                Fail,
            ),
            (
                2,
                |f| {
                    f.entry = Entry::Directory {
                        mode: 0o700,
                        ours: false,
                        writable: true,
                    }
                },
                "permissions",
                Fail,
            ),
            (
                1,
                |f| {
                    f.entry = Entry::Directory {
                        mode: 0o700,
                        ours: true,
                        writable: false,
                    }
                },
                "permissions",
                Fail,
            ),
            (1, |f| f.kind = Some("NFS"), "file_system", Fail),
            (2, |f| f.kind = Some("NFS"), "file_system", Warn),
            (
                1,
                |f| f.mounts = vec!["/f/state/locks".into()],
                "mounts",
                Warn,
            ),
            (
                1,
                |f| {
                    f.space = Some(Space {
                        bytes: 15 << 20,
                        files: None,
                    });
                },
                "disk_space",
                Fail,
            ),
            (
                1,
                |f| {
                    f.space = Some(Space {
                        bytes: 16 << 20,
                        files: None,
                    });
                },
                "disk_space",
                Warn,
            ),
            (
                1,
                |f| {
                    f.space = Some(Space {
                        bytes: 1 << 40,
                        files: Some(199),
                    });
                },
                "inodes",
                Fail,
            ),
            (
                1,
                |f| {
                    f.space = Some(Space {
                        bytes: 1 << 40,
                        files: Some(200),
                    });
                },
                "inodes",
                Warn,
            ),
        ];
        for (which, change, id, level) in cases {
            assert_eq!(levels(*which, change), [(*id, *level)]);
        }
        assert_eq!(
            levels(0, |folder| folder.entry = directory(0o755)),
            [],
            "people share their configuration folder"
        );
        for rule in RULES {
            assert!(
                cases.iter().any(|case| case.2 == rule.id),
                "{} cannot fail",
                rule.id
            );
        }
    }
}
