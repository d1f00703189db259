//! Whoever listens to all notes, and names what may not have happened.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};

/// One who waits is served within this time, in milliseconds, once there is a slot for it: it looks four times in a
/// second, on a machine that others load too.
const SERVED: u64 = 1_500;
/// How many that came later may be served before that time, for the moments between a look and its answer.
const OVERTAKERS: usize = 2;
/// A waiter that the machine did not run for this long, or that was silent for a second and this long, in milliseconds,
/// may have lost its turn for that: a silent one does after two seconds.
const STALL: u64 = 500;
/// A change of a profile that was refused after this time, in milliseconds, was kept out by selections.
const KEPT_OUT: u64 = 1_800;

/// Refusals that there are in any fleet where all want the same.
const ORDINARY: [&str; 13] = [
    "",
    "ok",
    "capacity",
    "all_exhausted",
    "task_owned",
    "task_conflict",
    "not_found",
    "lease_active",
    "maintenance_busy",
    "draining",
    "cooldown",
    "profile_disabled",
    // Whoever fetched the only reading was killed: it is not asked for again for ten seconds.
    "quota_unavailable",
];
/// The profiles of the pool in which actors wait.
pub(crate) const PAIR: [&str; 2] = ["one", "four"];
/// What is said of a machine in need.
const NEED: [&str; 5] = ["io", "disk_full", "read_only", "lock_timeout", "internal"];

/// What was inflicted in a round besides deaths.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Inflicted {
    /// The disk was full for moments.
    pub(crate) full: bool,
    /// Records were damaged.
    pub(crate) damaged: bool,
}

#[derive(Debug)]
struct Grant {
    generation: u64,
    since: u64,
    at: u64,
    direct: bool,
    profile: String,
}

#[derive(Debug)]
struct Waited {
    since: u64,
    until: u64,
    stalled: u64,
}

#[derive(Debug)]
struct Closed {
    profile: String,
    how: String,
    from: u64,
    to: u64,
}

/// Everything that was heard.
#[derive(Debug)]
pub(crate) struct Judge {
    lines: Receiver<String>,
    _open: File,
    /// Operations by kind and outcome.
    pub(crate) operations: BTreeMap<String, BTreeMap<String, u64>>,
    grants: Vec<Grant>,
    waits: Vec<Waited>,
    closures: Vec<Closed>,
    kept_out: Vec<String>,
    /// Closures and waits that were judged so far.
    pub(crate) judged: (u64, u64),
    /// What may not have happened.
    pub(crate) violations: BTreeSet<String>,
    inflicted: Inflicted,
    /// Records were damaged in this round or the one before: what was lost is not asked for again at once.
    harmed: bool,
}

