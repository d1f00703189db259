//! One process among many: it does what supervisors, workers and people do, in any order, until it is killed.
//!
//! Most commands it gives itself, through the same entry as the program's `main`, so that a real process with real
//! locks costs no start; some it becomes, as the shipped program would be started by a supervisor.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Seek as _;
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_fleet::choose::apply::{self, Purpose, Selected};
use agent_fleet::choose::candidate::{Asked, Reserve};
use agent_fleet::choose::wait::{self, Patience};
use agent_fleet::clock::{Clock, ROUTINE};
use agent_fleet::contract::selection::DecisionReason;
use agent_fleet::env::{Context, Variables, World};
use agent_fleet::error::{Error, Result};
use agent_fleet::lease::{LeaseStore as _, TableStore};
use serde_json::Value;

use crate::mix::{Deed, Mix};
use crate::sandbox::Sandbox;
use crate::truth::{Dice, Notes, TASKS, Truth, account, signature};

/// The directory of the truth.
pub(crate) const TRUTH: &str = "AGENT_FLEET_CHAOS_TRUTH";
/// What this actor mostly does.
pub(crate) const MIX: &str = "AGENT_FLEET_CHAOS_MIX";
/// Set where files, descriptors or rights are short: then refusals say so.
pub(crate) const HAMPERED: &str = "AGENT_FLEET_CHAOS_HAMPERED";
/// The registered project.
pub(crate) const PROJECT: &str = "AGENT_FLEET_CHAOS_PROJECT";

/// What a command answered.
pub(crate) struct Answer {
    pub(crate) code: String,
    value: Value,
}

pub(crate) struct Actor {
    mix: Mix,
    pub(crate) dice: Dice,
    pub(crate) truth: Truth,
    directory: PathBuf,
    pub(crate) notes: Notes,
    pub(crate) variables: Variables,
    pub(crate) program: PathBuf,
    pub(crate) project: String,
    said: File,
    /// How long this process was not run at a stretch, in milliseconds.
    stalled: Arc<AtomicU64>,
    ticket: Arc<Mutex<Option<PathBuf>>>,
    prefix: &'static str,
}

pub(crate) fn boot() -> u64 {
    Clock::real().boot().0
}

/// The role of an actor: until it is killed, becomes another program, or nobody listens any more.
pub(crate) fn run(seed: u64) {
    let variables = Variables::capture();
    let text = |name: &str| variables.text(name).map(str::to_owned);
    let directory = PathBuf::from(text(TRUTH).expect("a directory"));
    let said = tempfile::tempfile().expect("a file for what it says");
    rustix::stdio::dup2_stdout(&said).expect("standard output is ours");
    let mix: Mix = text(MIX).and_then(|mix| mix.parse().ok()).expect("a mix");
    let waiting = Arc::default();
    let mut actor = Actor {
        mix,
        dice: Dice(seed | 1),
        truth: Truth::open(&directory, signature()),
        notes: Notes::open(&directory),
        directory,
        program: PathBuf::from(env!("CARGO_BIN_EXE_agent-fleet")),
        project: text(PROJECT).expect("a project"),
        prefix: if text(HAMPERED).is_some() {
            "hampered-"
        } else {
            ""
        },
        variables,
        said,
        stalled: watch_for_stalls(&waiting),
        ticket: waiting,
    };
    while actor.notes.heard.get() {
        let deed = mix.deal(&mut actor.dice);
        actor.perform(deed);
    }
}

/// Watches for how long this process was not run at a stretch, and for how long its ticket was not stamped.
fn watch_for_stalls(ticket: &Arc<Mutex<Option<PathBuf>>>) -> Arc<AtomicU64> {
    let stalled = Arc::new(AtomicU64::new(0));
    let (seen, ticket) = (Arc::clone(&stalled), Arc::clone(ticket));
    std::thread::spawn(move || {
        loop {
            let before = boot();
            Clock::real().pause(Duration::from_millis(50));
            seen.fetch_max(boot() - before, Ordering::Relaxed);
            let path = ticket.lock().ok().and_then(|path| path.clone());
            let text = path.and_then(|path| std::fs::read_to_string(path).ok());
            let stamp = text.and_then(|text| u64::from_str_radix(text.get(..16)?, 16).ok());
            if let Some(stamp) = stamp.filter(|stamp| *stamp > 0) {
                // It is stamped four times in a second.
                let silent = boot().saturating_sub(stamp).saturating_sub(1_000);
                seen.fetch_max(silent, Ordering::Relaxed);
            }
        }
    });
    stalled
}

