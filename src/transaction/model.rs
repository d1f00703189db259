//! A disk that can be cut off, killed under and written to by a provider, for replaying the shipped code.
//!
//! Names and bytes that were not synced may be lost in a power cut, each by itself: any subset of the
//! changes of names, and for bytes what was synced last, nothing, half, or all. What the provider writes
//! counts as synced at once, so that losing it is always our doing.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;

use camino::{Utf8Path, Utf8PathBuf};

use crate::store::files::Files;

pub(super) const OLD: &[u8] = b"old login";
pub(super) const NEW: &[u8] = b"new login";
pub(super) const PROVIDERS: &[u8] = b"rotated login";

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Inode {
    now: Vec<u8>,
    /// What a power cut cannot take.
    safe: Option<Vec<u8>>,
}

/// Names given and taken in one step of the kernel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Naming {
    changes: Vec<(Utf8PathBuf, Option<usize>)>,
    /// Never lost.
    providers: bool,
}

/// Everything on the disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Disk {
    inodes: Vec<Inode>,
    names: BTreeMap<Utf8PathBuf, usize>,
    safe_names: BTreeMap<Utf8PathBuf, usize>,
    pending: Vec<Naming>,
    /// The inode that a process opened before anything began.
    opened: Option<usize>,
    /// An inode that the provider emptied and is about to fill.
    emptied: Option<usize>,
    pub(super) provider_wrote: bool,
}

impl Disk {
    pub(super) fn with(target: &Utf8Path, old: Option<&[u8]>) -> Self {
        let mut disk = Self::default();
        if let Some(old) = old {
            let inode = disk.inode(old, true);
            disk.names.insert(target.to_owned(), inode);
            disk.safe_names.insert(target.to_owned(), inode);
            disk.opened = Some(inode);
        }
        disk
    }

    fn inode(&mut self, bytes: &[u8], safe: bool) -> usize {
        self.inodes.push(Inode {
            now: bytes.to_vec(),
            safe: safe.then(|| bytes.to_vec()),
        });
        self.inodes.len() - 1
    }

    fn name(&mut self, changes: Vec<(Utf8PathBuf, Option<usize>)>, providers: bool) {
        let naming = Naming { changes, providers };
        apply(&mut self.names, &naming);
        self.pending.push(naming);
    }

    /// The same disk without files that nobody can reach, so that equal disks are equal.
    pub(super) fn compact(&self) -> Self {
        let mut seen = BTreeMap::new();
        let mut inodes = Vec::new();
        let mut number = |inode: usize| {
            *seen.entry(inode).or_insert_with(|| {
                inodes.push(self.inodes[inode].clone());
                inodes.len() - 1
            })
        };
        let mut all = |names: &BTreeMap<Utf8PathBuf, usize>| -> BTreeMap<Utf8PathBuf, usize> {
            let names = names.iter();
            names
                .map(|(path, inode)| (path.clone(), number(*inode)))
                .collect()
        };
        let (names, safe_names) = (all(&self.names), all(&self.safe_names));
        let pending = self.pending.iter().map(|naming| Naming {
            changes: naming
                .changes
                .iter()
                .map(|(path, inode)| (path.clone(), inode.map(&mut number)))
                .collect(),
            ..naming.clone()
        });
        let pending = pending.collect();
        let reachable = |inode: Option<usize>, number: &BTreeMap<usize, usize>| {
            inode.and_then(|inode| number.get(&inode).copied())
        };
        Self {
            opened: reachable(self.opened, &seen),
            emptied: reachable(self.emptied, &seen),
            inodes,
            names,
            safe_names,
            pending,
            provider_wrote: self.provider_wrote,
        }
    }

    pub(super) fn read(&self, path: &Utf8Path) -> Option<&[u8]> {
        self.names
            .get(path)
            .map(|inode| self.inodes[*inode].now.as_slice())
    }

    /// Every file with its bytes.
    pub(super) fn files(&self) -> BTreeMap<Utf8PathBuf, Vec<u8>> {
        self.names
            .iter()
            .map(|(path, inode)| (path.clone(), self.inodes[*inode].now.clone()))
            .collect()
    }

    pub(super) fn holds(&self, bytes: &[u8]) -> bool {
        self.names
            .values()
            .any(|inode| self.inodes[*inode].now == bytes)
    }

