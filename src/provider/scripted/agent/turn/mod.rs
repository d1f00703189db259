//! One conversation: its transcript, its hooks, and the turns that follow scripts.

mod tool;

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use camino::Utf8PathBuf;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::super::account::{AccountFile, later};
use super::super::home;
use super::super::script::{self, Instruction, Limit};
use super::super::server::{Server, Turn};
use super::output::{Output, Refused};
use super::{hooks, login};
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::provider::home::load;
use crate::secret::Secret;
use crate::store::{directory, read};

/// How often `hold` looks.
const HOLD_POLL: Duration = Duration::from_millis(20);

/// A running agent.
#[derive(Debug)]
pub(super) struct Agent<'a> {
    context: &'a Context,
    arguments: &'a [OsString],
    home: Utf8PathBuf,
    workspace: PathBuf,
    settings: Map<String, Value>,
    server: Server,
    session: String,
    output: Output,
    /// What this turn said last.
    said: String,
    /// The tools that it was not allowed to use, as its last line has them.
    denied: Vec<Value>,
    /// Tools used so far, denied ones included.
    tools: u32,
    /// Whether somebody can be asked, and it stays when a turn failed.
    on_screen: bool,
}

/// Why a turn, and with it the agent, ends early.
enum End {
    Exit(u8),
    Failed(Failure),
}

/// A turn that the server, or the script, failed.
struct Failure {
    /// As the `StopFailure` hook says it.
    error: &'static str,
    limit: &'static str,
    resets_at: Option<Timestamp>,
    message: String,
}

impl Failure {
    fn new(limit: Limit, resets_at: Option<Timestamp>) -> Self {
        let until = resets_at.map_or(String::new(), |at| format!(", resets at {at}"));
        let (error, limit, text) = match limit {
            Limit::Quota => ("rate_limit", "quota", "usage limit reached"),
            Limit::Rate => ("overloaded", "rate", "too many requests"),
            Limit::Billing => ("billing_error", "billing", "payment is due"),
            Limit::Auth => ("authentication_failed", "auth", "the login is not accepted"),
        };
        Self {
            error,
            limit,
            resets_at,
            message: format!("{text}{until}"),
        }
    }
}

fn io_end(what: &str, path: &Path, error: &io::Error) -> End {
    internal_end(&Error::io(what, path, error))
}

fn internal_end(error: &Error) -> End {
    End::Failed(Failure {
        error: "unknown",
        limit: "none",
        resets_at: None,
        message: error.message.clone(),
    })
}

impl<'a> Agent<'a> {
    /// An agent in a home, with its settings read.
    pub(super) fn new(
        context: &'a Context,
        home: Utf8PathBuf,
        session: String,
        output: Output,
        arguments: &'a [OsString],
    ) -> Result<Self> {
        let settings = load(&home::settings_file(&home))?;
        let service = home::service_of(&settings).ok_or_else(|| {
            Error::new(
                code::NOT_FOUND,
                format!("not logged in: `{home}` names no service"),
            )
        })?;
        let workspace = context
            .directory
            .clone()
            .ok_or_else(|| Error::new(code::WORKSPACE_INVALID, "the working directory is gone"))?;
        Ok(Self {
            context,
            arguments,
            server: Server::new(&service, context.clock),
            home,
            workspace,
            settings,
            session,
            output,
            said: String::new(),
            denied: Vec::new(),
            tools: 0,
            on_screen: false,
        })
    }

    /// It is at a terminal.
    pub(super) fn on_screen(&mut self) {
        self.on_screen = true;
    }

    /// Whether the script of a prompt begins with a question of trust.
    pub(super) fn distrusts(&self, prompt: &str) -> bool {
        let script = self.script(prompt).unwrap_or_default();
        script.first() == Some(&Instruction::Trust)
    }

    fn transcript(&self) -> PathBuf {
        home::transcript_path(&self.home, &self.session).unwrap_or_default()
    }

    /// Adds a line to the transcript, with its time.
    fn record(&self, line: &Value) -> Result<(), End> {
        let mut line = line.clone();
        line["timestamp"] = self.context.clock.now().to_string().into();
        let path = self.transcript();
        let failed = |error: &io::Error| io_end("append to", &path, error);
        directory::ensure(self.home.join("transcripts")).map_err(|error| internal_end(&error))?;
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(&path)
            .map_err(|error| failed(&error))?;
        file.write_all(format!("{line}\n").as_bytes())
            .map_err(|error| failed(&error))
    }

    fn fire(&self, event: &str, more: Value) {
        let mut payload = json!({
            "session_id": self.session,
            "transcript_path": self.transcript(),
            "cwd": self.workspace,
            "hook_event_name": event,
        });
        if let (Some(payload), Value::Object(more)) = (payload.as_object_mut(), more) {
            payload.extend(more);
        }
        for problem in hooks::fire(
            self.context,
            &self.workspace,
            &self.settings,
            event,
            &payload,
        ) {
            self.output
                .event(&json!({"type": "hook", "problem": problem}));
        }
    }

