//! How a run of the program ended, and what it must have answered; no answer may hold a secret.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::secrets;

/// How a run of the program ended.
#[derive(Debug)]
#[must_use = "assert success or refusal"]
pub(crate) struct Ran {
    /// Exit status; 128 + n for a signal.
    pub status: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Ran {
    /// Runs a command to its end.
    #[track_caller]
    pub(crate) fn of(command: &mut Command) -> Self {
        secrets::none_in_words(command);
        Self::ended(&command.output().expect("the program starts"))
    }

    /// Runs a command to its end for a person who answers it with this text.
    #[track_caller]
    pub(crate) fn answered(command: &mut Command, answer: &str) -> Self {
        secrets::none_in_words(command);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        // One that ends before it asks reads nothing.
        drop(stdin.write_all(answer.as_bytes()));
        drop(stdin);
        Self::ended(&child.wait_with_output().expect("the program ends"))
    }

    /// What a command came to that has ended.
    #[track_caller]
    pub(crate) fn ended(output: &Output) -> Self {
        use std::os::unix::process::ExitStatusExt as _;
        secrets::none_in("standard output", &output.stdout);
        secrets::none_in("standard error", &output.stderr);
        Self {
            status: output
                .status
                .code()
                .unwrap_or_else(|| 128 + output.status.signal().unwrap_or(0)),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// What a run of the fleet was brought to: its last line, after the changes. Its exit status says whether all was
    /// done, and is a success otherwise, too.
    #[track_caller]
    pub(crate) fn last_line(mut self) -> Self {
        self.stdout = self.stdout.lines().last().unwrap_or_default().to_owned();
        if self.status == 3 {
            let status: Value = serde_json::from_str(&self.stdout).unwrap_or_default();
            assert!(
                status["state"].is_string() && status["state"] != "done",
                "{}",
                self.stdout
            );
            self.status = 0;
        }
        self
    }

    /// The JSON answer of a run that must have succeeded.
    #[track_caller]
    pub(crate) fn success(self) -> Value {
        assert_eq!(
            self.status, 0,
            "failed\nstdout: {}\nstderr: {}",
            self.stdout, self.stderr
        );
        if self.stdout.trim().is_empty() {
            return Value::Null;
        }
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("not JSON ({error}): {}", self.stdout))
    }

    /// The JSON error of a run that must have been refused with this code.
    #[track_caller]
    pub(crate) fn refused(self, code: &str) -> Value {
        let value: Value = serde_json::from_str(&self.stdout).unwrap_or_else(|error| {
            panic!(
                "not JSON ({error})\nstdout: {}\nstderr: {}",
                self.stdout, self.stderr
            )
        });
        assert_eq!(
            (self.status, value["code"].as_str()),
            (2, Some(code)),
            "stdout: {}\nstderr: {}",
            self.stdout,
            self.stderr
        );
        assert!(value["hint"].is_string(), "no next command in {value}");
        value
    }
}
