//! Entries on a real disk: found, recovered, or in the way of their own provider alone.

use std::fs;
use std::io;

use camino::{Utf8Path, Utf8PathBuf};

use super::super::promote::Promoted;
use super::super::{Promotion, begin};
use super::{Damage, fence, folder, list, of, settle};
use crate::env::{Context, Variables, World};
use crate::error::{Error, code};
use crate::id::ProfileId;
use crate::id::ProviderKind::{self, Claude, Codex};
use crate::store::files::{Disk, Files};
use crate::store::lock::{Guard, Locks, Mode, Name};

pub(crate) const OLD: &[u8] = b"old login";
pub(crate) const NEW: &[u8] = b"new login";

/// A state root, and the home of a Codex profile in a root of its own.
pub(crate) struct Ground {
    _kept: tempfile::TempDir,
    pub(crate) context: Context,
    pub(crate) target: Utf8PathBuf,
}

impl Ground {
    pub(crate) fn new() -> Self {
        let kept = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(kept.path()).unwrap();
        let variables: Variables = [
            ("HOME", root.as_str()),
            ("AGENT_FLEET_STATE_DIR", root.join("state").as_str()),
        ]
        .into_iter()
        .collect();
        let world = World {
            arguments: Vec::new(),
            variables,
            directory: None,
            executable: None,
        };
        let target = root.join("home/auth.json");
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::create_dir_all(root.join("state")).unwrap();
        Disk.create(&target, OLD).unwrap();
        Self {
            context: Context::resolve(&world, None).unwrap(),
            target,
            _kept: kept,
        }
    }

    pub(crate) fn locks(&self) -> Locks {
        Locks::of(&self.context)
    }

    pub(crate) fn guard(&self, kind: ProviderKind) -> Guard {
        let name = Name::Provider(kind);
        let taken = self.locks().try_take(name, Mode::Exclusive).unwrap();
        taken.expect("nobody else holds it")
    }

    pub(crate) fn begin(&self) -> Promotion {
        let profile = "codex-1.b".parse().unwrap();
        begin(&self.context, (Codex, &profile), &self.target, NEW).unwrap()
    }

    /// A promotion that failed after the new login was in force.
    fn cut(&self) -> Error {
        let guard = self.guard(Codex);
        let cut = self
            .begin()
            .carry_out_on(&Failing, &guard, NEW, &mut || true);
        cut.unwrap_err()
    }

    pub(crate) fn in_force(&self) -> Vec<u8> {
        fs::read(&self.target).unwrap()
    }

    /// Every name in the home.
    pub(crate) fn beside(&self) -> Vec<String> {
        names(self.target.parent().unwrap())
    }
}

pub(crate) fn names(folder: &Utf8Path) -> Vec<String> {
    let entries = folder.read_dir_utf8().unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().to_owned())
        .collect();
    names.sort();
    names
}

/// A disk on which homes cannot be synced once a login was traded.
#[derive(Debug)]
struct Failing;

impl Files for Failing {
    fn read(&self, path: &Utf8Path) -> io::Result<Option<Vec<u8>>> {
        Disk.read(path)
    }
    fn create(&self, path: &Utf8Path, bytes: &[u8]) -> io::Result<()> {
        Disk.create(path, bytes)
    }
    fn sync(&self, path: &Utf8Path) -> io::Result<()> {
        Disk.sync(path)
    }
    fn sync_directory(&self, path: &Utf8Path) -> io::Result<()> {
        match fs::read(path.join("auth.json")) {
            Ok(bytes) if bytes == NEW => Err(io::ErrorKind::StorageFull.into()),
            _ => Disk.sync_directory(path),
        }
    }
    fn rename(&self, from: &Utf8Path, to: &Utf8Path) -> io::Result<()> {
        Disk.rename(from, to)
    }
    fn exchange(&self, one: &Utf8Path, other: &Utf8Path) -> io::Result<()> {
        Disk.exchange(one, other)
    }
    fn remove(&self, path: &Utf8Path) -> io::Result<()> {
        Disk.remove(path)
    }
}

#[test]
fn nothing_is_pending_where_nothing_was_begun_or_everything_was_finished() {
    let ground = Ground::new();
    assert_eq!(list(&ground.context).unwrap(), []);
    assert_eq!(fence(&ground.context, Codex).unwrap(), []);
    let guard = ground.guard(Codex);
    let done = ground.begin().carry_out(&guard, NEW, &mut || true).unwrap();
    assert_eq!(done, Promoted::Done { kept: None });
    assert_eq!(list(&ground.context).unwrap(), []);
    assert_eq!(
        (ground.in_force().as_slice(), ground.beside()),
        (NEW, vec!["auth.json".to_owned()])
    );
}

