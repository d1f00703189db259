//! The one place that runs the `git` program.
//!
//! Every call: names its repository (nothing above it is looked at), sees no `GIT_*` variable of the caller, runs
//! no hook and no file system monitor, takes no optional lock, asks nobody anything, and has a deadline. It is in
//! a process group of its own, so that Ctrl-C does not cut it short.
//!
//! Limits: filters that a repository configures (line endings, large files) run, since without them the bytes
//! would not be the repository's. No routine command may come here: a call costs milliseconds.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use camino::Utf8Path;

use crate::clock::Clock;
use crate::env::Variables;
use crate::error::{Error, Result, code};
use crate::sys::shell;
use crate::sys::spawn::{self, Program};

/// How long an ordinary call may take.
pub const ORDINARY: Duration = Duration::from_mins(1);
/// How long a call may take that reads or writes a whole checkout.
pub const WHOLE_CHECKOUT: Duration = Duration::from_mins(10);
/// Most output of one call, in bytes: the index of a million files.
pub const OUTPUT_LIMIT: u64 = 256 << 20;

/// What every call begins with.
const ALWAYS: [&str; 10] = [
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.quotePath=false",
    "-c",
    "core.sparseCheckout=false",
    "-c",
    "advice.detachedHead=false",
];

/// The program and the environment that it gets.
#[derive(Clone, Debug)]
pub struct Git {
    program: PathBuf,
    environment: Vec<(OsString, OsString)>,
    clock: Clock,
}

impl Git {
    /// Finds `git` on `PATH`; `git_missing` when it is not there.
    pub fn find(variables: &Variables, clock: Clock) -> Result<Self> {
        let executable = |path: &PathBuf| {
            path.metadata()
                .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        };
        let path = variables.raw("PATH").unwrap_or_default().as_bytes();
        let program = path
            .split(|byte| *byte == b':')
            .map(|directory| Path::new(OsStr::from_bytes(directory)).join("git"))
            .filter(|program| program.is_absolute())
            .find(executable)
            .ok_or_else(|| {
                Error::new(
                    code::GIT_MISSING,
                    "there is no `git` on `PATH`, and a fleet needs it: install git",
                )
                .hint("git --version")
            })?;
        let scrubbed = variables
            .iter()
            .filter(|(name, _)| !name.as_bytes().starts_with(b"GIT_"))
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let ours = [
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_OPTIONAL_LOCKS", "0"),
            ("GIT_NO_REPLACE_OBJECTS", "1"),
            ("GIT_ADVICE", "0"),
            ("GIT_LITERAL_PATHSPECS", "1"),
            ("LC_ALL", "C"),
        ]
        .map(|(name, value)| (name.into(), value.into()));
        let environment = scrubbed
            .filter(|(name, _)| *name != "LC_ALL")
            .chain(ours)
            .collect();
        Ok(Self {
            program,
            environment,
            clock,
        })
    }

    /// The program.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The clock of its deadlines.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// A call in a directory that belongs to a repository.
    pub fn call<'a>(&'a self, directory: &'a Utf8Path, words: &[&str]) -> Call<'a> {
        Call {
            git: self,
            directory,
            words: words.iter().map(OsString::from).collect(),
            variables: Vec::new(),
            input: Vec::new(),
            limit: ORDINARY,
            looks_above: false,
        }
    }
}

/// One call of git, not started yet.
#[derive(Clone, Debug)]
#[must_use]
pub struct Call<'a> {
    git: &'a Git,
    directory: &'a Utf8Path,
    words: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
    input: Vec<u8>,
    limit: Duration,
    looks_above: bool,
}

/// How a call ended.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Exit status.
    pub status: i32,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error; told only through an error.
    stderr: Vec<u8>,
}

impl Answer {
    /// Whether git's own words hold these; it speaks English to us.
    pub fn said(&self, words: &str) -> bool {
        String::from_utf8_lossy(&self.stderr).contains(words)
    }
}

