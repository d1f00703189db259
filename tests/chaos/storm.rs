//! Rounds of chaos: actors that run and are killed, what is inflicted on them, and what must hold afterwards.

use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use agent_fleet::clock::Clock;
use agent_fleet::store::lock::{Mode, try_flock};
use jiff::Timestamp;
use serde_json::Value;

use crate::actor;
use crate::inflict::Vandal;
use crate::judge::{Inflicted, Judge};
use crate::mix::Mix;
use crate::stage::Stage;
use crate::truth::{self, CAP, Dice, PROFILES};

/// How many processes act at a time.
const ACTORS: usize = 20;
/// How long a round lasts: short enough that what leaks is seen, long enough for every queue to fill.
const ROUND: Duration = Duration::from_secs(15);

/// How many die in a second.
const KILLS: u128 = 12;

/// What is run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// From which everything random follows but the kernel's own order.
    pub(crate) seed: u64,
    /// How long.
    pub(crate) span: Duration,
    /// What actors do.
    pub(crate) mix: Mix,
    /// Protections that are switched off.
    pub(crate) faults: &'static str,
    /// Every actor is in a pid namespace of its own.
    pub(crate) namespaces: bool,
    /// Whether files, disks and clocks are harmed as well, and the first violation ends nothing.
    pub(crate) thorough: bool,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) judge: Judge,
    pub(crate) started: u64,
    pub(crate) kills: u64,
    pub(crate) rounds: u64,
    pub(crate) jumps: u64,
    pub(crate) fills: u64,
    pub(crate) harmed: u64,
    pub(crate) uncovered: Vec<&'static str>,
}

struct Storm {
    stage: Stage,
    plan: Plan,
    dice: Dice,
    actors: Vec<Option<Child>>,
    report: Report,
    may_unshare: bool,
}

/// Runs a plan.
pub(crate) fn run(plan: &Plan) -> Report {
    let stage = Stage::set(plan.faults);
    let judge = Judge::listen(&stage.truth);
    let may_unshare = crate::may_unshare(&["--fork", "--pid", "--mount"]);
    let mut uncovered = Vec::new();
    if !may_unshare {
        uncovered.push("pid namespaces (unshare needs root or user namespaces)");
    }
    if !stage.own_disk {
        uncovered.push("a full disk, a read-only one (mount needs root or user namespaces)");
    }
    let mut storm = Storm {
        dice: Dice::of(plan.seed, 0),
        stage,
        plan: *plan,
        actors: (0..ACTORS).map(|_| None).collect(),
        report: Report {
            judge,
            started: 0,
            kills: 0,
            rounds: 0,
            jumps: 0,
            fills: 0,
            harmed: 0,
            uncovered,
        },
        may_unshare,
    };
    let begun = Instant::now();
    while begun.elapsed() < plan.span {
        storm.round(plan.span.saturating_sub(begun.elapsed()).min(ROUND));
        if !plan.thorough && !storm.report.judge.violations.is_empty() {
            break;
        }
    }
    storm.report
}

