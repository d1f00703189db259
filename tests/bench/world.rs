//! A registry of scripted accounts, made with the product's own verbs, and live workers in it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A throw-away world.
#[derive(Debug)]
pub(crate) struct World {
    directory: tempfile::TempDir,
}

/// Live workers; they end with this value.
#[derive(Debug)]
pub(crate) struct Holders(Vec<Child>);

/// Any program.
#[expect(clippy::disallowed_methods, reason = "a bench starts real processes")]
pub(crate) fn tool(program: impl AsRef<OsStr>) -> Command {
    Command::new(program)
}

/// The program that is measured.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_agent-fleet");

impl World {
    /// The bench's own arguments.
    pub(crate) fn arguments() -> Vec<String> {
        std::env::args().collect()
    }

    /// A world with this many enabled accounts, each with a fresh reading.
    pub(crate) fn new(profiles: usize, slots: usize) -> Self {
        let world = Self {
            directory: tempfile::tempdir().expect("a temporary directory"),
        };
        for folder in ["home", "service"] {
            std::fs::create_dir(world.path(folder)).expect("a directory in the world");
        }
        let made = tool("git")
            .args(["init", "-q"])
            .arg(world.path("project"))
            .status();
        assert!(made.expect("git runs").success(), "git init failed");
        let service = world.path("service").display().to_string();
        let project = world.path("project").display().to_string();
        world.must(&["init"]);
        world.must(&["config", "set", "providers.scripted.service", &service]);
        // The readings are fresh for as long as the bench may take.
        world.must(&["config", "set", "settings.quota_fresh_seconds", "3600"]);
        world.must(&["project", "register", "--provider", "scripted", &project]);
        for index in 0..profiles {
            let id = format!("account-{index:03}");
            let home = world.path(&format!("homes/{id}"));
            std::fs::create_dir_all(&home).expect("a directory in the world");
            let login = [
                "scripted-agent",
                "--",
                "login",
                "--account",
                &id,
                "--service",
                &service,
                "--used",
                "5",
            ];
            let logged = world.command(&login).env("SCRIPTED_HOME", &home).output();
            assert!(
                logged.expect("the program starts").status.success(),
                "{id} was not logged in"
            );
            let home = home.display().to_string();
            let slots = slots.to_string();
            world.must(&[
                "profile",
                "add",
                &id,
                "--provider",
                "scripted",
                "--home",
                &home,
                "--in-place",
                "--pool",
                "crew",
                "--max-concurrent",
                &slots,
            ]);
            world.must(&["profile", "provision", &id]);
            world.must(&["profile", "enable", &id]);
        }
        world
    }

    /// The same, made at once by a registry of our own.
    pub(crate) fn many(profiles: usize, slots: usize) -> Self {
        let world = Self::new(0, 0);
        let path = world.path("config/accounts.toml");
        let mut registry = std::fs::read_to_string(&path).expect("the registry");
        let service = world.path("service").display().to_string();
        for index in 0..profiles {
            let id = format!("account-{index:03}");
            let home = world.path(&format!("homes/{id}")).display().to_string();
            std::fs::create_dir_all(&home).expect("a directory in the world");
            let login = ["scripted-agent", "--", "login", "--account", &id];
            let more = ["--service", &service, "--used", "5"];
            let line = [&login[..], &more].concat();
            let logged = world.command(&line).env("SCRIPTED_HOME", &home).output();
            assert!(logged.expect("the program starts").status.success(), "{id}");
            let lines = [
                format!("[profiles.\"{id}\"]\nprovider = \"scripted\"\nhome = \"{home}\"\n"),
                format!("pools = [\"crew\"]\nenabled = true\nmax_concurrent = {slots}\n"),
            ];
            registry.push_str(&lines.concat());
        }
        #[expect(clippy::disallowed_methods, reason = "test data")]
        std::fs::write(&path, registry).expect("the registry");
        world.must(&["profile", "provision", "--all"]);
        // Some at a time: many at once wait for one lock. The server names the account with its reading.
        let names: Vec<String> = (0..profiles)
            .map(|index| format!("account-{index:03}"))
            .collect();
        for some in names.chunks(10) {
            let words = ["quota", "refresh"].into_iter();
            let line: Vec<&str> = words.chain(some.iter().map(String::as_str)).collect();
            world.must(&line);
        }
        world
    }

