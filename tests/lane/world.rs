//! A lab, a registry made with the product's own verbs, and workers started by the product in it.
//!
//! When it goes, our roots and the words of every program that we started are searched for secrets.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::cli::{BOTH, Cli};
use crate::lab::{Lab, Plan, Request, tool};
use crate::ran::Ran;
use crate::secrets;
use crate::worker::Worker;

/// A hermetic world around one lab.
#[derive(Debug)]
pub(crate) struct World {
    /// The fakes.
    pub lab: Lab,
    variables: BTreeMap<OsString, OsString>,
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let started = std::fs::read(self.lab.path("programs.started")).unwrap_or_default();
        secrets::none_in("the words of a program", &started);
        let roots = ["config", "state", "share"];
        let found = secrets::below(&self.lab.path(""), &roots, &BTreeMap::new());
        assert!(found.is_empty(), "secrets were written: {found:#?}");
    }
}

/// One task of one pool in one workspace.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// The task's name.
    pub task: String,
    /// The pool that it is leased from.
    pub pool: String,
    /// Where its worker works.
    pub workspace: PathBuf,
}

impl Job {
    /// A task in a pool and a workspace.
    pub(crate) fn new(task: &str, pool: &str, workspace: &Path) -> Self {
        Self {
            task: task.to_owned(),
            pool: pool.to_owned(),
            workspace: workspace.to_owned(),
        }
    }
}

impl World {
    /// A lab, and the environment of a person behind a company proxy: PATH, HOME, TERM, proxy and CA.
    pub(crate) fn bare(plan: &Plan) -> Self {
        let lab = Lab::up(plan);
        let mut variables = BTreeMap::new();
        let mut set = |name: &str, value: OsString| variables.insert(OsString::from(name), value);
        for name in [
            "HOME",
            "HTTPS_PROXY",
            "https_proxy",
            "HTTP_PROXY",
            "http_proxy",
            "NO_PROXY",
            "no_proxy",
            "NODE_EXTRA_CA_CERTS",
            "SSL_CERT_FILE",
            "CODEX_CA_CERTIFICATE",
        ] {
            set(name, lab.value(name).into());
        }
        for (name, value) in [
            ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ("LANG", "C.UTF-8"),
            ("TERM", "xterm-256color"),
            // Claude's bypass-permissions mode refuses root elsewhere than in a sandbox.
            ("IS_SANDBOX", "1"),
            ("AGENT_FLEET_FORMAT", "json"),
        ] {
            set(name, value.into());
        }
        for (name, relative) in [
            ("AGENT_FLEET_CONFIG", "config/accounts.toml"),
            ("AGENT_FLEET_STATE_DIR", "state"),
            ("AGENT_FLEET_SHARE_DIR", "share"),
            ("AGENT_FLEET_TEST_STARTED", "programs.started"),
        ] {
            set(name, lab.path(relative).into_os_string());
        }
        Self { lab, variables }
    }

    /// The same after `init`, which must have found the two CLIs on PATH behind their links, and with these
    /// projects registered.
    pub(crate) fn new(plan: &Plan, projects: &[&str]) -> Self {
        let mut world = Self::bare(plan);
        let links = world.lab.path("bin");
        std::fs::create_dir(&links).expect("a directory in the lab's folder");
        for cli in BOTH {
            let binary = world.lab.value(cli.binary_variable());
            std::os::unix::fs::symlink(binary, links.join(cli.name())).expect("a link to the CLI");
        }
        world.prepend_path(&links);
        let answer = world.run(["init"]).success();
        for cli in BOTH {
            let pinned = world.configured(&format!("providers.{}.binary", cli.name()));
            assert_eq!(pinned, world.lab.value(cli.binary_variable()), "{answer}");
        }
        for project in projects {
            world.register(project);
        }
        world
    }

    /// A world with an enabled profile for each account of each provider, in the pools `claude` and `codex`.
    pub(crate) fn enabled(plan: &Plan, slots: u32, projects: &[&str]) -> Self {
        let world = Self::new(plan, projects);
        for cli in BOTH {
            for account in 1..=plan.accounts {
                world.add(cli, account, slots);
            }
        }
        world
    }

    /// Puts a folder first on the caller's PATH.
    pub(crate) fn prepend_path(&mut self, folder: &Path) {
        let rest = &self.variables[OsStr::new("PATH")];
        let mut path = folder.as_os_str().to_owned();
        path.push(":");
        path.push(rest);
        self.set("PATH", path);
    }

    /// `config get`.
    #[track_caller]
    fn configured(&self, key: &str) -> String {
        text(&self.run(["config", "get", key]).success(), "value")
    }

    /// `config set`.
    pub(crate) fn configure(&self, key: &str, value: &str) {
        drop(self.run(["config", "set", key, value]).success());
    }

    /// Adds the lab's home of this account as a profile, provisions and enables it; returns its id.
    pub(crate) fn add(&self, cli: Cli, account: u32, slots: u32) -> String {
        let id = self.added(cli, account, slots);
        drop(self.run(["profile", "enable", &id]).success());
        id
    }

    /// The same, neither enabled nor proved.
    pub(crate) fn add_unproved(&self, cli: Cli, account: u32) -> String {
        self.added(cli, account, 4)
    }

    fn added(&self, cli: Cli, account: u32, slots: u32) -> String {
        let id = profile(cli, account);
        let home = self.home(cli, account);
        let home = home.to_str().expect("the lab's paths are UTF-8");
        drop(
            self.run([
                "profile",
                "add",
                &id,
                "--provider",
                cli.name(),
                "--home",
                home,
                "--in-place",
                "--pool",
                cli.name(),
                "--max-concurrent",
                &slots.to_string(),
            ])
            .success(),
        );
        drop(self.run(["profile", "provision", &id]).success());
        id
    }

