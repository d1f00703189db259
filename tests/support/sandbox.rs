//! A private HOME with its own roots, and the real program run in it with a cleared environment.
//!
//! When it goes, everything that was written in it is searched for secrets.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use super::secrets;

pub(crate) use super::ran::Ran;

/// A hermetic world, removed when dropped.
#[derive(Debug)]
pub(crate) struct Sandbox {
    directory: tempfile::TempDir,
    variables: BTreeMap<OsString, OsString>,
    /// The files with secrets that the test itself wrote.
    known: Mutex<BTreeMap<PathBuf, Vec<u8>>>,
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let found = secrets::below(&self.path(""), &[""], &known);
        assert!(found.is_empty(), "secrets were written: {found:#?}");
    }
}

impl Sandbox {
    /// A fresh world below the system's temporary directory.
    pub(crate) fn new() -> Self {
        let directory = tempfile::Builder::new()
            .prefix("agent-fleet-test-")
            .tempdir()
            .expect("a temporary directory");
        let root = directory
            .path()
            .canonicalize()
            .expect("the temporary directory exists");
        let mut variables = BTreeMap::new();
        for (name, value) in [
            ("HOME", root.join("home")),
            ("TMPDIR", root.join("tmp")),
            ("PATH", PathBuf::from("/usr/local/bin:/usr/bin:/bin")),
            ("LANG", PathBuf::from("C.UTF-8")),
            ("AGENT_FLEET_CONFIG", root.join("config/accounts.toml")),
            ("AGENT_FLEET_STATE_DIR", root.join("state")),
            ("AGENT_FLEET_SHARE_DIR", root.join("share")),
            ("AGENT_FLEET_FORMAT", PathBuf::from("json")),
            ("AGENT_FLEET_TEST_STARTED", root.join("programs.started")),
        ] {
            variables.insert(OsString::from(name), value.into_os_string());
        }
        for name in ["home", "tmp"] {
            std::fs::create_dir_all(root.join(name)).expect("a directory in the sandbox");
        }
        Self {
            directory,
            variables,
            known: Mutex::default(),
        }
    }

    /// A path in the world.
    pub(crate) fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.directory
            .path()
            .canonicalize()
            .expect("the sandbox exists")
            .join(relative)
    }

    /// Sets a variable for all later runs.
    pub(crate) fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        self.variables.insert(name.into(), value.into());
    }

    /// Writes a file and its directories.
    pub(crate) fn write(&self, relative: impl AsRef<Path>, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(relative);
        std::fs::create_dir_all(path.parent().expect("a file has a directory"))
            .expect("a directory in the sandbox");
        #[expect(clippy::disallowed_methods, reason = "test data")]
        std::fs::write(&path, &text).expect("a file in the sandbox");
        if secrets::mark(text.as_ref()).is_some() {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.insert(path.clone(), text.as_ref().to_vec());
        }
        path
    }

    /// Says that the test itself put a login here, as a second name of one or as a copy; it may stay as it is.
    pub(crate) fn knows(&self, path: impl AsRef<Path>) {
        let path = self.path(path);
        let bytes = std::fs::read(&path).expect("a file in the sandbox");
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(path, bytes);
    }

    /// A git repository to work in.
    pub(crate) fn git_project(&self, relative: impl AsRef<Path>) -> PathBuf {
        let path = self.path(relative);
        let made = Self::tool("git")
            .args(["init", "-q"])
            .arg(&path)
            .status()
            .expect("git runs");
        assert!(made.success(), "git init failed");
        path
    }

    /// Copies a program to a path of its own.
    ///
    /// By another process: a descriptor that this one had open for writing could be inherited by a child of
    /// another test's thread for a moment, and the kernel refuses to run a file that is open for writing.
    pub(crate) fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
        let directory = to.as_ref().parent().expect("a program has a directory");
        std::fs::create_dir_all(directory).expect("a directory in the sandbox");
        let copied = Self::tool("cp")
            .arg(from.as_ref())
            .arg(to.as_ref())
            .status()
            .expect("cp runs");
        assert!(copied.success(), "cp failed");
    }

    /// Any program, for building test worlds.
    #[expect(clippy::disallowed_methods, reason = "tests start real processes")]
    pub(crate) fn tool(program: impl AsRef<OsStr>) -> Command {
        Command::new(program)
    }

    /// The program itself with this world's environment, from a directory that is not the project.
    #[track_caller]
    pub(crate) fn command<I, S>(&self, arguments: I) -> Command
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        let mut command = Self::tool(env!("CARGO_BIN_EXE_agent-fleet"));
        command
            .args(arguments)
            .env_clear()
            .envs(&self.variables)
            .current_dir(self.path("home"))
            .stdin(Stdio::null());
        secrets::none_in_words(&command);
        command
    }

    /// A shell that types one line in this world's home.
    pub(crate) fn shell(&self, line: &str) -> Command {
        let mut command = Self::tool("sh");
        command
            .args(["-c", line])
            .env_clear()
            .envs(&self.variables)
            .current_dir(self.path("home"))
            .stdin(Stdio::null());
        command
    }

    /// Runs the program to its end for a person who types a secret where none belongs.
    pub(crate) fn mistyped(&self, words: [&str; 3]) -> std::process::Output {
        let mut command = self.command([""; 0]);
        command.args(words).output().expect("the program starts")
    }

    /// Runs the program to its end.
    #[track_caller]
    pub(crate) fn run<I, S>(&self, arguments: I) -> Ran
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        Ran::of(&mut self.command(arguments))
    }
}
