//! Workers that the real CLIs run, watched from outside: whose account was called, which conversation was
//! written and where it says it works, what else changed, and which processes stayed.
//!
//! Around each leased home lie canaries: earlier conversations in the home itself, another account's login in
//! the CLI's default home and in a home of its own, another directory, another host.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cli::{BOTH, Cli};
use crate::lab::{Plan, now, tool};
use crate::terminal::Terminal;
use crate::wait::until;
use crate::worker::Worker;
use crate::world::{Job, World, profile, text};

/// A host that nobody should call.
pub(crate) const FOREIGN: &str = "https://foreign.invalid";

/// Accounts of each provider that have a leased home; the next one is the canary.
const LEASED: u32 = 2;

/// A world with canaries.
#[derive(Debug)]
pub(crate) struct Watched {
    /// The world.
    pub world: World,
    /// Another directory, which is no workspace of anybody.
    pub elsewhere: PathBuf,
    since: Mutex<f64>,
    /// The conversations that workers had, with their accounts.
    had: Mutex<BTreeMap<String, (Cli, u32)>>,
}

/// One leased home with a project of its own; it has one worker at a time.
#[derive(Debug)]
pub(crate) struct Cell<'a> {
    watched: &'a Watched,
    /// Which CLI.
    pub cli: Cli,
    account: u32,
    project: PathBuf,
    home: PathBuf,
    /// A conversation of this project that is no worker's any more.
    pub earlier: String,
    /// The conversation of the task that is continued.
    own: String,
}

/// How a worker is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// `exec`.
    Exec,
    /// `resume` of the cell's own task.
    Resume,
    /// `exec` on a screen.
    Screen,
    /// The CLI itself, in the same home, past the grammar.
    Bare,
}

/// Which conversation a worker may write.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Own {
    /// This one; none when it ended before it had one.
    Named(Option<String>),
    /// Any that was not there before: a review reports none, and neither does a bare CLI.
    New,
}

/// What is compared before and after a worker.
#[derive(Debug, PartialEq)]
struct Sight {
    transcripts: BTreeMap<PathBuf, Vec<u8>>,
    login: Option<Vec<u8>>,
    outside: BTreeMap<PathBuf, Vec<u8>>,
    project: BTreeSet<PathBuf>,
}

impl Watched {
    /// The world; with two cells for each CLI.
    pub(crate) fn new() -> Self {
        let projects: Vec<String> = BOTH
            .iter()
            .flat_map(|cli| (1..=LEASED).map(|account| format!("{}-{account}", cli.name())))
            .collect();
        let projects: Vec<&str> = projects.iter().map(String::as_str).collect();
        let plan = Plan {
            accounts: LEASED + 1,
            ..Plan::default()
        };
        let mut world = World::new(&plan, &projects);
        // Some commands of a screen open these, and wait for them.
        for name in ["BROWSER", "EDITOR", "VISUAL"] {
            world.set(name, "true");
        }
        for cli in BOTH {
            world.lab.make_home(
                cli.name(),
                LEASED + 1,
                &world.lab.path(format!("home/.{}", cli.name())),
                None,
            );
            for account in 1..=LEASED {
                world.add(cli, account, 1);
            }
        }
        let elsewhere = world.worktree("elsewhere");
        for project in projects.iter().chain(&["elsewhere"]) {
            let commit = tool("git")
                .args([
                    "-c",
                    "user.name=lane",
                    "-c",
                    "user.email=lane@invalid",
                    "commit",
                    "-q",
                    "--allow-empty",
                    "-m",
                    "first",
                ])
                .current_dir(world.project(project))
                .status();
            assert!(commit.expect("git runs").success(), "git commit failed");
        }
        let foreign = world.lab.value("LAB_FOREIGN_URL");
        World::write(
            &world.lab.path("canary/settings.json"),
            &format!(r#"{{"env":{{"ANTHROPIC_BASE_URL":"{foreign}"}}}}"#),
        );
        Self {
            world,
            elsewhere,
            since: Mutex::new(now()),
            had: Mutex::default(),
        }
    }

    /// A home of this CLI, with an earlier conversation in it and one that can be continued.
    pub(crate) fn cell(&self, cli: Cli, account: u32) -> Cell<'_> {
        let name = format!("{}-{account}", cli.name());
        let mut cell = Cell {
            watched: self,
            cli,
            account,
            project: self.world.project(&name),
            home: self.world.home(cli, account),
            earlier: String::new(),
            own: String::new(),
        };
        // The earlier one is the later of the two, which is what options that guess would take.
        for (task, id) in [("own", 0), ("earlier", 1)] {
            let job = cell.job(task);
            let ran = Worker::start(
                &self.world,
                &job.task,
                &mut cell.exec(&job, &cli.headless("hello")),
            )
            .clean();
            let session = cli.session(&ran);
            if id == 0 {
                cell.own = session;
            } else {
                cell.earlier = session;
            }
        }
        cell.note(&cell.own);
        cell.note(&cell.earlier);
        cell
    }

