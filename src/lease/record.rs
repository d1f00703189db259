//! The bytes of the lease table: a header and fixed-size records, each with its own checksum.
//!
//! Integers are little-endian. Offsets in a record:
//!
//! ```text
//!   0 state     1 provider   2 profile length   3 zero     4 pid (4)
//!   8 task key (32)         40 digest of workspace and pool (16)
//!  56 generation (8)        64 process start (8)           72 pid namespace (8)
//!  80 created, wall ms (8)  88 bound, wall ms (8)          96 expires, boot ms (8)
//! 104 unique number (8)    112 zero (8)
//! 120 profile (128)        248 zero (4)                 252 crc32 of 0..252 (4)
//! ```
//!
//! A record of zeros alone is free. The header stands in the place of the first:
//!
//! ```text
//!   0 `afleases`  8 version (4)  12 epoch (4)  16 boot id (16)  32 counter (4)  36 hand (4)
//!  40 records (4)                                                252 crc32 of 0..252 (4)
//! ```
//!
//! The boot id stands there once: all records are of that boot.

use super::name::Name;
use crate::id::{ProfileId, ProviderKind, TaskKey};

/// Bytes of a record, and of the header.
pub(super) const SIZE: usize = 256;
/// Version of this layout.
pub(super) const VERSION: u32 = 1;
const MAGIC: &[u8; 8] = b"afleases";
const CHECKED: usize = SIZE - 4;
const PROFILE_AT: usize = 120;

/// One record's bytes.
pub(super) type Bytes = [u8; SIZE];
/// A free record.
pub(super) const FREE: Bytes = [0; SIZE];

/// What the header holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// The boot that all records are of.
    pub(super) boot: [u8; 16],
    /// High half of generations.
    pub(super) epoch: u32,
    /// Low half of the last generation granted.
    pub(super) counter: u32,
    /// Where the next window of verification starts.
    pub(super) hand: u32,
    /// A number of records that the table had; with fewer it was cut short.
    pub(super) records: u32,
}

/// Why a header is not usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderFault {
    /// Not a header of ours, or damaged.
    Unreadable,
    /// Written by a newer version of this program.
    Newer(u32),
}

/// What a lease record says of its task's stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Waits for its process until this boot time in milliseconds.
    Reserved {
        /// Boot time in milliseconds.
        expires: u64,
    },
    /// Bound to a process.
    Running {
        /// Its pid.
        pid: u32,
        /// Its kernel start time.
        start: u64,
        /// Its pid namespace; 0 when unknown.
        namespace: u64,
        /// The kernel's unique number of the process; 0 where it has none.
        unique: u64,
        /// When it was bound, wall milliseconds since 1970.
        bound: i64,
        /// What it takes of its profile.
        takes: Takes,
    },
}

/// What a running lease takes of its profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    /// One slot.
    Slot,
    /// Every slot: a probe.
    Profile,
    /// None: it was released by force, and only keeps its task owned while its witness is held.
    Nothing,
}

/// A lease in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Its stage.
    pub(super) stage: Stage,
    /// The leased profile.
    pub(super) profile: Name,
    /// Its provider.
    pub(super) provider: ProviderKind,
    /// Its task.
    pub(super) task: TaskKey,
    /// Digest of workspace and pool.
    pub(super) terms: [u8; 16],
    /// The grant's number.
    pub(super) generation: u64,
    /// When it was granted, wall milliseconds since 1970.
    pub(super) created: i64,
}

/// A record as read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// Nothing.
    Free,
    /// A lease.
    Lease(Record),
    /// The generation of a profile's last grant.
    Pick {
        /// Whose.
        profile: Name,
        /// The grant's number.
        generation: u64,
    },
    /// The checksum fails, or the content makes no sense.
    Damaged {
        /// The profile whose name is still readable.
        profile: Option<Name>,
        /// What stands where the task key is.
        task: TaskKey,
        /// What stands where the generation is.
        generation: u64,
    },
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut value = [0; N];
    if let Some(source) = bytes.get(at..at + N) {
        value.copy_from_slice(source);
    }
    value
}