impl Call<'_> {
    /// One more word.
    pub fn word(mut self, word: impl AsRef<OsStr>) -> Self {
        self.words.push(word.as_ref().to_owned());
        self
    }

    /// A variable for this call.
    pub fn variable(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.variables
            .push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// Bytes for standard input.
    pub fn input(mut self, bytes: Vec<u8>) -> Self {
        self.input = bytes;
        self
    }

    /// For calls that go through a whole checkout.
    pub fn long(mut self) -> Self {
        self.limit = WHOLE_CHECKOUT;
        self
    }

    /// Lets git look for the repository in the directories above.
    pub fn looking_above(mut self) -> Self {
        self.looks_above = true;
        self
    }

    /// Runs it; refused when it could not be started or did not end by itself in time.
    pub fn answer(&self) -> Result<Answer> {
        self.answer_within(OUTPUT_LIMIT)?
            .ok_or_else(|| self.failed("wrote more than can be taken"))
    }

    /// The same; `None` when it wrote more than `limit` bytes.
    pub fn answer_within(&self, limit: u64) -> Result<Option<Answer>> {
        let deadline = self.git.clock.deadline(self.limit);
        match spawn::run_within(&self.program(), limit + 1, &deadline) {
            Ok(ended) if u64::try_from(ended.stdout.len()).unwrap_or(u64::MAX) > limit => Ok(None),
            Ok(ended) => match ended.status {
                Some(status) => Ok(Some(Answer {
                    status,
                    stdout: ended.stdout,
                    stderr: ended.stderr,
                })),
                None => Err(self.failed("was ended by a signal")),
            },
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                let told = format!("did not end within {} seconds", self.limit.as_secs());
                Err(self.failed(&told))
            }
            Err(error) => Err(self.failed(&format!("could not be run: {error}"))),
        }
    }

    /// Its standard output; any status but 0 is refused, with what git said.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        let answer = self.answer()?;
        if answer.status == 0 {
            Ok(answer.stdout)
        } else {
            Err(self.refusal(&answer))
        }
    }

    /// Its standard output as one line of text.
    pub fn line(&self) -> Result<String> {
        let bytes = self.bytes()?;
        let text = String::from_utf8(bytes).map_err(|_| self.failed("answered no text"))?;
        Ok(text.strip_suffix('\n').unwrap_or(&text).to_owned())
    }

    /// What git said, as the error that it is.
    pub fn refusal(&self, answer: &Answer) -> Error {
        let said = String::from_utf8_lossy(&answer.stderr);
        let said: Vec<&str> = said
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .collect();
        // The first is the reason, the last often only says that it was one.
        let told = said
            .iter()
            .find(|line| line.starts_with("fatal:") || line.starts_with("error:"))
            .or(said.last())
            .copied()
            .unwrap_or("nothing");
        let told: String = told.chars().take(400).collect();
        self.failed(&format!("ended with status {}: {told}", answer.status))
    }

    fn program(&self) -> Program {
        let mut environment = self.git.environment.clone();
        if !self.looks_above
            && let Some(parent) = self.directory.parent()
        {
            environment.push(("GIT_CEILING_DIRECTORIES".into(), parent.as_str().into()));
        }
        environment.extend(self.variables.iter().cloned());
        let words = ALWAYS.iter().map(OsString::from);
        Program {
            path: self.git.program.clone(),
            arguments: words.chain(self.words.iter().cloned()).collect(),
            environment,
            directory: Some(self.directory.as_std_path().to_owned()),
            input: self.input.clone(),
        }
    }

    fn failed(&self, what: &str) -> Error {
        let verb = self.words.first().map(|word| word.to_string_lossy());
        let verb = verb.unwrap_or_default();
        Error::new(
            code::GIT_FAILED,
            format!("`git {verb}` in `{}` {what}", self.directory),
        )
        .hint(format!(
            "git -C {} status",
            shell::quote(self.directory.as_str())
        ))
    }
}

/// The parts of an answer that end with a zero byte each.
pub fn parts(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes
        .split(|byte| *byte == 0)
        .filter(|part| !part.is_empty())
}

/// A path as text for people: control characters, backslashes and bytes that are no text are escaped, so that every
/// path is one line and no two paths look the same.
pub fn shown(path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len());
    for chunk in path.utf8_chunks() {
        for letter in chunk.valid().chars() {
            if letter.is_control() || letter == '\\' {
                text.extend(letter.escape_default());
            } else {
                text.push(letter);
            }
        }
        for byte in chunk.invalid() {
            text.extend(std::ascii::escape_default(*byte).map(char::from));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::checkout_tests::Checkout;
    use super::{Git, shown};
    use crate::clock::Clock;
    use crate::env::Variables;
    use crate::error::code;

    #[test]
    fn git_that_is_not_there_is_said_to_be_missing() {
        let variables: Variables = [("PATH", "/no/such/directory:relative")]
            .into_iter()
            .collect();
        let refusal = Git::find(&variables, Clock::real()).unwrap_err();
        assert_eq!(refusal.code, code::GIT_MISSING);
        assert!(refusal.message.contains("install git"), "{refusal}");
    }

    #[test]
    fn a_failure_tells_what_git_said_and_no_address() {
        let checkout = Checkout::new();
        let refusal = checkout
            .git
            .call(
                &checkout.root,
                &["rev-parse", "--verify", "me@example.invalid"],
            )
            .line()
            .unwrap_err();
        assert_eq!(refusal.code, code::GIT_FAILED);
        assert!(refusal.message.contains("status 128"), "{refusal}");
        assert!(!refusal.message.contains("me@"), "{refusal}");
    }

    #[test]
    fn variables_of_the_caller_and_hooks_and_monitors_change_nothing() {
        let checkout = Checkout::new();
        let elsewhere = Checkout::new();
        let mut variables = checkout.variables();
        variables.push(("GIT_DIR".into(), elsewhere.root.join(".git").into()));
        variables.push(("GIT_INDEX_FILE".into(), "/no/such/index".into()));
        let git = Git::find(&variables.into_iter().collect(), Clock::real()).unwrap();
        let own = git.call(&checkout.root, &["rev-parse", "--absolute-git-dir"]);
        assert_eq!(own.line().unwrap(), checkout.root.join(".git"));
        let mark = checkout.root.join("ran");
        let script = format!("#!/bin/sh\ntouch '{mark}'\n");
        let hook = checkout.root.join(".git/monitor");
        checkout.write(".git/monitor", &script);
        checkout.executable(".git/monitor");
        checkout.run(&["config", "core.fsmonitor", hook.as_str()]);
        git.call(&checkout.root, &["status"]).bytes().unwrap();
        assert!(!mark.exists());
    }

    #[test]
    fn nothing_above_the_directory_is_taken_for_its_repository() {
        let checkout = Checkout::new();
        checkout.write("below/file", "");
        let below = checkout.root.join("below");
        let call = checkout.git.call(&below, &["rev-parse", "--show-toplevel"]);
        assert!(call.line().is_err());
        assert_eq!(call.looking_above().line().unwrap(), checkout.root);
    }

    #[test]
    fn a_path_is_shown_on_one_line_and_as_no_other() {
        assert_eq!(shown("a b/é".as_bytes()), "a b/é");
        assert_eq!(shown(b"a\nb\\\xff"), "a\\nb\\\\\\xff");
    }
}
