//! How the last turn of a Codex rollout stands. Pure.
//!
//! `task_started`, `task_complete` and `turn_aborted` are Codex's own words for a turn's begin and end, in the terminal
//! and without it alike; a failed turn has `error` (run with 0.171). What a tool gave is a `…_output` item.

use jiff::Timestamp;
use serde_json::Value;

use crate::provider::closing::{Closing, Command, Outcome};
use crate::provider::home::conversation::Tail;
use crate::snapshot::evidence::word;

/// How it stands.
pub(super) fn of(tail: &Tail) -> Closing {
    let mut found = Closing::default();
    let mut open = true;
    for line in tail.newest(&[
        "\"task_started\"",
        "\"task_complete\"",
        "\"turn_aborted\"",
        "\"AgentMessage\"",
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
            (Some("event_msg"), "item_completed") if !open && found.answer.is_none() => {
                found.answer = item(payload, "AgentMessage").and_then(said);
            }
            _ => {}
        }
    }
    found
}

/// The commands that ended at or after `from`.
pub(super) fn commands(tail: &Tail, from: Timestamp) -> Vec<Command> {
    let mut found: Vec<Command> = tail
        .newest(&["\"CommandExecution\""])
        .take_while(|line| tail.time(line).is_some_and(|at| at >= from))
        .filter(|line| line["type"] == "event_msg")
        .filter_map(|line| {
            let item = item(&line["payload"], "CommandExecution")?;
            let status = item["exit_code"].as_i64();
            Some(Command {
                text: command(&item["command"])?,
                status,
                failed: item["status"] != "completed" || status.is_some_and(|status| status != 0),
            })
        })
        .collect();
    found.reverse();
    found
}

/// What a worker or a tool has done, where it is of this kind.
fn item<'a>(payload: &'a Value, kind: &str) -> Option<&'a Value> {
    let item = &payload["item"];
    (payload["type"] == "item_completed" && item["type"] == kind).then_some(item)
}

/// The command itself: its words are the shell that runs it, what makes that run it, and it.
fn command(words: &Value) -> Option<String> {
    let words: Vec<&str> = words.as_array()?.iter().filter_map(Value::as_str).collect();
    match words[..] {
        [_, "-lc" | "-c", script] => Some(script.to_owned()),
        _ => Some(words.join(" ")),
    }
}

/// What a worker said.
fn said(item: &Value) -> Option<String> {
    let parts = item["content"].as_array()?.iter();
    let texts: Vec<&str> = parts.filter_map(|part| part["text"].as_str()).collect();
    Some(texts.join("\n"))
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
    use super::{commands, of};
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
        let words = json!({"type": "AgentMessage", "content": [{"type": "Text", "text": "on it"}]});
        let said = event(2, "item_completed", &json!({"item": words}));
        let gave = line(
            3,
            "response_item",
            &json!({"type": "custom_tool_call_output", "output": "task_complete"}),
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
    fn what_codex_wrote_is_over_where_it_was() {
        let tails = Tail::grown("transcript_codex/terminal.jsonl");
        let stands = tails.iter().map(of);
        let over: Vec<bool> = stands.map(|one| one.outcome.is_some()).collect();
        let mut expected = vec![false; tails.len()];
        expected[tails.len() - 1] = true;
        assert_eq!(over, expected);
        let last = tails.last().unwrap();
        assert_eq!(of(last).answer.as_deref(), Some("finished"));
        assert!(of(last).acted.is_some());
        let ran = commands(last, jiff::Timestamp::MIN);
        assert_eq!(
            (ran[0].text.as_str(), ran[0].status),
            ("echo made; exit 3", Some(3))
        );
    }

    #[test]
    fn commands_have_their_status_and_earlier_ones_are_another_turns() {
        let ran = |second, command: &Value, more: &Value| {
            let mut item = json!({"type": "CommandExecution", "command": command});
            let more = more.as_object().unwrap().clone();
            item.as_object_mut().unwrap().extend(more);
            event(second, "item_completed", &json!({"item": item}))
        };
        let shell = |script: &str| json!(["/bin/bash", "-lc", script]);
        let lines = [
            ran(
                1,
                &shell("earlier"),
                &json!({"status": "completed", "exit_code": 0}),
            ),
            ran(
                3,
                &shell("make; exit 3"),
                &json!({"status": "failed", "exit_code": 3}),
            ),
            ran(
                4,
                &json!(["ls", "-l"]),
                &json!({"status": "completed", "exit_code": 0}),
            ),
            ran(5, &shell("rm"), &json!({"status": "declined"})),
        ];
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let from = "2026-11-30T12:28:02Z".parse().unwrap();
        let found = commands(&Tail::of(&lines), from);
        let found: Vec<_> = found
            .iter()
            .map(|one| (one.text.as_str(), one.status, one.failed))
            .collect();
        assert_eq!(
            found,
            [
                ("make; exit 3", Some(3), true),
                ("ls -l", Some(0), false),
                ("rm", None, true)
            ]
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