/// The ticket of this process in the queue of a pool.
fn ticket(state: &Path, pool: &str) -> Option<PathBuf> {
    let mine = format!("\"pid\":{},", std::process::id());
    let entries = std::fs::read_dir(state.join("queue").join(pool)).ok()?;
    let mut paths = entries.flatten().map(|entry| entry.path());
    paths.find(|path| std::fs::read_to_string(path).is_ok_and(|text| text.contains(&mine)))
}

impl Actor {
    fn world(&self, words: &[&str]) -> World {
        let arguments = std::iter::once("agent-fleet").chain(words.iter().copied());
        World {
            arguments: arguments.map(Into::into).collect(),
            variables: self.variables.clone(),
            directory: Some(PathBuf::from(&self.project)),
            executable: Some(self.program.clone()),
        }
    }

    /// One operation, told to the judge: what it was and what came of it.
    pub(crate) fn told(&self, kind: &str, code: &str, more: &str) {
        let prefix = self.prefix;
        self.notes.say(&format!(
            "op {prefix}{kind} {} {more}",
            if code.is_empty() { "ok" } else { code }
        ));
    }

    /// Gives itself a command.
    pub(crate) fn command(&mut self, kind: &str, words: &[&str]) -> Answer {
        let world = self.world(words);
        let begun = boot();
        let _status = agent_fleet::cli::run(&world);
        let mut bytes = vec![
            0;
            usize::try_from(self.said.metadata().map_or(0, |file| file.len()))
                .unwrap_or(0)
        ];
        let read = self.said.read_exact_at(&mut bytes, 0);
        read.expect("what it said");
        self.said.set_len(0).expect("a file of ours");
        self.said.rewind().expect("a file of ours");
        let value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let code = value["code"].as_str().unwrap_or_default().to_owned();
        let sentence = match code.as_str() {
            "" => String::new(),
            _ => format!(
                "{} ms: {}",
                boot() - begun,
                value["error"].as_str().unwrap_or_default()
            ),
        };
        self.told(kind, &code, &sentence);
        Answer { code, value }
    }

    fn task(&mut self) -> String {
        format!("t{}", self.dice.pick(TASKS))
    }

