//! What is true, kept apart from everything that the program under test keeps.
//!
//! Whoever works takes kernel locks of its own: one for its task, one of as many as its profile has slots. Into each
//! it writes which process it is. One that finds a lock taken by a process that lives, and lives on in two looks
//! that saw the same, has found two workers where one may be. A process that is dying may be slower to let go of these
//! than of its witness; it is waited for.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agent_fleet::clock::Clock;
use agent_fleet::store::lock::{Mode, try_flock, unlock};

/// How many tasks there are to quarrel about.
pub(crate) const TASKS: usize = 40;
/// The profiles that work is given to, each with [`CAP`] slots.
pub(crate) const PROFILES: [&str; 6] = ["one", "two", "three", "four", "five", "six"];
/// How many tasks there are that only the lease table knows.
pub(crate) const TABLED: usize = 30;
/// Profiles that only the lease table knows: what is done there is no choice, and costs a tenth of one.
pub(crate) const STORES: [&str; 3] = ["store-one", "store-two", "store-three"];
/// Slots of a profile.
pub(crate) const CAP: usize = 2;

/// A small generator: chaos needs variety, not quality.
#[derive(Debug)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    /// A generator of its own for one of many.
    pub(crate) fn of(seed: u64, number: u64) -> Self {
        // Splitmix: near seeds give far states, and none is zero.
        let mut mixed = seed
            .wrapping_add(number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
            .wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed ^= mixed >> 27;
        Self(mixed.wrapping_mul(0x94D0_49BB_1331_11EB) | 1)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    pub(crate) fn pick(&mut self, end: usize) -> usize {
        usize::try_from(self.below(end as u64)).expect("less than a usize")
    }

    pub(crate) fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

/// The line to whoever judges: a pipe, so that neither a full disk nor a limit on files keeps a word back.
#[derive(Debug)]
pub(crate) struct Notes {
    pipe: File,
    /// Whether anybody listens: a run that was broken off must not leave its actors.
    pub(crate) heard: Cell<bool>,
}

impl Notes {
    pub(crate) fn open(directory: &Path) -> Self {
        let pipe = OpenOptions::new().write(true).open(directory.join("notes"));
        Self {
            pipe: pipe.expect("the judge listens"),
            heard: Cell::new(true),
        }
    }

    pub(crate) fn say(&self, line: &str) {
        let written = (&self.pipe).write_all(format!("{line}\n").as_bytes());
        self.heard.set(written.is_ok());
    }
}

/// Where processes are looked up, when it is not `/proc`: actors in a pid namespace keep the view from outside.
pub(crate) const PROC: &str = "AGENT_FLEET_CHAOS_PROC";

/// Whether the process that signed a claim lives, and is not about to end.
fn lives(processes: &str, claim: &str) -> bool {
    let mut words = claim.split(' ');
    let (Some(pid), Some(start)) = (words.next(), words.next()) else {
        return false;
    };
    let Ok(stat) = std::fs::read_to_string(format!("{processes}/{pid}/stat")) else {
        return false;
    };
    let Some((_, rest)) = stat.rsplit_once(')') else {
        return false;
    };
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // From proc(5), counted from the state: flags are the seventh, the start time the twentieth.
    let flags: u64 = fields
        .get(6)
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    let is_ending = flags & 4 != 0 || ["Z", "X"].contains(&fields[0]);
    !is_ending && fields.get(19) == Some(&start)
}

/// How this process signs its claims: pid and start time, as seen from outside.
pub(crate) fn signature() -> String {
    let stat = std::fs::read_to_string(format!("{}/self/stat", processes())).unwrap_or_default();
    let (pid, rest) = stat.split_once(' ').unwrap_or_default();
    let (_, rest) = rest.rsplit_once(')').unwrap_or_default();
    let start = rest.split_whitespace().nth(19).unwrap_or_default();
    format!("{pid} {start}")
}

fn processes() -> String {
    let variables = agent_fleet::env::Variables::capture();
    variables.text(PROC).unwrap_or("/proc").to_owned()
}

/// The independent locks.
#[derive(Debug)]
pub(crate) struct Truth {
    directory: PathBuf,
    processes: String,
    signature: String,
    claims: Cell<u64>,
    files: BTreeMap<String, File>,
}

/// What one worker holds.
#[must_use = "it is held until it is given back"]
#[derive(Debug)]
pub(crate) struct Held<'a>(Vec<&'a File>);

impl Held<'_> {
    /// Lets go, before the lease is given back.
    pub(crate) fn give_back(self) {
        for file in self.0 {
            // A name that is left would stand beside the lock of the next for a moment.
            file.set_len(0).expect("a file of ours");
            unlock(file).expect("a lock of ours");
        }
    }
}

