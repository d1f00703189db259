//! A scripted world whose project is a real checkout with a commit, and plans of scripted workers in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

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

    /// With a run `r` of fifty steps whose workers are all parked: one was launched, the others are copies of it.
    pub(crate) fn parked() -> Self {
        let checkout = Self::with(1);
        let mut plan = step("s-1", "kind = \"investigate\"", "say Status: blocked");
        for number in 2..=50 {
            let keys = "kind = \"investigate\"\nneeds = [\"s-1\"]";
            plan += &step(&format!("s-{number}"), keys, "say never");
        }
        checkout.write("plan.toml", &plan);
        checkout.fleet(&["run", "plan.toml", "--run", "r"]);
        let sandbox = &checkout.world.sandbox;
        let records = checkout.records("r");
        let inside = records.strip_prefix(sandbox.path("")).expect("inside");
        for (first, rest) in [
            ("workers/s-1.json", ".json"),
            ("launches/s-1.1/report.md", ".1/report.md"),
        ] {
            let text = std::fs::read_to_string(records.join(first)).expect("a record");
            let (folder, _) = first.split_once('/').expect("a folder");
            for number in 2..=50 {
                let name = format!("s-{number}");
                let path = inside.join(format!("{folder}/{name}{rest}"));
                sandbox.write(path, text.replace("s-1", &name));
            }
        }
        checkout
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
        self.run(words).last_line().success()
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

/// A plan of one step `one` whose worker asks for a person.
pub(crate) fn asks() -> String {
    step("one", "files = [\"a.txt\"]", "say Status: blocked")
}

/// A plan of one step `one` whose worker says that it began, and goes on for ever.
pub(crate) fn holds() -> String {
    step(
        "one",
        "files = [\"a.txt\"]",
        "write a.txt begun\nhold never",
    )
}

/// How long anything that needs several processes may take before it counts as broken.
const PATIENCE: Duration = Duration::from_mins(2);

impl Checkout {
    /// Two model families, each of which may review the other: models `red` for steps and `blue` for reviews.
    pub(crate) fn with_reviewers(count: usize, review: &str) -> Self {
        let checkout = Self::with(count);
        let model = |tier: &str, model: &str| {
            format!("[[tiers.{tier}]]\nprovider = \"scripted\"\nmodel = \"{model}\"\n")
        };
        let text = [
            format!("[defaults]\nreview = \"{review}\"\n"),
            model("standard", "red"),
            model("review", "blue"),
            "[providers.scripted.model_families]\nred = \"red-family\"\nblue = \"blue-family\"\n"
                .to_owned(),
        ];
        checkout
            .world
            .sandbox
            .write("config/fleet.toml", text.concat());
        checkout
    }

    /// Begins a run of these steps.
    #[track_caller]
    pub(crate) fn plan(&self, run: &str, steps: &[String]) -> Value {
        self.write("plan.toml", &steps.concat());
        self.fleet(&["init", run]);
        self.fleet(&["plan", "--file", "plan.toml", "--run", run])
    }

    /// Looks at a run until a step is in a state.
    #[track_caller]
    pub(crate) fn until_step(&self, run: &str, step: &str, state: &str) -> Value {
        let began = Instant::now();
        loop {
            let status = self.fleet(&["status", "--run", run]);
            if Self::step(&status, step)["state"] == state {
                return status;
            }
            assert!(
                began.elapsed() < PATIENCE,
                "`{step}` did not become {state}: {status}"
            );
        }
    }

    /// Writes evidence and accepts a step by it.
    #[track_caller]
    pub(crate) fn verify(&self, run: &str, name: &str) -> Ran {
        self.world.sandbox.write("evidence.md", "seen: it works\n");
        let evidence = self.world.sandbox.path("evidence.md");
        let evidence = evidence.to_str().expect("UTF-8");
        self.run(&["verify", name, "--evidence", evidence, "--run", run])
    }

    /// Every file of a run's records, by name, without what a worker that runs writes.
    pub(crate) fn bytes_of(&self, run: &str) -> BTreeMap<PathBuf, Vec<u8>> {
        let runs = self.world.sandbox.path("state/fleet/runs");
        let mut found = BTreeMap::new();
        let mut open: Vec<PathBuf> = entries(&runs)
            .into_iter()
            .filter(|path| path.to_string_lossy().ends_with(&format!("-{run}")))
            .collect();
        assert_eq!(open.len(), 1, "one run `{run}` below {}", runs.display());
        while let Some(path) = open.pop() {
            if path.ends_with("events") || path.ends_with("output.jsonl") {
                continue;
            }
            if path.is_dir() {
                open.extend(entries(&path));
            } else {
                let bytes = std::fs::read(&path).expect("a file");
                found.insert(path, bytes);
            }
        }
        found
    }
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).expect("a directory");
    entries
        .map(|entry| entry.expect("an entry").path())
        .collect()
}

/// A step with what its reviewer answers.
pub(crate) fn reviewed(id: &str, keys: &str, script: &str, answer: &str) -> String {
    format!(
        "[[step]]\nid = \"{id}\"\n{keys}\ntext = \"\"\"\n```script\n{script}\n```\n```script review\nanswer\n{answer}\n```\n\"\"\"\n"
    )
}