    /// What the provider does next to its credential.
    pub(super) fn provider(&mut self, write: Write, target: &Utf8Path) {
        let fill = |disk: &mut Self, inode: usize, bytes: &[u8]| {
            disk.inodes[inode] = Inode {
                now: bytes.to_vec(),
                safe: Some(bytes.to_vec()),
            };
            disk.provider_wrote = true;
        };
        let there = self.names.get(target).copied();
        match (write, there, self.opened) {
            (Write::Replaces, _, _) => {
                let inode = self.inode(PROVIDERS, true);
                self.name(vec![(target.to_owned(), Some(inode))], true);
                self.provider_wrote = true;
            }
            (Write::InPlace, Some(inode), _) | (Write::Opened, _, Some(inode)) => {
                fill(self, inode, PROVIDERS);
            }
            (Write::EmptiesFirst, Some(inode), _) => {
                fill(self, inode, b"");
                self.emptied = Some(inode);
            }
            (Write::InPlace | Write::EmptiesFirst, None, _) | (Write::Opened, _, None) => {}
        }
    }

    /// The second half of a write that emptied the file first.
    pub(super) fn settle(&mut self) {
        if let Some(inode) = self.emptied.take() {
            let bytes = Some(PROVIDERS.to_vec());
            self.inodes[inode].now = PROVIDERS.to_vec();
            self.inodes[inode].safe = bytes;
        }
    }

    /// Everything that a power cut may leave.
    pub(super) fn cut(&self) -> Vec<Self> {
        let mut settled = self.clone();
        settled.settle();
        let optional: Vec<usize> = (0..settled.pending.len())
            .filter(|at| !settled.pending[*at].providers)
            .collect();
        let mut outcomes = Vec::new();
        for subset in 0..1_u32 << optional.len() {
            let mut names = settled.safe_names.clone();
            for (at, naming) in settled.pending.iter().enumerate() {
                let kept = optional
                    .iter()
                    .position(|other| *other == at)
                    .is_none_or(|bit| subset >> bit & 1 == 1);
                if kept {
                    apply(&mut names, naming);
                }
            }
            let mut bytes = vec![settled.inodes.clone()];
            for inode in names.values() {
                let file = &settled.inodes[*inode];
                if file.safe.as_ref() == Some(&file.now) {
                    continue;
                }
                let half = file.now[..file.now.len() / 2].to_vec();
                let mut possible = vec![Vec::new(), half, file.now.clone()];
                possible.extend(file.safe.clone());
                bytes = bytes
                    .into_iter()
                    .flat_map(|inodes| {
                        possible.iter().map(move |bytes| {
                            let mut inodes = inodes.clone();
                            inodes[*inode].now.clone_from(bytes);
                            inodes
                        })
                    })
                    .collect();
            }
            for inodes in bytes {
                outcomes.push(Self {
                    inodes: inodes
                        .into_iter()
                        .map(|file| Inode {
                            safe: Some(file.now.clone()),
                            ..file
                        })
                        .collect(),
                    safe_names: names.clone(),
                    names: names.clone(),
                    pending: Vec::new(),
                    opened: None,
                    ..settled.clone()
                });
            }
        }
        let mut outcomes: Vec<Self> = outcomes.iter().map(Self::compact).collect();
        outcomes.sort();
        outcomes.dedup();
        outcomes
    }
}

fn apply(names: &mut BTreeMap<Utf8PathBuf, usize>, naming: &Naming) {
    for (path, inode) in &naming.changes {
        match inode {
            Some(inode) => names.insert(path.clone(), *inode),
            None => names.remove(path),
        };
    }
}

/// How the provider writes its credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Write {
    /// A new file takes the name (Claude Code).
    Replaces,
    /// The file under the name is rewritten (Codex).
    InPlace,
    /// The same, empty for one step.
    EmptiesFirst,
    /// The file that had the name before anything began is rewritten.
    Opened,
}

/// How it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// Before the operation.
    Before,
    /// With the file of a creation half written.
    Half,
}

/// A mistake that the model must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    NoFileSync,
    NoDirectorySync,
    ExchangeByRename,
    RenameReplaces,
    DeletesUnread,
}

/// What happens to one run of the code, by the number of the operation before which it happens.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fate {
    pub(super) provider: Option<(usize, Write)>,
    pub(super) cut: Option<(usize, Cut)>,
    pub(super) broken: Option<Broken>,
}

/// One run over a disk.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) disk: RefCell<Disk>,
    pub(super) steps: RefCell<usize>,
    /// What the provider wrote in the microseconds between a look at a file and its removal.
    pub(super) written_to_no_one: RefCell<bool>,
    dead: RefCell<bool>,
    fate: Fate,
    target: Utf8PathBuf,
}

impl Model {
    pub(super) fn new(disk: Disk, fate: Fate, target: &Utf8Path) -> Self {
        Self {
            disk: RefCell::new(disk),
            steps: RefCell::new(0),
            written_to_no_one: RefCell::new(false),
            dead: RefCell::new(false),
            fate,
            target: target.to_owned(),
        }
    }