    /// Forgets what was called until now.
    pub(crate) fn forget(&self) {
        *self.since.lock().expect("no worker failed") = now();
    }

    /// Everything that can be said once all workers have ended: whose logins were used, and for which
    /// conversation.
    pub(crate) fn elsewhere_called(&self) -> Vec<String> {
        let had = self.had.lock().expect("no worker failed");
        let since = *self.since.lock().expect("no worker failed");
        let mut found = Vec::new();
        for request in self.world.lab.log(since) {
            let target = request.target.as_deref().unwrap_or_default();
            if request.log == "foreign" || target.contains("foreign.invalid") {
                found.push(request.line());
                continue;
            }
            let Some(cli) = BOTH.into_iter().find(|cli| cli.name() == request.log) else {
                continue;
            };
            if request.credential != "none"
                && request.account.is_none_or(|account| account > LEASED)
            {
                found.push(request.line());
            }
            let session = ["x-claude-code-session-id", "session-id"]
                .iter()
                .find_map(|name| request.headers.get(*name));
            if cli.asks_model(&request) && request.credential != "login" {
                found.push(request.line());
            }
            // A conversation that ended before it was recorded is known to nobody.
            if let (true, Some(session)) = (cli.asks_model(&request), session)
                && had
                    .get(session)
                    .is_some_and(|had| *had != (cli, request.account.unwrap_or_default()))
            {
                found.push(format!("{} of conversation {session}", request.line()));
            }
        }
        found
    }
}

