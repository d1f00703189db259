//! This test binary as another process: one role, real pids, real kernel locks.
//!
//! [`start`] runs the test [`entry`] of this very binary with a role in its environment.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};

use agent_fleet::env::Variables;

use super::sandbox::Sandbox;

const ROLE: &str = "AGENT_FLEET_TEST_ROLE";
const SAYS: &str = "role says: ";

/// A process in a role; killed and waited for when dropped.
#[derive(Debug)]
pub(crate) struct Role {
    child: Child,
    lines: Option<BufReader<ChildStdout>>,
}

/// The command that runs this test binary in a role.
pub(crate) fn command(role: &str, variables: &[(&str, &str)]) -> Command {
    let binary = std::env::current_exe().expect("the test binary has a path");
    let mut command = Sandbox::tool(binary);
    as_role(&mut command, role, variables);
    command
}

/// The same behind another program, such as `unshare`.
pub(crate) fn command_behind(
    program: &str,
    arguments: &[&str],
    role: &str,
    variables: &[(&str, &str)],
) -> Command {
    let binary = std::env::current_exe().expect("the test binary has a path");
    let mut command = Sandbox::tool(program);
    command.args(arguments).arg(binary);
    as_role(&mut command, role, variables);
    command
}

fn as_role(command: &mut Command, role: &str, variables: &[(&str, &str)]) {
    command
        .args(["--exact", "support::again::entry", "--test-threads=1"])
        .args(["--nocapture", "--include-ignored"])
        .env(ROLE, role)
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
}

/// Starts a command made here.
pub(crate) fn start(command: &mut Command) -> Role {
    let mut child = command.spawn().expect("the test binary starts");
    let lines = child.stdout.take().map(BufReader::new);
    Role { child, lines }
}

impl Role {
    /// The next thing the role says; panics when it ends first.
    #[track_caller]
    pub(crate) fn hears(&mut self) -> String {
        let lines = self.lines.as_mut().expect("its output is piped");
        loop {
            let mut line = String::new();
            let count = lines.read_line(&mut line).expect("its output is text");
            assert!(count > 0, "the process ended without a word");
            // libtest may have begun the line with the test's name.
            if let Some((_, said)) = line.split_once(SAYS) {
                return said.trim_end().to_owned();
            }
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL, and reaped.
    pub(crate) fn kill(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }

    /// SIGKILL, and left a zombie.
    pub(crate) fn kill_unreaped(&mut self) {
        self.child.kill().expect("the process can be killed");
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Says something to the process that started this one.
pub(crate) fn say(text: &str) {
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{SAYS}{text}").expect("the starter listens");
    stdout.flush().expect("the starter listens");
}

/// Waits to be killed.
pub(crate) fn wait_for_the_end() -> ! {
    loop {
        std::thread::park();
    }
}

#[test]
#[ignore = "only a role of other tests"]
fn entry() {
    let variables = Variables::capture();
    // Without a role someone runs all ignored tests, and there is nothing to prove.
    let Some(role) = variables.text(ROLE) else {
        return;
    };
    match role {
        "hold" => crate::lease_process::hold(&variables),
        "launch" => crate::lease_process::launch(&variables),
        "ask" => crate::lease_process::ask(&variables),
        other => panic!("unknown role {other}"),
    }
}
