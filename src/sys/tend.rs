//! Starting programs that outlive the command that starts them: the host of a worker's turn, and the turn itself.
//!
//! Their output goes to files, so that nobody's end can break it: with a pipe a worker died mid-task when its parent
//! was killed, with a file it finished (run with both CLIs).

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, ExitStatus, Stdio};

use super::spawn::{Program, command, spawn};

/// A program in the background.
#[derive(Debug)]
pub struct Tended {
    child: Child,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// With this status.
    Status(i32),
    /// By this signal.
    Signal(i32),
}

impl Tended {
    /// Starts a program that waits for nobody: no input, its output to `output`, in a session of its own without a
    /// terminal, so that no hang-up and no Ctrl-C of ours reaches it.
    ///
    /// The session is made before the program begins: one that made its own died of the hang-up when the terminal was
    /// closed right after its start.
    #[expect(
        unsafe_code,
        reason = "what runs between fork and exec has no safe interface"
    )]
    pub fn start(program: &Program, output: File) -> io::Result<Self> {
        let mut command = command(program);
        command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        // SAFETY: `setsid` is async-signal-safe, and nothing is allocated.
        unsafe { command.pre_exec(|| Ok(rustix::process::setsid().map(|_| ())?)) };
        spawn(&mut command).map(|child| Self { child })
    }

    /// Starts a program in a process group of its own whose standard input is a gate: see [`Tended::open_gate`].
    pub fn start_gated(program: &Program, output: File, errors: File) -> io::Result<Self> {
        let mut command = command(program);
        command
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(errors);
        spawn(&mut command).map(|child| Self { child })
    }

    /// Starts a program for the person at the terminal: it has our standard input, output and error.
    pub fn attended(program: &Program) -> io::Result<Self> {
        let mut command = command(program);
        command
            .stdin(Stdio::inherit())
            .stdout(Stdio::inherit())
            .stderr(Stdio::inherit());
        spawn(&mut command).map(|child| Self { child })
    }

    /// Starts a program on a terminal: it leads a session of its own, whose terminal this is, and has it as standard
    /// input, output and error. It is hung up when that terminal's near end is gone, whatever its starter ignores.
    #[expect(
        unsafe_code,
        reason = "what runs between fork and exec has no safe interface"
    )]
    pub fn on_terminal(program: &Program, far: File) -> io::Result<Self> {
        let mut command = command(program);
        command
            .stdin(far.try_clone()?)
            .stdout(far.try_clone()?)
            .stderr(far);
        // SAFETY: every call in it is async-signal-safe, and nothing is allocated.
        unsafe { command.pre_exec(lead_session) };
        spawn(&mut command).map(|child| Self { child })
    }

    /// Lets a gated program go on; see [`pass_gate`].
    pub fn open_gate(&mut self) -> io::Result<()> {
        match self.child.stdin.take() {
            Some(mut gate) => gate.write_all(GATE),
            None => Err(io::Error::other("it has no gate")),
        }
    }

    /// Its pid.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> io::Result<Exit> {
        exit_of(self.child.wait()?)
    }

    /// How it ended, if it has; without waiting.
    pub fn ended(&mut self) -> io::Result<Option<Exit>> {
        self.child.try_wait()?.map(exit_of).transpose()
    }

    /// Whether it has ended, without waiting; its zombie is gone then.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }
}

fn exit_of(status: ExitStatus) -> io::Result<Exit> {
    match (status.code(), status.signal()) {
        (Some(status), _) => Ok(Exit::Status(status)),
        (None, Some(signal)) => Ok(Exit::Signal(signal)),
        (None, None) => Err(io::Error::other("it ended neither by exit nor by signal")),
    }
}

/// Makes the terminal at standard input that of a new session, and signals do what they do by default.
#[expect(unsafe_code, reason = "dispositions of signals have no safe interface")]
fn lead_session() -> io::Result<()> {
    rustix::process::setsid()?;
    rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTSTP] {
        // SAFETY: the default disposition runs no code of ours.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    Ok(())
}

/// What opens a gate. An end of input does not: whoever held the other end has died.
const GATE: &[u8] = b"go\n";

/// Waits at the gate that standard input is; false when nobody can open it any more.
pub fn pass_gate() -> bool {
    use std::io::Read as _;
    let mut read = [0; GATE.len()];
    io::stdin().lock().read_exact(&mut read).is_ok() && read == *GATE
}

