//! The lease table's file: opening it, and beginning a new one when this boot has none that can be used.
//!
//! A new table gets a higher epoch, which is durable before the table exists, so that generations never
//! repeat. The processes whose witnesses are held are put into it again from their details, so that a lost
//! table gives no slot away twice; what cannot be read is kept beside it as `table.damaged-<epoch>`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;

use camino::{Utf8Path, Utf8PathBuf};

use super::details::{self, Details};
use super::name::Name;
use super::record::{Bytes, Header, HeaderFault, Record, SIZE, Slot, Stage, Takes, VERSION};
use super::witness::{self, Probe};
use crate::crash_point;
use crate::error::{Error, Result, code};
use crate::id::TaskKey;
use crate::store::inplace::Blocks;
use crate::store::replace::{self, Durability};
use crate::store::{directory, read, seal};

/// The table of this boot.
#[derive(Debug)]
pub(super) struct Table {
    blocks: Blocks<SIZE>,
    path: Utf8PathBuf,
    /// Its header; written back by [`Table::save_header`].
    pub(super) header: Header,
    /// Its records, kept equal to the file.
    pub(super) slots: Vec<Slot>,
}

/// Where the table is.
pub(super) fn path(directory: &Utf8Path) -> Utf8PathBuf {
    directory.join("table")
}

/// The table's bytes, told apart.
#[derive(Debug)]
pub(super) enum Read {
    /// A table of this boot.
    Usable(Header, Vec<Slot>),
    /// None, or one of another boot, whose leases have all ended.
    Over(Option<(Header, Vec<Slot>)>),
    /// One that cannot be understood.
    Damaged,
}

/// Reads the table of boot `boot`. Refused with `newer_format` when a newer version wrote it.
pub(super) fn read(directory: &Utf8Path, boot: [u8; 16]) -> Result<Read> {
    let path = path(directory);
    match Blocks::open_read_only(&path) {
        Ok(blocks) => understand(&blocks, &path, boot),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Read::Over(None)),
        Err(error) => Err(Error::io("read", &path, &error)),
    }
}

fn understand(blocks: &Blocks<SIZE>, path: &Utf8Path, boot: [u8; 16]) -> Result<Read> {
    let blocks = blocks
        .read()
        .map_err(|error| Error::io("read", path, &error))?;
    let Some((head, records)) = blocks.split_first() else {
        return Ok(Read::Damaged);
    };
    let header = match Header::decode(head) {
        Ok(header) => header,
        Err(HeaderFault::Unreadable) => return Ok(Read::Damaged),
        Err(HeaderFault::Newer(version)) => {
            let message = format!(
                "`{path}` was made by a newer agent-fleet: format {version}, this one knows {VERSION}"
            );
            return Err(Error::new(code::NEWER_FORMAT, message)
                .hint("agent-fleet version")
                .detail("path", path.as_str()));
        }
    };
    let slots: Vec<Slot> = records.iter().map(Slot::decode).collect();
    if header.boot != boot {
        return Ok(Read::Over(Some((header, slots))));
    }
    // Shorter than it was: records were cut off, and with them leases.
    if slots.len() < header.records as usize {
        return Ok(Read::Damaged);
    }
    Ok(Read::Usable(header, slots))
}

