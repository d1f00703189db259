//! A process that stands for a provider's CLI, published in a home as the CLI does it.

use std::path::Path;
use std::process::{Child, Stdio};

use serde_json::json;

use super::sandbox::Sandbox;

/// The conversation that a published session writes.
pub(crate) const CONVERSATION: &str = "42c493a9-902a-449b-b837-e5847dbade2f";

/// A sleeping process, ended when dropped.
#[derive(Debug)]
pub(crate) struct Living {
    child: Child,
}

impl Living {
    /// Starts one.
    pub(crate) fn start() -> Self {
        let mut sleep = Sandbox::tool("sleep");
        let child = sleep.arg("600").stdin(Stdio::null()).spawn();
        Self {
            child: child.expect("sleep starts"),
        }
    }

    /// Its pid.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its kernel start time.
    pub(crate) fn begun(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).expect("it lives");
        let (_, rest) = stat.rsplit_once(')').expect("a command name");
        let start = rest.split_whitespace().nth(19).expect("field 22");
        start.parse().expect("a number")
    }

    /// What Claude Code publishes of a session of its own.
    pub(crate) fn session(&self) -> String {
        let namespace = std::fs::read_link("/proc/self/ns/pid").expect("a namespace");
        json!({"pid": self.pid(), "procStart": self.begun().to_string(), "sessionId": CONVERSATION,
            "startedAt": 1_796_041_736_063_i64, "pidDomain": format!("linux:0:{}", namespace.display()),
            "name": "SECRET prompt"})
        .to_string()
    }

    /// Publishes it as a session in the home.
    pub(crate) fn publish_session(&self, sandbox: &Sandbox, home: &Path) {
        let file = home.join(format!("sessions/{}.json", self.pid()));
        sandbox.write(file, self.session());
    }

    /// Publishes it as Codex's daemon in the home.
    pub(crate) fn publish_daemon(&self, sandbox: &Sandbox, home: &Path) {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot");
        let identity = json!({"bootId": boot.trim(), "startTicks": self.begun()});
        let daemon = json!({"pid": self.pid(), "processIdentity": identity});
        sandbox.write(
            home.join("app-server-daemon/daemon.pid"),
            daemon.to_string(),
        );
    }
}

impl Drop for Living {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
