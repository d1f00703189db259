//! Starting a helper program and waiting for it, with a deadline.
//!
//! Used for external quota readers, the person's own status line, the demo, and provider commands in
//! throw-away homes: those run in a process group of their own, which is killed as a whole at the deadline. A
//! child that one leaves behind with our pipes open delays nothing beyond the deadline.
//!
//! On a live home a provider is started by `exec`, and by [`Apart`] where a person asked for a probe: that one is
//! never killed, by nobody here.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use crate::clock::{Clock, Deadline};

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
    /// Standard output, at most [`OUTPUT_LIMIT`] bytes unless another limit was asked for.
    pub stdout: Vec<u8>,
    /// Standard error, within the same limit.
    pub stderr: Vec<u8>,
}

/// Most output kept of one stream, in bytes.
pub const OUTPUT_LIMIT: u64 = 4 << 20;

/// Runs a program to its end. At the deadline its process group is killed and `TimedOut` is returned.
pub fn run(program: &Program, deadline: &Deadline) -> io::Result<Ended> {
    run_within(program, OUTPUT_LIMIT, deadline)
}

/// The same, with at most `limit` bytes kept of each stream. A program that writes more finds its pipe closed.
pub fn run_within(program: &Program, limit: u64, deadline: &Deadline) -> io::Result<Ended> {
    let mut child = start(program)?;
    let input = program.input.clone();
    let mut stdin = child.stdin.take();
    let writer = std::thread::spawn(move || {
        if let Some(stdin) = stdin.as_mut() {
            // A program that does not read its input is not at fault.
            drop(stdin.write_all(&input));
        }
    });
    let stdout = collect(child.stdout.take(), limit);
    let stderr = collect(child.stderr.take(), limit);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if !deadline.pause(Duration::from_millis(5)) {
            kill_group(&child);
            child.wait()?;
            return Err(io::ErrorKind::TimedOut.into());
        }
    };
    drop(writer);
    // The program itself has ended; only something that it left behind can still hold the streams open.
    let rest = |stream: Receiver<Vec<u8>>| {
        stream
            .recv_timeout(deadline.left().max(Duration::from_millis(5)))
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))
    };
    let ended = rest(stdout).and_then(|stdout| Ok((stdout, rest(stderr)?)));
    if ended.is_err() {
        kill_group(&child);
    }
    let (stdout, stderr) = ended?;
    Ok(Ended {
        status: status.code(),
        stdout,
        stderr,
    })
}

/// A program that nobody here ever ends: it has no input, its output goes nowhere, so that its starter may go at
/// any time, and no signal for our process group reaches it.
///
/// Limits: it stays in our session and cgroup, so a hang-up sent to every process of the terminal ends it.
#[derive(Debug)]
pub struct Apart {
    child: Child,
}

impl Apart {
    /// Starts it; descriptors without close-on-exec are inherited.
    pub fn start(program: &Program) -> io::Result<Self> {
        let mut command = prepare(program);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        spawn(&mut command).map(|child| Self { child })
    }

    /// Its pid.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end; false when it still runs at the deadline.
    pub fn ended(&mut self, deadline: &Deadline) -> io::Result<bool> {
        loop {
            if self.child.try_wait()?.is_some() {
                return Ok(true);
            }
            if !deadline.pause(Duration::from_millis(20)) {
                return Ok(false);
            }
        }
    }
}

/// Talks to a program that stops answering once its input ends: the input stays open until `answered` is
/// content with the output so far. At the deadline its process group is killed and `TimedOut` is returned.
pub fn converse(
    program: &Program,
    answered: &dyn Fn(&[u8]) -> bool,
    deadline: &Deadline,
) -> io::Result<Ended> {
    let mut child = start(program)?;
    let mut stdin = child.stdin.take();
    let (sender, chunks) = mpsc::channel();
    let stdout = child.stdout.take();
    std::thread::spawn(move || {
        let Some(mut stdout) = stdout else { return };
        let mut chunk = [0; 8 << 10];
        while let Ok(count @ 1..) = stdout.read(&mut chunk) {
            if sender
                .send(chunk.get(..count).unwrap_or_default().to_vec())
                .is_err()
            {
                return;
            }
        }
    });
    let stderr = collect(child.stderr.take(), OUTPUT_LIMIT);
    if let Some(stdin) = stdin.as_mut() {
        // A program that has ended already is judged by its output.
        drop(stdin.write_all(&program.input).and_then(|()| stdin.flush()));
    }
    let mut output = Vec::new();
    let late = loop {
        match chunks.recv_timeout(deadline.left()) {
            Ok(chunk) => output.extend_from_slice(&chunk),
            Err(RecvTimeoutError::Disconnected) => break false,
            Err(RecvTimeoutError::Timeout) => break true,
        }
        if answered(&output) || output.len() as u64 > OUTPUT_LIMIT {
            drop(stdin.take());
        }
    };
    drop(stdin);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if late || !deadline.pause(Duration::from_millis(5)) {
            kill_group(&child);
            child.wait()?;
            return Err(io::ErrorKind::TimedOut.into());
        }
    };
    let stderr = stderr.recv_timeout(deadline.left()).unwrap_or_default();
    Ok(Ended {
        status: status.code(),
        stdout: output,
        stderr,
    })
}