impl Table {
    /// Opens the table to change it, beginning a new one where needed. Only under the `leases` lock.
    ///
    /// Also returns the leases that ended with an earlier boot.
    pub(super) fn open(
        directory: &Utf8Path,
        boot: [u8; 16],
        probe: &dyn Fn(TaskKey) -> Probe,
    ) -> Result<(Self, Over)> {
        let path = path(directory);
        let open = || Blocks::open(&path);
        let found = match open() {
            Ok(blocks) => match understand(&blocks, &path, boot)? {
                Read::Usable(header, slots) => {
                    let table = Self {
                        blocks,
                        path,
                        header,
                        slots,
                    };
                    return Ok((table, Over::default()));
                }
                over @ (Read::Over(_) | Read::Damaged) => over,
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Read::Over(None),
            Err(error) => return Err(Error::io("open", &path, &error)),
        };
        let (header, slots, ended) = begin(directory, boot, found, probe)?;
        let blocks = open().map_err(|error| Error::io("open", &path, &error))?;
        let table = Self {
            blocks,
            path,
            header,
            slots,
        };
        Ok((table, ended))
    }

    /// Where this table is.
    pub(super) fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// Writes the header.
    pub(super) fn save_header(&self) -> Result<()> {
        self.blocks
            .write(0, &self.header.encode())
            .map_err(|error| Error::io("write", &self.path, &error))
    }

    /// Writes a record; one past the end makes the table longer.
    pub(super) fn write(&mut self, at: usize, bytes: &Bytes) -> Result<()> {
        self.blocks
            .write(at + 1, bytes)
            .map_err(|error| Error::io("write", &self.path, &error))?;
        let slot = Slot::decode(bytes);
        match self.slots.get_mut(at) {
            Some(place) => *place = slot,
            None => self.slots.push(slot),
        }
        Ok(())
    }

    /// The place for a new record.
    pub(super) fn free_place(&self) -> usize {
        self.slots
            .iter()
            .position(|slot| *slot == Slot::Free)
            .unwrap_or(self.slots.len())
    }

    /// The next generation, already in force: the header is written before anything that shows it.
    pub(super) fn next_generation(&mut self) -> Result<u64> {
        let known = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        self.header.records = known;
        self.header.counter = self.header.counter.checked_add(1).ok_or_else(|| {
            Error::internal("the lease table has granted 2^32 leases since this boot")
        })?;
        self.save_header()?;
        Ok(u64::from(self.header.epoch) << 32 | u64::from(self.header.counter))
    }
}

/// The leases that ended with an earlier boot, with their details.
#[derive(Debug, Default)]
pub(super) struct Over {
    /// That boot.
    pub(super) boot: [u8; 16],
    /// Its leases.
    pub(super) leases: Vec<(Record, Option<Details>)>,
}

type Begun = (Header, Vec<Slot>, Over);

fn begin(
    directory: &Utf8Path,
    boot: [u8; 16],
    found: Read,
    probe: &dyn Fn(TaskKey) -> Probe,
) -> Result<Begun> {
    directory::ensure(directory)?;
    let files = Files::list(directory)?;
    let (old, damaged) = match found {
        Read::Usable(header, slots) => (Some((header, slots)), false),
        Read::Over(old) => (old, false),
        Read::Damaged => (None, true),
    };
    let mut epoch = load_epoch(directory);
    for (_, generation) in &files.details {
        epoch = epoch.max(high_half(*generation));
    }
    let mut ended = Over::default();
    if let Some((header, slots)) = old {
        epoch = epoch.max(header.epoch);
        ended.boot = header.boot;
        for slot in slots {
            if let Slot::Lease(record) = slot {
                let details = details::load(directory, record.task, record.generation);
                ended.leases.push((record, details));
            }
        }
    }
    let epoch = epoch
        .checked_add(1)
        .ok_or_else(|| Error::internal("the lease epoch has reached its end"))?;
    let path = path(directory);
    if damaged {
        replace::rename(&path, directory.join(format!("table.damaged-{epoch}")))?;
    }
    let epoch_line = seal::line(&epoch.to_string());
    replace::replace(
        directory.join("epoch"),
        epoch_line.as_bytes(),
        Durability::Durable,
    )?;
    crash_point!("leases.epoch");
    let slots = files.sweep(directory, &BTreeSet::new(), probe);
    let header = Header {
        boot,
        epoch,
        counter: 0,
        hand: 0,
        records: 0,
    };
    let mut bytes = header.encode().to_vec();
    for record in &slots {
        bytes.extend_from_slice(&record.encode());
    }
    replace::replace(&path, &bytes, Durability::Volatile)?;
    crash_point!("leases.table");
    Ok((header, slots.into_iter().map(Slot::Lease).collect(), ended))
}

fn high_half(generation: u64) -> u32 {
    u32::try_from(generation >> 32).unwrap_or(u32::MAX)
}

/// The last epoch; 0 when the file says nothing. It holds one number, so one that cannot be read is
/// replaced: the table and the names of details files tell the number too.
fn load_epoch(directory: &Utf8Path) -> u32 {
    read::optional(directory.join("epoch"))
        .ok()
        .flatten()
        .and_then(|bytes| seal::open(std::str::from_utf8(&bytes).ok()?)?.parse().ok())
        .unwrap_or(0)
}

/// The files of leases, as the directory lists them.
#[derive(Debug, Default)]
pub(super) struct Files {
    details: BTreeSet<(TaskKey, u64)>,
    witnesses: BTreeSet<TaskKey>,
}

impl Files {
    /// Lists a directory.
    pub(super) fn list(directory: &Utf8Path) -> Result<Self> {
        let failed = |error: io::Error| Error::io("list", directory, &error);
        let mut files = Self::default();
        for entry in fs::read_dir(directory).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let Some(name) = name.to_str() else { continue };
            if let Some(task) = name.strip_suffix(".live").and_then(TaskKey::parse) {
                files.witnesses.insert(task);
            } else if let Some(details) = details::parse_name(name) {
                files.details.insert(details);
            }
        }
        Ok(files)
    }

