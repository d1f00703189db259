//! The demo's throw-away world, and running this program in it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::Value;

use super::{Options, Told};
use crate::env::{self, Context};
use crate::error::{Error, Result, code};
use crate::fleet::git::Git;
use crate::store::directory;
use crate::store::replace::{Durability, replace};
use crate::sys::shell;
use crate::sys::spawn::{self, Ended, Program};

/// How long one command of the demo may take.
const LIMIT: Duration = Duration::from_mins(1);

/// Variables of the person that change how output looks, and nothing else.
const KEPT: [&str; 10] = [
    "COLORTERM",
    "COLUMNS",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LC_TIME",
    "NO_COLOR",
    "TERM",
    "TMPDIR",
    "TZ",
];

/// A home, roots, a project and a pretend server below one temporary directory.
#[derive(Debug)]
pub(super) struct World<'a> {
    context: &'a Context,
    options: Options,
    directory: tempfile::TempDir,
    root: Utf8PathBuf,
    program: PathBuf,
    git: Option<Git>,
}

/// The world while a step shows something in it.
pub(super) struct Tour<'a> {
    world: &'a World<'a>,
    tell: &'a mut dyn FnMut(Told<'_>),
}

/// How a command ended, in text.
#[derive(Debug)]
pub(super) struct Ran {
    /// Exit status; `None` after a signal.
    pub status: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl<'a> World<'a> {
    /// Makes the world.
    pub(super) fn new(context: &'a Context, options: Options) -> Result<Self> {
        let program = context.executable.clone().ok_or_else(|| {
            Error::new(code::IO, "the path of this program is not known")
                .hint("agent-fleet version")
        })?;
        let made = tempfile::Builder::new()
            .prefix("agent-fleet-demo-")
            .tempdir();
        let directory =
            made.map_err(|error| Error::io("create a directory in", temporary(context), &error))?;
        let root = directory
            .path()
            .canonicalize()
            .ok()
            .and_then(|path| Utf8PathBuf::from_path_buf(path).ok())
            .ok_or_else(|| {
                Error::new(code::USAGE, "the temporary directory is not UTF-8")
                    .hint("TMPDIR=/tmp agent-fleet demo")
            })?;
        let git = if options.fleet {
            Some(Git::find(&context.variables, context.clock)?)
        } else {
            None
        };
        let world = Self {
            context,
            options,
            directory,
            root,
            program,
            git,
        };
        if world.git.is_some() {
            world.repository()?;
        } else {
            world.pretended_repository()?;
        }
        Ok(world)
    }

    /// What `git init` makes, so that the demo of the broker needs no git.
    fn pretended_repository(&self) -> Result<()> {
        for path in [".git/objects", ".git/refs"] {
            directory::ensure(self.project().join(path))?;
        }
        self.write(".git/HEAD", "ref: refs/heads/main\n")
    }

    /// A repository with one commit.
    fn repository(&self) -> Result<()> {
        directory::ensure(self.project())?;
        self.write("README", "A project to try things in.\n")?;
        for words in [
            ["-c", "init.defaultBranch=main", "init", "-q"].as_slice(),
            &["add", "README"],
            &["commit", "-q", "-m", "Begin"],
        ] {
            self.git(words)?;
        }
        Ok(())
    }

    /// Writes a file of the project.
    pub(super) fn write(&self, file: &str, text: &str) -> Result<()> {
        let path = self.project().join(file);
        if let Some(parent) = path.parent() {
            directory::ensure(parent)?;
        }
        replace(path, text.as_bytes(), Durability::Volatile)
    }

    /// What git says in the project, whatever the person's own git is told.
    pub(super) fn git(&self, words: &[&str]) -> Result<String> {
        let git = self.git.as_ref();
        let git = git.ok_or_else(|| Error::internal("this world has no git"))?;
        let project = self.project();
        let mut call = git.call(&project, words);
        for (name, value) in [
            ("HOME", self.home().as_str()),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_AUTHOR_NAME", "Demo"),
            ("GIT_AUTHOR_EMAIL", "demo@example.invalid"),
            ("GIT_COMMITTER_NAME", "Demo"),
            ("GIT_COMMITTER_EMAIL", "demo@example.invalid"),
        ] {
            call = call.variable(name, value);
        }
        call.line()
    }

    /// The person's home in this world.
    fn home(&self) -> Utf8PathBuf {
        self.root.join("home")
    }

    /// The project that workers work in, `~/project` to the person.
    pub(super) fn project(&self) -> Utf8PathBuf {
        self.home().join("project")
    }

    /// Where commands are typed: a fleet's in its checkout.
    fn directory(&self) -> Utf8PathBuf {
        if self.git.is_some() {
            self.project()
        } else {
            self.home()
        }
    }

    /// The directory that plays the server.
    pub(super) fn service(&self) -> Utf8PathBuf {
        self.root.join("service")
    }

    fn program(&self, arguments: &[&str], format: &str, more: &[(&str, &str)]) -> Program {
        let person = self
            .context
            .variables
            .iter()
            .filter(|(name, _)| KEPT.iter().any(|kept| name.to_str() == Some(kept)));
        let mut environment: Vec<(OsString, OsString)> = person
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let root = |path: &str| self.root.join(path).into_string();
        let mut set = |name: &str, value: String| {
            environment.push((name.into(), value.into()));
        };
        set("HOME", self.home().into_string());
        let git = self.git.as_ref().and_then(|git| git.program().parent());
        let mut path = "/usr/bin:/bin".to_owned();
        if let Some(git) = git {
            path = format!("{path}:{}", git.display());
        }
        set("PATH", path);
        set(env::CONFIG, root("config/accounts.toml"));
        set(env::STATE_DIR, root("state"));
        set(env::SHARE_DIR, root("share"));
        set(env::FORMAT, format.to_owned());
        if self.options.colour {
            set("CLICOLOR_FORCE", "1".to_owned());
        }
        for (name, value) in more {
            set(name, (*value).to_owned());
        }
        Program {
            path: self.program.clone(),
            arguments: arguments.iter().map(OsString::from).collect(),
            environment,
            directory: Some(self.directory().into_std_path_buf()),
            input: Vec::new(),
        }
    }

    /// Runs this program to its end.
    pub(super) fn run(
        &self,
        arguments: &[&str],
        format: &str,
        more: &[(&str, &str)],
    ) -> Result<Ran, String> {
        let program = self.program(arguments, format, more);
        let deadline = self.context.clock.deadline(LIMIT);
        let Ended {
            status,
            stdout,
            stderr,
        } = spawn::run(&program, &deadline)
            .map_err(|error| format!("`{}` did not run: {error}", line(arguments)))?;
        Ok(Ran {
            status,
            stdout: String::from_utf8_lossy(&stdout).into_owned(),
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
        })
    }

    /// Runs this program for its JSON answer.
    pub(super) fn json(&self, arguments: &[&str]) -> Result<Value, String> {
        let ran = self.run(arguments, "json", &[])?;
        match (ran.status, serde_json::from_str(&ran.stdout)) {
            (Some(0), Ok(value)) => Ok(value),
            _ => Err(format!(
                "`{}` failed: {}{}",
                line(arguments),
                ran.stdout,
                ran.stderr
            )),
        }
    }

    /// Looks until something is found, or says what was waited for.
    pub(super) fn wait<T>(
        &self,
        what: &str,
        look: &mut dyn FnMut() -> Result<Option<T>, String>,
    ) -> Result<T, String> {
        let deadline = self.context.clock.deadline(LIMIT);
        loop {
            if let Some(found) = look()? {
                return Ok(found);
            }
            if !deadline.pause(Duration::from_millis(10)) {
                return Err(format!("waited in vain for {what}"));
            }
        }
    }

    /// The world with someone who watches.
    pub(super) fn tour<'b>(&'b self, tell: &'b mut dyn FnMut(Told<'_>)) -> Tour<'b> {
        Tour { world: self, tell }
    }

    /// Removes the world, or says where it is.
    pub(super) fn end(self) -> Result<Option<Utf8PathBuf>> {
        if self.options.keep {
            drop(self.directory.keep());
            return Ok(Some(self.root));
        }
        let root = self.root;
        self.directory
            .close()
            .map(|()| None)
            .map_err(|error| Error::io("remove", &root, &error))
    }
}

