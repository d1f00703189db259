//! Files take their places one by one, and all go back when one cannot.
//!
//! Each step is one rename that is there or not, and none destroys a file: what was at a place trades places with
//! what comes, and is looked at afterwards. If it is not what was expected, somebody wrote it in that moment: it
//! gets its place back, and so does everything before it. What was replaced is deleted by the caller, at the end.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use camino::Utf8Path;

use crate::crash_point;
use crate::error::{Error, Result, code};
use crate::fleet::git::shown;
use crate::fleet::scope::place::{State, look};
use crate::store::{read, replace};

/// One path that changes.
#[derive(Clone, Debug)]
pub(super) struct Move {
    /// Below the root.
    pub(super) path: PathBuf,
    /// What is expected there.
    pub(super) before: State,
    /// Whether something comes, from `new/<path>` of the staging directory; else it only goes.
    pub(super) comes: bool,
}

impl Move {
    /// What is expected there, if a file: a directory goes by itself once it is empty.
    fn leaves(&self) -> bool {
        matches!(self.before, State::File { .. } | State::Link { .. })
    }
}

/// What was done, so that it can be undone.
enum Done {
    /// The two traded places.
    Traded(Move, State),
    /// It came where nothing was.
    Came(Move, State),
    /// It went to this place in the staging directory.
    Went(Move, PathBuf),
    /// A directory was made.
    Made(PathBuf),
    /// An empty directory went.
    Emptied(PathBuf),
}

/// Puts everything in its place, or nothing. A refusal with the detail `kept` left files in the staging directory.
pub(super) fn place(root: &Utf8Path, staging: &Utf8Path, mut moves: Vec<Move>) -> Result<()> {
    // What goes makes room for directories of what comes.
    moves.sort_by(|one, other| (one.comes, &one.path).cmp(&(other.comes, &other.path)));
    sync(staging, &moves)?;
    let mut placing = Placing {
        root,
        staging,
        done: Vec::new(),
    };
    let result = moves.into_iter().enumerate().try_for_each(|(index, one)| {
        let stepped = placing.step(index, one);
        crash_point!("merge.placed");
        stepped
    });
    match result {
        Ok(()) => placing.sync_directories(),
        Err(error) => Err(placing.undo(error)),
    }
}

/// New bytes survive a power cut before anything old is moved.
fn sync(staging: &Utf8Path, moves: &[Move]) -> Result<()> {
    for one in moves.iter().filter(|one| one.comes) {
        let path = staging.as_std_path().join("new").join(&one.path);
        let failed = |error: &io::Error| Error::io("sync", &path, error);
        let found = path.symlink_metadata().map_err(|error| failed(&error))?;
        if found.is_file() {
            read::open(&path)
                .and_then(|file| file.sync_all())
                .map_err(|error| failed(&error))?;
        }
    }
    Ok(())
}

struct Placing<'a> {
    root: &'a Utf8Path,
    staging: &'a Utf8Path,
    done: Vec<Done>,
}