    /// Reports the conversation.
    pub(super) fn start(&mut self, source: &str) -> &mut Self {
        self.fire("SessionStart", json!({ "source": source }));
        self
    }

    /// Reports the end and returns the status to exit with.
    pub(super) fn end(&self, status: u8) -> u8 {
        self.fire("SessionEnd", json!({"reason": "other"}));
        status
    }

    /// One turn. Returns the status to exit with if the agent is to end.
    pub(super) fn turn(&mut self, prompt: &str) -> Option<u8> {
        // The real CLIs renew their login before anything else.
        let token = self.token();
        self.said.clear();
        self.denied.clear();
        self.fire("UserPromptSubmit", json!({ "prompt": prompt }));
        let followed = token.and_then(|token| self.follow(prompt, &token));
        match followed.and_then(|()| self.record(&json!({"type": "ended"}))) {
            Ok(()) => {
                self.output.event(&json!({
                    "type": "result", "subtype": "success", "is_error": false,
                    "terminal_reason": "completed", "result": self.said,
                    "permission_denials": self.denied, "session_id": self.session,
                }));
                self.fire("Stop", json!({}));
                None
            }
            Err(End::Exit(status)) => Some(status),
            Err(End::Failed(failure)) => {
                let mut facts = json!({
                    "error": failure.error,
                    "limit": failure.limit,
                    "resets_at": failure.resets_at.map(|at| at.to_string()),
                    "last_assistant_message": failure.message,
                });
                let mut line = facts.clone();
                line["type"] = "failure".into();
                if failure.limit == "quota" {
                    // In the shape in which Claude's status line is shown windows.
                    let reset = failure.resets_at.map(Timestamp::as_second);
                    facts["rate_limits"] =
                        json!({"five_hour": {"used_percentage": 100, "resets_at": reset}});
                }
                // The failure is reported all the same when it cannot be recorded.
                drop(self.record(&line));
                self.fire("StopFailure", facts);
                let refused = Refused {
                    error: failure.error,
                    used_up: failure.limit == "quota",
                    resets_at: failure.resets_at,
                    message: &failure.message,
                };
                self.output.refused(&self.session, &refused);
                self.output.event(&json!({
                    "type": "result", "subtype": "success", "is_error": true,
                    "terminal_reason": "api_error", "result": failure.message,
                    "permission_denials": self.denied, "session_id": self.session,
                }));
                Output::fail(&failure.message);
                (!self.on_screen).then_some(1)
            }
        }
    }

    /// The token for this turn, by the same precedence that makes the real CLIs dangerous: environment,
    /// project, home settings, and only then the login.
    fn token(&self) -> Result<Secret, End> {
        let unauthorized = || End::Failed(Failure::new(Limit::Auth, None));
        if let Some(token) = self.context.variables.text(home::TOKEN_VARIABLE) {
            return Ok(Secret::new(token));
        }
        let project = Utf8PathBuf::from_path_buf(self.workspace.clone())
            .ok()
            .map(|workspace| home::project_settings_file(&workspace))
            .and_then(|path| load(&path).ok());
        for settings in project.iter().chain([&self.settings]) {
            if let Some(token) = home::token_override(settings) {
                return Ok(Secret::new(token));
            }
        }
        login::token(self.context, &self.home, &self.server)
            .map_err(|error| internal_end(&error))?
            .ok_or_else(unauthorized)
    }

    fn follow(&mut self, prompt: &str, token: &Secret) -> Result<(), End> {
        let script = self.script(prompt).map_err(|message| {
            End::Failed(Failure {
                error: "invalid_request",
                limit: "none",
                resets_at: None,
                message,
            })
        })?;
        let account = match self.server.turn(token) {
            Turn::Served(account) => account,
            Turn::Limited(at) => return Err(End::Failed(Failure::new(Limit::Quota, Some(at)))),
            Turn::Unauthorized => return Err(End::Failed(Failure::new(Limit::Auth, None))),
        };
        if !self.transcript().is_file() {
            self.record(&json!({"type": "session-owner", "account": account}))?;
        }
        self.record(&json!({"type": "prompt", "text": prompt}))?;
        for instruction in script {
            self.perform(instruction, &account)?;
        }
        self.output.windows(&self.server.told(&account));
        Ok(())
    }

    /// What a prompt asks for: itself, or the blocks of the file that it points to. A file without blocks sends on to
    /// another one, or means what the conversation was about.
    fn script(&self, prompt: &str) -> Result<Vec<Instruction>, String> {
        let Some(pointed) = script::pointed(prompt) else {
            return script::parse(prompt);
        };
        let text = self.pointed_to(pointed.file)?;
        if let Some(found) = script::blocks(&text, &pointed)? {
            return Ok(found);
        }
        let earlier = self.earlier_files();
        let others = script::sends_on(&text).into_iter();
        for file in others.chain(earlier.iter().map(String::as_str)) {
            if let Some(found) = script::blocks(&self.pointed_to(file)?, &pointed)? {
                return Ok(found);
            }
        }
        Err(format!(
            "neither `{}` nor what it sends on to has a block fenced as `script`",
            pointed.file
        ))
    }