    /// The provider home of an account.
    pub(crate) fn home(&self, cli: Cli, account: u32) -> PathBuf {
        self.lab.path(format!("homes/{}{account}", cli.name()))
    }

    /// A git worktree that nobody knows of.
    pub(crate) fn worktree(&self, name: &str) -> PathBuf {
        let path = self.lab.path(name);
        let made = tool("git")
            .args(["init", "-q"])
            .arg(&path)
            .status()
            .expect("git runs");
        assert!(made.success(), "git init failed");
        path
    }

    /// The root of a project.
    pub(crate) fn project(&self, name: &str) -> PathBuf {
        self.lab.path(name)
    }

    /// Makes a git worktree and registers it for every provider.
    pub(crate) fn register(&self, name: &str) {
        let path = self.worktree(name);
        let mut register = self.command(["project", "register"]);
        drop(Ran::of(register.arg(path)).success());
    }

    /// Writes a file and its directories.
    pub(crate) fn write(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().expect("a file has a directory"))
            .expect("a directory in the lab's folder");
        #[expect(clippy::disallowed_methods, reason = "test data")]
        std::fs::write(path, text).expect("a file in the lab's folder");
    }

    /// Sets a variable of the caller's environment for all later runs.
    pub(crate) fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.variables.insert(name.into(), value.into());
    }

    /// The caller's environment.
    pub(crate) fn variables(&self) -> &BTreeMap<OsString, OsString> {
        &self.variables
    }

    /// The program with this world's environment, from a directory that is no project.
    pub(crate) fn command<I, S>(&self, arguments: I) -> Command
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        let mut command = tool(env!("CARGO_BIN_EXE_agent-fleet"));
        command
            .args(arguments)
            .env_clear()
            .envs(&self.variables)
            .current_dir(self.lab.path("home"))
            .stdin(Stdio::null());
        command
    }

    /// Runs the program to its end.
    pub(crate) fn run<I, S>(&self, arguments: I) -> Ran
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        Ran::of(&mut self.command(arguments))
    }

    /// `lease choose`.
    pub(crate) fn choose(&self, job: &Job) -> Ran {
        Ran::of(
            self.command(["lease", "choose", "--task", &job.task, "--pool", &job.pool])
                .arg("--workspace")
                .arg(&job.workspace),
        )
    }

    /// `exec` with these worker arguments, not started.
    pub(crate) fn exec(&self, job: &Job, arguments: &[String]) -> Command {
        let mut command = self.command(["exec", "--task", &job.task, "--pool", &job.pool]);
        command
            .arg("--workspace")
            .arg(&job.workspace)
            .arg("--")
            .args(arguments);
        command
    }

    /// `resume` with these worker arguments, not started.
    pub(crate) fn resume(&self, job: &Job, arguments: &[String]) -> Command {
        let mut command = self.command(["resume", "--task", &job.task]);
        command
            .arg("--workspace")
            .arg(&job.workspace)
            .arg("--")
            .args(arguments);
        command
    }

    /// Chooses, then starts one headless turn; returns the profile and the worker.
    #[track_caller]
    pub(crate) fn start(&self, cli: Cli, job: &Job, prompt: &str) -> (String, Worker) {
        let chosen = self.choose(job).success();
        let mut command = self.exec(job, &cli.headless(prompt));
        (
            text(&chosen, "profile"),
            Worker::start(self, &job.task, &mut command),
        )
    }

    /// Chooses, then runs one headless turn to its end, which must be clean; returns the profile and stdout.
    #[track_caller]
    pub(crate) fn turn(&self, cli: Cli, job: &Job, prompt: &str) -> (String, String) {
        let (profile, worker) = self.start(cli, job, prompt);
        (profile, worker.clean())
    }

    /// `session status`.
    #[track_caller]
    pub(crate) fn session(&self, job: &Job) -> Value {
        self.run(["session", "status", "--task", &job.task])
            .success()
    }

    /// Whatever happened since then was on this account alone, by its login; returns the model's requests.
    #[track_caller]
    pub(crate) fn only(&self, cli: Cli, account: u32, since: f64) -> Vec<Request> {
        let log = self.lab.log(since);
        let elsewhere: Vec<String> = log
            .iter()
            .filter(|request| match request.log.as_str() {
                "foreign" => true,
                "proxy" => false,
                _ => request.credential != "none" && request.account != Some(account),
            })
            .map(Request::line)
            .collect();
        assert!(
            elsewhere.is_empty(),
            "requests that were not on account {account}: {elsewhere:#?}"
        );
        let asked: Vec<Request> = log
            .into_iter()
            .filter(|request| cli.asks_model(request))
            .collect();
        assert!(!asked.is_empty(), "the model was not asked for anything");
        let odd: Vec<String> = asked
            .iter()
            .filter(|request| request.credential != "login")
            .map(Request::line)
            .collect();
        assert!(odd.is_empty(), "requests without the login: {odd:#?}");
        asked
    }
}

/// The id of the profile of an account.
pub(crate) fn profile(cli: Cli, account: u32) -> String {
    format!("{}-{account}", cli.name())
}

/// The account behind a profile's id.
#[track_caller]
pub(crate) fn account(profile: &str) -> u32 {
    profile
        .rsplit_once('-')
        .and_then(|(_, number)| number.parse().ok())
        .unwrap_or_else(|| panic!("{profile} names no account"))
}

/// A text field of an answer.
#[track_caller]
pub(crate) fn text(answer: &Value, field: &str) -> String {
    answer[field]
        .as_str()
        .unwrap_or_else(|| panic!("no {field} in {answer}"))
        .to_owned()
}
