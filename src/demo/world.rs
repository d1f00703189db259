//! The demo's throw-away world, and running this program in it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::Value;

use super::{Options, Told};
use crate::env::{self, Context};
use crate::error::{Error, Result, code};
use crate::store::directory;
use crate::store::replace::{Durability, replace};
use crate::sys::shell;
use crate::sys::spawn::{self, Ended, Program};

/// How long one command of the demo may take.
const LIMIT: Duration = Duration::from_secs(20);

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
        let world = Self {
            context,
            options,
            directory,
            root,
            program,
        };
        // What `git init` makes, so that the demo needs no git.
        for path in [".git/objects", ".git/refs"] {
            directory::ensure(world.project().join(path))?;
        }
        replace(
            world.project().join(".git/HEAD"),
            b"ref: refs/heads/main\n",
            Durability::Volatile,
        )?;
        Ok(world)
    }

    /// The person's home in this world.
    fn home(&self) -> Utf8PathBuf {
        self.root.join("home")
    }

    /// The project that workers work in, `~/project` to the person.
    pub(super) fn project(&self) -> Utf8PathBuf {
        self.home().join("project")
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
        set("PATH", "/usr/bin:/bin".to_owned());
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
            directory: Some(self.home().into_std_path_buf()),
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