    /// Removes the files that belong to no record in `kept`, but for tasks whose witness is held: they are
    /// returned as records again where their details tell the profile. Only under the `leases` lock.
    pub(super) fn sweep(
        &self,
        directory: &Utf8Path,
        kept: &BTreeSet<(TaskKey, u64)>,
        probe: &dyn Fn(TaskKey) -> Probe,
    ) -> Vec<Record> {
        let keys: BTreeSet<TaskKey> = kept.iter().map(|(task, _)| *task).collect();
        let newest: BTreeMap<TaskKey, u64> = self.details.iter().copied().collect();
        let mut held = BTreeMap::new();
        for task in self.witnesses.difference(&keys) {
            match probe(*task) {
                Probe::Free => drop(directory::remove_file(witness::path(directory, *task))),
                Probe::Held | Probe::Unreadable => {
                    let generation = newest.get(task).copied();
                    held.insert(*task, generation.unwrap_or_default());
                }
            }
        }
        for (task, generation) in &self.details {
            if !kept.contains(&(*task, *generation)) && held.get(task) != Some(generation) {
                details::remove(directory, *task, *generation);
            }
        }
        held.into_iter()
            .filter_map(|(task, generation)| {
                let details = details::load(directory, task, generation)?;
                Some(restored(task, generation, &details))
            })
            .collect()
    }
}

/// A record for a process of which only the witness and the details are known.
fn restored(task: TaskKey, generation: u64, details: &Details) -> Record {
    let created = details.created_at.as_millisecond();
    Record {
        stage: Stage::Running {
            pid: 0,
            start: 0,
            namespace: 0,
            unique: 0,
            bound: created,
            takes: match details.workspace {
                Some(_) => Takes::Slot,
                None => Takes::Profile,
            },
        },
        profile: Name::from(&details.profile),
        provider: details.provider,
        task,
        terms: details::terms(details.workspace.as_deref(), details.pool.as_ref()),
        generation,
        created,
    }
}

#[cfg(test)]
mod tests {
    use super::{Read, read};
    use crate::id::{ProviderKind, Task};
    use crate::lease::details::{self, terms};
    use crate::lease::record::{Slot, Stage, Takes};
    use camino::Utf8Path;

    const BOOT: [u8; 16] = [
        0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee,
        0xff,
    ];
    const FIRST: u64 = (7 << 32) + 1;

    #[test]
    fn a_table_of_version_1_is_read_for_ever() {
        let fixture = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/state/v1/leases");
        let Read::Usable(header, slots) = read(&fixture, BOOT).unwrap() else {
            panic!("the table of version 1 is not usable");
        };
        assert_eq!((header.epoch, header.counter, header.hand), (7, 3, 1));
        let [
            Slot::Lease(running),
            Slot::Lease(reserved),
            Slot::Pick {
                profile,
                generation,
            },
            Slot::Free,
        ] = slots[..]
        else {
            panic!("{slots:?}");
        };
        let task: Task = "fix the build".parse().unwrap();
        assert_eq!((running.task, running.generation), (task.key(), FIRST));
        assert_eq!(running.provider, ProviderKind::Claude);
        assert_eq!(running.created, 1_577_934_245_000);
        let workspace = Utf8Path::new("/synthetic/project");
        let pool = "claude-crew".parse().unwrap();
        assert_eq!(running.terms, terms(Some(workspace), Some(&pool)));
        assert_eq!(
            running.stage,
            Stage::Running {
                pid: 42,
                start: 4242,
                namespace: 4_026_531_836,
                unique: 9,
                bound: 1_577_934_246_000,
                takes: Takes::Slot,
            }
        );
        assert_eq!(reserved.stage, Stage::Reserved { expires: 31_000 });
        assert_eq!((profile.as_str(), generation), ("claude-1", FIRST + 2));
        let details = details::load(&fixture, task.key(), FIRST).unwrap();
        assert_eq!(details.labels.len(), 2, "labels of the bind are lost");
        assert_eq!(details.workspace.as_deref(), Some(workspace));
    }
}
