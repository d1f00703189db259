//! Many processes that reserve, bind, release and die at random, against independent kernel locks.
//!
//! The truth is kept by `flock`s that each worker takes on files of its own while it believes to hold a lease:
//! one per task, one per slot of a profile. A task's lock that is taken already means two owners; no free
//! slot's lock means a profile over its cap. `AGENT_FLEET_STORM_SECONDS=30 cargo test --features
//! test-fakes storm` runs it longer.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use agent_fleet::clock::Clock;
use agent_fleet::env::{Faults, Variables};
use agent_fleet::error::{Result, code};
use agent_fleet::lease::{Granted, Hold, LeaseStore as _, Request, TableStore};
use agent_fleet::store::lock::{Mode, try_flock, unlock};

use crate::support::again::{self, Role};
use crate::support::leases::{later, now, profile, reserve, store};

const ROOT: &str = "AGENT_FLEET_TEST_ROOT";
const SEED: &str = "AGENT_FLEET_TEST_SEED";
const NO_LOCK: &str = "AGENT_FLEET_TEST_NO_LOCK";
const SECONDS: &str = "AGENT_FLEET_STORM_SECONDS";

const WORKERS: usize = 64;
const TASKS: usize = 48;
const PROFILES: [&str; 6] = ["p0", "p1", "p2", "p3", "p4", "p5"];
const CAP: u32 = 2;

/// A small generator: the storm needs variety, not quality.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    pub(crate) fn pick(&mut self, end: usize) -> usize {
        usize::try_from(self.below(end as u64)).expect("less than a usize")
    }
}

/// The independent locks.
struct Truth {
    directory: PathBuf,
    tasks: Vec<File>,
    slots: BTreeMap<String, Vec<File>>,
}

impl Truth {
    fn open(root: &str) -> Self {
        let directory = Path::new(root).join("truth");
        std::fs::create_dir_all(&directory).expect("a directory");
        let open = |name: String| {
            OpenOptions::new()
                .create(true)
                .append(true)
                .open(directory.join(name))
                .expect("a lock file")
        };
        let tasks = (0..TASKS)
            .map(|task| open(format!("task-{task}")))
            .collect();
        let slots = PROFILES
            .iter()
            .map(|name| {
                let files = (0..CAP)
                    .map(|slot| open(format!("slot-{name}-{slot}")))
                    .collect();
                ((*name).to_owned(), files)
            })
            .collect();
        Self {
            directory,
            tasks,
            slots,
        }
    }