fn slot(profile: &str, number: usize) -> String {
    format!("slot-{profile}-{number}")
}

impl Truth {
    /// The locks, all opened at once: a process that may open no more still has them.
    pub(crate) fn open(directory: &Path, signature: String) -> Self {
        let slots = PROFILES
            .iter()
            .chain(&STORES)
            .flat_map(|profile| (0..CAP).map(|number| slot(profile, number)));
        let tasks = (0..TASKS).map(|task| format!("t{task}"));
        let tasks = tasks.chain((0..TABLED).map(|task| format!("s{task}")));
        let files = tasks.chain(slots).map(|name| {
            let path = directory.join(&name);
            let file = OpenOptions::new()
                .create(true)
                .truncate(false)
                .read(true)
                .write(true)
                .open(path);
            (name, file.expect("a lock file"))
        });
        Self {
            files: files.collect(),
            directory: directory.to_owned(),
            processes: processes(),
            signature,
            claims: Cell::new(0),
        }
    }

    /// Takes a lock that is free, in the name of this process.
    fn take(&self, name: &str) -> Option<&File> {
        let file = &self.files[name];
        if !try_flock(file, Mode::Exclusive).expect("a lockable file") {
            return None;
        }
        let claim = self.claims.get();
        self.claims.set(claim + 1);
        let text = format!("{} {claim}\n", self.signature);
        // The disk of the truth is never full; a limit on files is larger than this.
        file.write_all_at(text.as_bytes(), 0).expect("a claim");
        Some(file)
    }

    fn claim(&self, name: &str) -> String {
        let mut bytes = [0; 64];
        let count = self.files[name].read_at(&mut bytes, 0).unwrap_or(0);
        String::from_utf8_lossy(&bytes[..count]).trim().to_owned()
    }

    /// Takes one of these locks; the claims of those who have them all, when that is so beyond doubt.
    fn one_of(&self, names: &[String]) -> Result<&File, Vec<String>> {
        let mut before: Vec<String> = Vec::new();
        let patience = Clock::real().deadline(Duration::from_secs(20));
        loop {
            if let Some(file) = names.iter().find_map(|name| self.take(name)) {
                return Ok(file);
            }
            let claims: Vec<String> = names.iter().map(|name| self.claim(name)).collect();
            if claims == before && claims.iter().all(|claim| lives(&self.processes, claim)) {
                return Err(claims);
            }
            before = claims;
            if !patience.pause(Duration::from_millis(1)) {
                return Err(before);
            }
        }
    }

    /// Locks what a worker of this task on this profile alone may have. The violation, where another has it.
    pub(crate) fn hold(&self, task: &str, profile: &str) -> Result<Held<'_>, String> {
        let mut held = Vec::new();
        if self.files.contains_key(task) {
            let owned = self.one_of(&[task.to_owned()]);
            held.push(owned.map_err(|claims| {
                format!(
                    "two workers of task {task}: {} beside {claims:?}",
                    self.signature
                )
            })?);
        }
        let slots: Vec<String> = (0..CAP).map(|number| slot(profile, number)).collect();
        if self.files.contains_key(&slots[0]) {
            let slot = self.one_of(&slots);
            held.push(slot.map_err(|claims| {
                format!(
                    "profile {profile} has more than {CAP} workers: {} of {task} beside {claims:?}",
                    self.signature
                )
            })?);
        }
        Ok(Held(held))
    }

    /// A lock among those who change a profile or the clock; `None` when another has it now.
    pub(crate) fn latch(&self, name: &str, mode: Mode) -> Option<File> {
        let path = self.directory.join(name);
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .ok()?;
        try_flock(&file, mode).ok()?.then_some(file)
    }
}

/// Whose login a home holds, as the file says.
pub(crate) fn account(home: &Path) -> String {
    let text = std::fs::read_to_string(home.join("login.json")).unwrap_or_default();
    let login: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    login["account"].as_str().unwrap_or_default().to_owned()
}
