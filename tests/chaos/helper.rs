//! What actors start: tools of workers, children that outlive a worker, a person who logs in.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use agent_fleet::clock::Clock;
use agent_fleet::env::Variables;
use serde_json::Value;

use crate::truth::{Notes, Truth, account, signature};

/// Holds, for the worker that its environment names, what that worker alone may have.
///
/// A tool holds it in the name of the worker that started it, since it has no witness and may outlive it; one that is
/// to `stay` has the witness, and holds it in its own name.
pub(crate) fn run(worker: &str, directory: &Path, span: u64) {
    let variables = Variables::capture();
    let text = |name: &str| variables.text(name).unwrap_or_default().to_owned();
    let (task, profile) = (text("AGENT_FLEET_TASK_ID"), text("AGENT_FLEET_PROFILE"));
    let (role, signature) = match worker.split_once('/') {
        Some((pid, start)) => ("tool", format!("{pid} {start}")),
        None => (worker, signature()),
    };
    let notes = Notes::open(directory);
    let truth = Truth::open(directory, signature);
    let home = text("SCRIPTED_HOME");
    let held = account(Path::new(&home));
    if held != profile {
        notes.say(&format!(
            "violation the worker of {task} on {profile} has the home of {held}"
        ));
    }
    match truth.hold(&task, &profile) {
        Ok(held) => {
            Clock::real().pause(Duration::from_millis(span));
            held.give_back();
        }
        Err(violation) => notes.say(&format!("violation {violation}")),
    }
    notes.say(&format!("op worker-{role} ok"));
}

/// Runs an enrollment whose person confirms it; kills it after a while, if so asked. The code of its refusal and its
/// sentence, `None` when it was killed.
pub(crate) fn log_in(
    command: &mut Command,
    killed_after: Option<Duration>,
) -> Option<(String, String)> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    if let Some(mut stdin) = child.stdin.take() {
        drop(stdin.write_all(b"seven\n"));
    }
    if let Some(span) = killed_after {
        Clock::real().pause(span);
        drop(child.kill());
    }
    let mut said = String::new();
    if let Some(mut stdout) = child.stdout.take() {
        drop(stdout.read_to_string(&mut said));
    }
    let status = child.wait().ok()?;
    let status = status.code()?;
    let answer: Value = serde_json::from_str(&said).unwrap_or_default();
    let code = answer["code"].as_str().unwrap_or_default().to_owned();
    let sentence = answer["error"].as_str().unwrap_or_default().to_owned();
    if status == 0 {
        Some((String::new(), String::new()))
    } else {
        Some((code, sentence))
    }
}
