//! A complete scripted world, made through the program's own commands: accounts, pools, a pretend server,
//! a registered git project; and workers in it.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::Value;

use super::sandbox::{Ran, Sandbox};

/// The pool that profiles join unless they say otherwise.
pub(crate) const POOL: &str = "crew";

/// How long anything in a test may take before it counts as broken.
const PATIENCE: Duration = Duration::from_secs(10);

/// An account to be, with the profile of the same name.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    name: String,
    used: f64,
    pools: Vec<String>,
    slots: u32,
    expires_in: Option<u32>,
}

impl Account {
    /// An unused account whose profile joins [`POOL`] with two slots.
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            used: 0.0,
            pools: vec![POOL.to_owned()],
            slots: 2,
            expires_in: None,
        }
    }

    /// Percent used of each window.
    pub(crate) fn used(mut self, percent: f64) -> Self {
        self.used = percent;
        self
    }

    /// The pools that the profile joins.
    pub(crate) fn pools(mut self, pools: &[&str]) -> Self {
        self.pools = pools.iter().map(|&pool| pool.to_owned()).collect();
        self
    }

    /// Slots of the profile.
    pub(crate) fn slots(mut self, slots: u32) -> Self {
        self.slots = slots;
        self
    }

    /// Life of its first access token, in seconds; below 300 every start refreshes it.
    pub(crate) fn expires_in(mut self, seconds: u32) -> Self {
        self.expires_in = Some(seconds);
        self
    }
}

/// A sandbox with everything set up; profiles are provisioned, proved and enabled.
#[derive(Debug)]
pub(crate) struct World {
    /// The hermetic home, roots and program.
    pub sandbox: Sandbox,
    /// The registered project.
    pub project: PathBuf,
}

/// A worker that runs in the background, killed when dropped.
#[derive(Debug)]
pub(crate) struct Worker {
    child: Option<Child>,
    /// Its pid: exec becomes the agent, so it never changes.
    pub pid: u32,
}

impl World {
    /// A world with these accounts.
    pub(crate) fn new(accounts: &[Account]) -> Self {
        let sandbox = Sandbox::new();
        let project = sandbox.git_project("project");
        let world = Self { sandbox, project };
        let service = text(&world.service());
        world.command(&["init"]);
        world.command(&["config", "set", "providers.scripted.service", &service]);
        let project = text(&world.project);
        world.command(&["project", "register", "--provider", "scripted", &project]);
        for account in accounts {
            world.add(account);
        }
        world
    }

    /// A world with `count` unused accounts named `one`, `two`, ….
    pub(crate) fn with(count: usize) -> Self {
        let names = [
            "one", "two", "three", "four", "five", "six", "seven", "eight",
        ];
        let accounts: Vec<Account> = names
            .iter()
            .take(count)
            .map(|name| Account::new(name))
            .collect();
        assert_eq!(accounts.len(), count, "no more names");
        Self::new(&accounts)
    }

    /// Adds an account: profile, login, provisioning, enabling.
    pub(crate) fn add(&self, account: &Account) {
        let slots = account.slots.to_string();
        let mut line = vec!["profile", "add", &account.name, "--provider", "scripted"];
        line.extend(["--max-concurrent", &slots]);
        for pool in &account.pools {
            line.extend(["--pool", pool]);
        }
        let home = self.command(&line)["home"]
            .as_str()
            .expect("a home")
            .to_owned();
        self.log_in(&home, account);
        self.command(&["profile", "provision", &account.name]);
        self.command(&["profile", "enable", &account.name]);
    }

    /// Logs a home in to an account, made at the server if it is new.
    pub(crate) fn log_in(&self, home: &str, account: &Account) {
        let (service, used) = (text(&self.service()), account.used.to_string());
        let mut line = vec!["scripted-agent", "login", "--account", &account.name];
        // The account is known to its server by the person's address.
        let user = format!("{}@lab.invalid", account.name);
        line.extend(["--service", &service, "--used", &used, "--user", &user]);
        let life = account.expires_in.map(|seconds| seconds.to_string());
        if let Some(life) = &life {
            line.extend(["--expires-in", life]);
        }
        let ran = Ran::of(self.sandbox.command(line).env("SCRIPTED_HOME", home));
        assert_eq!(ran.status, 0, "login failed: {}", ran.stderr);
    }

