//! Starting a helper program and waiting for it, with a deadline.
//!
//! Used for external quota readers, for `git worktree`-free checks of CLIs (`--version`) and for provider
//! commands in throw-away homes. Never for a provider on a live home: those are started by `exec` alone.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::clock::Deadline;

/// A program to run.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Absolute path.
    pub path: PathBuf,
    /// Arguments after argv\[0\].
    pub arguments: Vec<OsString>,
    /// The whole environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Working directory; the caller's own when `None`.
    pub directory: Option<PathBuf>,
    /// Bytes for standard input, which is then closed.
    pub input: Vec<u8>,
}

/// How a program ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Exit status; `None` when a signal ended it.
    pub status: Option<i32>,
    /// Standard output, at most [`OUTPUT_LIMIT`] bytes.
    pub stdout: Vec<u8>,
    /// Standard error, at most [`OUTPUT_LIMIT`] bytes.
    pub stderr: Vec<u8>,
}

/// Most output kept of one stream, in bytes.
pub const OUTPUT_LIMIT: u64 = 4 << 20;

/// Runs a program to its end. At the deadline it is killed and `TimedOut` is returned.
#[expect(
    clippy::disallowed_methods,
    reason = "this is where helper processes start"
)]
pub fn run(program: &Program, deadline: &Deadline) -> io::Result<Ended> {
    let mut command = Command::new(&program.path);
    command
        .args(&program.arguments)
        .env_clear()
        .envs(
            program
                .environment
                .iter()
                .map(|(name, value)| (name, value)),
        )
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(directory) = &program.directory {
        command.current_dir(directory);
    }
    let mut child = command.spawn()?;
    let input = program.input.clone();
    let mut stdin = child.stdin.take();
    let writer = std::thread::spawn(move || {
        if let Some(stdin) = stdin.as_mut() {
            // A program that does not read its input is not at fault.
            drop(stdin.write_all(&input));
        }
    });
    let stdout = collect(child.stdout.take());
    let stderr = collect(child.stderr.take());
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if !deadline.pause(Duration::from_millis(5)) {
            child.kill()?;
            child.wait()?;
            return Err(io::ErrorKind::TimedOut.into());
        }
    };
    let join = |thread: std::thread::JoinHandle<Vec<u8>>| thread.join().unwrap_or_default();
    drop(writer);
    Ok(Ended {
        status: status.code(),
        stdout: join(stdout),
        stderr: join(stderr),
    })
}

fn collect(stream: Option<impl io::Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(stream) = stream {
            // What arrived before a read error is still worth reporting.
            drop(stream.take(OUTPUT_LIMIT).read_to_end(&mut bytes));
        }
        bytes
    })
}
