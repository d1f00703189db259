//! How the last turn of a Codex rollout stands. Pure.
//!
//! `task_started`, `task_complete` and `turn_aborted` are Codex's own words for a turn's begin and end, in the terminal
//! and without it alike; a failed turn has `error` (run with 0.171). What a tool gave is a `…_output` item.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use crate::provider::closing::{Closing, Command, Outcome};
use crate::provider::home::conversation::Tail;
use crate::snapshot::evidence::word;

/// How the line begins that tells a command's exit status, among the first [`HEAD`] of its answer.
const EXITED: [&str; 2] = ["Process exited with code ", "Exit code: "];
/// Lines of an answer that are Codex's own.
const HEAD: usize = 6;

/// How it stands.
pub(super) fn of(tail: &Tail) -> Closing {
    let mut found = Closing::default();
    let mut open = true;
    for line in tail.newest(&[
        "\"task_started\"",
        "\"task_complete\"",
        "\"turn_aborted\"",
        "\"agent_message\"",
        "_output\"",
    ]) {
        let payload = &line["payload"];
        let kind = payload["type"].as_str().unwrap_or_default();
        match (line["type"].as_str(), kind) {
            (Some("response_item"), _) if kind.ends_with("_output") => {
                found.acted = found.acted.or_else(|| tail.time(&line));
            }
            (Some("event_msg"), "task_started") => return found,
            (Some("event_msg"), "task_complete" | "turn_aborted") if !open => return found,
            (Some("event_msg"), "task_complete") => {
                open = false;
                found.at = tail.time(&line);
                found.is_stated = true;
                found.outcome = Some(outcome(&payload["error"]));
                found.answer = payload["last_agent_message"].as_str().map(str::to_owned);
            }
            (Some("event_msg"), "turn_aborted") => {
                open = false;
                found.at = tail.time(&line);
                found.is_stated = true;
                found.outcome = Some(Outcome::Interrupted);
            }
            (Some("event_msg"), "agent_message") if !open && found.answer.is_none() => {
                found.answer = payload["message"].as_str().map(str::to_owned);
            }
            _ => {}
        }
    }
    found
}

/// The commands that ended at or after `from`.
pub(super) fn commands(tail: &Tail, from: Timestamp) -> Vec<Command> {
    let mut asked: BTreeMap<String, String> = BTreeMap::new();
    let mut found = Vec::new();
    let mut lines: Vec<Value> = tail
        .newest(&["\"function_call\"", "\"function_call_output\""])
        .filter(|line| line["type"] == "response_item")
        .collect();
    lines.reverse();
    for line in &lines {
        let payload = &line["payload"];
        let id = payload["call_id"].as_str().unwrap_or_default().to_owned();
        match payload["type"].as_str() {
            Some("function_call") => {
                asked.extend(command(&payload["arguments"]).map(|command| (id, command)));
            }
            Some("function_call_output") => {
                let ended = tail.time(line).is_some_and(|at| at >= from);
                if let (Some(text), true) = (asked.remove(&id), ended) {
                    let status = status(&payload["output"]);
                    found.push(Command {
                        text,
                        status,
                        failed: status != Some(0),
                    });
                }
            }
            _ => {}
        }
    }
    found
}

/// The command among a tool's arguments, which are JSON in a text; one given as words ends with its script.
fn command(arguments: &Value) -> Option<String> {
    let arguments: Value = serde_json::from_str(arguments.as_str()?).ok()?;
    let given = [&arguments["cmd"], &arguments["command"]];
    given.into_iter().find_map(|given| {
        let last = given.as_array().and_then(|words| words.last());
        last.unwrap_or(given).as_str().map(str::to_owned)
    })
}

/// The exit status that a command's answer begins with.
fn status(output: &Value) -> Option<i64> {
    let text = output.as_str().or_else(|| output["content"].as_str())?;
    text.lines().take(HEAD).find_map(|line| {
        let rest = EXITED.iter().find_map(|begin| line.strip_prefix(begin))?;
        rest.trim().parse().ok()
    })
}

fn outcome(error: &Value) -> Outcome {
    if error.is_null() {
        return Outcome::Completed;
    }
    let info = &error["codex_error_info"];
    let named = info.as_object().and_then(|info| info.keys().next());
    let name = info.as_str().or(named.map(String::as_str));
    Outcome::Failed {
        word: name.and_then(word),
        text: error["message"].as_str().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::of;
    use crate::provider::closing::{Closing, Outcome};
    use crate::provider::home::conversation::Tail;
    use serde_json::{Value, json};

    fn line(second: u32, kind: &str, payload: &Value) -> String {
        json!({"timestamp": format!("2026-11-30T12:28:{second:02}.000Z"), "type": kind, "payload": payload}).to_string()
    }

    fn event(second: u32, name: &str, more: &Value) -> String {
        let mut payload = json!({"type": name});
        let more = more.as_object().unwrap().clone();
        payload.as_object_mut().unwrap().extend(more);
        line(second, "event_msg", &payload)
    }

    fn closing(lines: &[String]) -> Closing {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        of(&Tail::of(&lines))
    }

    #[test]
    fn a_turn_is_over_when_codex_says_so_and_not_before() {
        let began = event(1, "task_started", &json!({}));
        let said = event(2, "agent_message", &json!({"message": "on it"}));
        let gave = line(
            3,
            "response_item",
            &json!({"type": "function_call_output", "output": "task_complete"}),
        );
        let done = event(4, "task_complete", &json!({"last_agent_message": "done"}));
        let open = closing(&[began.clone(), said.clone(), gave.clone()]);
        assert_eq!((open.outcome, open.answer), (None, None));
        assert_eq!(open.acted.unwrap().to_string(), "2026-11-30T12:28:03Z");
        let over = closing(&[began.clone(), said.clone(), gave, done.clone()]);
        assert_eq!(over.outcome, Some(Outcome::Completed));
        assert_eq!(over.at.unwrap().to_string(), "2026-11-30T12:28:04Z");
        assert_eq!(
            (over.answer.as_deref(), over.is_stated),
            (Some("done"), true)
        );
        let again = closing(&[began.clone(), done.clone(), began.clone()]);
        assert_eq!(again, Closing::default(), "the next turn goes on");
        let silent = event(4, "task_complete", &json!({"last_agent_message": null}));
        let over = closing(&[began.clone(), said.clone(), silent]);
        assert_eq!(over.answer.as_deref(), Some("on it"));
        let cut = event(5, "turn_aborted", &json!({"reason": "interrupted"}));
        assert_eq!(
            closing(&[began, said, cut]).outcome,
            Some(Outcome::Interrupted)
        );
    }

    #[test]
    fn a_failed_turn_has_a_word_where_codex_has_one() {
        for (info, word) in [
            (json!("usage_limit_exceeded"), Some("usage_limit_exceeded")),
            (
                json!({"http_connection_failed": {"http_status_code": 401}}),
                Some("http_connection_failed"),
            ),
            (json!("a sentence of somebody"), None),
            (json!(null), None),
        ] {
            let error = json!({"message": "no", "codex_error_info": info});
            let failed = event(1, "task_complete", &json!({"error": error}));
            assert_eq!(
                closing(&[failed]).outcome,
                Some(Outcome::Failed {
                    word: word.map(str::to_owned),
                    text: "no".to_owned()
                })
            );
        }
    }
}