fn start(program: &Program) -> io::Result<Child> {
    let mut command = prepare(program);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    spawn(&mut command)
}

/// A program with its words, its whole environment and its directory.
#[expect(
    clippy::disallowed_methods,
    reason = "this is where processes start that we wait for"
)]
pub(super) fn command(program: &Program) -> Command {
    #[cfg(feature = "test-fakes")]
    super::started::note(&program.path, &program.arguments);
    let mut command = Command::new(&program.path);
    command.args(&program.arguments).env_clear().envs(
        program
            .environment
            .iter()
            .map(|(name, value)| (name, value)),
    );
    if let Some(directory) = &program.directory {
        command.current_dir(directory);
    }
    command
}

/// The same, in a process group of its own.
fn prepare(program: &Program) -> Command {
    let mut command = command(program);
    command.process_group(0);
    command
}

pub(super) fn spawn(command: &mut Command) -> io::Result<Child> {
    let mut tries = 0;
    loop {
        match command.spawn() {
            // Someone has the file open for writing, if only in a child between fork and exec.
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy && tries < 20 => {
                tries += 1;
                Clock::real().pause(Duration::from_millis(5));
            }
            other => return other,
        }
    }
}

fn kill_group(child: &Child) {
    use rustix::process::{Pid, Signal, kill_process_group};
    // A group that is gone already is what we want.
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

fn collect(stream: Option<impl io::Read + Send + 'static>, limit: u64) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(stream) = stream {
            // What arrived before a read error is still worth reporting.
            drop(stream.take(limit).read_to_end(&mut bytes));
        }
        // Nobody waits for it any more after the deadline.
        drop(sender.send(bytes));
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::{Program, converse, run};
    use crate::clock::Clock;
    use std::io::ErrorKind;
    use std::time::{Duration, Instant};

    fn shell(script: &str, limit: Duration) -> std::io::Result<super::Ended> {
        let program = Program {
            path: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
            input: b"in".to_vec(),
            ..Program::default()
        };
        run(&program, &Clock::real().deadline(limit))
    }

    #[test]
    fn input_output_and_status_come_back() {
        let ended = shell("cat; echo oops >&2; exit 3", Duration::from_secs(10)).unwrap();
        assert_eq!(
            (
                ended.status,
                ended.stdout.as_slice(),
                ended.stderr.as_slice()
            ),
            (Some(3), b"in".as_slice(), b"oops\n".as_slice())
        );
    }

    #[test]
    fn input_stays_open_until_the_answer_is_there() {
        // It answers 50 ms after the request, unless its input has ended by then.
        let script =
            "read request; read -t 0.05 more; [ $? -gt 128 ] || exit 1; echo answer; cat; echo end";
        let program = Program {
            path: "/bin/bash".into(),
            arguments: vec!["-c".into(), script.into()],
            input: b"request\n".to_vec(),
            ..Program::default()
        };
        let deadline = Clock::real().deadline(Duration::from_secs(20));
        let has_answer = |output: &[u8]| output.starts_with(b"answer");
        let ended = converse(&program, &has_answer, &deadline).unwrap();
        assert_eq!(
            (ended.status, ended.stdout.as_slice()),
            (Some(0), b"answer\nend\n".as_slice())
        );
        let short = Clock::real().deadline(Duration::from_millis(100));
        let never = converse(&program, &|_| false, &short).unwrap_err();
        assert_eq!(never.kind(), ErrorKind::TimedOut);
    }

    #[test]
    fn the_deadline_holds_against_a_child_left_behind() {
        let began = Instant::now();
        for script in ["sleep 30", "sleep 30 &", "sleep 30 & exit 0"] {
            let error = shell(script, Duration::from_millis(100)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut, "{script}");
        }
        assert!(began.elapsed() < Duration::from_secs(10));
    }
}