    /// A path in the world.
    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        let root = self.directory.path().canonicalize();
        root.expect("the world exists").join(relative)
    }

    /// The program with this world's environment.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = tool(PROGRAM);
        command
            .args(arguments)
            .env_clear()
            .current_dir(self.path("home"))
            .stdin(Stdio::null());
        for (name, value) in [
            ("HOME", self.path("home")),
            ("PATH", PathBuf::from("/usr/local/bin:/usr/bin:/bin")),
            ("AGENT_FLEET_CONFIG", self.path("config/accounts.toml")),
            ("AGENT_FLEET_STATE_DIR", self.path("state")),
            ("AGENT_FLEET_SHARE_DIR", self.path("share")),
            ("AGENT_FLEET_FORMAT", PathBuf::from("json")),
        ] {
            command.env(name, value);
        }
        command
    }

    fn must(&self, arguments: &[&str]) {
        let output = self
            .command(arguments)
            .output()
            .expect("the program starts");
        assert!(
            output.status.success(),
            "{arguments:?} failed: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }

    fn task(&self, verb: &[&str], task: &str) -> Command {
        let mut command = self.command(verb);
        command
            .args(["--task", task, "--pool", "crew", "--workspace"])
            .arg(self.path("project"));
        command
    }

    /// `lease choose` for the bench's own task.
    pub(crate) fn choose(&self) -> Command {
        self.choose_for("bench")
    }

    /// `lease choose` for a task.
    pub(crate) fn choose_for(&self, task: &str) -> Command {
        self.task(&["lease", "choose"], task)
    }

    /// Gives back what [`choose`](Self::choose) took.
    pub(crate) fn release(&self) {
        self.must(&["lease", "release", "--task", "bench"]);
    }

    /// `fleet …` in the project.
    pub(crate) fn fleet(&self, words: &[&str]) -> Command {
        let mut command = self.command(&["fleet"]);
        command.args(words).current_dir(self.path("project"));
        command
    }

    /// A run `r` of this many steps whose workers are all parked: one was launched, the others are copies of it.
    pub(crate) fn park(&self, workers: usize) {
        let mut plan = String::new();
        for number in 1..=workers {
            let needs = if number == 1 {
                ""
            } else {
                "needs = [\"s-1\"]\n"
            };
            let step = format!(
                "[[step]]\nid = \"s-{number}\"\nkind = \"investigate\"\n{needs}text = \"\"\"\n```script\nsay Status: blocked\n```\n\"\"\"\n"
            );
            plan.push_str(&step);
        }
        let file = self.path("plan.toml").display().to_string();
        put(self.path("plan.toml"), &plan);
        let commit = [
            "-c",
            "user.name=Ada",
            "-c",
            "user.email=ada@lab.invalid",
            "commit",
        ];
        let made = tool("git")
            .arg("-C")
            .arg(self.path("project"))
            .args(commit)
            .args(["-q", "--allow-empty", "-m", "Begin"])
            .status();
        assert!(made.expect("git runs").success(), "git commit failed");
        let ran = self.fleet(&["run", &file, "--run", "r"]).output();
        let ran = ran.expect("the program starts");
        // It stands still with a question, which is what parks its worker.
        assert_eq!(
            ran.status.code(),
            Some(3),
            "{}",
            String::from_utf8_lossy(&ran.stdout)
        );
        let mut runs = std::fs::read_dir(self.path("state/fleet/runs")).expect("runs");
        let records = runs.next().expect("a run").expect("a run").path();
        for (first, folder, rest) in [
            ("workers/s-1.json", "workers", ".json"),
            ("launches/s-1.1/report.md", "launches", ".1/report.md"),
        ] {
            let text = std::fs::read_to_string(records.join(first)).expect("a record");
            for number in 2..=workers {
                let name = format!("s-{number}");
                let path = records.join(folder).join(format!("{name}{rest}"));
                std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
                put(path, &text.replace("s-1", &name));
            }
        }
    }

    /// `exec` of a scripted worker.
    pub(crate) fn exec(&self, script: &str) -> Command {
        let mut command = self.task(&["exec"], "bench-exec");
        command.args(["--", "-p", script]);
        command
    }

    /// A worker's whole turn, hooks and all.
    pub(crate) fn turn(&self) {
        let ran = self.exec("exit 0").output();
        assert!(
            ran.expect("the program starts").status.success(),
            "no turn was made"
        );
    }

    /// The environment that exec gives a worker, as a worker wrote it down.
    pub(crate) fn agent_environment(&self) -> Vec<(OsString, OsString)> {
        use std::os::unix::ffi::OsStringExt as _;
        let file = self.path("worker.env");
        let ran = self
            .exec(&format!("spawn env -0 > {}", file.display()))
            .output();
        assert!(
            ran.expect("the program starts").status.success(),
            "no worker ran"
        );
        std::fs::read(&file)
            .expect("the worker wrote its environment")
            .split(|byte| *byte == 0)
            .filter_map(|line| {
                let equals = line.iter().position(|byte| *byte == b'=')?;
                Some((
                    OsString::from_vec(line[..equals].to_vec()),
                    OsString::from_vec(line[equals + 1..].to_vec()),
                ))
            })
            .collect()
    }

    /// `exec` of a worker that ends as soon as it wants to read its prompt, before it calls any hook: hooks start
    /// a dozen processes, whose noise would drown what is measured.
    pub(crate) fn exec_in_vain(&self) -> Command {
        let mut command = self.task(&["exec"], "bench-exec");
        command
            .args(["--stdin", "--", "-p"])
            .stdin(self.unreadable());
        command
    }

    /// The same worker with nobody before it.
    pub(crate) fn agent_in_vain(&self, environment: &[(OsString, OsString)]) -> Command {
        let mut command = tool(PROGRAM);
        command
            .args(["scripted-agent", "--", "-p"])
            .env_clear()
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .current_dir(self.path("project"))
            .stdin(self.unreadable());
        command
    }

    /// An input that every read of fails.
    fn unreadable(&self) -> Stdio {
        File::open(self.path("project"))
            .expect("the project is there")
            .into()
    }

    /// This many live workers, each on a lease of its own; returns when all are bound.
    pub(crate) fn hold(&self, workers: usize) -> Holders {
        let holders = (0..workers)
            .map(|index| {
                let mut command = self.task(&["exec"], &format!("holder-{index}"));
                command
                    .args(["--", "-p", "sleep 600"])
                    .stdin(Stdio::null())
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn()
                    .expect("the program starts")
            })
            .collect();
        let holders = Holders(holders);
        let end = Instant::now() + Duration::from_mins(1);
        loop {
            let output = self
                .command(&["lease", "list"])
                .output()
                .expect("the program starts");
            let list: serde_json::Value =
                serde_json::from_slice(&output.stdout).unwrap_or_default();
            let running = list["leases"].as_array().map_or(0, |leases| {
                leases
                    .iter()
                    .filter(|lease| lease["state"] == "running")
                    .count()
            });
            if running >= workers {
                return holders;
            }
            assert!(
                Instant::now() < end,
                "only {running} of {workers} workers hold a lease"
            );
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "what the bench measures")]
fn put(path: impl AsRef<std::path::Path>, text: &str) {
    std::fs::write(path, text).expect("a file in the world");
}

impl Drop for Holders {
    fn drop(&mut self) {
        for worker in &mut self.0 {
            // A worker that has ended already is what is wanted.
            drop(worker.kill());
            drop(worker.wait());
        }
    }
}
