//! The private home in which a person logs in: `state/staging/<profile>.<random>/home`.
//!
//! Beside the home lies a marker that the enrolling process keeps locked for its whole life. Everything goes on every
//! end that leaves us the time: success, refusal, interrupt. A directory of such a name whose marker says what we
//! write into it, and that nobody holds, is what a killed enrollment left; so is an old one with nothing in it. Nothing
//! else is: a copy that a person made under another name, a link, or whatever else lies there.

use std::fs::{self, DirBuilder, Metadata};
use std::os::unix::fs::DirBuilderExt as _;

use camino::{Utf8Path, Utf8PathBuf};

use crate::clock::Clock;
use crate::env::Context;
use crate::error::{Error, Result};
use crate::id::ProfileId;
use crate::registry::schema::Profile;
use crate::store::lock::{self, Mode};
use crate::store::presence::Presence;
use crate::store::replace::{self, TEMPORARY_PREFIX};
use crate::store::{directory, read, seal};

/// The file that says whose a staging directory is.
const MARKER: &str = "enrollment";
/// The home in it.
const HOME: &str = "home";
/// Most of a marker that is read, in bytes.
const LONGEST: u64 = 4096;
/// A directory without a marker that is older than this, in seconds, is not being made any more.
const HOUR: i64 = 3600;

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
        let text = says(profile.id.as_str());
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
        .filter(|path| is_left_behind(path, &context.clock))
        .map(|path| {
            let age = now.saturating_sub(modified(&path).unwrap_or(now));
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

/// Whether a path is a directory of ours whose process is gone.
pub fn is_left_behind(root: &Utf8Path, clock: &Clock) -> bool {
    let Some(profile) = profile_of(root) else {
        return false;
    };
    let is_directory = |found: Metadata| found.file_type().is_dir();
    if !fs::symlink_metadata(root).is_ok_and(is_directory) {
        return false;
    }
    let path = root.join(MARKER);
    match fs::symlink_metadata(&path) {
        Ok(found) if found.is_file() => is_free(&path, profile),
        Ok(_) => false,
        // One that is being made, or one whose process was killed before the marker or after it.
        Err(_) => is_old(root, clock) && is_bare(root),
    }
}

/// The profile in the name of a staging directory.
fn profile_of(root: &Utf8Path) -> Option<&str> {
    let (profile, random) = root.file_name()?.rsplit_once('.')?;
    let is_random = random.len() == 32 && random.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_random && profile.parse::<ProfileId>().is_ok()).then_some(profile)
}

/// What the marker of a profile's staging directory says.
fn says(profile: &str) -> String {
    format!("the login of profile {profile} is made here")
}

fn is_free(marker: &Utf8Path, profile: &str) -> bool {
    let Ok(file) = read::open(marker) else {
        return false;
    };
    let text = read::to_end(&file, LONGEST).unwrap_or_default();
    let text = std::str::from_utf8(&text).unwrap_or_default();
    if text.lines().nth(1).and_then(seal::open) != Some(&says(profile)) {
        return false;
    }
    let free = lock::try_flock(&file, Mode::Shared).is_ok_and(|free| free);
    if free {
        drop(lock::unlock(&file));
    }
    free
}

fn is_old(root: &Utf8Path, clock: &Clock) -> bool {
    modified(root).is_some_and(|at| clock.now().as_second().saturating_sub(at) > HOUR)
}

/// Whether there is nothing in it but what the making of a marker may have left.
fn is_bare(root: &Utf8Path) -> bool {
    root.read_dir_utf8().is_ok_and(|mut entries| {
        entries
            .all(|entry| entry.is_ok_and(|entry| entry.file_name().starts_with(TEMPORARY_PREFIX)))
    })
}

/// Removes what a killed enrollment left; false when it is not provably that.
pub fn sweep(root: &Utf8Path, clock: &Clock) -> Result<bool> {
    if !is_left_behind(root, clock) {
        return Ok(false);
    }
    let home = root.join(HOME);
    if fs::symlink_metadata(&home).is_ok() {
        directory::remove_all(&home)?;
    }
    directory::remove_file(root.join(MARKER))?;
    replace::sweep(root.as_std_path(), clock);
    directory::remove_empty(root)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::{Stage, is_left_behind, left_behind, sweep};
    use crate::clock::Clock;
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
        assert!(
            !is_left_behind(&root, &world.context.clock),
            "its process lives"
        );
        drop(stage);
        assert!(!root.exists());
    }

    #[test]
    fn what_a_killed_process_left_is_swept_and_nothing_else() {
        let world = World::new();
        let clock = &world.context.clock;
        let stage = Stage::make(&world.context, &profile()).unwrap();
        let folder = super::folder(&world.context);
        let marker = std::fs::read_to_string(stage.root.join("enrollment")).unwrap();
        // As the kernel leaves it: everything there, the lock free.
        let random = "0123456789abcdef0123456789abcdef";
        let ours = folder.join(format!("codex-1.{random}"));
        let others = [
            // A copy that a person made, one under another profile's name, one whose marker is not ours.
            folder.join("codex-1.backup"),
            folder.join(format!("codex-2.{random}")),
            folder.join(format!("codex-1.{}", random.replace('0', "f"))),
        ];
        for path in std::iter::once(&ours).chain(&others) {
            world.write(path.join("home/auth.json"), "{}");
            world.write(path.join("enrollment"), &marker);
        }
        world.write(others[2].join("enrollment"), "a person's\nnote\n");
        world.write(folder.join("notes/keep"), "a person's");
        let link = folder.join(format!("codex-1.{}", random.replace('1', "e")));
        std::os::unix::fs::symlink(&ours, &link).unwrap();
        let found: Vec<_> = left_behind(&world.context)
            .into_iter()
            .map(|(path, _)| path)
            .collect();
        assert_eq!(found, std::slice::from_ref(&ours));
        for path in others
            .iter()
            .chain([&link, &stage.root, &folder.join("notes")])
        {
            assert!(!sweep(path, clock).unwrap(), "{path}");
            assert!(path.exists(), "{path}");
        }
        assert!(sweep(&ours, clock).unwrap());
        assert!(!ours.exists());
    }

    #[test]
    fn a_directory_with_nothing_in_it_is_left_behind_once_it_is_old() {
        let world = World::new();
        let folder = super::folder(&world.context);
        let random = "0123456789abcdef0123456789abcdef";
        let bare = folder.join(format!("codex-1.{random}"));
        world.write(bare.join(".tmp-x"), "");
        let full = folder.join(format!("codex-2.{random}"));
        world.write(full.join("keep"), "");
        let later = Clock::moved("+7200");
        for path in [&bare, &full] {
            assert!(!is_left_behind(path, &world.context.clock), "{path}");
        }
        assert!(is_left_behind(&bare, &later));
        assert!(!is_left_behind(&full, &later));
        assert!(sweep(&bare, &later).unwrap());
        assert!(!bare.exists());
    }
}
