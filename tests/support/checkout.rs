//! A scripted world whose project is a real checkout with a commit, and plans of scripted workers in it.

use std::process::Command;

use serde_json::Value;

use super::sandbox::{Ran, Sandbox};
use super::world::{Account, World};

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

    /// The same, which must succeed, for its JSON.
    #[track_caller]
    pub(crate) fn fleet(&self, words: &[&str]) -> Value {
        self.run(words).success()
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