impl Placing<'_> {
    fn here(&self, path: &Path) -> PathBuf {
        self.root.as_std_path().join(path)
    }

    fn staged(&self, path: &Path) -> PathBuf {
        self.staging.as_std_path().join("new").join(path)
    }

    fn step(&mut self, index: usize, one: Move) -> Result<()> {
        let here = self.here(&one.path);
        match (one.leaves(), one.comes) {
            (false, false) => Ok(()),
            (true, false) => {
                self.stands(&one.path)?;
                let away = format!("old-{index}");
                let aside = self.staging.as_std_path().join(&away);
                replace::rename_new(&here, &aside).map_err(|error| self.failed(&one, &error))?;
                self.done.push(Done::Went(one.clone(), aside));
                self.expect(self.staging, Path::new(&away), &one)?;
                self.empty_above(&one.path);
                Ok(())
            }
            (true, true) => {
                self.stands(&one.path)?;
                let new = self.staged(&one.path);
                let coming = self.coming(&one)?;
                replace::exchange(&here, &new).map_err(|error| self.failed(&one, &error))?;
                self.done.push(Done::Traded(one.clone(), coming));
                self.expect(self.staging, &Path::new("new").join(&one.path), &one)
            }
            (false, true) => {
                self.make_above(&one.path)?;
                self.stands(&one.path)?;
                let coming = self.coming(&one)?;
                let new = self.staged(&one.path);
                replace::rename_new(&new, &here).map_err(|error| self.failed(&one, &error))?;
                self.done.push(Done::Came(one, coming));
                Ok(())
            }
        }
    }

    /// What is to come, as it is now.
    fn coming(&self, one: &Move) -> Result<State> {
        Ok(look(self.staging, Path::new("new").join(&one.path), 0)?.state)
    }

    /// That what went is what was expected.
    fn expect(&self, root: &Utf8Path, path: &Path, one: &Move) -> Result<()> {
        if look(root, path, 0)?.state == one.before {
            Ok(())
        } else {
            Err(self.meanwhile(one))
        }
    }

    /// That the directory of a path is a real one, reached through no link.
    fn stands(&self, path: &Path) -> Result<()> {
        let here = self.here(path);
        let above = here.parent().unwrap_or(&here);
        let real = above
            .canonicalize()
            .map_err(|error| Error::io("find the directory", above, &error))?;
        if real == above {
            Ok(())
        } else {
            let message = format!("`{}` leads through a symbolic link", above.display());
            Err(Error::new(code::MERGE_CONFLICT, message).hint(super::status(self.root)))
        }
    }

    fn make_above(&mut self, path: &Path) -> Result<()> {
        let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
        above.reverse();
        for directory in above
            .into_iter()
            .filter(|path| !path.as_os_str().is_empty())
        {
            let here = self.here(directory);
            // As the person's umask says: it is their checkout.
            match fs::create_dir(&here) {
                Ok(()) => self.done.push(Done::Made(here)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::io("create the directory", &here, &error)),
            }
        }
        Ok(())
    }

    /// As git does: a directory goes with its last file.
    fn empty_above(&mut self, path: &Path) {
        for directory in path.ancestors().skip(1) {
            let here = self.here(directory);
            if directory.as_os_str().is_empty() || fs::remove_dir(&here).is_err() {
                return;
            }
            self.done.push(Done::Emptied(here));
        }
    }

    fn sync_directories(&self) -> Result<()> {
        let touched = |done: &Done| match done {
            Done::Traded(one, _) | Done::Came(one, _) | Done::Went(one, _) => {
                self.here(&one.path).parent().map(Path::to_owned)
            }
            Done::Made(path) | Done::Emptied(path) => path.parent().map(Path::to_owned),
        };
        let directories: BTreeSet<PathBuf> = self.done.iter().filter_map(touched).collect();
        directories
            .iter()
            .filter(|directory| directory.is_dir())
            .try_for_each(|directory| replace::sync_directory(directory))
    }

    /// Takes back what was done, the last first. What the person changed meanwhile stays as they left it.
    fn undo(mut self, because: Error) -> Error {
        let mut kept = false;
        while let Some(done) = self.done.pop() {
            let undone = match done {
                Done::Traded(one, came) => self.take_away(&one, &came).and_then(|still| {
                    if still {
                        replace::exchange(self.here(&one.path), self.staged(&one.path))
                    } else {
                        Err(io::ErrorKind::AlreadyExists.into())
                    }
                }),
                Done::Came(one, came) => self.take_away(&one, &came).and_then(|still| {
                    if still {
                        replace::rename_new(self.here(&one.path), self.staged(&one.path))
                    } else {
                        // It is the person's now.
                        Ok(())
                    }
                }),
                Done::Went(one, aside) => replace::rename_new(aside, self.here(&one.path)),
                Done::Made(path) => {
                    // Something of the person's is in it, if it does not go.
                    drop(fs::remove_dir(path));
                    Ok(())
                }
                Done::Emptied(path) => fs::create_dir(path),
            };
            kept |= undone.is_err();
        }
        if kept {
            let staging = self.staging;
            let message = format!(
                "{because}; not everything could be taken back: the files that were replaced are in `{staging}`"
            );
            return Error::new(because.code, message)
                .hint(super::status(self.root))
                .detail("kept", staging.as_str());
        }
        because
    }

    /// Whether what came is still there as it came.
    fn take_away(&self, one: &Move, came: &State) -> io::Result<bool> {
        look(self.root, &one.path, 0)
            .map(|seen| seen.state == *came)
            .map_err(|error| io::Error::other(error.message))
    }

    fn meanwhile(&self, one: &Move) -> Error {
        use std::os::unix::ffi::OsStrExt as _;
        let path = shown(one.path.as_os_str().as_bytes());
        Error::new(
            code::MERGE_CONFLICT,
            format!(
                "nothing was merged into `{}`: `{path}` was changed at this moment",
                self.root
            ),
        )
        .hint(super::status(self.root))
    }

    fn failed(&self, one: &Move, error: &io::Error) -> Error {
        if matches!(
            error.kind(),
            io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound
        ) {
            return self.meanwhile(one);
        }
        if !matches!(
            error.kind(),
            io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported
        ) {
            return Error::io("put in place", self.here(&one.path), error);
        }
        let message = format!(
            "the file system of `{}` cannot let two files trade places, without which a merge may lose one",
            self.root
        );
        Error::new(code::UNSUPPORTED_FILESYSTEM, message).hint("agent-fleet doctor")
    }
}