#[test]
fn who_comes_next_takes_back_what_was_cut_short() {
    let ground = Ground::new();
    let told = ground.cut();
    assert_eq!(told.code, code::TRANSACTION_PENDING, "{told}");
    assert_eq!(ground.in_force(), NEW);
    let [pending] = &list(&ground.context).unwrap()[..] else {
        panic!("one is pending");
    };
    assert_eq!(told.details["transaction"], pending.id.as_str());
    assert_eq!(
        pending.profile.as_ref().map(ProfileId::as_str),
        Some("codex-1.b")
    );
    // No other provider is concerned, and nobody recovers what is under way.
    assert_eq!(fence(&ground.context, Claude).unwrap(), []);
    let mut busy = ground.guard(Codex);
    busy.sign("profile enroll").unwrap();
    let refused = std::thread::scope(|scope| {
        let other = scope.spawn(|| fence(&ground.context, Codex).unwrap_err());
        other.join().unwrap()
    });
    assert_eq!(refused.code, code::MAINTENANCE_BUSY, "{refused}");
    drop(busy);
    let recovered = fence(&ground.context, Codex).unwrap();
    assert_eq!(recovered[0].id, pending.id);
    assert_eq!(
        (ground.in_force().as_slice(), ground.beside()),
        (OLD, vec!["auth.json".to_owned()])
    );
    assert_eq!(names(&folder(&ground.context)), Vec::<String>::new());
}

#[test]
fn a_damaged_entry_fences_its_provider_alone_and_is_never_removed() {
    let ground = Ground::new();
    ground.cut();
    let pending = of(&ground.context, Codex).unwrap().remove(0);
    let whole = fs::read(&pending.path).unwrap();
    let mut torn = whole.clone();
    torn[20] ^= 1;
    let newer = crate::store::seal::line(r#"{"version":2,"what":1}"#) + "\n";
    for (bytes, damage) in [
        (torn.as_slice(), Damage::Broken),
        (b"", Damage::Broken),
        (newer.as_bytes(), Damage::Newer),
    ] {
        put(&pending.path, bytes);
        let refused = fence(&ground.context, Codex).unwrap_err();
        assert_eq!(refused.code, code::TRANSACTION_PENDING);
        assert!(refused.message.contains(pending.path.as_str()), "{refused}");
        let hint = format!("agent-fleet transaction show {}", pending.id);
        assert_eq!(refused.hint, Some(hint));
        assert_eq!(of(&ground.context, Codex).unwrap()[0].entry, Err(damage));
        assert_eq!(fence(&ground.context, Claude).unwrap(), []);
        assert_eq!(ground.in_force(), NEW);
    }
    // A whole entry under another's name is not gone by either.
    put(&pending.path, &whole);
    let other = pending
        .path
        .with_file_name("claude-one-20260101T000000Z-1.json");
    Disk.rename(&pending.path, &other).unwrap();
    assert!(fence(&ground.context, Claude).is_err());
    assert_eq!(fence(&ground.context, Codex).unwrap(), []);
    Disk.rename(&other, &pending.path).unwrap();
    assert_eq!(fence(&ground.context, Codex).unwrap().len(), 1);
}

#[test]
fn what_is_set_aside_fences_no_one_and_lies_there_still() {
    let ground = Ground::new();
    ground.cut();
    let before = ground.beside();
    let pending = of(&ground.context, Codex).unwrap().remove(0);
    put(&pending.path, b"torn");
    let guard = ground.guard(Codex);
    let aside = pending.set_aside(&ground.context, &guard).unwrap();
    assert_eq!(settle(&ground.context, Codex, &guard).unwrap(), []);
    assert_eq!(fs::read(&aside).unwrap(), b"torn");
    assert_eq!(ground.beside(), before);
    let kept = super::aside(&ground.context).unwrap().remove(0);
    assert_eq!((kept.id, kept.path), (pending.id, aside));
}

#[test]
fn a_home_that_is_not_there_keeps_its_entry() {
    let ground = Ground::new();
    ground.cut();
    let home = ground.target.parent().unwrap();
    let elsewhere = home.with_file_name("unmounted");
    Disk.rename(home, &elsewhere).unwrap();
    let refused = fence(&ground.context, Codex).unwrap_err();
    assert_eq!(refused.code, code::TRANSACTION_PENDING);
    assert!(refused.message.contains(home.as_str()), "{refused}");
    Disk.rename(&elsewhere, home).unwrap();
    assert_eq!(fence(&ground.context, Codex).unwrap().len(), 1);
    assert_eq!(ground.in_force(), OLD);
}

#[test]
fn nothing_is_touched_without_its_lock() {
    let ground = Ground::new();
    ground.cut();
    let lock = |name, mode| ground.locks().try_take(name, mode).unwrap().unwrap();
    for guard in [
        lock(Name::Provider(Codex), Mode::Shared),
        lock(Name::Leases, Mode::Exclusive),
    ] {
        let refused = settle(&ground.context, Codex, &guard).unwrap_err();
        assert_eq!(refused.code, code::INTERNAL);
    }
    assert_eq!(ground.in_force(), NEW);
}

#[test]
fn a_linked_credential_is_never_replaced() {
    let ground = Ground::new();
    let other = ground.target.with_file_name("other");
    fs::hard_link(&ground.target, &other).unwrap();
    let profile = "codex-1".parse().unwrap();
    let begin = || begin(&ground.context, (Codex, &profile), &ground.target, NEW);
    assert_eq!(begin().unwrap_err().code, code::IDENTITY_UNPROVEN);
    fs::remove_file(&ground.target).unwrap();
    std::os::unix::fs::symlink(&other, &ground.target).unwrap();
    assert_eq!(begin().unwrap_err().code, code::IDENTITY_UNPROVEN);
    assert_eq!(fs::read(&other).unwrap(), OLD);
}

fn put(path: &Utf8Path, bytes: &[u8]) {
    fs::remove_file(path).unwrap();
    Disk.create(path, bytes).unwrap();
}