    fn note(&self, kind: &str, what: &str) {
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.directory.join(kind))
            .expect("a file of notes");
        file.write_all(format!("{what}\n").as_bytes())
            .expect("room for a note");
    }

    /// Locks what a holder of this lease alone may have, and reports where that fails.
    fn hold(&self, task: usize, profile: &str) -> Vec<&File> {
        let mut held = Vec::new();
        let free = |file: &&File| try_flock(file, Mode::Exclusive).expect("a lockable file");
        match Some(&self.tasks[task]).filter(free) {
            Some(file) => held.push(file),
            None => self.note("violations", &format!("two owners of task {task}")),
        }
        match self.slots[profile].iter().find(free) {
            Some(file) => held.push(file),
            None => self.note("violations", &format!("{profile} is over its cap")),
        }
        held
    }

    fn lines(&self, kind: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.directory.join(kind)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

fn is_expected(error: &agent_fleet::error::Error) -> bool {
    [
        code::CAPACITY,
        code::TASK_OWNED,
        code::TASK_CONFLICT,
        code::NOT_FOUND,
    ]
    .contains(&error.code)
}

/// Role: takes and gives back leases until it is killed.
pub(crate) fn worker(variables: &Variables) {
    let root = variables.text(ROOT).expect("a root");
    let mut dice = Dice(
        variables
            .text(SEED)
            .and_then(|seed| seed.parse().ok())
            .expect("a seed"),
    );
    let faults = Faults {
        no_leases_lock: variables.text(NO_LOCK).is_some(),
        ..Faults::default()
    };
    let truth = Truth::open(root);
    let store = store(root, faults);
    loop {
        let task = dice.pick(TASKS);
        match take(&store, &format!("task {task}"), &mut dice) {
            Ok(Some(granted)) => {
                let held = truth.hold(task, granted.lease.profile.as_str());
                truth.note("grants", "1");
                Clock::real().pause(Duration::from_micros(dice.below(20_000)));
                // The truth is let go first, so that the next owner finds it free.
                for file in held {
                    unlock(file).expect("a locked file");
                }
                if let Err(error) = store.abandon(granted) {
                    truth.note("errors", &error.to_string());
                }
            }
            Ok(None) => {}
            Err(error) if is_expected(&error) => {}
            Err(error) => truth.note("errors", &error.to_string()),
        }
    }
}

/// Takes a lease the ways that commands do: at once, or reserved and bound, or reserved and forgotten.
fn take(store: &TableStore, task: &str, dice: &mut Dice) -> Result<Option<Granted>> {
    let first = dice.pick(PROFILES.len());
    let mut profiles = PROFILES;
    profiles.rotate_left(first);
    let request = match dice.below(4) {
        0 => return reserve(store, &now(task), &profiles, CAP).map(Some),
        1 => Request {
            hold: Hold::Later(Duration::from_millis(dice.below(40))),
            ..later(task)
        },
        _ => later(task),
    };
    reserve(store, &request, &profiles, CAP)?;
    if dice.below(8) == 0 {
        return Ok(None);
    }
    store.bind(&now(task)).map(Some)
}

struct Storm {
    directory: tempfile::TempDir,
    truth: Truth,
    kills: u32,
}

pub(crate) fn span() -> Duration {
    let seconds = Variables::capture().text(SECONDS).map(|text| {
        text.parse()
            .expect("AGENT_FLEET_STORM_SECONDS is a number of seconds")
    });
    Duration::from_secs(seconds.unwrap_or(5))
}

/// Lets the workers run and kills one of them every so often, until `enough`.
fn storm(no_lock: bool, enough: impl Fn(&Truth, Duration) -> bool) -> Storm {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path().to_str().expect("an UTF-8 path");
    let truth = Truth::open(root);
    let mut dice = Dice(0x5eed_1234_abcd_0001 ^ u64::from(std::process::id()) << 20);
    let start = |dice: &mut Dice| -> Role {
        let seed = (dice.below(u64::MAX - 1) + 1).to_string();
        let mut variables = vec![(ROOT, root), (SEED, seed.as_str())];
        if no_lock {
            variables.push((NO_LOCK, "1"));
        }
        let mut command = again::command("storm", &variables);
        command.stdout(std::process::Stdio::null());
        again::start(&mut command)
    };
    let mut workers: Vec<Role> = (0..WORKERS).map(|_| start(&mut dice)).collect();
    let begun = Instant::now();
    let mut kills = 0;
    while !enough(&truth, begun.elapsed()) {
        Clock::real().pause(Duration::from_micros(dice.below(20_000)));
        let victim = dice.pick(WORKERS);
        workers[victim].kill();
        workers[victim] = start(&mut dice);
        kills += 1;
    }
    drop(workers);
    Storm {
        directory,
        truth,
        kills,
    }
}

#[test]
fn a_storm_of_deaths_never_exceeds_a_cap_never_gives_a_task_twice_and_leaks_nothing() {
    let span = span();
    let storm = storm(false, |_, elapsed| elapsed >= span);
    let (grants, kills) = (storm.truth.lines("grants").len(), storm.kills);
    eprintln!(
        "storm: {grants} grants, {kills} kills in {} s",
        span.as_secs()
    );
    assert_eq!(storm.truth.lines("violations"), [""; 0]);
    assert_eq!(storm.truth.lines("errors"), [""; 0]);
    assert!(
        grants > 50 && kills > 20,
        "{grants} grants, {kills} kills prove nothing"
    );
    let root = storm.directory.path().to_str().unwrap();
    let store = store(root, Faults::default());
    // Reservations that nobody came back for still count until their time.
    for lease in store.list().unwrap().leases {
        if let Some(task) = lease.task {
            let task = task.parse().unwrap();
            drop(store.release(&task, agent_fleet::lease::Force::No));
        }
    }
    let slots = PROFILES.len() * CAP as usize;
    for slot in 0..slots {
        let refilled = reserve(&store, &later(&format!("refill {slot}")), &PROFILES, CAP);
        assert!(
            refilled.is_ok(),
            "slot {slot} of {slots} leaked: {refilled:?}"
        );
    }
    let full = reserve(&store, &later("one more"), &PROFILES, CAP).unwrap_err();
    assert_eq!(full.code, code::CAPACITY);
    let occupancy = store.occupancy().unwrap();
    assert!(
        PROFILES
            .iter()
            .all(|name| occupancy.live(&profile(name)) == CAP)
    );
}

#[test]
fn the_storm_sees_what_the_leases_lock_prevents() {
    let limit = span() * 4;
    let storm = storm(true, |truth, elapsed| {
        elapsed >= limit || truth.lines("violations").len() >= 3
    });
    let seen = storm.truth.lines("violations");
    assert!(
        !seen.is_empty(),
        "without the lock nothing went wrong: the storm proves nothing"
    );
}
