//! The private home in which a person logs in: `state/staging/<profile>.<random>/home`.
//!
//! Beside the home lies a marker that the enrolling process keeps locked for its whole life. A directory with a
//! marker that nobody holds is what a killed enrollment left. Everything goes on every end that leaves us the
//! time: success, refusal, interrupt.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;

use camino::{Utf8Path, Utf8PathBuf};

use crate::env::Context;
use crate::error::{Error, Result};
use crate::registry::schema::Profile;
use crate::store::lock::{self, Mode};
use crate::store::presence::Presence;
use crate::store::{directory, read};

/// The file that says whose a staging directory is.
const MARKER: &str = "enrollment";
/// The home in it.
const HOME: &str = "home";

/// A staging directory of this process; removed when dropped.
#[must_use = "the staging directory is removed as soon as this is dropped"]
#[derive(Debug)]
pub(super) struct Stage {
    root: Utf8PathBuf,
    marker: Option<Presence>,
}

/// Where they lie.
fn folder(context: &Context) -> Utf8PathBuf {
    context.roots.state.join("staging")
}

impl Stage {
    /// Makes one with an empty home for a profile's login.
    pub(super) fn make(context: &Context, profile: &Profile) -> Result<Self> {
        let folder = folder(context);
        directory::ensure(&folder)?;
        let name = format!("{}.{}", profile.id, uuid::Uuid::new_v4().simple());
        let mut stage = Self {
            root: folder.join(name),
            marker: None,
        };
        let make = |path: &Utf8Path| {
            DirBuilder::new()
                .mode(0o700)
                .create(path)
                .map_err(|error| Error::io("create the directory", path, &error))
        };
        make(&stage.root)?;
        let text = format!("the login of profile {} is made here", profile.id);
        stage.marker = Some(Presence::announce(
            &stage.root,
            MARKER,
            0,
            &text,
            &context.clock,
        )?);
        make(&stage.home())?;
        Ok(stage)
    }

    /// The home.
    pub(super) fn home(&self) -> Utf8PathBuf {
        self.root.join(HOME)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // The marker goes last, so that what an end in between leaves can still be told from other people's files.
        if fs::symlink_metadata(self.home()).is_err() || directory::remove_all(self.home()).is_ok()
        {
            drop(self.marker.take());
            drop(directory::remove_empty(&self.root));
        }
    }
}

/// What killed enrollments left, with the age in seconds.
pub fn left_behind(context: &Context) -> Vec<(Utf8PathBuf, u64)> {
    let now = context.clock.now().as_second();
    let entries = fs::read_dir(folder(context))
        .into_iter()
        .flatten()
        .flatten();
    let mut found: Vec<(Utf8PathBuf, u64)> = entries
        .filter_map(|entry| Utf8PathBuf::from_path_buf(entry.path()).ok())
        .filter(|path| is_left_behind(path))
        .map(|path| {
            let age = now - modified(&path).unwrap_or(now);
            (path, u64::try_from(age).unwrap_or(0))
        })
        .collect();
    found.sort_unstable();
    found
}

/// Whether a path is where staging directories lie.
pub fn is_within(context: &Context, path: &Utf8Path) -> bool {
    path.parent() == Some(folder(context).as_path())
}

fn modified(path: &Utf8Path) -> Option<i64> {
    use std::os::unix::fs::MetadataExt as _;
    fs::symlink_metadata(path).ok().map(|found| found.mtime())
}

/// Whether a directory is one of ours whose process is gone: it carries our marker, and nobody holds that.
pub fn is_left_behind(root: &Utf8Path) -> bool {
    if !fs::symlink_metadata(root).is_ok_and(|found| found.is_dir()) {
        return false;
    }
    let Ok(marker) = read::open(root.join(MARKER)) else {
        return false;
    };
    let free = lock::try_flock(&marker, Mode::Shared).is_ok_and(|free| free);
    if free {
        drop(lock::unlock(&marker));
    }
    free
}

/// Removes what a killed enrollment left; false when it is not provably that.
pub fn sweep(root: &Utf8Path) -> Result<bool> {
    if !is_left_behind(root) {
        return Ok(false);
    }
    let home = root.join(HOME);
    if fs::symlink_metadata(&home).is_ok() {
        directory::remove_all(&home)?;
    }
    directory::remove_file(root.join(MARKER))?;
    directory::remove_empty(root)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::{Stage, is_left_behind, left_behind, sweep};
    use crate::registry::schema::Profile;
    use crate::snapshot::provider::tests::World;

    fn profile() -> Profile {
        crate::enroll::verify::tests::profile()
    }

    #[test]
    fn a_stage_is_private_and_leaves_nothing() {
        use std::os::unix::fs::PermissionsExt as _;
        let world = World::new();
        let stage = Stage::make(&world.context, &profile()).unwrap();
        let home = stage.home();
        for path in [&home, &stage.root] {
            let mode = std::fs::metadata(path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700, "{path}");
        }
        world.write(home.join("auth.json"), "{}");
        let root = stage.root.clone();
        assert!(!is_left_behind(&root), "its process lives");
        drop(stage);
        assert!(!root.exists());
    }

    #[test]
    fn what_a_killed_process_left_is_swept_and_nothing_else() {
        let world = World::new();
        let stage = Stage::make(&world.context, &profile()).unwrap();
        let folder = super::folder(&world.context);
        // As the kernel leaves it: everything there, the lock free.
        let (marker, copy) = (stage.root.join("enrollment"), folder.join("codex-2.x"));
        world.write(copy.join("home/auth.json"), "{}");
        world.write(
            copy.join("enrollment"),
            &std::fs::read_to_string(marker).unwrap(),
        );
        world.write(folder.join("notes/keep"), "a person's");
        let found: Vec<_> = left_behind(&world.context)
            .into_iter()
            .map(|(path, _)| path)
            .collect();
        assert_eq!(found, std::slice::from_ref(&copy));
        assert!(sweep(&copy).unwrap());
        assert!(!copy.exists());
        assert!(!sweep(&stage.root).unwrap(), "its process lives");
        assert!(!sweep(&folder.join("notes")).unwrap());
        assert!(folder.join("notes/keep").exists());
    }
}