    fn pool(&mut self) -> &'static str {
        let narrow = self.mix == Mix::Queue || self.dice.one_in(3);
        if narrow { "pair" } else { "crew" }
    }

    /// Tells of a new grant: who was given what, asked for since when.
    fn granted(&self, how: &str, since: u64, profile: &str, generation: u64) {
        self.notes.say(&format!(
            "grant {how} {since} {} {profile} {generation}",
            boot()
        ));
    }

    fn selection(&self, since: u64, answer: &Answer) -> Option<(String, u64)> {
        let profile = answer.value["profile"].as_str()?.to_owned();
        let generation = answer.value["generation"].as_u64()?;
        if answer.value["decision_reason"] != "sticky" {
            self.granted("direct", since, &profile, generation);
        }
        Some((profile, generation))
    }

    pub(crate) fn reserve(&mut self, task: &str, pool: &str) -> Option<(String, u64)> {
        let since = boot();
        let project = self.project.clone();
        let mut line = vec!["lease", "choose", "--pool", pool, "--task", task];
        line.extend(["--workspace", &project]);
        let answer = self.command("choose", &line);
        self.selection(since, &answer)
    }

    pub(crate) fn release(&mut self, task: &str) {
        self.command("release", &["lease", "release", "--task", task]);
    }

    fn request(&self, task: &str, pool: &str) -> apply::Request {
        apply::Request {
            task: task.parse().expect("a task"),
            workspace: PathBuf::from(&self.project),
            asked: Asked {
                pool: pool.parse().expect("a pool"),
                provider: None,
                profile: None,
                model: None,
                reserve: Reserve::Keep,
            },
            reason: DecisionReason::Quota,
        }
    }

    pub(crate) fn context(&self) -> Result<Context> {
        Context::resolve(&self.world(&[]), None)
    }

    /// Becomes the worker of a task for a moment, as `exec` does up to its execve.
    fn work(&mut self, task: &str, pool: &str, kind: &str) {
        let since = boot();
        let bound = self.bind(task, pool);
        let code = bound.as_ref().err().map_or("", |error| error.code.name);
        let more = bound.as_ref().err().map(|error| error.message.clone());
        self.told(kind, code, &more.unwrap_or_default());
        let Ok((store, selected)) = bound else { return };
        let profile = selected.granted.lease.profile.as_str().to_owned();
        if !selected.granted.sticky {
            self.granted("direct", since, &profile, selected.granted.lease.generation);
        }
        let home = selected.profile.home.as_std_path();
        if account(home) != profile {
            let held = account(home);
            self.notes.say(&format!(
                "violation work for {profile} was given the home of {held}"
            ));
        }
        let span = self.dice.below(12_000);
        if !(self.dice.one_in(8) && self.launch(task, &profile, &selected)) {
            match self.truth.hold(task, &profile) {
                Ok(held) => {
                    Clock::real().pause(Duration::from_micros(span));
                    held.give_back();
                }
                Err(violation) => self.notes.say(&format!("violation {violation}")),
            }
        }
        let ended = store.abandon(selected.granted);
        self.told("end", ended.err().map_or("", |error| error.code.name), "");
    }

    fn bind(&self, task: &str, pool: &str) -> Result<(TableStore, Selected)> {
        let context = self.context()?;
        let store = TableStore::open(&context, context.clock.deadline(ROUTINE))?;
        let purpose = Purpose::Bind(store.myself()?);
        let request = self.request(task, pool);
        let selected = apply::select(&context, &store, &request, purpose, &BTreeMap::new())?;
        Ok((store, selected))
    }

    /// Works through a child that inherits the witness and may outlive this process; false when it could not.
    fn launch(&mut self, task: &str, profile: &str, selected: &Selected) -> bool {
        let Some(witness) = &selected.granted.witness else {
            return false;
        };
        let span = self.dice.below(150);
        let mut child = helper(&self.directory, "stay", span);
        child
            .env("AGENT_FLEET_TASK_ID", task)
            .env("AGENT_FLEET_PROFILE", profile)
            .env("SCRIPTED_HOME", selected.profile.home.as_str());
        let started = witness.lend(|| child.spawn());
        let Ok(Ok(mut child)) = started else {
            return false;
        };
        drop(child.wait());
        true
    }

    /// Waits for a slot, and works or gives it back.
    fn wait(&mut self, task: &str, pool: &str) {
        let told: std::cell::Cell<Option<u64>> = std::cell::Cell::new(None);
        self.stalled.store(0, Ordering::Relaxed);
        let waited = self.context().and_then(|context| {
            let open = || TableStore::open(&context, context.clock.deadline(ROUTINE));
            let limit = context.clock.deadline(Duration::from_secs(6));
            wait::select(
                &context,
                &open,
                &self.request(task, pool),
                Purpose::Reserve,
                &BTreeMap::new(),
                Patience {
                    limit: Some(limit),
                    tell: &mut |_| {
                        told.set(told.get().or(Some(boot())));
                        let path = ticket(context.roots.state.as_std_path(), pool);
                        *self.ticket.lock().expect("a path") = path;
                    },
                },
            )
        });
        *self.ticket.lock().expect("a path") = None;
        let error: Option<&Error> = waited.as_ref().err();
        let code = error.map_or("", |error| error.code.name);
        self.told(
            "wait",
            code,
            error.map_or("", |error| error.message.as_str()),
        );
        let granted = waited
            .as_ref()
            .ok()
            .filter(|selected| !selected.granted.sticky);
        let since = told.get();
        if let Some(selected) = granted {
            let lease = &selected.granted.lease;
            let since = since.unwrap_or_else(boot);
            self.granted("waited", since, lease.profile.as_str(), lease.generation);
        }
        // One that ended for want of a slot waited until now.
        if let Some(since) = since
            && (granted.is_some() || code == "capacity")
        {
            let stalled = self.stalled.load(Ordering::Relaxed);
            let now = boot();
            self.notes.say(&format!("waited {since} {now} {stalled}"));
        }
        if waited.is_ok() {
            if self.dice.one_in(2) {
                self.work(task, pool, "bind");
            } else {
                self.release(task);
            }
        }
    }

    /// The words of a worker that holds what it may have alone, through a tool.
    fn script(&mut self) -> String {
        let this = std::env::current_exe().expect("this program");
        let span = self.dice.below(30);
        let directory = self.directory.display();
        // Whoever becomes another program stays the same process.
        let worker = signature().replace(' ', "/");
        format!(
            "spawn exec {} --helper {worker} {directory} {span}",
            this.display()
        )
    }

    /// Becomes the shipped program.
    fn become_program(&mut self) {
        let (task, pool, project) = (self.task(), self.pool(), self.project.clone());
        let script = self.script();
        let at = ["--task", &task, "--workspace", &project];
        let (kind, line): (&str, Vec<&str>) = match self.dice.below(10) {
            0..=4 => (
                "exec",
                [&["exec", "--pool", pool], &at[..], &["--", "-p", &script]].concat(),
            ),
            5 | 6 => (
                "resume",
                [&["resume"], &at[..], &["--", "-p", &script]].concat(),
            ),
            7 => (
                "choose",
                [
                    &[
                        "lease",
                        "choose",
                        "--pool",
                        pool,
                        "--wait",
                        "--timeout",
                        "2",
                    ],
                    &at[..],
                ]
                .concat(),
            ),
            8 => ("release", vec!["lease", "release", "--task", &task]),
            _ => ("doctor", vec!["doctor"]),
        };
        self.told(&format!("become-{kind}"), "", "");
        let mut command = Sandbox::tool(&self.program);
        command
            .args(line)
            .env_clear()
            .envs(self.variables.iter())
            .current_dir(&self.project)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let error = command.exec();
        self.told("become", "failed", &error.to_string());
    }

    fn perform(&mut self, deed: Deed) {
        let (task, pool) = (self.task(), self.pool());
        match deed {
            Deed::Reserve => {
                if self.reserve(&task, pool).is_some() && !self.dice.one_in(8) {
                    self.release(&task);
                }
            }
            Deed::Bind => {
                if self.reserve(&task, pool).is_some() {
                    self.work(&task, pool, "bind");
                }
            }
            Deed::Work => self.work(&task, pool, "run"),
            Deed::Wait => self.wait(&task, "pair"),
            Deed::Release => self.release(&task),
            Deed::Recover => {
                let since = boot();
                let project = self.project.clone();
                let line = ["lease", "recover", "--task", &task, "--workspace", &project];
                let answer = self.command("recover", &line);
                if self.selection(since, &answer).is_some() {
                    self.release(&task);
                }
            }
            Deed::Look => self.look(),
            Deed::Refresh => self.refresh(),
            Deed::Gate => self.gate(),
            Deed::Configure => self.configure(),
            Deed::Become => self.become_program(),
            Deed::Enroll => self.enroll(),
            Deed::Table => crate::tabled::turns(self),
        }
    }
}

/// This program in the role of a helper.
fn helper(directory: &Path, role: &str, span: u64) -> Command {
    let this = std::env::current_exe().expect("this program");
    let mut command = Sandbox::tool(this);
    command
        .args(["--helper", role])
        .arg(directory)
        .arg(span.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}
