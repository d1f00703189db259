//! A lease table in memory whose bytes were changed: what the protocol makes of it.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use camino::Utf8PathBuf;
use jiff::Timestamp;

use super::details::{self, Details};
use super::holder::{Holder, Sighting};
use super::leases::Leases;
use super::leftover::Files;
use super::machine::{Access, Bound, Machine};
use super::name::Name;
use super::record::{Bytes, FREE, Header, Record, SIZE, Slot, Stage, Takes, encode_pick};
use super::witness::{Probe, Witness};
use super::{Choice, Force, Hold, Request};
use crate::clock::BootTime;
use crate::error::{Error, Result, code};
use crate::id::{ProfileId, ProviderKind, Task, TaskKey};
use crate::store::lock::Mode;

const BOOT: [u8; 16] = [1; 16];
const NOW: u64 = 1_000_000;
/// The namespace in which the pids of [`TASKS`] live.
const NAMESPACE: u64 = 4_026_531_836;
const EPOCH: u32 = 7;
const PROFILES: [&str; 2] = ["claude-1", "claude-2"];
/// Tasks with the profile they are on. The first three run; the last is a reservation.
const TASKS: [(&str, usize); 4] = [("a", 0), ("b", 0), ("c", 1), ("d", 1)];
const RUNNING: usize = 3;

/// The machine: bytes, details, and three workers that live.
#[derive(Debug, Default)]
struct Memory {
    table: RefCell<Option<Vec<Bytes>>>,
    epoch: Cell<u32>,
    details: RefCell<BTreeMap<(TaskKey, u64), Details>>,
    held: RefCell<BTreeSet<TaskKey>>,
    files: RefCell<BTreeSet<TaskKey>>,
}

impl Machine for Memory {
    type Table = ();
    type Guard = ();
    const SPARE: usize = 1;

    fn lock(&self, _: Mode) -> Result<()> {
        Ok(())
    }
    fn pause(&self, _: Duration) {}
    fn since_boot(&self) -> BootTime {
        BootTime(NOW)
    }
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }
    fn boot(&self) -> [u8; 16] {
        BOOT
    }
    fn sight(&self, holder: &Holder) -> Sighting {
        if holder.boot != BOOT {
            Sighting::OtherBoot
        } else if holder.namespace != NAMESPACE {
            Sighting::OtherNamespace
        } else if (1..=RUNNING).any(|pid| holder.pid as usize == pid && holder.start == 1) {
            Sighting::Alive
        } else {
            Sighting::Gone
        }
    }
    fn probe(&self, task: TaskKey) -> Probe {
        if self.held.borrow().contains(&task) {
            Probe::Held
        } else {
            Probe::Free
        }
    }
    fn take_witness(&self, task: TaskKey) -> Result<Option<Witness>> {
        self.files.borrow_mut().insert(task);
        Ok(self.held.borrow_mut().insert(task).then(Witness::pretend))
    }
    fn give_up(&self, _: Witness) {}
    fn unlink_witness(&self, task: TaskKey) -> Result<()> {
        if self.probe(task) == Probe::Free {
            self.files.borrow_mut().remove(&task);
        }
        Ok(())
    }
    fn table_path(&self) -> Utf8PathBuf {
        "/state/leases/table".into()
    }
    fn open_table(&self, _: Access) -> Result<Option<()>> {
        Ok(self.table.borrow().is_some().then_some(()))
    }
    fn read_table(&self, (): &()) -> Result<Vec<Bytes>> {
        Ok(self.table.borrow().clone().unwrap_or_default())
    }
    fn write_block(&self, (): &(), at: usize, bytes: &Bytes) -> Result<()> {
        let mut table = self.table.borrow_mut();
        let table = table.get_or_insert_default();
        if at >= table.len() {
            table.resize(at + 1, FREE);
        }
        table[at] = *bytes;
        Ok(())
    }
    fn cut_table(&self, (): &(), blocks: usize) -> Result<()> {
        if let Some(table) = &mut *self.table.borrow_mut() {
            table.truncate(blocks);
        }
        Ok(())
    }
    fn replace_table(&self, blocks: &[Bytes]) -> Result<()> {
        *self.table.borrow_mut() = Some(blocks.to_vec());
        Ok(())
    }
    fn put_table_aside(&self, _: u32) -> Result<()> {
        *self.table.borrow_mut() = None;
        Ok(())
    }
    fn epoch(&self) -> u32 {
        self.epoch.get()
    }
    fn save_epoch(&self, epoch: u32) -> Result<()> {
        self.epoch.set(epoch);
        Ok(())
    }
    fn files(&self) -> Result<Files> {
        Ok(Files {
            details: self.details.borrow().keys().copied().collect(),
            witnesses: self.files.borrow().clone(),
        })
    }
    fn details(&self, task: TaskKey, generation: u64) -> Option<Details> {
        self.details.borrow().get(&(task, generation)).cloned()
    }
    fn save_details(&self, generation: u64, details: &Details) -> Result<()> {
        let key = (details.task.key(), generation);
        self.details.borrow_mut().insert(key, details.clone());
        Ok(())
    }
    fn save_labels(&self, _: &Bound<'_>) -> Result<()> {
        Ok(())
    }
    fn remove_details(&self, task: TaskKey, generation: u64) {
        self.details.borrow_mut().remove(&(task, generation));
    }
}

