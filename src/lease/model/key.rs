//! What makes two states the same: everything but the numbers that only their order counts of.
//!
//! Generations and epochs count by rank, times by whether they have passed, start times by whether the process
//! still lives. So the states are finite although the counters grow for ever.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::names::{place_of, profile_of, task_of};
use super::state::{Doing, State, Work};
use crate::choose::turn::Place;
use crate::lease::record::{Header, Slot, Stage, Takes};

/// 128 bits of what a state is.
pub(super) fn key(state: &State) -> u128 {
    let bytes = Key::of(state).bytes;
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        salt.hash(&mut hasher);
        bytes.hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(1) << 64 | half(2)
}

struct Key {
    bytes: Vec<u8>,
    generations: Vec<u64>,
    epochs: Vec<u64>,
}

fn high(generation: u64) -> u64 {
    generation >> 32
}

fn small(number: usize) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

impl Key {
    fn of(state: &State) -> Self {
        let table = state.world.table.as_deref().unwrap_or_default();
        let header = table.first().map(Header::decode);
        let slots = state.slots();
        let mut key = Self {
            bytes: Vec::with_capacity(256),
            generations: Vec::new(),
            epochs: vec![u64::from(state.world.epoch)],
        };
        key.collect(state, &slots);
        if let Some(Ok(header)) = header {
            let counter = u64::from(header.counter);
            key.generations
                .push(u64::from(header.epoch) << 32 | counter);
            key.epochs.push(u64::from(header.epoch));
        }
        key.epochs.extend(
            key.generations
                .iter()
                .map(|it| high(*it))
                .collect::<Vec<_>>(),
        );
        for list in [&mut key.generations, &mut key.epochs] {
            list.sort_unstable();
            list.dedup();
        }
        key.epoch(u64::from(state.world.epoch));
        match header {
            None => key.flag(0),
            Some(Err(_)) => key.flag(1),
            Some(Ok(header)) => {
                key.flag(2 + u8::from(header.boot == [state.world.boot + 1; 16]));
                key.generation(u64::from(header.epoch) << 32 | u64::from(header.counter));
                key.flag(small(header.records as usize));
            }
        }
        for slot in &slots {
            key.slot(state, slot);
        }
        key.rest(state, &slots);
        key
    }

    fn collect(&mut self, state: &State, slots: &[Slot]) {
        for slot in slots {
            match slot {
                Slot::Free => {}
                Slot::Lease(record) => self.generations.push(record.generation),
                Slot::Pick { generation, .. } | Slot::Damaged { generation, .. } => {
                    self.generations.push(*generation);
                }
            }
        }
        let details = state
            .world
            .details
            .keys()
            .map(|(_, generation)| *generation);
        self.generations.extend(details);
        self.generations.push(state.highest);
        let reserved = state.reserved.iter().flatten().map(|it| it.generation);
        self.generations.extend(reserved);
        self.generations
            .extend(state.working().map(|it| it.generation));
        self.generations
            .extend(state.closing().map(|it| it.generation));
        self.generations
            .extend(state.survivors.iter().map(|it| it.work.generation));
    }

