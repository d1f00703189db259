//! The language that prompts to the scripted agent are written in. Pure.
//!
//! One instruction per line or between `;`; `spawn` takes the rest of its line. The whole script is read
//! before anything is done, so a mistake does nothing.

use std::time::Duration;

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Instruction {
    /// `write FILE TEXT`: writes a file below the workspace.
    Write {
        /// Relative to the workspace, or absolute.
        file: String,
        /// Its new content, less a newline at its end.
        text: String,
    },
    /// `sleep SECONDS`.
    Sleep(Duration),
    /// `say TEXT`: answers.
    Say(String),
    /// `spawn COMMAND`: a tool call, run by `sh -c` to its end.
    Spawn(String),
    /// `session`: moves on to a new conversation, as `/clear` does.
    Session,
    /// `limit quota|rate|billing|auth [RESETS_IN]`: the turn fails like this.
    Limit {
        /// What is used up.
        kind: Limit,
        /// When it will be over.
        resets_in: Duration,
    },
    /// `crash`: dies by SIGKILL.
    Crash,
    /// `exit STATUS`.
    Exit(u8),
    /// `env [NAME…]`: answers with these variables as it sees them, all without a name.
    Env(Vec<String>),
    /// `argv`: answers with its arguments and working directory.
    Argv,
    /// `hold FILE`: waits until the file exists.
    Hold(String),
    /// `usage PERCENT`: this much of every window is used now.
    Usage(f64),
}

/// Ways in which a turn can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// The allowance is used up until its reset.
    Quota,
    /// Too many requests in a minute.
    Rate,
    /// Payment is due.
    Billing,
    /// The login is not accepted.
    Auth,
}

/// What an unknown instruction is answered with.
const WORDS: &str =
    "write, sleep, say, spawn, session, limit, crash, exit, env, argv, hold or usage";

/// Reads a script. The error says which instruction is wrong, and why.
pub(super) fn parse(text: &str) -> Result<Vec<Instruction>, String> {
    let mut instructions = Vec::new();
    for line in text.lines() {
        let mut rest = line.trim();
        while !rest.is_empty() {
            let whole = rest.split_whitespace().next() == Some("spawn");
            let (one, after) = match rest.split_once(';') {
                Some(parts) if !whole => parts,
                _ => (rest, ""),
            };
            let one = one.trim();
            if !one.is_empty() {
                let instruction =
                    instruction(one).map_err(|reason| format!("`{one}`: {reason}"))?;
                instructions.push(instruction);
            }
            rest = after.trim();
        }
    }
    Ok(instructions)
}

fn instruction(text: &str) -> Result<Instruction, String> {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim();
    let required = |what: &str| {
        if rest.is_empty() {
            Err(format!("{what} is missing"))
        } else {
            Ok(rest)
        }
    };
    Ok(match word {
        "write" => {
            let (file, text) = required("the file")?
                .split_once(char::is_whitespace)
                .ok_or("the text is missing")?;
            Instruction::Write {
                file: file.to_owned(),
                text: text.trim().to_owned(),
            }
        }
        "sleep" => Instruction::Sleep(seconds(rest)?),
        "say" => Instruction::Say(required("the text")?.to_owned()),
        "spawn" => Instruction::Spawn(required("the command")?.to_owned()),
        "session" => Instruction::Session,
        "limit" => {
            let (kind, resets) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            let kind = match kind {
                "quota" => Limit::Quota,
                "rate" => Limit::Rate,
                "billing" => Limit::Billing,
                "auth" => Limit::Auth,
                _ => return Err("the limit is quota, rate, billing or auth".to_owned()),
            };
            let resets_in = match (kind, resets.trim()) {
                (Limit::Billing | Limit::Auth, "") => Duration::ZERO,
                (Limit::Rate, "") => Duration::from_mins(1),
                (_, text) => seconds(text)?,
            };
            Instruction::Limit { kind, resets_in }
        }
        "crash" => Instruction::Crash,
        "exit" => Instruction::Exit(
            rest.parse()
                .map_err(|_| "the status is a number from 0 to 255")?,
        ),
        "env" => Instruction::Env(rest.split_whitespace().map(str::to_owned).collect()),
        "argv" => Instruction::Argv,
        "hold" => Instruction::Hold(required("the file")?.to_owned()),
        "usage" => Instruction::Usage(
            rest.trim_end_matches('%')
                .parse()
                .ok()
                .filter(|percent| (0.0..=100.0).contains(percent))
                .ok_or("the percent is a number from 0 to 100")?,
        ),
        _ => return Err(format!("an instruction begins with {WORDS}")),
    })
}

fn seconds(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| "the time is a number of seconds".to_owned())
}

#[cfg(test)]
mod tests {
    use super::{Instruction, Limit, parse};
    use std::time::Duration;

    #[test]
    fn instructions_are_split_by_lines_and_semicolons_but_commands_are_whole() {
        let script =
            "write a/b.txt one  two ; sleep 0.5;;\n\n spawn cd x; ls\nlimit quota 60\nenv A B";
        assert_eq!(
            parse(script).unwrap(),
            vec![
                Instruction::Write {
                    file: "a/b.txt".into(),
                    text: "one  two".into()
                },
                Instruction::Sleep(Duration::from_millis(500)),
                Instruction::Spawn("cd x; ls".into()),
                Instruction::Limit {
                    kind: Limit::Quota,
                    resets_in: Duration::from_mins(1)
                },
                Instruction::Env(vec!["A".into(), "B".into()]),
            ]
        );
        assert_eq!(parse(" \n;").unwrap(), vec![]);
    }

    #[test]
    fn every_mistake_is_named_before_anything_is_done() {
        for bad in [
            "say hi; fix the bug",
            "write a",
            "sleep",
            "sleep -1",
            "sleep NaN",
            "say",
            "exit 256",
            "limit",
            "limit quota",
            "limit luck 3",
            "usage 101",
            "usage NaN",
            "hold",
        ] {
            assert!(parse(bad).is_err(), "accepted {bad:?}");
        }
        assert!(parse("fix it").unwrap_err().starts_with("`fix it`: "));
    }
}