fn temporary(context: &Context) -> PathBuf {
    context
        .variables
        .raw("TMPDIR")
        .map_or_else(|| PathBuf::from("/tmp"), PathBuf::from)
}

/// A command line as a person types it.
pub(super) fn line(arguments: &[&str]) -> String {
    let words: Vec<String> = arguments
        .iter()
        .map(|word| match word.strip_prefix("~/") {
            // A shell expands the tilde only outside quotes.
            Some(rest) => format!("~/{}", shell::quote(rest)),
            None => shell::quote(word),
        })
        .collect();
    format!("agent-fleet {}", words.join(" "))
}

impl<'a> Tour<'a> {
    /// The world that is toured.
    pub(super) fn world(&self) -> &'a World<'a> {
        self.world
    }

    /// Shows what is typed.
    pub(super) fn typed(&mut self, line: &str) {
        (self.tell)(Told::Command(line));
    }

    /// Shows a command line that goes on in the background.
    pub(super) fn start(&mut self, arguments: &[&str]) {
        let line = format!("{} &", line(arguments));
        self.typed(&line);
    }

    /// Shows a file of the project.
    pub(super) fn file(&mut self, file: &str) -> Result<String, String> {
        self.typed(&format!("cat {file}"));
        let text = self.read(file)?;
        (self.tell)(Told::Output(text.trim_end()));
        Ok(text)
    }