impl Storm {
    fn start(&mut self, place: usize) {
        let seed = Dice::of(self.plan.seed, self.report.started + 1).0;
        self.report.started += 1;
        let state = self.stage.world.sandbox.path("state");
        let state = state.display();
        let elsewhere = r#"exec unshare --fork --pid --mount --kill-child sh -c 'exec 9</proc; mount -t proc proc /proc; exec "$0" "$@"'"#;
        // As many as it keeps open itself, and a few.
        let limit = 106 + self.dice.below(16);
        let blocks = 1 + self.dice.below(16);
        let (before, variable) = match place {
            _ if self.plan.namespaces => (elsewhere.to_owned(), Some(truth::PROC)),
            0 | 1 if self.may_unshare => (elsewhere.to_owned(), Some(truth::PROC)),
            2 if self.plan.thorough => (format!("ulimit -n {limit}; exec"), Some(actor::HAMPERED)),
            3 if self.plan.thorough => (
                format!("trap '' XFSZ; ulimit -f {blocks}; exec"),
                Some(actor::HAMPERED),
            ),
            // Killed by the kernel in the middle of a write.
            4 if self.plan.thorough => (format!("ulimit -f {blocks}; exec"), Some(actor::HAMPERED)),
            5 if self.plan.thorough && self.stage.own_disk => (
                format!(
                    "exec unshare --mount sh -c 'mount --bind {state} {state} && mount -o remount,ro,bind {state} && exec \"$0\" \"$@\"'"
                ),
                Some(actor::HAMPERED),
            ),
            _ => ("exec".to_owned(), None),
        };
        let mut command = self.stage.actor(&before, seed);
        command.env(actor::MIX, self.plan.mix.name());
        if let Some(variable) = variable {
            let value = if variable == truth::PROC {
                "/proc/self/fd/9"
            } else {
                "1"
            };
            command.env(variable, value);
        }
        self.actors[place] = Some(command.spawn().expect("an actor starts"));
    }

    fn tend(&mut self, place: usize) {
        let ended = match &mut self.actors[place] {
            Some(child) => child.try_wait().expect("a child").is_some(),
            None => true,
        };
        if ended {
            self.start(place);
        }
    }

    fn kill(&mut self, place: usize) {
        if let Some(mut child) = self.actors[place].take()
            && child.try_wait().expect("a child").is_none()
        {
            child.kill().expect("a child of ours");
            child.wait().expect("a child of ours");
            self.report.kills += 1;
        }
    }

    fn round(&mut self, span: Duration) {
        self.report.rounds += 1;
        let third = self.report.rounds % 3;
        let inflicted = Inflicted {
            full: self.plan.thorough && self.stage.own_disk && third == 2,
            damaged: self.plan.thorough && third == 0,
        };
        self.report.judge.begin(inflicted);
        let vandal = Vandal::new(&self.stage.world.sandbox.path("state"));
        let begun = Instant::now();
        let before = self.report.kills;
        let mut looked = Instant::now();
        while begun.elapsed() < span {
            for place in 0..ACTORS {
                self.tend(place);
            }
            let due = begun.elapsed().as_millis() * KILLS / 1000;
            while u128::from(self.report.kills - before) < due {
                let victim = self.dice.pick(ACTORS);
                self.kill(victim);
                self.tend(victim);
            }
            if self.plan.thorough && self.dice.one_in(60) {
                self.jump();
            }
            if inflicted.full && self.dice.one_in(100) {
                self.report.fills += 1;
                vandal.fill_the_disk(Duration::from_millis(self.dice.below(300)));
            }
            if inflicted.damaged && self.dice.one_in(20) {
                self.report.harmed += u64::from(vandal.harm(&mut self.dice));
            }
            self.report.judge.hear();
            if !self.plan.thorough && looked.elapsed() > Duration::from_secs(1) {
                looked = Instant::now();
                self.report.judge.judge();
                if !self.report.judge.violations.is_empty() {
                    break;
                }
            }
            Clock::real().pause(Duration::from_micros(self.dice.below(36_000)));
        }
        for place in 0..ACTORS {
            self.kill(place);
        }
        self.report.judge.judge();
        if self.plan.faults.is_empty() {
            let wrong = self.aftermath(inflicted);
            let round = self.report.rounds;
            let wrong = wrong
                .into_iter()
                .map(|what| format!("{what} (after round {round})"));
            self.report.judge.violations.extend(wrong);
        }
    }

    fn jump(&mut self) {
        let path = self.stage.truth.join("steady");
        let file = std::fs::File::options()
            .create(true)
            .append(true)
            .open(path);
        let Ok(steady) = file else { return };
        if try_flock(&steady, Mode::Exclusive).unwrap_or(false) {
            let month = 30 * 24 * 3600;
            let far = self.dice.below(2 * month).cast_signed() - month.cast_signed();
            let near = self.dice.below(7200).cast_signed() - 3600;
            self.stage
                .jump(if self.dice.one_in(4) { far } else { near });
            self.report.jumps += 1;
        }
    }