    fn pointed_to(&self, file: &str) -> Result<String, String> {
        let path = self.workspace.join(file);
        let bytes = read::optional(&path).map_err(|error| error.message)?;
        let bytes = bytes.ok_or_else(|| format!("there is no `{}`", path.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The files that earlier prompts of the conversation pointed to, the last one first.
    fn earlier_files(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.transcript()).unwrap_or_default();
        let files = text.lines().rev().filter_map(|line| {
            let line: Value = serde_json::from_str(line).ok()?;
            let pointed = script::pointed(line["text"].as_str()?)?;
            (line["type"] == "prompt").then(|| pointed.file.to_owned())
        });
        files.collect()
    }

    fn say(&mut self, text: &str) -> Result<(), End> {
        self.output.say(&self.session, text);
        text.clone_into(&mut self.said);
        self.record(&json!({"type": "assistant", "text": text}))
    }

    fn perform(&mut self, instruction: Instruction, account: &str) -> Result<(), End> {
        let clock = self.context.clock;
        match instruction {
            Instruction::Write { file, text } => {
                let path = self.workspace.join(&file);
                let failed = |error: &io::Error| io_end("write", &path, error);
                let mut target = OpenOptions::new()
                    .write(true)
                    .create(true)
                    .truncate(true)
                    .open(&path)
                    .map_err(|error| failed(&error))?;
                writeln!(target, "{text}").map_err(|error| failed(&error))?;
                self.say(&format!("wrote {file}"))
            }
            Instruction::Sleep(span) => {
                clock.pause(span);
                Ok(())
            }
            Instruction::Say(text) | Instruction::Answer(text) => self.say(&text),
            Instruction::Ask(tool) if self.on_screen => self.ask(&tool),
            Instruction::Ask(tool) | Instruction::Deny(tool) => {
                self.deny(&tool);
                Ok(())
            }
            Instruction::Trust => Ok(()),
            Instruction::Spawn(command) => self.tool(&command),
            Instruction::Session => {
                self.fire("SessionEnd", json!({"reason": "clear"}));
                self.session = uuid::Uuid::new_v4().to_string();
                self.record(&json!({"type": "session-owner", "account": account}))?;
                self.start("clear");
                Ok(())
            }
            Instruction::Limit { kind, resets_in } => Err(self.limit(kind, resets_in, account)),
            Instruction::Crash => {
                let failed = |error: io::Error| io_end("kill", Path::new("/proc/self"), &error);
                rustix::process::kill_process(
                    rustix::process::getpid(),
                    rustix::process::Signal::KILL,
                )
                .map_err(|error| failed(error.into()))
            }
            Instruction::Exit(status) => Err(End::Exit(status)),
            Instruction::Env(names) => {
                let seen: Map<String, Value> = self
                    .context
                    .variables
                    .iter()
                    .map(|(name, value)| (name.to_string_lossy(), value.to_string_lossy()))
                    .filter(|(name, _)| names.is_empty() || names.iter().any(|one| one == name))
                    .map(|(name, value)| (name.into_owned(), value.into()))
                    .collect();
                self.say(&Value::Object(seen).to_string())
            }
            Instruction::Argv => {
                let arguments: Vec<_> = self
                    .arguments
                    .iter()
                    .map(|argument| argument.to_string_lossy())
                    .collect();
                let seen = json!({
                    "arguments": arguments,
                    "directory": self.workspace,
                    "home": self.home,
                });
                self.say(&seen.to_string())
            }
            Instruction::Hold(file) => {
                let path = self.workspace.join(file);
                while !path.exists() {
                    clock.pause(HOLD_POLL);
                }
                Ok(())
            }
            Instruction::Unless { file, then } => {
                if self.workspace.join(file).exists() {
                    Ok(())
                } else {
                    self.perform(*then, account)
                }
            }
            Instruction::Usage(percent) => self.change(account, |file| file.set_used(percent)),
        }
    }

    fn change(&self, account: &str, change: impl FnOnce(&mut AccountFile)) -> Result<(), End> {
        self.server
            .update(account, change)
            .map_err(|error| internal_end(&error))
    }

    fn limit(&self, kind: Limit, resets_in: Duration, account: &str) -> End {
        let whole = resets_in
            .as_secs()
            .saturating_add(u64::from(resets_in.subsec_nanos() > 0));
        let resets_at = later(self.context.clock.now(), whole);
        let (resets_at, changed) = match (kind, resets_at) {
            (Limit::Quota, Some(at)) => (Some(at), self.change(account, |file| file.exhaust(at))),
            (Limit::Quota | Limit::Rate, at) => (at, Ok(())),
            (Limit::Billing, _) => (None, Ok(())),
            (Limit::Auth, _) => (None, self.change(account, |file| file.revoked = true)),
        };
        match changed {
            Ok(()) => End::Failed(Failure::new(kind, resets_at)),
            Err(end) => end,
        }
    }
}
