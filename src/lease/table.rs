//! The lease table's file: opening it, and beginning a new one when this boot has none that can be used.
//!
//! A new table gets a higher epoch, which is durable before the table exists, so that generations never
//! repeat. The processes whose witnesses are held are put into it again from their details, so that a lost
//! table gives no slot away twice; what cannot be read is kept beside it as `table.damaged-<epoch>`.

use std::collections::BTreeSet;

use camino::Utf8Path;

use super::details::Details;
use super::machine::{Access, Machine};
use super::record::{Bytes, FREE, Header, HeaderFault, Record, Slot, VERSION};
use crate::crash_point;
use crate::error::{Error, Result, code};

/// The table of this boot.
#[derive(Debug)]
pub(super) struct Table<'a, M: Machine> {
    machine: &'a M,
    file: M::Table,
    /// Its header; written back by [`Table::save_header`].
    pub(super) header: Header,
    /// Its records, kept equal to the file.
    pub(super) slots: Vec<Slot>,
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

/// Reads the table of this boot. Refused with `newer_format` when a newer version wrote it.
pub(super) fn read<M: Machine>(machine: &M) -> Result<Read> {
    match machine.open_table(Access::Read)? {
        Some(file) => {
            let blocks = machine.read_table(&file)?;
            understand(&blocks, &machine.table_path(), machine.boot())
        }
        None => Ok(Read::Over(None)),
    }
}

fn understand(blocks: &[Bytes], path: &Utf8Path, boot: [u8; 16]) -> Result<Read> {
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

impl<'a, M: Machine> Table<'a, M> {
    /// Opens the table to change it, beginning a new one where needed. Only under the `leases` lock.
    ///
    /// Also returns the leases that ended with an earlier boot.
    pub(super) fn open(machine: &'a M) -> Result<(Self, Over)> {
        let found = match machine.open_table(Access::Write)? {
            Some(file) => {
                let blocks = machine.read_table(&file)?;
                match understand(&blocks, &machine.table_path(), machine.boot())? {
                    Read::Usable(header, slots) => {
                        let table = Self {
                            machine,
                            file,
                            header,
                            slots,
                        };
                        return Ok((table, Over::default()));
                    }
                    over @ (Read::Over(_) | Read::Damaged) => over,
                }
            }
            None => Read::Over(None),
        };
        let (header, slots, ended) = begin(machine, found)?;
        let file = machine
            .open_table(Access::Write)?
            .ok_or_else(|| Error::internal("a lease table was removed as soon as it was made"))?;
        let table = Self {
            machine,
            file,
            header,
            slots,
        };
        Ok((table, ended))
    }

    /// Writes the header.
    pub(super) fn save_header(&self) -> Result<()> {
        let bytes = self.header.encode();
        self.machine.write_block(&self.file, 0, &bytes)
    }

    /// Writes a record; one past the end makes the table longer.
    pub(super) fn write(&mut self, at: usize, bytes: &Bytes) -> Result<()> {
        self.machine.write_block(&self.file, at + 1, bytes)?;
        let slot = Slot::decode(bytes);
        match self.slots.get_mut(at) {
            Some(place) => *place = slot,
            None => self.slots.push(slot),
        }
        Ok(())
    }

    /// Makes a record free.
    pub(super) fn free(&mut self, at: usize) -> Result<()> {
        self.write(at, &FREE)?;
        // A long table costs every call a little more, and that is all.
        drop(self.shorten());
        Ok(())
    }

    /// Cuts a long free end off: a burst of leases must not slow down every call until the next boot.
    fn shorten(&mut self) -> Result<()> {
        let is_used = |slot: &Slot| !matches!(slot, Slot::Free);
        let used = self.slots.iter().rposition(is_used).map_or(0, |at| at + 1);
        if self.slots.len() - used < M::SPARE {
            return Ok(());
        }
        // The header first: a table with fewer records than it counts is taken for one that was harmed.
        self.header.records = count(&self.slots[..used]);
        self.save_header()?;
        self.machine.cut_table(&self.file, used + 1)?;
        self.slots.truncate(used);
        Ok(())
    }

    /// The place for a new record.
    pub(super) fn free_place(&self) -> usize {
        self.slots
            .iter()
            .position(|slot| *slot == Slot::Free)
            .unwrap_or(self.slots.len())
    }

    /// The next generation, already in force: the header is written before anything that shows it. There is
    /// a place for its record then that the header counts, so that a table which is cut short is noticed.
    pub(super) fn next_generation(&mut self) -> Result<u64> {
        let place = self.free_place();
        if place == self.slots.len() {
            self.write(place, &FREE)?;
        }
        self.header.records = count(&self.slots);
        self.header.counter = self.header.counter.checked_add(1).ok_or_else(|| {
            Error::internal("the lease table has granted 2^32 leases since this boot")
        })?;
        self.save_header()?;
        Ok(u64::from(self.header.epoch) << 32 | u64::from(self.header.counter))
    }
}

fn count<T>(records: &[T]) -> u32 {
    u32::try_from(records.len()).unwrap_or(u32::MAX)
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

fn begin(machine: &impl Machine, found: Read) -> Result<Begun> {
    let files = machine.files()?;
    let (old, damaged) = match found {
        Read::Usable(header, slots) => (Some((header, slots)), false),
        Read::Over(old) => (old, false),
        Read::Damaged => (None, true),
    };
    let mut epoch = machine.epoch();
    for (_, generation) in &files.details {
        epoch = epoch.max(high_half(*generation));
    }
    let mut ended = Over::default();
    if let Some((header, slots)) = old {
        epoch = epoch.max(header.epoch);
        ended.boot = header.boot;
        for slot in slots {
            if let Slot::Lease(record) = slot {
                let details = machine.details(record.task, record.generation);
                ended.leases.push((record, details));
            }
        }
    }
    let epoch = epoch
        .checked_add(1)
        .ok_or_else(|| Error::internal("the lease epoch has reached its end"))?;
    if damaged {
        machine.put_table_aside(epoch)?;
    }
    machine.save_epoch(epoch)?;
    crash_point!("leases.epoch");
    let slots = files.sweep(machine, &BTreeSet::new());
    let header = Header {
        boot: machine.boot(),
        epoch,
        counter: 0,
        hand: 0,
        records: count(&slots),
    };
    let mut blocks = vec![header.encode()];
    blocks.extend(slots.iter().map(Record::encode));
    machine.replace_table(&blocks)?;
    crash_point!("leases.table");
    Ok((header, slots.into_iter().map(Slot::Lease).collect(), ended))
}

fn high_half(generation: u64) -> u32 {
    u32::try_from(generation >> 32).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::{Read, understand};
    use crate::id::{ProviderKind, Task};
    use crate::lease::details::{self, terms};
    use crate::lease::record::{Slot, Stage, Takes};
    use crate::store::inplace::Blocks;
    use camino::Utf8Path;

    const BOOT: [u8; 16] = [
        0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee,
        0xff,
    ];
    const FIRST: u64 = (7 << 32) + 1;

    #[test]
    fn a_table_of_version_1_is_read_for_ever() {
        let fixture = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/state/v1/leases");
        let path = fixture.join("table");
        let blocks = Blocks::open_read_only(&path).unwrap().read().unwrap();
        let Read::Usable(header, slots) = understand(&blocks, &path, BOOT).unwrap() else {
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
