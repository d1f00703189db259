//! A run of the fleet that goes on in the background, driven by `fleet run`, and what its workers are doing.

use std::path::PathBuf;
use std::process::{Child, Stdio};

use serde_json::Value;

use super::checkout::Checkout;
use super::sandbox::Ran;
use super::world::wait;

/// `fleet run` in the background. When it goes, every worker on its machine is killed.
pub(crate) struct Background<'a> {
    checkout: &'a Checkout,
    run: String,
    child: Option<Child>,
}

impl<'a> Background<'a> {
    /// Runs a plan as this run.
    pub(crate) fn start(checkout: &'a Checkout, run: &str, plan: &str) -> Self {
        Self::start_with(checkout, run, plan, &[])
    }

    /// The same with variables.
    pub(crate) fn start_with(
        checkout: &'a Checkout,
        run: &str,
        plan: &str,
        variables: &[(&str, &str)],
    ) -> Self {
        checkout.write(&format!("{run}.toml"), plan);
        let mut line = checkout.line(&["run", &format!("{run}.toml"), "--run", run]);
        line.envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Self {
            checkout,
            run: run.to_owned(),
            child: Some(line.spawn().expect("the program starts")),
        }
    }

    /// The pid of `fleet run`.
    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    /// The run's status.
    #[track_caller]
    pub(crate) fn status(&self) -> Value {
        self.checkout.fleet(&["status", "--run", &self.run])
    }

    /// Waits until a worker is in a state, for its status.
    #[track_caller]
    pub(crate) fn until(&self, worker: &str, state: &str) -> Value {
        wait(&format!("`{worker}` to be {state}"), || {
            if !self.record(worker).exists() {
                return None;
            }
            let found = Checkout::worker(&self.status(), worker);
            (found["state"] == state).then_some(found)
        })
    }

    /// Waits until a worker has written `begun` into a file: its process is the provider's, and its turn goes on.
    #[track_caller]
    pub(crate) fn until_busy(&self, worker: &str, file: &str) -> Value {
        wait(&format!("`{worker}` to write {file}"), || {
            (self.checkout.read(file) == "begun\n").then_some(())
        });
        self.until(worker, "running")
    }

    /// Waits for the end of `fleet run`.
    #[track_caller]
    pub(crate) fn ended(&mut self) -> Ran {
        let mut child = self.child.take().expect("it runs");
        wait("the end of `fleet run`", || {
            child.try_wait().expect("a child")
        });
        Ran::ended(&child.wait_with_output().expect("it has ended")).last_line()
    }

    /// Kills `fleet run`; the workers run on.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("a child of ours");
            child.wait().expect("a child of ours");
        }
    }

    /// The run's directory.
    pub(crate) fn directory(&self) -> PathBuf {
        directory(self.checkout, &self.run)
    }

    /// A worker's record.
    pub(crate) fn record(&self, worker: &str) -> PathBuf {
        Self::record_of(self.checkout, &self.run, worker)
    }

    /// A worker's record in any run.
    pub(crate) fn record_of(checkout: &Checkout, run: &str, worker: &str) -> PathBuf {
        directory(checkout, run).join(format!("workers/{worker}.json"))
    }

    /// A file of a worker's launch.
    pub(crate) fn launch(&self, worker: &str, number: u32, file: &str) -> PathBuf {
        let launch = format!("launches/{worker}.{number}/{file}");
        self.directory().join(launch)
    }

    /// The pid of a worker's `host` or `child`.
    pub(crate) fn process(&self, worker: &str, number: u32, which: &str) -> u32 {
        let bytes = std::fs::read(self.launch(worker, number, "started.json")).expect("it started");
        let started: Value = serde_json::from_slice(&bytes).expect("JSON");
        let pid = started[which]["pid"].as_u64().expect("a pid");
        u32::try_from(pid).expect("a pid")
    }
}

fn directory(checkout: &Checkout, run: &str) -> PathBuf {
    let runs = checkout.world.sandbox.path("state/fleet/runs");
    let ending = format!("-{run}");
    let found = std::fs::read_dir(&runs).into_iter().flatten();
    found
        .map(|entry| entry.expect("a run").path())
        .find(|path| path.to_string_lossy().ends_with(&ending))
        .unwrap_or(runs)
}

impl Drop for Background<'_> {
    fn drop(&mut self) {
        self.kill();
        let mut line = self
            .checkout
            .line(&["stop", "--host", "--timeout", "2", "--force"]);
        drop(line.output());
    }
}