fn task(name: &str) -> Task {
    name.parse().expect("a task")
}

fn profile(number: usize) -> ProfileId {
    PROFILES[number].parse().expect("an id")
}

/// A whole table: three workers, a reservation, a pick and a free record.
fn whole() -> Memory {
    let machine = Memory::default();
    let mut blocks = vec![FREE];
    for (at, (name, on)) in TASKS.into_iter().enumerate() {
        let task = task(name);
        let key = task.key();
        let generation = (u64::from(EPOCH) << 32) + at as u64 + 1;
        let workspace = Utf8PathBuf::from("/work");
        let terms = details::terms(Some(&workspace), None);
        let stage = if at < RUNNING {
            machine.held.borrow_mut().insert(key);
            machine.files.borrow_mut().insert(key);
            Stage::Running {
                pid: u32::try_from(at).unwrap_or(0) + 1,
                start: 1,
                namespace: NAMESPACE,
                unique: 0,
                bound: 0,
                takes: Takes::Slot,
            }
        } else {
            Stage::Reserved {
                expires: NOW + 10_000,
            }
        };
        let record = Record {
            stage,
            profile: Name::from(&profile(on)),
            provider: ProviderKind::Claude,
            task: key,
            terms,
            generation,
            created: 0,
        };
        let details = Details {
            schema: 1,
            task,
            pool: None,
            workspace: Some(workspace),
            profile: profile(on),
            provider: ProviderKind::Claude,
            labels: BTreeMap::new(),
            created_at: Timestamp::UNIX_EPOCH,
        };
        machine
            .details
            .borrow_mut()
            .insert((key, generation), details);
        blocks.push(record.encode());
    }
    blocks.push(encode_pick(&profile(0), u64::from(EPOCH) << 32));
    blocks.push(FREE);
    let header = Header {
        boot: BOOT,
        epoch: EPOCH,
        counter: 9,
        hand: 0,
        records: u32::try_from(blocks.len() - 1).unwrap_or(0),
    };
    blocks[0] = header.encode();
    machine.epoch.set(EPOCH);
    *machine.table.borrow_mut() = Some(blocks);
    machine
}

/// How the bytes were changed.
#[derive(Clone, Copy, Debug, Default)]
struct Harm {
    /// The header says something else, or is damaged, or the table is shorter.
    table: bool,
    /// A changed record has a good checksum: a program wrote it, and it is believed.
    forged: bool,
}

