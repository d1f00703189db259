//! `fleet run` in the background, the processes that it leaves behind, and what they wrote down.

use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::background::hosts_held_by;
use crate::support::checkout::Checkout;
use crate::support::ran::Ran;
use crate::support::sandbox::Sandbox;
use crate::support::world::wait;

/// A command in the background, killed when dropped.
#[derive(Debug)]
pub(crate) struct Background(Option<Child>);

impl Background {
    /// Starts `agent-fleet fleet …` with these variables.
    pub(crate) fn start(checkout: &Checkout, words: &[&str], variables: &[(&str, &str)]) -> Self {
        let child = checkout
            .line(words)
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        Self(Some(child.expect("the program starts")))
    }

    /// Kills it with SIGKILL and reaps it.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.0.take() {
            drop(child.kill());
            child.wait().expect("a child of ours");
        }
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.0
            .as_mut()
            .is_none_or(|child| child.try_wait().expect("a child of ours").is_some())
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn finish(mut self) -> Ran {
        patiently("the end of the command", || self.has_ended().then_some(()));
        let child = self.0.take().expect("it was not killed");
        Ran::ended(&child.wait_with_output().expect("a child of ours"))
    }
}

/// `fleet run plan.toml` whose first launch, `one.1`, has a host that waits before it claims it.
#[derive(Debug)]
pub(crate) struct HeldBack {
    /// The command.
    pub(crate) command: Background,
    /// The host's pid.
    pub(crate) host: u64,
    /// The launch's directory.
    pub(crate) launch: PathBuf,
    hold: PathBuf,
}

impl HeldBack {
    /// Starts the run and waits for its host.
    pub(crate) fn start(checkout: &Checkout, run: &str) -> Self {
        let hold = checkout.world.sandbox.write("hold", "");
        let command = Background::start(
            checkout,
            &["run", "plan.toml", "--run", run],
            &hosts_held_by(hold.to_str().expect("UTF-8")),
        );
        until(checkout, run, "one", &["launching"]);
        let launch = directory(checkout, run).join("launches/one.1");
        let words = ["_host", launch.to_str().expect("UTF-8")];
        let host = wait("the host", || processes(&words).first().copied());
        Self {
            command,
            host,
            launch,
            hold,
        }
    }

    /// Lets the host go on.
    pub(crate) fn let_go(&self) {
        std::fs::remove_file(&self.hold).expect("the hold is there");
    }
}

/// Asserts that a command ended well.
#[track_caller]
pub(crate) fn well(ran: &Ran, what: &str) {
    assert_eq!(ran.status, 0, "{what}: {}{}", ran.stdout, ran.stderr);
}

impl Drop for Background {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The directory of a run of the only checkout.
#[track_caller]
pub(crate) fn directory(checkout: &Checkout, run: &str) -> PathBuf {
    wait(&format!("the run `{run}`"), || found(checkout, run))
}

fn found(checkout: &Checkout, run: &str) -> Option<PathBuf> {
    let runs = checkout.world.sandbox.path("state/fleet/runs");
    let entries = std::fs::read_dir(runs).ok()?;
    entries
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.to_string_lossy().ends_with(&format!("-{run}")))
}

/// A record of a run, once it is there.
#[track_caller]
pub(crate) fn record(checkout: &Checkout, run: &str, file: &str) -> Value {
    let path = directory(checkout, run).join(file);
    wait(&format!("`{file}`"), || {
        serde_json::from_slice(&std::fs::read(&path).ok()?).ok()
    })
}

/// How many launches of a worker got as far as this file.
pub(crate) fn launches(checkout: &Checkout, run: &str, worker: &str, file: &str) -> usize {
    let path = directory(checkout, run).join("launches");
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let of = name.rsplit_once('.').is_some_and(|(of, _)| of == worker);
            of && entry.path().join(file).exists()
        })
        .count()
}

/// The pid of the host or the child of a launch, once it runs.
#[track_caller]
pub(crate) fn pid(checkout: &Checkout, run: &str, launch: &str, which: &str) -> u64 {
    let started = record(checkout, run, &format!("launches/{launch}/started.json"));
    started[which]["pid"].as_u64().expect("a pid")
}

/// Sends SIGKILL.
pub(crate) fn kill(pid: u64) {
    let sent = Sandbox::tool("kill")
        .args(["-9", &pid.to_string()])
        .status();
    assert!(sent.is_ok(), "kill runs");
}

/// Whether a process of this pid lives; a zombie does not.
pub(crate) fn lives(pid: u64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest.chars().next());
    !matches!(state, None | Some(None | Some('Z' | 'X')))
}

/// The processes whose words include all of these.
pub(crate) fn processes(words: &[&str]) -> Vec<u64> {
    let entries = std::fs::read_dir("/proc").expect("/proc");
    let pids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u64>().ok());
    pids.filter(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        words.iter().all(|word| line.contains(word))
    })
    .collect()
}

/// Looks until something is found; fails after a minute, since a command drives whole runs.
#[track_caller]
#[expect(clippy::disallowed_methods, reason = "tests poll with a deadline")]
fn patiently<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(
            began.elapsed() < Duration::from_mins(1),
            "waited in vain for {what}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Until a worker of a run is in one of these states.
#[track_caller]
pub(crate) fn until(checkout: &Checkout, run: &str, worker: &str, states: &[&str]) -> Value {
    let mut last = Value::Null;
    patiently(&format!("`{worker}` to be {states:?}"), || {
        let ran = checkout.run(&["status", "--run", run]);
        last = serde_json::from_str(&ran.stdout).ok()?;
        let workers = last["workers"].as_array()?;
        let found = workers.iter().find(|found| found["name"] == worker)?;
        let state = found["state"].as_str().expect("a state");
        states.contains(&state).then(|| found.clone())
    })
}