impl Judge {
    /// Listens from now on.
    pub(crate) fn listen(directory: &Path) -> Self {
        let path = directory.join("notes");
        let made = crate::sandbox::Sandbox::tool("mkfifo").arg(&path).status();
        assert!(made.is_ok_and(|status| status.success()), "mkfifo failed");
        // Open for writing too, so that the end of all writers is not the end of the pipe.
        let pipe = OpenOptions::new().read(true).write(true).open(&path);
        let pipe = pipe.expect("the pipe of notes");
        let (sender, lines) = channel();
        let reader = BufReader::new(pipe.try_clone().expect("a descriptor"));
        std::thread::spawn(move || {
            for line in reader.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self {
            lines,
            _open: pipe,
            operations: BTreeMap::new(),
            grants: Vec::new(),
            waits: Vec::new(),
            closures: Vec::new(),
            kept_out: Vec::new(),
            judged: (0, 0),
            violations: BTreeSet::new(),
            inflicted: Inflicted::default(),
            harmed: false,
        }
    }

    /// A new round begins.
    pub(crate) fn begin(&mut self, inflicted: Inflicted) {
        self.hear();
        self.harmed = inflicted.damaged || self.inflicted.damaged;
        self.inflicted = inflicted;
        self.grants.clear();
        self.waits.clear();
        self.closures.clear();
        self.kept_out.clear();
    }

    /// How many operations there were.
    pub(crate) fn count(&self) -> u64 {
        let kinds = self.operations.values();
        kinds.flat_map(BTreeMap::values).sum()
    }

    /// Takes in what was said.
    pub(crate) fn hear(&mut self) {
        while let Ok(line) = self.lines.try_recv() {
            self.take_in(&line);
        }
    }

    fn take_in(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words.get(at).and_then(|word| word.parse().ok());
        match words[..] {
            ["op", kind, code, ..] => self.operation(kind, code, line),
            ["violation", ..] => {
                self.violations.insert(line.to_owned());
            }
            ["grant", how, _, _, profile, _] => {
                if let (Some(since), Some(at), Some(generation)) = (number(2), number(3), number(5))
                {
                    self.grants.push(Grant {
                        generation,
                        since,
                        at,
                        direct: how == "direct",
                        profile: profile.to_owned(),
                    });
                }
            }
            ["waited", ..] => {
                if let (Some(since), Some(until), Some(stalled)) = (number(1), number(2), number(3))
                {
                    self.waits.push(Waited {
                        since,
                        until,
                        stalled,
                    });
                }
            }
            ["closed", profile, how, _, _] => {
                if let (Some(from), Some(to)) = (number(3), number(4)) {
                    let (profile, how) = (profile.to_owned(), how.to_owned());
                    self.closures.push(Closed {
                        profile,
                        how,
                        from,
                        to,
                    });
                }
            }
            ["kept-out", how, _] if number(2).is_some_and(|took| took >= KEPT_OUT) => {
                self.kept_out.push(how.to_owned());
            }
            _ => {}
        }
    }

    fn operation(&mut self, kind: &str, code: &str, line: &str) {
        let codes = self.operations.entry(kind.to_owned()).or_default();
        *codes.entry(code.to_owned()).or_insert(0) += 1;
        let short = kind.starts_with("hampered-") || self.inflicted.full;
        let known = ORDINARY.contains(&code)
            || (short && NEED.contains(&code))
            || (self.harmed && ["record_damaged", "identity_unproven"].contains(&code))
            || (kind.ends_with("enroll")
                && ["transaction_pending", "login_failed"].contains(&code));
        if !known {
            self.violations
                .insert(format!("unexpected refusal: {line}"));
        }
    }

    /// Judges everything of this round at once.
    pub(crate) fn judge(&mut self) {
        self.hear();
        self.judged.0 += self.closures.len() as u64;
        self.judged.1 += self.waits.len() as u64;
        self.grants.sort_by_key(|grant| grant.generation);
        for pair in self.grants.windows(2) {
            if pair[0].generation == pair[1].generation {
                let what = format!(
                    "violation generation {} was granted twice",
                    pair[0].generation
                );
                self.violations.insert(what);
            }
        }
        for closed in &self.closures {
            for grant in &self.grants {
                let inside = closed.from < grant.generation && grant.generation < closed.to;
                if inside && grant.profile == closed.profile {
                    self.violations.insert(format!(
                        "violation grant {} on {} after `{}` had been answered",
                        grant.generation, closed.profile, closed.how
                    ));
                }
            }
        }
        if self.kept_out.len() > 1 && !self.inflicted.full {
            self.violations.insert(format!(
                "violation {} of {} changes of a profile were kept out by selections: {:?}",
                self.kept_out.len(),
                self.closures.len() + self.kept_out.len(),
                self.kept_out
            ));
        }
        if !self.inflicted.full {
            self.judge_waits();
        }
    }

    fn judge_waits(&mut self) {
        for waited in self.waits.iter().filter(|waited| waited.stalled < STALL) {
            // Whoever is served while it waits leaves it a slot: it had the time to take that.
            let later = |grant: &&Grant| {
                grant.direct
                    && grant.since > waited.since
                    && grant.at + SERVED < waited.until
                    && PAIR.contains(&grant.profile.as_str())
            };
            let count = self.grants.iter().filter(later).count();
            if count > OVERTAKERS {
                self.violations.insert(format!(
                    "violation {count} who came later were served before one who waited for {} ms",
                    waited.until - waited.since
                ));
            }
        }
    }
}
