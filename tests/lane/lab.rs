//! One lab per test: the fakes that the real CLIs talk to, and the log of what they were sent.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use serde_json::{Map, Value};

/// What a lab is made of.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Accounts 1 to this, for both providers.
    pub accounts: u32,
    /// The scenario of the fakes.
    pub scenario: Value,
    /// How long the homes' access tokens last, in seconds; a month when `None`.
    pub expires_in: Option<u32>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            accounts: 2,
            scenario: Value::Object(Map::new()),
            expires_in: None,
        }
    }
}

/// A running lab; it ends with this value, or with this process.
#[derive(Debug)]
pub(crate) struct Lab {
    directory: tempfile::TempDir,
    /// `lab.py up --hold` stays until its standard input ends.
    holder: Child,
    environment: BTreeMap<String, String>,
}

/// One line of the lab's log.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Request {
    /// Which listener: claude, codex, foreign or proxy.
    pub log: String,
    /// When it arrived, in seconds since the epoch.
    pub t: f64,
    /// The HTTP method.
    pub method: String,
    /// The host that the client asked for.
    pub host: Option<String>,
    /// Path and query.
    pub path: String,
    /// The answer; `None` when there was none.
    pub status: Option<u16>,
    /// The account whose login the request carried.
    pub account: Option<u32>,
    /// What kind of credential it carried; `none` for a request without one.
    pub credential: String,
    /// On refresh calls: ok, reused or revoked.
    pub refresh: Option<String>,
    /// The request's headers.
    pub headers: BTreeMap<String, String>,
    /// The request's body.
    pub body: Value,
    /// Proxy only: host and port.
    pub target: Option<String>,
}

impl Request {
    /// One line for failure messages, without the body.
    pub(crate) fn line(&self) -> String {
        format!(
            "{} {} {}{} account {:?} by {} -> {:?}{}",
            self.log,
            self.method,
            self.host.as_deref().unwrap_or_default(),
            self.path,
            self.account,
            self.credential,
            self.status,
            self.refresh
                .as_ref()
                .map(|outcome| format!(" refresh={outcome}"))
                .unwrap_or_default(),
        )
    }
}

/// Seconds since the epoch, as the lab's log counts them.
#[expect(
    clippy::disallowed_methods,
    reason = "compared with the clock of the lab's processes"
)]
pub(crate) fn now() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("the clock is past 1970")
        .as_secs_f64()
}

/// Any program, for building test worlds.
#[expect(clippy::disallowed_methods, reason = "tests start real processes")]
pub(crate) fn tool(program: impl AsRef<std::ffi::OsStr>) -> Command {
    Command::new(program)
}

fn python(script: &str) -> Command {
    let mut command = tool("python3");
    command.args(["-S", "-B"]).arg(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/lab")
            .join(script),
    );
    command
}

impl Lab {
    /// Starts a lab and waits until its fakes answer.
    pub(crate) fn up(plan: &Plan) -> Self {
        let directory = tempfile::Builder::new()
            .prefix("agent-fleet-lane-")
            .tempdir_in("/var/tmp")
            .expect("a directory below /var/tmp");
        let scenario = directory.path().join("scenario.json");
        #[expect(clippy::disallowed_methods, reason = "test data")]
        std::fs::write(&scenario, plan.scenario.to_string()).expect("the scenario is written");
        let mut command = python("lab.py");
        command
            .arg("up")
            .arg(directory.path())
            .args(["--hold", "--json", "--accounts"])
            .arg(plan.accounts.to_string())
            .arg("--scenario")
            .arg(&scenario);
        if let Some(seconds) = plan.expires_in {
            command.args(["--expires-in", &seconds.to_string()]);
        }
        let mut holder = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 starts");
        let mut line = String::new();
        BufReader::new(holder.stdout.take().expect("stdout is a pipe"))
            .read_line(&mut line)
            .expect("the lab says something");
        let environment: BTreeMap<String, String> =
            serde_json::from_str(&line).expect("the lab came up (its reason is above)");
        for name in ["CLAUDE_BIN", "CODEX_BIN"] {
            assert!(
                !environment[name].is_empty(),
                "the provider CLIs are not installed; run tests/lane/run.sh"
            );
        }
        Self {
            directory,
            holder,
            environment,
        }
    }

    /// Replaces the scenario; the fakes see it at their next request.
    pub(crate) fn set(&self, scenario: &Value) {
        let path = self.path("scenario.json");
        let new = self.path("scenario.json.new");
        #[expect(clippy::disallowed_methods, reason = "test data")]
        std::fs::write(&new, scenario.to_string())
            .and_then(|()| std::fs::rename(new, path))
            .expect("the scenario is written");
    }

    /// Writes a synthetic logged-in home for an account; `expires_in` as in [`Plan`].
    pub(crate) fn make_home(&self, cli: &str, account: u32, home: &Path, expires_in: Option<i64>) {
        let mut command = python("make_home.py");
        command.arg(cli).arg(account.to_string()).arg(home);
        command.arg("--scenario").arg(self.path("scenario.json"));
        if let Some(seconds) = expires_in {
            command.arg(format!("--expires-in={seconds}"));
        }
        let made = command.output().expect("python3 starts");
        assert!(made.status.success(), "make_home.py failed");
    }

    /// A path in the lab's folder, which a test may use for its own files too.
    pub(crate) fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.directory.path().join(relative)
    }

    /// A value that the lab exports.
    pub(crate) fn value(&self, name: &str) -> &str {
        self.environment
            .get(name)
            .unwrap_or_else(|| panic!("the lab exports no {name}"))
    }

    /// Replaces the scenario; the fakes follow it from their next request on.
    pub(crate) fn scenario(&self, scenario: &Value) {
        let path = self.path("scenario.json");
        let next = self.path("scenario.next");
        #[expect(clippy::disallowed_methods, reason = "test data")]
        std::fs::write(&next, scenario.to_string()).expect("the scenario is written");
        #[expect(clippy::disallowed_methods, reason = "test data")]
        std::fs::rename(&next, &path).expect("the scenario is replaced");
    }

    /// Everything the lab was sent at or after this time, oldest first; from its files, since tests ask often.
    pub(crate) fn log(&self, since: f64) -> Vec<Request> {
        let mut found: Vec<Request> = ["claude", "codex", "foreign", "proxy"]
            .iter()
            .flat_map(|name| self.logged(name))
            .filter(|request| request.t >= since)
            .collect();
        found.sort_by(|one, other| one.t.total_cmp(&other.t));
        found
    }

    /// The requests of one log: lines of the same id describe one, and the last line may be half written.
    fn logged(&self, name: &str) -> Vec<Request> {
        let path = self.path(format!("log/{name}.jsonl"));
        let text = std::fs::read_to_string(path).expect("a log of the lab");
        let lines = text.split_inclusive('\n');
        let mut requests: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
        for line in lines.filter(|line| line.ends_with('\n')) {
            let line: Map<String, Value> = serde_json::from_str(line).expect("a log line is JSON");
            let id = line["id"].as_str().expect("an id").to_owned();
            requests.entry(id).or_default().extend(line);
        }
        requests
            .into_values()
            .map(|mut request| {
                request.insert("log".to_owned(), name.into());
                serde_json::from_value(Value::Object(request)).expect("a request")
            })
            .collect()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        // The end of its input is what it waits for; nothing else can be done about a failure here.
        drop(self.holder.wait());
    }
}
