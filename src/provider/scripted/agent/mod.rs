//! The scripted agent: this program under its hidden verb, behaving as the real CLIs do where it matters.
//!
//! Same as they: it refreshes a login that is about to expire, and a refresh token is good once; hooks run
//! as children with its descriptors, as Codex's do, and tools without them; a settings file or a variable
//! can move it to another account; a resumed conversation must be in this home; SIGTERM just ends it.
//! Without `-p` it takes each line of standard input as a prompt, as a terminal session would; at a terminal it stays
//! when a turn failed, as they do, until it is left with `/exit` or the terminal goes away.

mod hooks;
mod login;
mod output;
mod turn;

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal as _, Read as _};
use std::path::Path;

use camino::Utf8PathBuf;
use serde_json::json;

use self::output::Output;
use self::turn::Agent;
use super::{DEFAULT_HOME, HOME_VARIABLE, grammar, home};
use crate::env::{Context, expand};
use crate::error::{Error, Result, code};

/// Runs the agent; what it returns is the exit status.
pub fn run(context: &Context, arguments: &[OsString]) -> u8 {
    let outcome = match arguments.split_first() {
        Some((word, rest)) if word == grammar::LOGIN => agent_home(context)
            .and_then(|home| login::command(context, &home, rest))
            .map(|message| {
                Output::line(&message);
                0
            }),
        Some((word, [])) if word == grammar::STATUS => {
            agent_home(context).and_then(|home| login::status(context, &home))
        }
        _ => converse(context, arguments),
    };
    outcome.unwrap_or_else(|error| {
        Output::fail(&error.message);
        1
    })
}

fn agent_home(context: &Context) -> Result<Utf8PathBuf> {
    match context.variables.raw(HOME_VARIABLE) {
        Some(path) => expand(HOME_VARIABLE, Path::new(path), &context.roots.home),
        None => Ok(context.roots.home.join(DEFAULT_HOME)),
    }
}

fn converse(context: &Context, arguments: &[OsString]) -> Result<u8> {
    let parsed = grammar::parse(arguments)?;
    if let Some(second) = parsed.words.get(1) {
        return Err(Error::new(
            code::USAGE,
            format!("one prompt is taken, not also `{}`", second.display()),
        ));
    }
    let home = agent_home(context)?;
    if !home.is_dir() {
        return Err(Error::new(
            code::NOT_FOUND,
            format!("{HOME_VARIABLE} points to `{home}`, but that path does not exist"),
        ));
    }
    let text = |value: &OsStr| value.to_string_lossy().into_owned();
    let resumed = parsed.value("--resume").map(text);
    let session = resumed
        .clone()
        .or_else(|| parsed.value("--session-id").map(text))
        .unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
    let known = home::transcript_path(&home, &session)
        .ok_or_else(|| Error::new(code::USAGE, format!("`{session}` is not a session id")))?
        .is_file();
    let output = match parsed.value("--output-format") {
        Some(form) if form == OsStr::new("stream-json") => Output::Stream,
        Some(_) | None => Output::Text,
    };
    if resumed.is_some() && !known {
        let message = format!("No conversation found with session ID: {session}");
        output.event(&json!({
            "type": "result", "subtype": "error_during_execution", "is_error": true,
            "errors": [message], "permission_denials": [], "session_id": session,
        }));
        return Err(Error::new(code::NOT_FOUND, message));
    }
    let source = if resumed.is_some() {
        "resume"
    } else {
        "startup"
    };
    output.event(&json!({
        "type": "system", "subtype": "init", "session_id": session, "source": source,
        "model": parsed.value("--model").map(text),
    }));
    let mut agent = Agent::new(context, home, session, output, arguments)?;
    let mut prompt = parsed.words.first().map(|word| text(word));
    if parsed.has("--print") {
        let prompt = match prompt {
            Some(prompt) => prompt,
            None => all_of_stdin()?,
        };
        let status = agent.start(source).turn(&prompt).unwrap_or(0);
        return Ok(agent.end(status));
    }
    let asks = io::stdin().is_terminal();
    if asks {
        agent.on_screen();
        if prompt
            .as_deref()
            .is_some_and(|prompt| agent.distrusts(prompt))
        {
            Output::line("Is this a folder that you trust?");
            if typed()?.is_none() {
                return Ok(1);
            }
        }
    }
    agent.start(source);
    loop {
        if let Some(prompt) = prompt.take()
            && let Some(status) = agent.turn(&prompt)
        {
            return Ok(agent.end(status));
        }
        if asks {
            Output::prompt();
        }
        match typed()? {
            Some(line) if asks && line == "/exit" => return Ok(agent.end(0)),
            Some(line) => prompt = Some(line),
            None => return Ok(agent.end(0)),
        }
    }
}

/// The next line that somebody typed, without its end; `None` when nobody can type any more.
fn typed() -> Result<Option<String>> {
    let mut line = String::new();
    match io::stdin().read_line(&mut line) {
        Ok(0) => Ok(None),
        Ok(_) => Ok(Some(line.trim_end_matches(['\n', '\r']).to_owned())),
        // The terminal went away.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => {
            Ok(None)
        }
        Err(error) => Err(stdin_failed(&error)),
    }
}

fn all_of_stdin() -> Result<String> {
    let mut bytes = Vec::new();
    io::stdin()
        .lock()
        .read_to_end(&mut bytes)
        .map_err(|error| stdin_failed(&error))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn stdin_failed(error: &io::Error) -> Error {
    Error::io("read", "/dev/stdin", error)
}