    /// Whether the world comes to rest as it should, once everybody was killed.
    fn aftermath(&mut self, inflicted: Inflicted) -> Vec<String> {
        let mut wrong = Vec::new();
        self.stage.jump(0);
        let state = self.stage.world.sandbox.path("state");
        // What a worker started may live a moment longer.
        let locks = until(Duration::from_secs(5), || {
            let held = held(&state);
            (held.is_empty(), held)
        });
        wrong.extend(
            locks
                .into_iter()
                .map(|path| format!("violation a lock is held by nobody: {path}")),
        );
        let stage = &self.stage;
        let run = |words: &[&str]| stage.world.sandbox.run(words);
        if inflicted.damaged {
            settle(stage);
        }
        for profile in PROFILES {
            for words in [
                ["profile", "enable", profile],
                ["profile", "undrain", profile],
                ["profile", "cooldown-clear", profile],
            ] {
                // A fetch that was killed, or could not be written down, is not repeated by itself for a while: the
                // refusal names the command that asks again. After many of them nobody is asked for up to an hour,
                // whoever wants it; the refusal says until when, and that time passes.
                let refused = until(Duration::from_secs(15), || {
                    let mut ran = run(&words);
                    if ran.stdout.contains("\"quota_unavailable\"") {
                        drop(run(&["quota", "refresh", profile]));
                        ran = run(&words);
                        let at = retry_at(&ran.stdout);
                        let wait =
                            at.map(|at| at.duration_since(Clock::real().now()).as_secs() + 1);
                        if let Some(seconds @ 1..=3600) = wait {
                            stage.jump(seconds);
                        }
                    }
                    let refused = (ran.status != 0).then_some(ran.stdout);
                    (refused.is_none(), Vec::from_iter(refused))
                });
                wrong.extend(
                    refused
                        .into_iter()
                        .map(|answer| format!("violation {words:?}: {answer}")),
                );
            }
        }
        // Nobody comes back for a reservation; it ends by itself.
        let left = until(Duration::from_secs(6), || {
            let list = list(stage);
            let left: Vec<String> = list["leases"]
                .as_array()
                .into_iter()
                .flatten()
                .filter(|lease| lease["verdict"] != "dead")
                .map(Value::to_string)
                .collect();
            (left.is_empty(), left)
        });
        wrong.extend(
            left.into_iter()
                .map(|lease| format!("violation a lease of nobody is left: {lease}")),
        );
        let list = list(stage);
        for kind in ["waiting", "damaged"] {
            if list[kind].as_array().is_some_and(|found| !found.is_empty()) {
                wrong.push(format!("violation {kind} is left: {}", list[kind]));
            }
        }
        wrong.extend(refill(stage));
        wrong.extend(stage.lost_logins());
        wrong.extend(
            unreadable(&state)
                .into_iter()
                .map(|what| format!("violation {what}")),
        );
        wrong
    }
}

/// When a refusal says that trying again may work.
fn retry_at(answer: &str) -> Option<Timestamp> {
    let answer: Value = serde_json::from_str(answer).ok()?;
    answer["retry_at"].as_str()?.parse().ok()
}

fn list(stage: &Stage) -> Value {
    let ran = stage.world.sandbox.run(["lease", "list"]);
    serde_json::from_str(&ran.stdout).unwrap_or_default()
}

