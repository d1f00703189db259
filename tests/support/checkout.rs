//! A scripted world whose project is a real checkout with a commit, and plans of scripted workers in it.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::sandbox::{Ran, Sandbox};
use super::world::{Account, World, wait};

/// A command in the background, killed when dropped.
#[derive(Debug)]
pub(crate) struct Background(Option<Child>);

impl Background {
    /// Its pid.
    pub(crate) fn pid(&self) -> u32 {
        self.0.as_ref().expect("it runs").id()
    }

    /// How it ended.
    #[track_caller]
    pub(crate) fn ended(mut self) -> Ran {
        let child = self.0.take().expect("it runs");
        Ran::ended(&child.wait_with_output().expect("a child"))
    }

    /// SIGKILL, and reaped.
    pub(crate) fn kill(self) {
        drop(self);
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// The world, and its project with one commit of `a.txt`, `b.txt` and `c.txt`.
#[derive(Debug)]
pub(crate) struct Checkout {
    /// Accounts, roots and program.
    pub world: World,
}

impl Checkout {
    /// With these accounts.
    pub(crate) fn new(accounts: &[Account]) -> Self {
        let checkout = Self {
            world: World::new(accounts),
        };
        for file in ["a.txt", "b.txt", "c.txt"] {
            checkout.write(file, "as it was\n");
        }
        checkout.git(&["add", "."]);
        let who = ["-c", "user.name=Ada", "-c", "user.email=ada@lab.invalid"];
        let mut line = who.to_vec();
        line.extend(["commit", "-q", "-m", "Begin"]);
        checkout.git(&line);
        checkout
    }

    /// With `count` unused accounts.
    pub(crate) fn with(count: usize) -> Self {
        let names = ["one", "two", "three", "four"];
        let accounts: Vec<Account> = names
            .iter()
            .take(count)
            .map(|name| Account::new(name))
            .collect();
        Self::new(&accounts)
    }

    /// Writes a file of the project.
    pub(crate) fn write(&self, file: &str, text: &str) {
        self.world.sandbox.write(format!("project/{file}"), text);
    }

    /// Reads a file of the project; empty when there is none.
    pub(crate) fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.world.project.join(file)).unwrap_or_default()
    }

    /// Runs git in the project.
    #[track_caller]
    pub(crate) fn git(&self, words: &[&str]) -> String {
        let ran = Sandbox::tool("git")
            .arg("-C")
            .arg(&self.world.project)
            .args(words)
            .output()
            .expect("git runs");
        assert!(
            ran.status.success(),
            "git {words:?}: {}",
            String::from_utf8_lossy(&ran.stderr)
        );
        String::from_utf8_lossy(&ran.stdout).into_owned()
    }

    /// `agent-fleet fleet …` in the project.
    pub(crate) fn line(&self, words: &[&str]) -> Command {
        let mut line = vec!["fleet"];
        line.extend(words);
        let mut command = self.world.sandbox.command(line);
        command.current_dir(&self.world.project);
        command
    }

    /// The same, to its end.
    #[track_caller]
    pub(crate) fn run(&self, words: &[&str]) -> Ran {
        Ran::of(&mut self.line(words))
    }

    /// The same, which must succeed, for the JSON of its last line: `run` tells every change before it.
    #[track_caller]
    pub(crate) fn fleet(&self, words: &[&str]) -> Value {
        let mut ran = self.run(words);
        if let Some(last) = ran.stdout.lines().last() {
            ran.stdout = last.to_owned();
        }
        ran.success()
    }

    /// The same in the background.
    pub(crate) fn start(&self, words: &[&str]) -> Background {
        let child = self
            .line(words)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        Background(Some(child))
    }

    /// The directory of a run's records.
    #[track_caller]
    pub(crate) fn records(&self, run: &str) -> PathBuf {
        let runs = self.world.sandbox.path("state/fleet/runs");
        let mut entries = std::fs::read_dir(runs).expect("runs");
        let end = format!("-{run}");
        entries
            .find_map(|entry| {
                let entry = entry.expect("an entry");
                let name = entry.file_name();
                let name = name.to_str().expect("UTF-8");
                name.ends_with(&end).then(|| entry.path())
            })
            .expect("the run has records")
    }

    /// Waits until a worker of a run is in a state.
    #[track_caller]
    pub(crate) fn until(&self, run: &str, worker: &str, state: &str) {
        wait(&format!("`{worker}` to be {state}"), || {
            let ran = self.run(&["status", "--run", run]);
            let status: Value = serde_json::from_str(&ran.stdout).ok()?;
            let workers = status["workers"].as_array()?;
            let mut found = workers.iter().filter(|row| row["name"] == worker);
            found.any(|row| row["state"] == state).then_some(())
        });
    }

    /// The step of an answer.
    #[track_caller]
    pub(crate) fn step(status: &Value, id: &str) -> Value {
        named(status, "steps", "id", id)
    }

    /// The worker of an answer.
    #[track_caller]
    pub(crate) fn worker(status: &Value, name: &str) -> Value {
        named(status, "workers", "name", name)
    }
}

#[track_caller]
fn named(status: &Value, list: &str, key: &str, name: &str) -> Value {
    let rows = status[list].as_array().expect("a list");
    let row = rows.iter().find(|row| row[key] == name);
    row.unwrap_or_else(|| panic!("no `{name}` in {status}"))
        .clone()
}

/// A step of a plan whose scripted worker runs these instructions.
pub(crate) fn step(id: &str, keys: &str, script: &str) -> String {
    format!("[[step]]\nid = \"{id}\"\n{keys}\ntext = \"\"\"\n```script\n{script}\n```\n\"\"\"\n")
}