    pub(super) fn is_dead(&self) -> bool {
        *self.dead.borrow()
    }

    /// What happens before an operation; tells how it is cut.
    fn step(&self, removed: Option<&Utf8Path>) -> io::Result<Option<Cut>> {
        if self.is_dead() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let mut steps = self.steps.borrow_mut();
        let at = *steps;
        *steps += 1;
        let mut disk = self.disk.borrow_mut();
        disk.settle();
        if let Some((_, write)) = self.fate.provider.filter(|(when, _)| *when == at) {
            disk.provider(write, &self.target);
            let doomed = removed.and_then(|path| disk.names.get(path));
            if write == Write::Opened && doomed.is_some() && doomed == disk.opened.as_ref() {
                *self.written_to_no_one.borrow_mut() = true;
            }
        }
        let cut = self
            .fate
            .cut
            .filter(|(when, _)| *when == at)
            .map(|(_, cut)| cut);
        if cut.is_some() {
            *self.dead.borrow_mut() = true;
        }
        match cut {
            Some(Cut::Before) => Err(io::ErrorKind::Interrupted.into()),
            cut => Ok(cut),
        }
    }

    fn inode(&self, path: &Utf8Path) -> io::Result<usize> {
        let disk = self.disk.borrow();
        disk.names
            .get(path)
            .copied()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn name(&self, changes: Vec<(Utf8PathBuf, Option<usize>)>) {
        self.disk.borrow_mut().name(changes, false);
    }
}

impl Files for Model {
    fn read(&self, path: &Utf8Path) -> io::Result<Option<Vec<u8>>> {
        self.step(None)?;
        if self.fate.broken == Some(Broken::DeletesUnread) && path != self.target {
            return Ok(self.disk.borrow().read(path).map(|_| OLD.to_vec()));
        }
        Ok(self.disk.borrow().read(path).map(<[u8]>::to_vec))
    }

    fn create(&self, path: &Utf8Path, bytes: &[u8]) -> io::Result<()> {
        let cut = self.step(None)?;
        if self.inode(path).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let half = &bytes[..bytes.len() / 2];
        let written = if cut.is_some() { half } else { bytes };
        let inode = self.disk.borrow_mut().inode(written, false);
        self.name(vec![(path.to_owned(), Some(inode))]);
        match cut {
            Some(_) => Err(io::ErrorKind::Interrupted.into()),
            None => Ok(()),
        }
    }

    fn sync(&self, path: &Utf8Path) -> io::Result<()> {
        self.step(None)?;
        let inode = self.inode(path)?;
        if self.fate.broken != Some(Broken::NoFileSync) {
            let file = &mut self.disk.borrow_mut().inodes[inode];
            file.safe = Some(file.now.clone());
        }
        Ok(())
    }

    fn sync_directory(&self, path: &Utf8Path) -> io::Result<()> {
        self.step(None)?;
        if self.fate.broken == Some(Broken::NoDirectorySync) {
            return Ok(());
        }
        let mut disk = self.disk.borrow_mut();
        let (here, elsewhere) = std::mem::take(&mut disk.pending)
            .into_iter()
            .partition(|naming| naming.changes[0].0.parent() == Some(path));
        disk.pending = elsewhere;
        let here: Vec<Naming> = here;
        for naming in here {
            apply(&mut disk.safe_names, &naming);
        }
        Ok(())
    }

    fn rename(&self, from: &Utf8Path, to: &Utf8Path) -> io::Result<()> {
        self.step(None)?;
        let inode = self.inode(from)?;
        if self.inode(to).is_ok() && self.fate.broken != Some(Broken::RenameReplaces) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.name(vec![(from.to_owned(), None), (to.to_owned(), Some(inode))]);
        Ok(())
    }

    fn exchange(&self, one: &Utf8Path, other: &Utf8Path) -> io::Result<()> {
        self.step(None)?;
        let (first, second) = (self.inode(one)?, self.inode(other)?);
        if self.fate.broken == Some(Broken::ExchangeByRename) {
            self.name(vec![
                (one.to_owned(), None),
                (other.to_owned(), Some(first)),
            ]);
            return Ok(());
        }
        self.name(vec![
            (one.to_owned(), Some(second)),
            (other.to_owned(), Some(first)),
        ]);
        Ok(())
    }

    fn remove(&self, path: &Utf8Path) -> io::Result<()> {
        self.step(Some(path))?;
        self.inode(path)?;
        self.name(vec![(path.to_owned(), None)]);
        Ok(())
    }
}