/// Every slot can be given, and not one more.
fn refill(stage: &Stage) -> Vec<String> {
    let project = stage.world.project.to_str().expect("UTF-8");
    let choose = |task: &str| {
        let line = [
            "lease",
            "choose",
            "--pool",
            "crew",
            "--task",
            task,
            "--workspace",
            project,
        ];
        stage.world.sandbox.run(line)
    };
    let mut wrong = Vec::new();
    let slots = PROFILES.len() * CAP;
    // Long enough to see all of them full.
    let ttl = ["config", "set", "settings.lease_ttl_seconds"];
    let set = |seconds: &str| drop(stage.world.sandbox.run([&ttl[..], &[seconds]].concat()));
    set("60");
    for slot in 0..slots {
        let ran = choose(&format!("fill-{slot}"));
        if ran.status != 0 {
            wrong.push(format!(
                "violation slot {slot} of {slots} is lost: {}",
                ran.stdout
            ));
        }
    }
    let more = choose("one-more");
    if !more.stdout.contains("\"capacity\"") {
        wrong.push(format!(
            "violation more than {slots} slots were given: {}",
            more.stdout
        ));
    }
    for slot in 0..slots {
        let task = format!("fill-{slot}");
        drop(
            stage
                .world
                .sandbox
                .run(["lease", "release", "--task", &task]),
        );
    }
    set("2");
    wrong
}

/// Removes the records and sessions that were damaged on purpose, as a person is told to.
fn settle(stage: &Stage) {
    let list = list(stage);
    for damaged in list["damaged"].as_array().into_iter().flatten() {
        let number = damaged["record"].to_string();
        drop(
            stage
                .world
                .sandbox
                .run(["lease", "release", "--record", &number, "--force"]),
        );
    }
    let sessions = stage.world.sandbox.path("state/sessions");
    for entry in std::fs::read_dir(sessions).into_iter().flatten().flatten() {
        let bytes = std::fs::read(entry.path()).unwrap_or_default();
        if serde_json::from_slice::<Value>(&bytes).is_err() {
            drop(std::fs::remove_file(entry.path()));
        }
    }
}

/// Looks again until it is well or the time is over.
fn until<T>(span: Duration, mut look: impl FnMut() -> (bool, T)) -> T {
    let deadline = Clock::real().deadline(span);
    loop {
        let (well, seen) = look();
        if well || !deadline.pause(Duration::from_millis(20)) {
            return seen;
        }
    }
}

fn files(folder: &Path, each: &mut impl FnMut(PathBuf)) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            files(&entry.path(), each);
        } else {
            each(entry.path());
        }
    }
}

/// The locks and witnesses that somebody holds.
fn held(state: &Path) -> Vec<String> {
    let mut found = Vec::new();
    files(state, &mut |path| {
        let is_lock = path
            .extension()
            .is_some_and(|kind| kind == "lock" || kind == "live");
        let file = is_lock.then(|| std::fs::File::open(&path).ok()).flatten();
        if let Some(file) = file
            && !try_flock(&file, Mode::Exclusive).unwrap_or(true)
        {
            found.push(path.display().to_string());
        }
    });
    found
}

/// What stands under its final name and cannot be read, and the temporary files of the dead beyond a few.
fn unreadable(state: &Path) -> Vec<String> {
    let (mut wrong, mut litter) = (Vec::new(), 0);
    files(state, &mut |path| {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if name.starts_with(".tmp-") {
            litter += usize::from(path.metadata().is_ok_and(|file| file.len() > 0));
        } else if path.extension().is_some_and(|kind| kind == "json") {
            let bytes = std::fs::read(&path).unwrap_or_default();
            if serde_json::from_slice::<Value>(&bytes).is_err() {
                wrong.push(format!("{} does not parse", path.display()));
            }
        } else if path
            .parent()
            .is_some_and(|folder| folder.ends_with("snapshot"))
        {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            for line in text.lines().filter(|line| !is_sealed(line)) {
                wrong.push(format!(
                    "{} has a line that is not sealed: {line:.60}",
                    path.display()
                ));
            }
        }
    });
    if litter > 40 {
        wrong.push(format!(
            "{litter} temporary files of dead processes are left"
        ));
    }
    wrong
}

/// Whether a line has the checksum that it begins with.
fn is_sealed(line: &str) -> bool {
    let (sum, text) = line.split_once(' ').unwrap_or_default();
    u32::from_str_radix(sum, 16).is_ok_and(|sum| sum == crc32fast::hash(text.as_bytes()))
}
