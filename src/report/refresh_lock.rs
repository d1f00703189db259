//! Directories that a provider's CLI left behind when it was killed during a refresh.
//!
//! While one is there, each CLI of that home waits or fails, and nobody else removes it: Claude Code never
//! takes an empty one over that is days old. One that is young belongs to a refresh at work, and taking it away
//! would let two processes spend one token.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use camino::{Utf8Path, Utf8PathBuf};

use crate::clock::Clock;
use crate::provider;
use crate::registry::schema::Profile;
use crate::sys::shell;

/// What lies there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// An empty directory, as the CLI makes it.
    Empty,
    /// A directory with something in it.
    Filled,
    /// No directory at all.
    Foreign,
    /// It cannot be looked into.
    Unreadable,
}

/// Such a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefreshLock {
    /// Where.
    pub path: Utf8PathBuf,
    /// Seconds since its holder last renewed it.
    pub age: u64,
    /// Age in seconds from which the CLI goes by nobody holding it.
    pub stale_after: u64,
    /// What lies there.
    pub shape: Shape,
}

/// What is to be made of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Somebody may be refreshing: it is left alone.
    Held,
    /// It is old, but somebody lives in the home who may still need it.
    Doubtful,
    /// Nobody holds it, and removing it harms nobody.
    Left,
    /// Nobody holds it, but it is not what the CLI makes: a person must look.
    Odd,
}

impl RefreshLock {
    /// What is to be made of it. `home_empty` says that nobody lives in the home.
    pub fn standing(&self, home_empty: bool) -> Standing {
        match self.shape {
            _ if self.age <= self.stale_after.max(60) => Standing::Held,
            _ if !home_empty => Standing::Doubtful,
            Shape::Empty => Standing::Left,
            Shape::Filled | Shape::Foreign | Shape::Unreadable => Standing::Odd,
        }
    }

    /// The one command that is safe: it removes an empty directory and nothing else.
    pub fn command(&self, standing: Standing) -> String {
        let path = shell::quote(self.path.as_str());
        match standing {
            Standing::Left => format!("rmdir {path}"),
            Standing::Held | Standing::Doubtful | Standing::Odd => format!("ls -la {path}"),
        }
    }
}

/// The directories that are there for a profile's home.
pub fn find(profile: &Profile, clock: Clock) -> Vec<RefreshLock> {
    let locks = provider::of(profile.provider).refresh_locks(&profile.home);
    locks
        .into_iter()
        .filter_map(|(path, stale_after)| look(path, stale_after, clock))
        .collect()
}

/// Looks at one path; nothing when nothing is there.
pub fn look(path: Utf8PathBuf, stale_after: u64, clock: Clock) -> Option<RefreshLock> {
    let found = fs::symlink_metadata(&path).ok()?;
    let age = clock.now().as_second().saturating_sub(found.mtime());
    Some(RefreshLock {
        shape: shape(&path, found.is_dir()),
        path,
        // A time ahead of the clock is as young as can be.
        age: u64::try_from(age).unwrap_or(0),
        stale_after,
    })
}

fn shape(path: &Utf8Path, is_directory: bool) -> Shape {
    if !is_directory {
        return Shape::Foreign;
    }
    match fs::read_dir(path).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Shape::Empty,
        Ok(false) => Shape::Filled,
        Err(_) => Shape::Unreadable,
    }
}

#[cfg(test)]
mod tests {
    use super::{Shape, Standing, look};
    use crate::clock::Clock;
    use camino::Utf8Path;

    #[test]
    fn only_an_old_empty_directory_of_an_empty_home_may_go() {
        let directory = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(directory.path())
            .unwrap()
            .join(".oauth_refresh.lock");
        let (now, later) = (Clock::real(), Clock::moved("+172800"));
        assert_eq!(look(path.clone(), 60, now), None);
        std::fs::create_dir(&path).unwrap();
        let young = look(path.clone(), 60, now).unwrap();
        assert_eq!(
            young.standing(true),
            Standing::Held,
            "a refresh may be at work"
        );
        let old = look(path.clone(), 60, later).unwrap();
        assert!(old.age >= 172_799, "{old:?}");
        assert_eq!(
            old.standing(false),
            Standing::Doubtful,
            "somebody lives in the home"
        );
        assert_eq!(old.standing(true), Standing::Left);
        assert_eq!(old.command(Standing::Left), format!("rmdir {path}"));
        std::fs::create_dir(path.join("x")).unwrap();
        let filled = look(path.clone(), 60, later).unwrap();
        assert_eq!(
            (filled.shape, filled.standing(true)),
            (Shape::Filled, Standing::Odd)
        );
        assert_eq!(filled.command(Standing::Odd), format!("ls -la {path}"));
        std::fs::remove_dir_all(&path).unwrap();
        std::os::unix::fs::symlink("/", &path).unwrap();
        assert_eq!(
            look(path, 60, later).unwrap().shape,
            Shape::Foreign,
            "a link is not followed"
        );
    }
}
