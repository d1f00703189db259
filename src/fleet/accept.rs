//! What the program itself checks before a step counts as done: its artifacts are there and its commands end well.
//!
//! Commands come from the plan, which a person or a lead wrote, and run in the step's workspace with the environment
//! of the command that checks. An artifact is a plain file inside the workspace, reached over no link; characters
//! are counted, not bytes.

use std::time::Duration;

use camino::{Utf8Component, Utf8Path};

use super::model::{Acceptance, Artifact};
use crate::env::Context;
use crate::error::{Error, Result};
use crate::store::read;
use crate::sys::spawn::{Program, run};
use crate::withheld::withhold;

/// How long one command may take.
pub const COMMAND_PATIENCE: Duration = Duration::from_mins(30);
/// Most characters of a failed command's output that are told.
const TOLD: usize = 4000;

/// Something that is not as it has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmet {
    /// Which artifact or command.
    pub what: String,
    /// What is wrong, and how a failed command said so.
    pub problem: String,
}

/// Everything that is not met; commands are not run while an artifact is missing.
pub fn check(
    context: &Context,
    workspace: &Utf8Path,
    acceptance: &Acceptance,
) -> Result<Vec<Unmet>> {
    let mut unmet: Vec<Unmet> = acceptance
        .artifacts
        .iter()
        .filter_map(|artifact| {
            let problem = lacks(workspace, artifact)?;
            Some(Unmet {
                what: artifact.path.to_string(),
                problem,
            })
        })
        .collect();
    if unmet.is_empty() {
        for command in &acceptance.commands {
            if let Some(problem) = try_command(context, workspace, command)? {
                unmet.push(Unmet {
                    what: command.clone(),
                    problem,
                });
                break;
            }
        }
    }
    Ok(unmet)
}

/// What an artifact lacks; `None` when it is as it should be.
fn lacks(workspace: &Utf8Path, artifact: &Artifact) -> Option<String> {
    let plain = |part| matches!(part, Utf8Component::Normal(_));
    if !artifact.path.components().all(plain) || artifact.path.as_str().is_empty() {
        return Some("it is no path inside the workspace".to_owned());
    }
    let mut path = workspace.to_owned();
    for part in artifact.path.components() {
        path.push(part.as_str());
        match path.symlink_metadata() {
            Ok(found) if found.is_symlink() => return Some("it is reached over a link".to_owned()),
            Ok(_) => {}
            Err(error) => return Some(format!("it cannot be seen: {error}")),
        }
    }
    if !path.is_file() {
        return Some("it is no file".to_owned());
    }
    let bytes = match read::optional(&path) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Some("it is gone".to_owned()),
        Err(error) => return Some(error.message),
    };
    let text = String::from_utf8_lossy(&bytes);
    if let Some(least) = artifact.min_chars {
        let count = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
        if count < least {
            return Some(format!("it has {count} characters, and {least} are wanted"));
        }
    }
    let missing = artifact
        .contains
        .iter()
        .find(|wanted| !text.contains(wanted.as_str()));
    missing.map(|wanted| format!("it does not contain `{wanted}`"))
}

/// How a command failed; `None` when it ended with status 0.
fn try_command(context: &Context, workspace: &Utf8Path, command: &str) -> Result<Option<String>> {
    let program = Program {
        path: "/bin/sh".into(),
        arguments: vec!["-c".into(), command.into()],
        environment: context
            .variables
            .iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        directory: Some(workspace.as_std_path().to_owned()),
        input: Vec::new(),
    };
    let ended = match run(&program, &context.clock.deadline(COMMAND_PATIENCE)) {
        Ok(ended) => ended,
        Err(error) if error.kind() == std::io::ErrorKind::TimedOut => {
            let minutes = COMMAND_PATIENCE.as_secs() / 60;
            return Ok(Some(format!("it had not ended after {minutes} minutes")));
        }
        Err(error) => return Err(Error::io("run a command in", workspace, &error)),
    };
    let how = match ended.status {
        Some(0) => return Ok(None),
        Some(status) => format!("it ended with status {status}"),
        None => "a signal ended it".to_owned(),
    };
    let mut output = String::from_utf8_lossy(&ended.stdout).into_owned();
    output.push_str(&String::from_utf8_lossy(&ended.stderr));
    let tail = output.trim_end();
    let cut = tail.char_indices().rev().nth(TOLD).map_or(0, |(at, _)| at);
    let told = withhold(tail.get(cut..).unwrap_or_default()).into_owned();
    Ok(Some(format!("{how}\n\n{told}").trim_end().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::env::World;
    use crate::fleet::model::{Acceptance, Artifact};
    use crate::store::replace::{Durability, replace};
    use camino::Utf8Path;

    #[test]
    fn artifacts_are_plain_files_with_what_they_must_hold_and_commands_end_well() {
        let directory = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(directory.path()).unwrap();
        let context = crate::env::Context::resolve(&World::capture(), None).unwrap();
        replace(root.join("a"), "äöü x".as_bytes(), Durability::Volatile).unwrap();
        std::os::unix::fs::symlink("a", root.join("l")).unwrap();
        let problem = |artifact: Artifact| {
            let acceptance = Acceptance {
                artifacts: vec![artifact],
                commands: vec!["exit 9".to_owned()],
            };
            check(&context, root, &acceptance)
                .unwrap()
                .remove(0)
                .problem
        };
        let artifact = |path: &str, min_chars, contains: &[&str]| Artifact {
            path: path.into(),
            min_chars,
            contains: contains.iter().map(|text| (*text).to_owned()).collect(),
        };
        assert!(problem(artifact("a", Some(6), &[])).contains("5 characters"));
        assert!(problem(artifact("a", Some(5), &["z"])).contains("`z`"));
        assert!(problem(artifact("l", None, &[])).contains("link"));
        assert!(problem(artifact("b", None, &[])).contains("cannot be seen"));
        for outside in ["../a", "/etc/passwd", "", "."] {
            assert!(
                problem(artifact(outside, None, &[])).contains("inside"),
                "{outside}"
            );
        }
        assert!(problem(artifact(".", None, &[])).contains("inside"));
        assert!(problem(artifact("a", Some(5), &["äö"])).contains("status 9"));
        let met = Acceptance {
            artifacts: vec![artifact("a", Some(5), &["x"])],
            commands: vec!["test -f a".to_owned()],
        };
        assert_eq!(check(&context, root, &met).unwrap(), []);
    }
}