fn put(bytes: &mut Bytes, at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn seal(bytes: &mut Bytes) {
    let sum = crc32fast::hash(&bytes[..CHECKED]);
    put(bytes, CHECKED, &sum.to_le_bytes());
}

fn is_sealed(bytes: &Bytes) -> bool {
    crc32fast::hash(&bytes[..CHECKED]).to_le_bytes() == bytes[CHECKED..]
}

impl Header {
    /// The bytes of the header.
    pub(super) fn encode(&self) -> Bytes {
        let mut bytes = FREE;
        put(&mut bytes, 0, MAGIC);
        put(&mut bytes, 8, &VERSION.to_le_bytes());
        put(&mut bytes, 12, &self.epoch.to_le_bytes());
        put(&mut bytes, 16, &self.boot);
        put(&mut bytes, 32, &self.counter.to_le_bytes());
        put(&mut bytes, 36, &self.hand.to_le_bytes());
        put(&mut bytes, 40, &self.records.to_le_bytes());
        seal(&mut bytes);
        bytes
    }

    /// Reads a header back.
    pub(super) fn decode(bytes: &Bytes) -> Result<Self, HeaderFault> {
        if !bytes.starts_with(MAGIC) || !is_sealed(bytes) {
            return Err(HeaderFault::Unreadable);
        }
        let word = |at| u32::from_le_bytes(number(bytes, at));
        match word(8) {
            VERSION => Ok(Self {
                epoch: word(12),
                boot: number(bytes, 16),
                counter: word(32),
                hand: word(36),
                records: word(40),
            }),
            newer if newer > VERSION => Err(HeaderFault::Newer(newer)),
            _ => Err(HeaderFault::Unreadable),
        }
    }
}

const RESERVED: u8 = 1;
const RUNNING: u8 = 2;
const PICK: u8 = 3;
const PROBE: u8 = 4;
const EVICTED: u8 = 5;

fn provider_number(provider: ProviderKind) -> u8 {
    match provider {
        ProviderKind::Claude => 1,
        ProviderKind::Codex => 2,
        ProviderKind::Scripted => 3,
    }
}

fn put_profile(bytes: &mut Bytes, profile: &Name) {
    bytes[2] = profile.length();
    put(bytes, PROFILE_AT, profile.padded());
}

impl Record {
    /// Whether it takes every slot of its profile.
    pub(super) fn is_probe(&self) -> bool {
        self.takes() == Some(Takes::Profile)
    }

    /// Whether it only keeps its task owned, after a forced release.
    pub(super) fn is_evicted(&self) -> bool {
        self.takes() == Some(Takes::Nothing)
    }

    fn takes(&self) -> Option<Takes> {
        match self.stage {
            Stage::Reserved { .. } => None,
            Stage::Running { takes, .. } => Some(takes),
        }
    }

    /// The bytes of the record.
    pub(super) fn encode(&self) -> Bytes {
        let mut bytes = FREE;
        bytes[1] = provider_number(self.provider);
        put(&mut bytes, 8, &self.task.0);
        put(&mut bytes, 40, &self.terms);
        put(&mut bytes, 56, &self.generation.to_le_bytes());
        put(&mut bytes, 80, &self.created.to_le_bytes());
        match self.stage {
            Stage::Reserved { expires } => {
                bytes[0] = RESERVED;
                put(&mut bytes, 96, &expires.to_le_bytes());
            }
            Stage::Running {
                pid,
                start,
                namespace,
                unique,
                bound,
                takes,
            } => {
                bytes[0] = match takes {
                    Takes::Slot => RUNNING,
                    Takes::Profile => PROBE,
                    Takes::Nothing => EVICTED,
                };
                put(&mut bytes, 4, &pid.to_le_bytes());
                put(&mut bytes, 64, &start.to_le_bytes());
                put(&mut bytes, 72, &namespace.to_le_bytes());
                put(&mut bytes, 104, &unique.to_le_bytes());
                put(&mut bytes, 88, &bound.to_le_bytes());
            }
        }
        put_profile(&mut bytes, &self.profile);
        seal(&mut bytes);
        bytes
    }
}

/// The bytes of a pick record.
pub(super) fn encode_pick(profile: &ProfileId, generation: u64) -> Bytes {
    let mut bytes = FREE;
    bytes[0] = PICK;
    put(&mut bytes, 56, &generation.to_le_bytes());
    put_profile(&mut bytes, &Name::from(profile));
    seal(&mut bytes);
    bytes
}

impl Slot {
    /// Reads a record back.
    pub(super) fn decode(bytes: &Bytes) -> Self {
        if *bytes == FREE {
            return Self::Free;
        }
        let profile = Name::read(bytes[2], number(bytes, PROFILE_AT));
        let task = TaskKey(number(bytes, 8));
        let generation = u64::from_le_bytes(number(bytes, 56));
        if is_sealed(bytes)
            && let Some(profile) = profile
            && let Some(slot) = Self::whole(bytes, profile, task, generation)
        {
            return slot;
        }
        Self::Damaged {
            profile,
            task,
            generation,
        }
    }

    fn whole(bytes: &Bytes, profile: Name, task: TaskKey, generation: u64) -> Option<Self> {
        let long = |at| u64::from_le_bytes(number(bytes, at));
        let stage = match bytes[0] {
            PICK => {
                return Some(Self::Pick {
                    profile,
                    generation,
                });
            }
            RESERVED => Stage::Reserved { expires: long(96) },
            state @ (RUNNING | PROBE | EVICTED) => Stage::Running {
                pid: u32::from_le_bytes(number(bytes, 4)),
                start: long(64),
                namespace: long(72),
                unique: long(104),
                bound: i64::from_le_bytes(number(bytes, 88)),
                takes: match state {
                    PROBE => Takes::Profile,
                    EVICTED => Takes::Nothing,
                    _ => Takes::Slot,
                },
            },
            _ => return None,
        };
        let provider = ProviderKind::ALL
            .into_iter()
            .find(|provider| provider_number(*provider) == bytes[1])?;
        Some(Self::Lease(Record {
            stage,
            profile,
            provider,
            task,
            terms: number(bytes, 40),
            generation,
            created: i64::from_le_bytes(number(bytes, 80)),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Bytes, FREE, Header, HeaderFault, Name, Record, Slot, Stage, Takes, encode_pick, put, seal,
    };
    use crate::id::{ProviderKind, Task};
    use proptest::prelude::*;

    fn name(profile: &str) -> Name {
        Name::from(&profile.parse().unwrap())
    }

    fn record(stage: Stage, profile: &str, provider: ProviderKind, generation: u64) -> Record {
        Record {
            stage,
            profile: name(profile),
            provider,
            task: "a task".parse::<Task>().unwrap().key(),
            terms: [7; 16],
            generation,
            created: 1_700_000_000_123,
        }
    }

    fn stage() -> impl Strategy<Value = Stage> {
        prop_oneof![
            any::<u64>().prop_map(|expires| Stage::Reserved { expires }),
            (
                any::<u32>(),
                any::<u64>(),
                any::<u64>(),
                any::<u64>(),
                any::<i64>(),
                prop::sample::select(vec![Takes::Slot, Takes::Profile, Takes::Nothing])
            )
                .prop_map(|(pid, start, namespace, unique, bound, takes)| {
                    Stage::Running {
                        pid,
                        start,
                        namespace,
                        unique,
                        bound,
                        takes,
                    }
                }),
        ]
    }

    proptest! {
        #[test]
        fn a_record_reads_back_as_written(
            stage in stage(),
            profile in "[A-Za-z0-9][A-Za-z0-9._-]{0,127}",
            provider in prop::sample::select(ProviderKind::ALL.to_vec()),
            generation in any::<u64>(),
        ) {
            let record = record(stage, &profile, provider, generation);
            prop_assert_eq!(Slot::decode(&record.encode()), Slot::Lease(record));
            let pick = encode_pick(&profile.parse().unwrap(), generation);
            prop_assert_eq!(
                Slot::decode(&pick),
                Slot::Pick { profile: name(&profile), generation }
            );
        }

        #[test]
        fn any_changed_bit_is_seen(stage in stage(), at in 0..2048_usize) {
            let mut bytes = record(stage, "claude-1", ProviderKind::Claude, 9).encode();
            bytes[at / 8] ^= 1 << (at % 8);
            let seen = matches!(Slot::decode(&bytes), Slot::Damaged { .. });
            prop_assert!(seen, "bit {} of byte {}", at % 8, at / 8);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(head in prop::collection::vec(any::<u8>(), 256)) {
            let mut bytes: Bytes = FREE;
            bytes.copy_from_slice(&head);
            let slot = Slot::decode(&bytes);
            let header = Header::decode(&bytes);
            let damaged = matches!(slot, Slot::Damaged { .. });
            prop_assert!(damaged && header == Err(HeaderFault::Unreadable));
        }
    }

    #[test]
    fn a_damaged_record_still_counts_against_its_profile_and_task() {
        let whole = record(
            Stage::Reserved { expires: 5 },
            "codex-2",
            ProviderKind::Codex,
            77,
        );
        let mut bytes = whole.encode();
        bytes[100] ^= 0xff;
        assert_eq!(
            Slot::decode(&bytes),
            Slot::Damaged {
                profile: Some(whole.profile),
                task: whole.task,
                generation: 77
            }
        );
    }

    #[test]
    fn a_newer_header_is_told_from_a_damaged_one() {
        let header = Header {
            boot: [3; 16],
            epoch: 4,
            counter: 5,
            hand: 6,
            records: 7,
        };
        let mut bytes = header.encode();
        assert_eq!(Header::decode(&bytes), Ok(header));
        put(&mut bytes, 8, &2_u32.to_le_bytes());
        assert_eq!(Header::decode(&bytes), Err(HeaderFault::Unreadable));
        seal(&mut bytes);
        assert_eq!(Header::decode(&bytes), Err(HeaderFault::Newer(2)));
        assert_eq!(Header::decode(&FREE), Err(HeaderFault::Unreadable));
    }
}