    /// Shows how a file of the project begins.
    pub(super) fn head(&mut self, file: &str, lines: usize) -> Result<(), String> {
        self.typed(&format!("head -n {lines} {file}"));
        let text = self.read(file)?;
        for line in text.lines().take(lines) {
            (self.tell)(Told::Output(line));
        }
        Ok(())
    }

    fn read(&self, file: &str) -> Result<String, String> {
        let path = self.world.project().join(file);
        std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))
    }

    /// Shows what git says in the project.
    pub(super) fn git(&mut self, words: &[&str]) -> Result<String, String> {
        self.typed(&format!("git {}", words.join(" ")));
        let text = self.world.git(words).map_err(|error| error.message)?;
        if !text.is_empty() {
            (self.tell)(Told::Output(&text));
        }
        Ok(text)
    }

    /// Shows a command line.
    pub(super) fn command(&mut self, arguments: &[&str]) {
        let line = line(arguments);
        self.typed(&line);
    }

    /// Shows what a command said, with the world's home as `~`.
    pub(super) fn output(&mut self, ran: &Ran) {
        let home = self.world.home();
        // Notes on stderr come before the answer they are about.
        for text in [&ran.stderr, &ran.stdout] {
            let text = text.replace(home.as_str(), "~");
            if !text.trim().is_empty() {
                (self.tell)(Told::Output(text.trim_end()));
            }
        }
    }

    /// Shows a command and its answer for people; it must end with this status.
    pub(super) fn show(&mut self, arguments: &[&str], status: i32) -> Result<Ran, String> {
        self.command(arguments);
        let ran = self.world.run(arguments, "human", &[])?;
        self.output(&ran);
        if ran.status == Some(status) {
            Ok(ran)
        } else {
            Err(format!(
                "`{}` ended with {:?} instead of {status}",
                line(arguments),
                ran.status
            ))
        }
    }
}

/// The directory of a profile's home, as the program tells it.
pub(super) fn home_of(profile: &Value) -> Result<&Utf8Path, String> {
    profile["home"]
        .as_str()
        .map(Utf8Path::new)
        .ok_or_else(|| format!("a profile without a home: {profile}"))
}
