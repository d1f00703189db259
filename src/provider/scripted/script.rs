//! The language that prompts to the scripted agent are written in. Pure.
//!
//! One instruction per line or between `;`; `spawn` takes the rest of its line, `answer` all that follows. The
//! whole script is read before anything is done, so a mistake does nothing. A prompt that points to a file
//! means the script blocks in it, or those of the file that it sends on to.

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
    /// `answer` on a line of its own: answers with all that follows.
    Answer(String),
    /// `ask TOOL`: on a screen somebody is asked whether the tool may work, and waited for; elsewhere it is denied.
    Ask(String),
    /// `deny TOOL`: a tool that the worker is not allowed to use.
    Deny(String),
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
    /// `unless FILE INSTRUCTION`: does it when the file does not exist.
    Unless {
        /// Relative to the workspace, or absolute.
        file: String,
        /// What is done otherwise.
        then: Box<Self>,
    },
    /// `trust`: on a screen the agent asks whether the folder is trusted before it begins at all.
    Trust,
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
const WORDS: &str = "write, sleep, say, answer, spawn, ask, deny, trust, session, limit, crash, exit, env, argv, hold, unless or usage";

/// What stands before the file that a handed over step is written in.
const SENDS_ON: &str = "Read the step itself and hold to it: `";

/// How the name of a fleet worker ends that reviews another's work.
const REVIEWER: &str = "-review";

/// A prompt that points to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pointed<'a> {
    /// Relative to the workspace, or absolute.
    pub file: &'a str,
    /// Whether the worker reviews another's work.
    pub reviews: bool,
}

/// Reads `Read FILE and follow it exactly. You are fleet worker NAME.`
pub(super) fn pointed(prompt: &str) -> Option<Pointed<'_>> {
    let (file, rest) = prompt
        .trim()
        .strip_prefix("Read ")?
        .split_once(" and follow it exactly.")?;
    let worker = rest.trim().strip_suffix('.').unwrap_or(rest);
    Some(Pointed {
        file,
        reviews: worker.ends_with(REVIEWER),
    })
}

/// The file that a text without blocks sends on to: a step that another conversation began.
pub(super) fn sends_on(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once(SENDS_ON)?;
    rest.split_once('`').map(|(file, _)| file)
}

/// The instructions of a file: those of its blocks that are fenced as `script`, or as `script review` for a
/// worker that reviews; `None` without such a block.
pub(super) fn blocks(
    text: &str,
    pointed: &Pointed<'_>,
) -> Result<Option<Vec<Instruction>>, String> {
    let wanted: &[&str] = if pointed.reviews {
        &["script", "review"]
    } else {
        &["script"]
    };
    let mut found = false;
    let mut instructions = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let (fence, info) = fenced(line);
        if fence < 3 {
            continue;
        }
        let ends = |line: &&str| {
            let (closing, rest) = fenced(line);
            closing < fence || !rest.is_empty()
        };
        let block: Vec<&str> = lines.by_ref().take_while(ends).collect();
        if info.split_whitespace().eq(wanted.iter().copied()) {
            found = true;
            instructions.extend(parse(&block.join("\n"))?);
        }
    }
    Ok(found.then_some(instructions))
}

/// How many backticks a line begins with, and what stands after them.
fn fenced(line: &str) -> (usize, &str) {
    let line = line.trim();
    let rest = line.trim_start_matches('`');
    (line.len() - rest.len(), rest.trim())
}

