//! The two real CLIs: how a worker of each is asked for a turn, and how its requests look.

use crate::lab::Request;

/// One of the provider CLIs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cli {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
}

/// Both, for promises that hold for each.
pub(crate) const BOTH: [Cli; 2] = [Cli::Claude, Cli::Codex];

impl Cli {
    /// The provider's name on our command line and in the lab's log.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
        }
    }

    /// The lab's variable with the path of the native binary.
    pub(crate) fn binary_variable(self) -> &'static str {
        match self {
            Self::Claude => "CLAUDE_BIN",
            Self::Codex => "CODEX_BIN",
        }
    }

    /// Worker arguments for one headless turn that may use tools.
    pub(crate) fn headless(self, prompt: &str) -> Vec<String> {
        let words: &[&str] = match self {
            Self::Claude => &[
                "-p",
                "--output-format",
                "stream-json",
                "--verbose",
                "--dangerously-skip-permissions",
            ],
            Self::Codex => &["exec", "--json", "-s", "danger-full-access"],
        };
        words
            .iter()
            .copied()
            .chain([prompt])
            .map(Into::into)
            .collect()
    }

    /// Worker arguments for the provider's own screen, with tools allowed and a first prompt.
    pub(crate) fn terminal(self, prompt: &str) -> Vec<String> {
        let words: &[&str] = match self {
            Self::Claude => &["--dangerously-skip-permissions"],
            Self::Codex => &["-s", "danger-full-access", "-a", "never"],
        };
        words
            .iter()
            .copied()
            .chain([prompt])
            .map(Into::into)
            .collect()
    }

    /// Whether a request asks the model for something, i.e. is what an account pays for.
    pub(crate) fn asks_model(self, request: &Request) -> bool {
        request.log == self.name()
            && request.method == "POST"
            && match self {
                Self::Claude => request.path.starts_with("/v1/messages"),
                Self::Codex => request.path.ends_with("/responses"),
            }
    }

    /// The conversation id in the output of a headless turn.
    #[track_caller]
    pub(crate) fn session(self, stdout: &str) -> String {
        let key = match self {
            Self::Claude => "session_id",
            Self::Codex => "thread_id",
        };
        stdout
            .lines()
            .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
            .find_map(|event| event[key].as_str().map(Into::into))
            .unwrap_or_else(|| panic!("no {key} in the output: {stdout}"))
    }
}