    fn flag(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    fn rank(&mut self, rank: Option<usize>) {
        self.flag(rank.map_or(u8::MAX, small));
    }

    /// Rank and epoch: two epochs may have grants in between.
    fn generation(&mut self, generation: u64) {
        self.rank(self.generations.iter().position(|it| *it == generation));
        self.epoch(high(generation));
    }

    fn epoch(&mut self, epoch: u64) {
        self.rank(self.epochs.iter().position(|it| *it == epoch));
    }

    fn slot(&mut self, state: &State, slot: &Slot) {
        match slot {
            Slot::Free => self.flag(10),
            Slot::Pick {
                profile,
                generation,
            } => {
                self.flag(11);
                self.bytes.extend(profile.as_str().bytes());
                self.generation(*generation);
            }
            Slot::Damaged {
                profile,
                task,
                generation,
            } => {
                self.flag(12);
                self.bytes
                    .extend(profile.iter().flat_map(|name| name.as_str().bytes()));
                self.rank(task_of(*task));
                self.generation(*generation);
            }
            Slot::Lease(record) => {
                self.flag(13);
                self.rank(task_of(record.task));
                self.rank(profile_of(record));
                self.rank(place_of(record));
                self.generation(record.generation);
                match record.stage {
                    Stage::Reserved { expires } => {
                        self.flag(u8::from(expires > state.world.now));
                    }
                    Stage::Running {
                        namespace, takes, ..
                    } => {
                        self.bytes.extend(namespace.to_le_bytes());
                        self.flag(match takes {
                            Takes::Slot => 0,
                            Takes::Profile => 1,
                            Takes::Nothing => 2,
                        });
                    }
                }
            }
        }
    }

    fn work(&mut self, work: &Work) {
        for number in [work.task, work.profile, work.place] {
            self.flag(small(number));
        }
        self.generation(work.generation);
        self.flag(u8::from(work.evicted) + 2 * u8::from(work.probes));
    }

    /// Whose witness file an inode is.
    fn inode(&mut self, state: &State, inode: Option<u32>) {
        let mut files = state.world.live.iter();
        let file = inode.and_then(|inode| files.find(|(_, it)| **it == inode));
        self.flag(u8::from(inode.is_some()));
        self.rank(file.and_then(|(task, _)| task_of(*task)));
    }

    fn rest(&mut self, state: &State, slots: &[Slot]) {
        self.flag(30);
        for ((task, generation), details) in &state.world.details {
            self.rank(task_of(*task));
            self.generation(*generation);
            self.bytes.extend(details.profile.as_str().bytes());
            self.flag(u8::from(details.workspace.is_some()));
        }
        self.flag(31);
        for task in state.world.live.keys() {
            self.rank(task_of(*task));
        }
        let mut order: Vec<_> = state
            .processes
            .iter()
            .filter_map(|it| it.ticket.as_ref())
            .collect();
        order.sort_by(|one, other| one.place.cmp(&other.place));
        let order: Vec<_> = order.into_iter().map(|it| it.place.clone()).collect();
        let mut each: Vec<Vec<u8>> = Vec::new();
        for pid in 0..state.processes.len() {
            let start = self.bytes.len();
            self.process(state, slots, &order, pid);
            each.push(self.bytes.split_off(start));
        }
        for survivor in &state.survivors {
            let start = self.bytes.len();
            self.flag(40 + u8::from(survivor.dying));
            self.inode(state, Some(survivor.witness));
            self.work(&survivor.work);
            each.push(self.bytes.split_off(start));
        }
        // Which pid a process has makes no difference but to the records that name it.
        each.sort();
        self.bytes.extend(each.into_iter().flatten());
        for reserved in state.reserved {
            self.flag(50);
            if let Some(reserved) = reserved.filter(|it| it.expires > state.world.now) {
                self.flag(small(reserved.profile));
                self.generation(reserved.generation);
                self.flag(small(reserved.place));
            }
        }
        self.generation(state.highest);
        let budget = state.budget;
        self.bytes.extend([
            budget.crashes,
            budget.remains,
            budget.forces,
            budget.reboots,
            budget.losses,
            budget.damages,
            u8::from(state.harmed),
        ]);
    }

    fn process(&mut self, state: &State, slots: &[Slot], order: &[Place], pid: usize) {
        let process = &state.processes[pid];
        for (at, slot) in slots.iter().enumerate() {
            if let Slot::Lease(record) = slot
                && let Stage::Running {
                    pid: named, start, ..
                } = record.stage
                && named as usize == pid + 1
            {
                self.flag(60 + small(at));
                self.flag(u8::from(start == process.start));
            }
        }
        self.flag(30 + u8::from(process.foreign));
        self.flag(32 + u8::from(process.start > 0));
        self.inode(state, process.witness);
        match &process.doing {
            Doing::Nothing => self.flag(0),
            Doing::Working(work) => {
                self.flag(1);
                self.work(work);
            }
            Doing::Closing(work) => {
                self.flag(2);
                self.work(work);
            }
            Doing::Asking(asking) => {
                self.flag(3);
                self.flag(asking.ask.want as u8);
                self.flag(small(asking.ask.task));
                self.flag(asking.ask.wishes);
                self.flag(small(asking.ask.place));
                self.flag(small(asking.attempts as usize));
                self.flag(u8::from(asking.looked));
                for suspect in &asking.ahead.suspects {
                    if self.generations.contains(suspect) {
                        self.generation(*suspect);
                    }
                }
                for place in &asking.first {
                    self.rank(order.iter().position(|it| it == place));
                }
                let mut hasher = DefaultHasher::new();
                asking.stale.hash(&mut hasher);
                self.bytes.extend(hasher.finish().to_le_bytes());
            }
        }
        if let Some(ticket) = &process.ticket {
            self.rank(order.iter().position(|it| *it == ticket.place));
            self.flag(ticket.wishes);
            let silent = state.world.now - ticket.heard;
            self.flag(if ticket.heard == 0 {
                2
            } else {
                u8::from(silent == 0)
            });
        }
    }
}