/// Reads a script. The error says which instruction is wrong, and why.
pub(super) fn parse(text: &str) -> Result<Vec<Instruction>, String> {
    let mut instructions = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let mut rest = line.trim();
        if rest == "answer" {
            let answer: Vec<&str> = lines.by_ref().collect();
            let answer = answer.join("\n").trim().to_owned();
            if answer.is_empty() {
                return Err("`answer`: the text is missing".to_owned());
            }
            instructions.push(Instruction::Answer(answer));
            break;
        }
        while !rest.is_empty() {
            let mut words = rest.split_whitespace();
            let whole = match words.next() {
                Some("unless") => words.nth(1) == Some("spawn"),
                word => word == Some("spawn"),
            };
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
        "answer" => return Err("it stands on a line of its own".to_owned()),
        "ask" => Instruction::Ask(required("the tool")?.to_owned()),
        "trust" if rest.is_empty() => Instruction::Trust,
        "deny" => Instruction::Deny(required("the tool")?.to_owned()),
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
        "unless" => {
            let (file, then) = required("the file")?
                .split_once(char::is_whitespace)
                .ok_or("the instruction is missing")?;
            Instruction::Unless {
                file: file.to_owned(),
                then: Box::new(instruction(then.trim())?),
            }
        }
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
    use super::{Instruction, Limit, Pointed, blocks, parse, pointed, sends_on};
    use std::time::Duration;

    #[test]
    fn instructions_are_split_by_lines_and_semicolons_but_commands_are_whole() {
        let script = "write a/b.txt one  two ; sleep 0.5;;\n\n spawn cd x; ls\nlimit quota 60\nenv A B\nunless f spawn a; b\nunless f exit 3; env";
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
                Instruction::Unless {
                    file: "f".into(),
                    then: Box::new(Instruction::Spawn("a; b".into()))
                },
                Instruction::Unless {
                    file: "f".into(),
                    then: Box::new(Instruction::Exit(3))
                },
                Instruction::Env(vec![]),
            ]
        );
        assert_eq!(parse(" \n;").unwrap(), vec![]);
        let asked = vec![Instruction::Trust, Instruction::Ask("Write".into())];
        assert_eq!(parse("trust\nask Write").unwrap(), asked);
    }

    #[test]
    fn an_answer_is_everything_that_follows_and_a_prompt_may_point_to_a_file() {
        let answer = Instruction::Answer("Status: done\n\n  It; works".into());
        let script = "deny Bash; say hi\nanswer\n\nStatus: done\n\n  It; works\n";
        let all = vec![
            Instruction::Deny("Bash".into()),
            Instruction::Say("hi".into()),
            answer.clone(),
        ];
        assert_eq!(parse(script).unwrap(), all);
        let worker = Pointed {
            file: "a b.md",
            reviews: false,
        };
        let prompt = "Read a b.md and follow it exactly. You are fleet worker lexer.";
        assert_eq!(pointed(prompt), Some(worker));
        assert_eq!(pointed("say Read a.md"), None);
        let text = format!(
            "# Work\n```text\nscript\n```\n````script\n{script}```\nnot yet\n````\n```script\nsay two\n```\n\
             ```script review\nanswer\nStatus: approved"
        );
        let found = blocks(&text, &worker).unwrap().unwrap();
        assert_eq!(
            (found.len(), &found[..2], &found[3]),
            (4, &all[..2], &Instruction::Say("two".into()))
        );
        let reviewer =
            pointed("Read a b.md and follow it exactly. You are fleet worker lexer-review.")
                .unwrap();
        let review = vec![Instruction::Answer("Status: approved".into())];
        assert_eq!(blocks(&text, &reviewer).unwrap().unwrap(), review);
        for silent in [
            "",
            "say hi",
            "```\nsay hi\n```",
            "```script review\nsay hi\n```",
        ] {
            assert_eq!(blocks(silent, &worker).unwrap(), None);
        }
        let sent = "1. Read the step itself and hold to it: `.fleet/a.step.md`.\n2. `b`";
        assert_eq!(sends_on(sent), Some(".fleet/a.step.md"));
        assert_eq!(sends_on("Continue."), None);
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
            "deny",
            "ask",
            "trust me",
            "unless",
            "unless f",
            "unless f fly",
            "answer",
            "say hi; answer x",
        ] {
            assert!(parse(bad).is_err(), "accepted {bad:?}");
        }
        assert!(parse("fix it").unwrap_err().starts_with("`fix it`: "));
    }
}