/// Sends a signal to the process with this pid and kernel start time; false when it is gone, a zombie included.
///
/// The process is held by a pidfd while it is compared, so that a reused pid cannot be hit. Its group is killed with
/// the process stopped before: it cannot end, and its pid cannot become another group's, in between. One that leads
/// no group is killed alone.
#[cfg(target_os = "linux")]
pub fn signal(pid: u32, start: u64, signal: Signal) -> io::Result<bool> {
    use rustix::io::Errno;
    use rustix::process::{
        Pid, PidfdFlags, Signal as Kind, getpgid, kill_process_group, pidfd_open, pidfd_send_signal,
    };
    let Some(named) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return Ok(false);
    };
    let held = match pidfd_open(named, PidfdFlags::empty()) {
        Ok(held) => held,
        // `INVAL`: the pid is that of a thread now.
        Err(Errno::SRCH | Errno::INVAL) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let is_it = || -> io::Result<bool> {
        let status = super::process::status(pid)?;
        Ok(status.is_some_and(|status| status.start == start && !status.zombie))
    };
    if !is_it()? {
        return Ok(false);
    }
    let send = |kind| match pidfd_send_signal(&held, kind) {
        Ok(()) => Ok(true),
        Err(Errno::SRCH) => Ok(false),
        Err(error) => Err(io::Error::from(error)),
    };
    match signal {
        Signal::Terminate => send(Kind::TERM),
        Signal::Interrupt => send(Kind::INT),
        Signal::KillGroup => {
            if getpgid(Some(named)) != Ok(named) {
                return send(Kind::KILL);
            }
            if !send(Kind::STOP)? || !is_it()? {
                return Ok(false);
            }
            match kill_process_group(named, Kind::KILL) {
                Ok(()) => Ok(true),
                Err(Errno::SRCH) => Ok(false),
                Err(error) => Err(error.into()),
            }
        }
    }
}

/// Processes cannot be told apart here yet, so none is signalled.
#[cfg(not(target_os = "linux"))]
pub fn signal(_: u32, _: u64, _: Signal) -> io::Result<bool> {
    Err(io::ErrorKind::Unsupported.into())
}

/// What a worker is ended by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM: ended every screen that was tried, and approved nothing.
    Terminate,
    /// SIGINT: ends a headless turn, whose conversation can then go on.
    Interrupt,
    /// SIGKILL to the process's group.
    KillGroup,
}

#[cfg(test)]
mod tests {
    use super::{Exit, Tended};
    use crate::store::append::stream;
    use crate::sys::spawn::Program;

    fn shell(script: &str) -> Program {
        Program {
            path: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
            ..Program::default()
        }
    }

    #[test]
    fn a_gated_program_goes_on_only_when_it_is_let() {
        let directory = tempfile::tempdir().unwrap();
        let open = |name: &str| stream(directory.path().join(name)).unwrap();
        let script = shell("read word && [ \"$word\" = go ] && echo passed; exit 3");
        let mut tended = Tended::start_gated(&script, open("o"), open("e")).unwrap();
        assert!(!tended.has_ended());
        tended.open_gate().unwrap();
        assert_eq!(tended.wait().unwrap(), Exit::Status(3));
        let read = || std::fs::read_to_string(directory.path().join("o")).unwrap();
        assert_eq!(read(), "passed\n");
        let mut tended = Tended::start_gated(&script, open("o"), open("e")).unwrap();
        tended.child.stdin = None;
        assert_eq!(tended.wait().unwrap(), Exit::Status(3));
        assert_eq!(
            read(),
            "passed\n",
            "it went on although nobody opened the gate"
        );
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn only_the_very_process_is_signalled() {
        use super::{Signal, signal};
        use crate::sys::process::status;
        let directory = tempfile::tempdir().unwrap();
        let open = |name: &str| stream(directory.path().join(name)).unwrap();
        let script = shell("trap '' TERM; sleep 600 & echo $! >&2; read word; wait");
        let mut tended = Tended::start_gated(&script, open("o"), open("e")).unwrap();
        let pid = tended.pid();
        let start = status(pid).unwrap().unwrap().start;
        let clock = crate::clock::Clock::real();
        let deadline = clock.deadline(std::time::Duration::from_secs(10));
        let grandchild = loop {
            let text = std::fs::read_to_string(directory.path().join("e")).unwrap();
            match text.trim().parse::<u32>() {
                Ok(pid) if text.ends_with('\n') => break pid,
                _ => assert!(deadline.pause(std::time::Duration::from_millis(5))),
            }
        };
        for kind in [Signal::Terminate, Signal::Interrupt, Signal::KillGroup] {
            assert!(!signal(pid, start + 1, kind).unwrap(), "a reused pid");
            assert!(!signal(u32::MAX >> 1, start, kind).unwrap(), "no such pid");
        }
        assert!(signal(pid, start, Signal::Terminate).unwrap());
        assert!(signal(pid, start, Signal::KillGroup).unwrap());
        assert!(crate::sys::process::wait_end(
            pid,
            std::time::Duration::from_secs(10)
        ));
        // Not reaped yet: a zombie is gone.
        assert!(!signal(pid, start, Signal::KillGroup).unwrap());
        assert_eq!(tended.wait().unwrap(), Exit::Signal(9));
        let ended = || {
            status(grandchild)
                .unwrap()
                .is_none_or(|status| status.zombie)
        };
        while !ended() {
            assert!(
                deadline.pause(std::time::Duration::from_millis(5)),
                "the group lives"
            );
        }
    }

    #[test]
    fn a_signal_is_told_from_a_status() {
        let directory = tempfile::tempdir().unwrap();
        let output = stream(directory.path().join("o")).unwrap();
        let mut tended = Tended::start(&shell("kill -9 $$"), output).unwrap();
        assert_eq!(tended.wait().unwrap(), Exit::Signal(9));
    }
}