/// Changes the table: block, offset, value, and in the last of four bytes whether the checksum is made good (1), the
/// table is cut at this block (2), or the details of the block's lease are lost (4).
fn harm(machine: &Memory, bytes: &[u8]) -> Harm {
    let mut done = Harm::default();
    let mut table = machine.table.borrow_mut();
    let blocks = table.get_or_insert_default();
    let before = blocks.clone();
    let (mut sealed, mut lost) = (BTreeSet::new(), BTreeSet::new());
    for change in bytes.as_chunks::<4>().0.iter().take(64) {
        let [block, offset, value, how] = *change;
        let at = usize::from(block) % before.len();
        if how & 2 != 0 && at < blocks.len() {
            blocks.truncate(at);
            done.table = true;
        }
        if how & 4 != 0 {
            lost.insert(at);
            continue;
        }
        if let Some(block) = blocks.get_mut(at) {
            block[usize::from(offset) % SIZE] = value;
            if how & 1 != 0 {
                sealed.insert(at);
            }
        }
    }
    for (at, block) in blocks.iter_mut().enumerate() {
        if sealed.contains(&at) {
            let sum = crc32fast::hash(&block[..SIZE - 4]);
            block[SIZE - 4..].copy_from_slice(&sum.to_le_bytes());
        }
        if *block != before[at] {
            done.table |= at == 0;
            done.forged |= match at {
                0 => Header::decode(block).is_ok(),
                _ => !matches!(Slot::decode(block), Slot::Damaged { .. }),
            };
            // Without its details, nothing but the name says whose it is.
            done.forged |=
                lost.contains(&at) && (block[2], name(block)) != (before[at][2], name(&before[at]));
        }
    }
    // A new table is made of the details.
    done.forged |= done.table && !lost.is_empty();
    let all = machine.details.borrow().keys().copied().collect::<Vec<_>>();
    for key in all {
        // The low half of a generation is the number of the block.
        if lost.contains(&usize::try_from(key.1 & 0xff).unwrap_or(0)) {
            machine.remove_details(key.0, key.1);
        }
    }
    done
}

fn name(block: &Bytes) -> &[u8] {
    &block[120..248]
}

/// Whatever became of the table: no call panics, a worker that lives keeps its slot and its task, and a record that
/// cannot be read keeps its slot and its bytes until a person settles it.
pub fn lease_table(bytes: &[u8]) {
    let machine = whole();
    let harm = harm(&machine, bytes);
    let before = machine.table.borrow().clone().unwrap_or_default();
    let leases = Leases::on(machine);
    let listed = match leases.list_leases() {
        Ok(listed) => listed,
        Err(error) => {
            assert!(harm.table, "{error}");
            assert!(
                error.code == code::NEWER_FORMAT || error.message.contains("epoch"),
                "{error}"
            );
            return;
        }
    };
    let forged = harm.forged;
    for number in 0..PROFILES.len() {
        let held = |tasks: &[(&str, usize)]| -> u32 {
            let count = tasks.iter().filter(|(_, on)| *on == number).count();
            u32::try_from(count).unwrap_or(u32::MAX)
        };
        let living = held(if harm.table {
            &TASKS[..RUNNING]
        } else {
            &TASKS
        });
        let wanted = profile(number);
        let used = leases.verified_occupancy().map(|used| used.live(&wanted));
        assert!(
            forged || used.as_ref().is_ok_and(|used| *used >= living),
            "{wanted} has {living} and shows {used:?}"
        );
        let request = Request {
            task: task("new"),
            workspace: "/work".into(),
            pool: None,
            provider: None,
            profile: None,
            labels: BTreeMap::new(),
            hold: Hold::Later(Duration::from_secs(10)),
        };
        let mut pick = |_: &super::Occupancy| {
            Ok(Choice::Take {
                profile: wanted.clone(),
                provider: ProviderKind::Claude,
                cap: living,
            })
        };
        let ahead = leases.look_ahead();
        let granted = leases.attempt(|locked| locked.reserve(&request, &ahead, &mut pick));
        assert!(
            forged || granted.is_err(),
            "a slot of {wanted} was given twice"
        );
    }
    for (name, _) in TASKS {
        let task = task(name);
        drop(leases.look_up(task.key()));
        drop(leases.find_lease(&task));
        let released: Result<_> = leases.attempt(|locked| locked.release(&task, Force::No));
        let lives = TASKS[..RUNNING].iter().any(|(other, _)| *other == name);
        assert!(
            forged || !lives || released.is_err(),
            "{name} was released although it lives"
        );
    }
    if !harm.table {
        let after = leases.machine.table.borrow().clone().unwrap_or_default();
        for damaged in &listed.damaged {
            let at = damaged.record as usize + 1;
            assert_eq!(
                before.get(at),
                after.get(at),
                "a damaged record was written over"
            );
        }
    }
    for damaged in listed.damaged {
        let settled: Result<_, Error> = leases.attempt(|locked| {
            locked
                .settle(damaged.record)
                .map(super::leases::Attempt::Done)
        });
        assert!(harm.table || settled.is_ok(), "{settled:?}");
    }
}