    /// Runs a command that must succeed, for its JSON.
    #[track_caller]
    pub(crate) fn command(&self, arguments: &[&str]) -> Value {
        self.sandbox.run(arguments).success()
    }

    /// The directory that plays the server.
    pub(crate) fn service(&self) -> PathBuf {
        self.sandbox.path("service")
    }

    /// Changes what the server knows of an account.
    pub(crate) fn change(&self, account: &str, change: impl FnOnce(&mut Value)) {
        let path = format!("service/{account}.json");
        let bytes = std::fs::read(self.sandbox.path(&path)).expect("the account's file");
        let mut file = serde_json::from_slice(&bytes).expect("JSON");
        change(&mut file);
        self.sandbox.write(&path, file.to_string());
    }

    fn log(&self, kind: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.service().join("requests.jsonl"));
        text.unwrap_or_default()
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter(|line| line["request"] == kind)
            .collect()
    }

    /// What the server was asked so far, as `account outcome`: kind is `turn`, `usage` or `refresh`.
    pub(crate) fn requests(&self, kind: &str) -> Vec<String> {
        let words = |line: &Value| {
            let word = |key: &str| line[key].as_str().unwrap_or("-").to_owned();
            format!("{} {}", word("account"), word("outcome"))
        };
        self.log(kind).iter().map(words).collect()
    }

    /// When it was asked.
    pub(crate) fn times(&self, kind: &str) -> Vec<Timestamp> {
        let time = |line: &Value| line["at"].as_str().and_then(|at| at.parse().ok());
        self.log(kind)
            .iter()
            .map(|line| time(line).expect("a time"))
            .collect()
    }

    /// The arguments of an exec of a script as a task of [`POOL`].
    pub(crate) fn exec_line(&self, task: &str, script: &str) -> Vec<String> {
        let project = text(&self.project);
        let mut line = vec![
            "exec",
            "--task",
            task,
            "--pool",
            POOL,
            "--workspace",
            &project,
        ];
        line.extend(["--", "-p", script]);
        line.into_iter().map(str::to_owned).collect()
    }

    /// Runs a worker to its end.
    pub(crate) fn exec(&self, task: &str, script: &str) -> Ran {
        self.sandbox.run(self.exec_line(task, script))
    }

    /// The lease of a task, if it has one.
    pub(crate) fn lease(&self, task: &str) -> Option<Value> {
        let list = self.command(&["lease", "list"]);
        let leases = list["leases"].as_array().expect("a list");
        leases.iter().find(|lease| lease["task"] == task).cloned()
    }

    /// Starts a worker in the background.
    pub(crate) fn launch(&self, task: &str, script: &str) -> Worker {
        let child = self
            .sandbox
            .command(self.exec_line(task, script))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        Worker {
            pid: child.id(),
            child: Some(child),
        }
    }

    /// Starts a worker in the background and waits until its lease is bound to it.
    #[track_caller]
    pub(crate) fn start(&self, task: &str, script: &str) -> Worker {
        let mut worker = self.launch(task, script);
        wait(&format!("the lease of `{task}`"), || {
            assert!(worker.ended().is_none(), "the worker of `{task}` ended");
            self.lease(task).filter(|lease| lease["pid"] == worker.pid)
        });
        worker
    }
}

impl Worker {
    /// Its exit status, 128 + n for a signal, once it has ended.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        use std::os::unix::process::ExitStatusExt as _;
        let status = self.child.as_mut()?.try_wait().expect("a child")?;
        Some(
            status
                .code()
                .unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
        )
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn wait(mut self) -> i32 {
        let status = wait("the worker's end", || self.ended());
        self.child = None;
        status
    }

    /// Kills it with SIGKILL; it is reaped, so that its pid is gone.
    pub(crate) fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("a child of ours");
            child.wait().expect("a child of ours");
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.end();
    }
}

/// Looks until something is found; fails after ten seconds.
#[track_caller]
#[expect(clippy::disallowed_methods, reason = "tests poll with a deadline")]
pub(crate) fn wait<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn text(path: &Path) -> String {
    path.to_str().expect("UTF-8").to_owned()
}
