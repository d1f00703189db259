//! A disk that fails at any operation of a promotion or a recovery, once or from then on.

use std::cell::Cell;
use std::io;

use camino::Utf8Path;

use super::beside::{Holds, find};
use super::pending::tests::{Ground, NEW, OLD, names};
use super::pending::{fence, folder, list};
use super::promote::Promoted;
use super::recover::recover;
use crate::error::code;
use crate::id::ProviderKind::Codex;
use crate::store::files::{Disk, Files};

/// How long a failure lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lasts {
    Once,
    On,
}

/// Fails at the operation of this number; reading goes on, as on a full or read-only disk.
#[derive(Debug)]
struct Failing {
    at: usize,
    lasts: Lasts,
    with: io::ErrorKind,
    done: Cell<usize>,
    failed: Cell<bool>,
}

impl Failing {
    fn new(at: usize, lasts: Lasts, with: io::ErrorKind) -> Self {
        Self {
            at,
            lasts,
            with,
            done: Cell::new(0),
            failed: Cell::new(false),
        }
    }

    fn change(&self, change: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let number = self.done.get();
        self.done.set(number + 1);
        if number == self.at || (self.lasts == Lasts::On && number > self.at) {
            self.failed.set(true);
            return Err(self.with.into());
        }
        change()
    }
}

impl Files for Failing {
    fn read(&self, path: &Utf8Path) -> io::Result<Option<Vec<u8>>> {
        Disk.read(path)
    }
    fn create(&self, path: &Utf8Path, bytes: &[u8]) -> io::Result<()> {
        self.change(|| Disk.create(path, bytes))
    }
    fn sync(&self, path: &Utf8Path) -> io::Result<()> {
        self.change(|| Disk.sync(path))
    }
    fn sync_directory(&self, path: &Utf8Path) -> io::Result<()> {
        self.change(|| Disk.sync_directory(path))
    }
    fn rename(&self, from: &Utf8Path, to: &Utf8Path) -> io::Result<()> {
        self.change(|| Disk.rename(from, to))
    }
    fn exchange(&self, one: &Utf8Path, other: &Utf8Path) -> io::Result<()> {
        self.change(|| Disk.exchange(one, other))
    }
    fn remove(&self, path: &Utf8Path) -> io::Result<()> {
        self.change(|| Disk.remove(path))
    }
}

/// Runs `check` for a failure at each operation, until the run is one that does not come so far.
fn each_failure(mut check: impl FnMut(&Failing, &str) -> bool) {
    for with in [
        io::ErrorKind::StorageFull,
        io::ErrorKind::ReadOnlyFilesystem,
        io::ErrorKind::Other,
    ] {
        for lasts in [Lasts::Once, Lasts::On] {
            let mut at = 0;
            while check(
                &Failing::new(at, lasts, with),
                &format!("{with} at {at}, {lasts:?}"),
            ) {
                at += 1;
                assert!(at < 50, "it never ends");
            }
            assert!(at >= 8, "only {at} operations can fail");
        }
    }
}

/// What lies beside is known to be ours, whatever failed.
fn nothing_unknown(ground: &Ground, at: &str) {
    let left = find(&ground.target).unwrap();
    let known = |holds| matches!(holds, Holds::New | Holds::Old);
    assert!(left.iter().all(|one| known(one.holds())), "{at}: {left:?}");
    assert_eq!(ground.beside().len(), left.len() + 1, "{at}");
}

#[test]
fn a_promotion_that_the_disk_fails_says_what_it_left_and_the_next_command_takes_it_back() {
    each_failure(|files, at| {
        let ground = Ground::new();
        let guard = ground.guard(Codex);
        let promotion = ground.begin();
        let told = promotion.carry_out_on(files, &guard, NEW, &mut || true);
        drop(guard);
        let in_force = ground.in_force();
        let (pending, records) = (
            list(&ground.context).unwrap(),
            names(&folder(&ground.context)),
        );
        nothing_unknown(&ground, at);
        match told {
            Ok(Promoted::Done { kept }) => {
                assert_eq!(in_force, NEW, "{at}");
                assert_eq!(pending, [], "{at}");
                assert_eq!(kept.is_some(), files.failed.get(), "{at}");
            }
            Ok(other) => panic!("{at}: {other:?}"),
            Err(error) if error.code == code::TRANSACTION_PENDING => {
                assert_eq!(pending.len(), 1, "{at}: {error}");
            }
            Err(error) if error.message.contains("is in force") => {
                assert_eq!((in_force.as_slice(), pending.len()), (NEW, 0), "{at}");
            }
            Err(error) => {
                assert_eq!(
                    (in_force.as_slice(), pending.len()),
                    (OLD, 0),
                    "{at}: {error}"
                );
                if files.lasts == Lasts::Once {
                    assert_eq!(ground.beside(), ["auth.json"], "{at}");
                    assert_eq!(records, Vec::<String>::new(), "{at}");
                }
            }
        }
        // The disk is well again.
        if fence(&ground.context, Codex).unwrap().is_empty() {
            assert_eq!(pending, [], "{at}");
        } else {
            assert_eq!(ground.in_force(), OLD, "{at}");
        }
        nothing_unknown(&ground, at);
        files.failed.get()
    });
}

#[test]
fn a_recovery_that_the_disk_fails_can_be_given_again() {
    let mut cut = 0;
    each_failure(|files, at| {
        let ground = Ground::new();
        let guard = ground.guard(Codex);
        // Ends where the new login is in force for good and its record open.
        let ends = Failing::new(8, Lasts::On, io::ErrorKind::StorageFull);
        let told = ground
            .begin()
            .carry_out_on(&ends, &guard, NEW, &mut || true);
        drop(guard);
        assert_eq!(told.unwrap_err().code, code::TRANSACTION_PENDING);
        assert_eq!(ground.in_force(), NEW);
        let pending = list(&ground.context).unwrap().remove(0);
        let entry = pending.entry.unwrap();
        let told = recover(files, &folder(&ground.context), &entry);
        assert_eq!(told.is_err(), files.failed.get(), "{at}");
        cut += usize::from(told.is_err());
        nothing_unknown(&ground, at);
        fence(&ground.context, Codex).unwrap();
        assert_eq!(
            (ground.in_force().as_slice(), ground.beside()),
            (OLD, vec!["auth.json".to_owned()]),
            "{at}"
        );
        // A recovery has fewer operations than a promotion.
        files.failed.get() || files.at < 8
    });
    assert!(cut >= 12, "only {cut} recoveries were cut");
}
