//! A headless worker in the background: its output in files, its end awaited with a deadline.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

use crate::ran::Ran;
use crate::wait::until;
use crate::world::World;

/// Longest that a turn of the lane may take, machine load included.
pub(crate) const TURN: Duration = Duration::from_mins(2);

/// A worker; one that still runs when dropped is killed.
#[derive(Debug)]
pub(crate) struct Worker {
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Worker {
    /// Starts a command of this world. `name` names its output files.
    pub(crate) fn start(world: &World, name: &str, command: &mut Command) -> Self {
        let stdout = world.lab.path(format!("{name}.stdout"));
        let stderr = world.lab.path(format!("{name}.stderr"));
        #[expect(clippy::disallowed_methods, reason = "test data")]
        let file = |path: &PathBuf| File::create(path).expect("a file in the lab's folder");
        let child = command
            .stdout(file(&stdout))
            .stderr(file(&stderr))
            .spawn()
            .expect("the program starts");
        Self {
            child,
            stdout,
            stderr,
        }
    }

    /// Its process, which `exec` turned into the provider.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its standard output until now.
    pub(crate) fn stdout(&self) -> String {
        std::fs::read_to_string(&self.stdout).expect("its output is text")
    }

    /// Writes to its standard input, which the command must have piped.
    pub(crate) fn send(&mut self, text: &str) {
        let input = self.child.stdin.as_mut().expect("its input is a pipe");
        input
            .write_all(text.as_bytes())
            .expect("it reads its input");
        input.flush().expect("it reads its input");
    }

    /// Ends it without a warning.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("the worker is ours to end");
        self.child.wait().expect("the worker is our child");
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn finish(mut self) -> Ran {
        use std::os::unix::process::ExitStatusExt as _;
        let status = until("the end of a worker", TURN, || {
            match self.child.try_wait().expect("the worker is our child") {
                Some(status) => Ok(status),
                None => Err(self.stdout()),
            }
        });
        Ran {
            status: status
                .code()
                .unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
            stdout: self.stdout(),
            stderr: std::fs::read_to_string(&self.stderr).expect("its output is text"),
        }
    }

    /// Waits for its end, which must be clean; returns what it printed.
    #[track_caller]
    pub(crate) fn clean(self) -> String {
        let ran = self.finish();
        assert_eq!(
            ran.status, 0,
            "the turn did not end cleanly\nstdout: {}\nstderr: {}",
            ran.stdout, ran.stderr
        );
        ran.stdout
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Both fail for a worker that has ended, which is what is wanted.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
