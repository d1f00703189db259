//! Claude's own lock on the refresh of a login.
//!
//! Before it spends a refresh token, Claude Code makes the directories `<home>/.oauth_refresh.lock` and
//! `<home>.lock`, and renews their times every 5 s; one that is older than 60 s was left behind by a process that
//! died, and Claude takes it over by itself (run with 2.1.332). Nothing here ever removes one: a start beside a
//! live one refreshes nothing, and a lock that is taken from its holder spends one refresh token twice.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;

/// Age from which a lock's holder is gone, in seconds: what Claude itself goes by.
const STALE: i64 = 60;

/// The lock of a refresh that is going on now.
pub(super) fn held(home: &Utf8Path, now: Timestamp) -> Option<Utf8PathBuf> {
    let beside = home
        .file_name()
        .map(|name| home.with_file_name(format!("{name}.lock")));
    [Some(home.join(".oauth_refresh.lock")), beside]
        .into_iter()
        .flatten()
        .find(|path| {
            fs::symlink_metadata(path).is_ok_and(|found| {
                found.is_dir() && now.as_second().saturating_sub(found.mtime()) <= STALE
            })
        })
}

#[cfg(test)]
mod tests {
    use super::held;
    use crate::clock::Clock;
    use camino::Utf8Path;

    #[test]
    fn a_young_lock_is_held_and_an_old_one_was_left_behind() {
        let directory = tempfile::tempdir().unwrap();
        let home = Utf8Path::from_path(directory.path()).unwrap().join("home");
        std::fs::create_dir(&home).unwrap();
        let now = || Clock::real().now();
        assert_eq!(held(&home, now()), None);
        for lock in [
            home.join(".oauth_refresh.lock"),
            home.with_file_name("home.lock"),
        ] {
            std::fs::create_dir(&lock).unwrap();
            assert_eq!(held(&home, now()), Some(lock.clone()));
            let later = Clock::moved("+40").now();
            assert_eq!(held(&home, later), Some(lock.clone()), "a slow holder");
            assert_eq!(held(&home, Clock::moved("+62").now()), None, "{lock}");
            std::fs::remove_dir(&lock).unwrap();
        }
    }
}
