//! Whose event it is: the nearest provider process above a hook.
//!
//! A worker's tools may start the same CLI again, and its hooks then run with the worker's environment. The
//! environment therefore proves nothing; the first ancestor whose executable is a provider's binary does.
//!
//! Limit: a provider binary that was replaced by an update, run from a path that the registry never named
//! and under another file name, is taken for a tool.

use std::path::{Path, PathBuf};

use crate::sys::process::{self, Status};

/// Deepest chain that is walked.
const DEPTH: usize = 64;

/// What tells a provider's process from a shell or a tool.
#[derive(Clone, Debug, Default)]
pub struct Binaries {
    /// Canonical paths of the registered binaries.
    pub paths: Vec<PathBuf>,
}

impl Binaries {
    /// Whether this executable is a provider's. A registered binary's file name counts too, because an
    /// update of the CLI moves running workers to a path that is registered no more.
    fn contains(&self, executable: &Path) -> bool {
        let named = |path: &PathBuf| path.file_name() == executable.file_name();
        self.paths
            .iter()
            .any(|path| path == executable || named(path))
            || executable
                .file_stem()
                .is_some_and(|name| name == "claude" || name == "codex")
    }
}

/// Looks a process up: its status and executable, or `None` when either cannot be told.
pub type Look<'a> = &'a dyn Fn(u32) -> Option<(Status, PathBuf)>;

/// Whether the nearest provider process at or above `pid` is the one with this pid and start time. A chain
/// that cannot be followed to a provider is not.
pub fn belongs(pid: u32, holder: (u32, u64), binaries: &Binaries, look: Look<'_>) -> bool {
    let mut pid = pid;
    for _ in 0..DEPTH {
        let Some((status, executable)) = look(pid) else {
            return false;
        };
        if (pid, status.start) == holder {
            return true;
        }
        if binaries.contains(&executable) || status.parent == 0 {
            return false;
        }
        pid = status.parent;
    }
    false
}

/// Looks a process up with the kernel.
pub fn look(pid: u32) -> Option<(Status, PathBuf)> {
    let status = process::status(pid).ok().flatten()?;
    Some((status, process::executable(pid)?))
}

#[cfg(test)]
mod tests {
    use super::{Binaries, belongs};
    use crate::sys::process::Status;
    use std::path::PathBuf;

    type Chain = [(u32, u32, &'static str)];

    fn asks(chain: &Chain, holder: (u32, u64)) -> bool {
        let binaries = Binaries {
            paths: vec!["/v/2.1.332".into()],
        };
        let pid = chain[0].0;
        belongs(pid, holder, &binaries, &|pid| {
            let (_, parent, path) = chain.iter().find(|entry| entry.0 == pid)?;
            let status = Status {
                start: u64::from(pid) * 10,
                parent: *parent,
                zombie: false,
            };
            Some((status, PathBuf::from(path)))
        })
    }

    #[test]
    fn the_lease_s_own_process_is_found_through_shells() {
        let chain = [(9, 8, "/bin/sh"), (8, 7, "/v/2.1.332"), (7, 1, "/bin/zsh")];
        assert!(asks(&chain, (8, 80)));
        assert!(!asks(&chain, (8, 81)), "another process had that pid");
    }

    #[test]
    fn a_provider_that_a_tool_started_is_foreign() {
        let chain = [
            (12, 11, "/bin/sh"),
            (11, 10, "/v/2.1.332"),
            (10, 8, "/bin/bash"),
            (8, 7, "/v/2.1.332"),
        ];
        assert!(!asks(&chain, (8, 80)));
        let elsewhere = [
            (11, 10, "/opt/other/claude"),
            (10, 8, "/bin/bash"),
            (8, 7, "/x"),
        ];
        assert!(
            !asks(&elsewhere, (8, 80)),
            "an unregistered copy by its name"
        );
    }

    #[test]
    fn an_updated_binary_is_still_the_lease_s_process() {
        let chain = [(9, 8, "/bin/sh"), (8, 7, "/v/2.1.300")];
        assert!(asks(&chain, (8, 80)));
    }

    #[test]
    fn a_broken_chain_is_foreign() {
        assert!(!asks(&[(9, 8, "/bin/sh")], (8, 80)));
        assert!(!asks(&[(9, 0, "/bin/sh")], (8, 80)));
        assert!(!asks(&[(9, 9, "/bin/sh")], (8, 80)), "a loop ends");
    }
}
