//! A `lease choose --wait` that runs, and what came of it.

use std::path::PathBuf;
use std::process::Child;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::sandbox::Sandbox;
use super::world::wait;

/// A process that waits for a slot; killed when dropped.
#[derive(Debug)]
pub(crate) struct Waiter {
    child: Child,
    output: PathBuf,
    notes: PathBuf,
}

impl Waiter {
    /// Starts `lease choose --wait` for a task, with further words.
    pub(crate) fn start(sandbox: &Sandbox, pool: &str, task: &str, words: &[&str]) -> Self {
        let workspace = sandbox.path("project");
        let workspace = workspace.to_str().expect("UTF-8");
        let mut line = vec!["lease", "choose", "--wait", "--pool", pool, "--task", task];
        line.extend(["--workspace", workspace]);
        line.extend(words);
        let output = sandbox.write(format!("output/{task}"), "");
        let notes = sandbox.write(format!("notes/{task}"), "");
        let open = |path: &PathBuf| std::fs::File::options().append(true).open(path);
        let child = sandbox
            .command(line)
            .stdout(open(&output).expect("a file"))
            .stderr(open(&notes).expect("a file"))
            .spawn()
            .expect("the program starts");
        Self {
            child,
            output,
            notes,
        }
    }

    /// Starts one and waits until it has its place in the queue.
    #[track_caller]
    pub(crate) fn queue_up(sandbox: &Sandbox, pool: &str, task: &str, words: &[&str]) -> Self {
        let mut waiter = Self::start(sandbox, pool, task, words);
        wait(&format!("the ticket of `{task}`"), || {
            let ended = waiter.child.try_wait().expect("a child");
            assert!(ended.is_none(), "`{task}` did not wait: {}", waiter.said());
            let queue = waiting(sandbox);
            queue.iter().any(|one| one["task"] == task).then_some(())
        });
        waiter
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("a child of ours");
    }

    /// Whether it still waits.
    pub(crate) fn waits(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_none()
    }

    /// The exit status and the answer, once it has ended.
    #[track_caller]
    pub(crate) fn answer(&mut self) -> (i32, Value) {
        let status = wait("the end of the wait", || {
            self.child.try_wait().expect("a child")
        });
        let said = self.said();
        let value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
        (status.code().unwrap_or(-1), value)
    }

    /// The profile it was given.
    #[track_caller]
    pub(crate) fn profile(&mut self) -> String {
        let (status, value) = self.answer();
        assert_eq!(status, 0, "{value}");
        value["profile"].as_str().expect("a profile").to_owned()
    }

    /// What it said on stderr so far.
    pub(crate) fn notes(&self) -> String {
        std::fs::read_to_string(&self.notes).expect("a file")
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.output).expect("a file")
    }

    /// SIGKILL, and reaped.
    pub(crate) fn kill(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Who waits, by `lease list`.
pub(crate) fn waiting(sandbox: &Sandbox) -> Vec<Value> {
    let list = sandbox.run(["lease", "list"]).success();
    list["waiting"].as_array().expect("a list").clone()
}