impl Cell<'_> {
    fn job(&self, task: &str) -> Job {
        Job::new(
            &format!("{}-{}-{task}", self.cli.name(), self.account),
            self.cli.name(),
            &self.project,
        )
    }

    fn exec(&self, job: &Job, arguments: &[String]) -> Command {
        let world = &self.watched.world;
        let mut command = world.command(["exec", "--task", &job.task, "--pool", &job.pool]);
        command
            .args(["--profile", &profile(self.cli, self.account), "--workspace"])
            .arg(&job.workspace)
            .arg("--")
            .args(arguments);
        command
    }

    fn note(&self, session: &str) {
        let mut had = self.watched.had.lock().expect("no worker failed");
        had.insert(session.to_owned(), (self.cli, self.account));
    }

    /// Runs one worker and says what it did that it may not do.
    pub(crate) fn run(&self, number: usize, how: How, arguments: &[String]) -> Vec<String> {
        let world = &self.watched.world;
        let job = self.job(&number.to_string());
        let before = self.look();
        let expected = match how {
            How::Exec | How::Screen => {
                let mut command = self.exec(&job, arguments);
                if how == How::Screen {
                    self.on_screen(&job, &command);
                } else {
                    drop(Worker::start(world, &job.task, &mut command).finish());
                }
                let status = world.run(["session", "status", "--task", &job.task]);
                if arguments.iter().any(|word| word == "review") {
                    Own::New
                } else {
                    Own::Named((status.status == 0).then(|| text(&status.success(), "session_id")))
                }
            }
            How::Resume => {
                let own = self.job("own");
                drop(Worker::start(world, &job.task, &mut world.resume(&own, arguments)).finish());
                Own::Named(Some(self.own.clone()))
            }
            How::Bare => {
                let mut command = tool(world.lab.value(self.cli.binary_variable()));
                command
                    .args(arguments)
                    .env_clear()
                    .envs(world.variables())
                    .env("CLAUDE_CONFIG_DIR", &self.home)
                    .env("CODEX_HOME", &self.home)
                    .stdin(std::process::Stdio::null())
                    .current_dir(&self.project);
                drop(Worker::start(world, &job.task, &mut command).finish());
                Own::New
            }
        };
        if let Own::Named(Some(session)) = &expected {
            self.note(session);
        }
        let mut found = self.stayed();
        let after = self.look();
        if before.login != after.login {
            found.push("the login was changed".to_owned());
        }
        for (what, one, other) in [
            (
                "the canaries",
                before.outside.keys().collect::<BTreeSet<_>>(),
                after.outside.keys().collect(),
            ),
            (
                "the project",
                before.project.iter().collect(),
                after.project.iter().collect(),
            ),
        ] {
            let changed: Vec<_> = one.symmetric_difference(&other).collect();
            if !changed.is_empty() {
                found.push(format!("{what}: {changed:?}"));
            }
        }
        for (path, bytes) in &before.outside {
            if after.outside.get(path).is_some_and(|now| now != bytes) {
                found.push(format!("{} was changed", path.display()));
            }
        }
        found.extend(self.wrong_conversations(&before, &after, &expected));
        found
    }

    /// A worker on a screen has no end of its own: it is ended when it has answered, ended, or waits for somebody.
    fn on_screen(&self, job: &Job, command: &Command) {
        let screen = Terminal::start(&self.watched.world, &job.task, command);
        let end = Instant::now() + Duration::from_secs(8);
        until(
            "an answer or the end of a worker on a screen",
            Duration::from_mins(1),
            || {
                let shown = screen.screen();
                if shown.contains("lab reply") || screen.ended() || Instant::now() > end {
                    Ok(())
                } else {
                    Err(shown)
                }
            },
        );
        if !screen.ended() {
            screen.terminate();
        }
    }

    fn look(&self) -> Sight {
        let mut transcripts = BTreeMap::new();
        for folder in ["projects", "sessions", "archived_sessions"] {
            files(&self.home.join(folder), &mut transcripts, |path| {
                path.extension().is_some_and(|end| end == "jsonl")
            });
        }
        let login = match self.cli {
            Cli::Claude => ".credentials.json",
            Cli::Codex => "auth.json",
        };
        let mut outside = BTreeMap::new();
        for folder in ["home", "canary", "elsewhere"] {
            // Claude Code's screen writes these whatever its arguments are.
            files(&self.watched.world.lab.path(folder), &mut outside, |path| {
                let habits = ["/home/.cache/claude-cli-nodejs/", "/home/.npm/_logs/"];
                let text = path.to_string_lossy();
                !habits.iter().any(|habit| text.contains(habit))
                    && !path.ends_with("claude-code-url-handler.desktop")
            });
        }
        let mut project = BTreeMap::new();
        files(&self.project, &mut project, |path| {
            !path.starts_with(self.project.join(".git"))
        });
        Sight {
            transcripts,
            login: std::fs::read(self.home.join(login)).ok(),
            outside,
            project: project.into_keys().collect(),
        }
    }

    /// Transcripts that changed and are not this worker's own, or say that it worked elsewhere.
    fn wrong_conversations(&self, before: &Sight, after: &Sight, own: &Own) -> Vec<String> {
        let mut found = Vec::new();
        let paths: BTreeSet<_> = before
            .transcripts
            .keys()
            .chain(after.transcripts.keys())
            .collect();
        for path in paths {
            let (old, new) = (before.transcripts.get(path), after.transcripts.get(path));
            if old == new {
                continue;
            }
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            let right = match own {
                // What its own agents say is kept in a folder of its name.
                Own::Named(session) => session
                    .as_deref()
                    .is_some_and(|id| path.to_string_lossy().contains(id)),
                Own::New => old.is_none(),
            };
            if !right {
                found.push(format!(
                    "{} was written; its own is {own:?}",
                    path.display()
                ));
            } else if let (Own::New, Some(at)) = (own, name.len().checked_sub(36)) {
                self.note(&name[at..]);
            }
            let text = String::from_utf8_lossy(new.map(Vec::as_slice).unwrap_or_default());
            for line in text
                .lines()
                .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            {
                for place in [&line["cwd"], &line["payload"]["cwd"]] {
                    if place
                        .as_str()
                        .is_some_and(|place| Path::new(place) != self.project)
                    {
                        found.push(format!("{} says that it works in {place}", path.display()));
                    }
                }
            }
        }
        found.dedup();
        found
    }

    /// Processes that have this home in their environment when no worker lives, once they had time to end.
    fn stayed(&self) -> Vec<String> {
        let home = self
            .home
            .to_str()
            .expect("the lab's paths are UTF-8")
            .as_bytes()
            .to_vec();
        let alive = || {
            let mut alive = Vec::new();
            for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
                let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
                if environment
                    .split(|byte| *byte == 0)
                    .any(|pair| pair.ends_with(&home))
                {
                    let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
                    alive.push(format!(
                        "process {} stayed: {}",
                        entry.file_name().display(),
                        String::from_utf8_lossy(&words)
                    ));
                }
            }
            alive
        };
        let end = Instant::now() + Duration::from_secs(10);
        until("an answer", Duration::from_mins(1), || match alive() {
            left if left.is_empty() || Instant::now() > end => Ok(left),
            left => Err(format!("{left:?}")),
        })
    }
}

/// The files below a folder that are wanted, with their bytes.
fn files(
    folder: &Path,
    into: &mut BTreeMap<PathBuf, Vec<u8>>,
    wanted: impl Fn(&Path) -> bool + Copy,
) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            files(&path, into, wanted);
        } else if wanted(&path) {
            into.insert(path.clone(), std::fs::read(&path).unwrap_or_default());
        }
    }
}
