//! How the last turn of a Claude Code transcript stands. Pure.
//!
//! A turn that ended leaves the worker's last words as an `assistant` line without a tool in it, and behind it, once
//! the hooks of the turn's end have run, a `stop_hook_summary` (run with 2.1.332). Before that a hook may still send the
//! worker back to work. A failed request is an `assistant` line of Claude Code's own making, after which it may try
//! something else; an interrupt is a `user` line that begins with [`INTERRUPTED`].
//!
//! Limits: what a person types at the screen that is no prompt (`/cost`, `/exit`) is told from one by how Claude Code
//! writes it down.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use crate::provider::closing::{Closing, Command, Outcome};
use crate::provider::home::conversation::Tail;
use crate::snapshot::evidence::word;

/// How Claude Code writes down that a turn was interrupted.
const INTERRUPTED: &str = "[Request interrupted by user";
/// How lines begin that stand for commands of the screen.
const COMMANDS: [&str; 5] = [
    "<command-name>",
    "<command-message>",
    "<local-command-",
    "<bash-",
    "Caveat: ",
];

/// How it stands.
pub(super) fn of(tail: &Tail) -> Closing {
    let words = ["\"assistant\"", "\"user\"", "\"stop_hook_summary\""];
    // What a worker's own workers do is none of its words.
    let mut lines = tail
        .newest(&words)
        .filter(|line| line["isSidechain"] != true);
    let mut is_stated = false;
    let last = loop {
        let Some(line) = lines.next() else {
            return Closing::default();
        };
        match line["type"].as_str() {
            Some("system") => is_stated |= line["subtype"] == "stop_hook_summary",
            Some("assistant") => break line,
            Some("user") if !is_command(&line["message"]["content"]) => break line,
            _ => {}
        }
    };
    let at = tail.time(&last);
    let acting = Closing {
        acted: at,
        ..Closing::default()
    };
    let content = &last["message"]["content"];
    let over = |outcome, is_stated| Closing {
        outcome: Some(outcome),
        at,
        is_stated,
        ..acting.clone()
    };
    if last["type"] == "user" {
        let cut = texts(content).starts_with(INTERRUPTED);
        return if cut {
            over(Outcome::Interrupted, true)
        } else {
            acting
        };
    }
    if last["isApiErrorMessage"] == true {
        return over(failed(&last, texts(content)), false);
    }
    if has_tool(content) {
        return acting;
    }
    let answer = answer(&last, lines);
    Closing {
        answer: Some(answer).filter(|text| !text.trim().is_empty()),
        ..over(Outcome::Completed, is_stated)
    }
}

/// The whole of a message by its last line: each part of it is a line of its own.
fn answer(last: &Value, before: impl Iterator<Item = Value>) -> String {
    let message = &last["message"]["id"];
    let same = before.take_while(|line| {
        line["type"] == "assistant" && message.is_string() && line["message"]["id"] == *message
    });
    let mut parts = vec![texts(&last["message"]["content"])];
    parts.extend(same.map(|line| texts(&line["message"]["content"])));
    parts.retain(|part| !part.is_empty());
    parts.reverse();
    parts.join("\n")
}

/// The commands that ended at or after `from`.
pub(super) fn commands(tail: &Tail, from: Timestamp) -> Vec<Command> {
    let mut asked: BTreeMap<String, String> = BTreeMap::new();
    let mut found = Vec::new();
    let mut lines: Vec<Value> = tail.newest(&["\"tool_use\"", "\"tool_result\""]).collect();
    lines.reverse();
    for line in &lines {
        for block in line["message"]["content"].as_array().into_iter().flatten() {
            let text = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
            if let Some(command) = block["input"]["command"].as_str() {
                asked.insert(text("id"), command.to_owned());
            }
            let ended = tail.time(line).is_some_and(|at| at >= from);
            if let (Some(command), true) = (asked.remove(&text("tool_use_id")), ended) {
                let failed = block["is_error"] == true;
                found.push(Command {
                    text: command,
                    status: status(&block["content"], failed),
                    failed,
                });
            }
        }
    }
    found
}

/// The exit status that a command's answer tells of.
fn status(content: &Value, failed: bool) -> Option<i64> {
    if !failed {
        return Some(0);
    }
    let text = texts(content);
    let rest = text.strip_prefix("Exit code ")?;
    rest.lines().next()?.trim().parse().ok()
}

fn failed(line: &Value, text: String) -> Outcome {
    let status = line["apiErrorStatus"].as_u64();
    let named = line["error"].as_str().and_then(word);
    let named = named.filter(|word| word != "unknown");
    Outcome::Failed {
        word: named.or_else(|| status.map(|status| format!("http_{status}"))),
        text,
    }
}

fn is_command(content: &Value) -> bool {
    let text = texts(content);
    COMMANDS.iter().any(|begin| text.starts_with(begin))
}

fn has_tool(content: &Value) -> bool {
    let mut blocks = content.as_array().into_iter().flatten();
    blocks.any(|block| block["type"] == "tool_use")
}

fn texts(content: &Value) -> String {
    if let Some(text) = content.as_str() {
        return text.to_owned();
    }
    let blocks = content.as_array().into_iter().flatten();
    let texts: Vec<&str> = blocks.filter_map(|block| block["text"].as_str()).collect();
    texts.join("\n")
}

#[cfg(test)]
mod tests {
    use super::{commands, of};
    use crate::provider::closing::{Closing, Outcome};
    use crate::provider::home::conversation::Tail;
    use serde_json::{Value, json};

    fn line(kind: &str, second: u32, content: &Value, more: &Value) -> String {
        let mut line = json!({
            "type": kind, "timestamp": format!("2026-11-30T12:28:{second:02}Z"), "isSidechain": false,
            "message": {"id": format!("m{second}"), "content": content},
        });
        let more = more.as_object().unwrap().clone();
        line.as_object_mut().unwrap().extend(more);
        line.to_string()
    }

    fn said(second: u32, text: &str) -> String {
        let content = json!([{"type": "text", "text": text}]);
        line("assistant", second, &content, &json!({}))
    }

    fn told(second: u32, text: &str) -> String {
        line("user", second, &json!(text), &json!({}))
    }

    fn summary(second: u32) -> String {
        line(
            "system",
            second,
            &json!(null),
            &json!({"subtype": "stop_hook_summary"}),
        )
    }

    fn closing(lines: &[&str]) -> Closing {
        of(&Tail::of(lines))
    }

    #[test]
    fn a_turn_looks_over_after_words_without_a_tool_and_is_over_after_its_hooks() {
        let (asked, words, hooks) = (told(1, "go"), said(2, "done"), summary(3));
        assert_eq!(closing(&[&asked]).outcome, None);
        let looks = closing(&[&asked, &words]);
        assert_eq!(
            (looks.outcome.clone(), looks.is_stated),
            (Some(Outcome::Completed), false)
        );
        let over = closing(&[&asked, &words, &hooks, r#"{"type":"last-prompt"}"#]);
        assert_eq!((over.is_stated, &over.answer), (true, &looks.answer));
        assert_eq!(over.answer.as_deref(), Some("done"));
        assert_eq!(over.at.unwrap().to_string(), "2026-11-30T12:28:02Z");
        // As it was written when a hook held the worker back.
        let sent_back = told(3, "Stop hook feedback:\n[make]: the tests fail");
        let open = closing(&[&asked, &words, &sent_back, &hooks]);
        assert_eq!((open.outcome, open.answer), (None, None));
    }

    /// Which of the lines of a transcript ended its turn.
    fn over(fixture: &str) -> Vec<usize> {
        let tails = Tail::grown(fixture);
        let all = tails.iter().enumerate();
        all.filter(|(_, tail)| of(tail).is_stated)
            .map(|(index, _)| index + 1)
            .collect()
    }

    #[test]
    fn what_claude_code_wrote_is_over_where_it_was() {
        // Prompt, tool, its answer and the last words, with lines of the screen's between; then the hooks.
        assert_eq!(over("transcript_claude/terminal.jsonl"), [8, 9, 10]);
        let tails = Tail::grown("transcript_claude/terminal.jsonl");
        let ran = commands(&tails[9], jiff::Timestamp::MIN);
        assert_eq!(
            (ran[0].text.as_str(), ran[0].status),
            ("echo made; exit 3", Some(3))
        );
        assert_eq!(of(&tails[9]).answer.as_deref(), Some("finished"));
        // A hook sent it back to work once.
        assert_eq!(over("transcript_claude/held-back.jsonl"), [8, 9, 10]);
    }

    #[test]
    fn a_tool_that_is_asked_for_goes_on_until_it_answered() {
        let tool = json!([{"type": "tool_use", "name": "Write", "input": {}}]);
        let asks = line("assistant", 2, &tool, &json!({}));
        let open = closing(&[&said(2, "I will"), &asks]);
        assert_eq!(open.outcome, None);
        assert_eq!(open.acted.unwrap().to_string(), "2026-11-30T12:28:02Z");
        let gave = json!([{"type": "tool_result", "content": "ok"}]);
        let gave = line("user", 7, &gave, &json!({}));
        let open = closing(&[&asks, &gave]);
        assert_eq!(open.acted.unwrap().to_string(), "2026-11-30T12:28:07Z");
        let aside = line(
            "assistant",
            9,
            &json!([{"type": "text", "text": "x"}]),
            &json!({"isSidechain": true}),
        );
        assert_eq!(closing(&[&asks, &gave, &aside]), open);
    }

    #[test]
    fn an_answer_in_several_parts_is_whole() {
        let part = |text: &str| {
            let content = json!([{"type": "text", "text": text}]);
            line(
                "assistant",
                2,
                &content,
                &json!({"message": {"id": "m", "content": content}}),
            )
        };
        let thought = json!([{"type": "thinking", "thinking": "hm"}]);
        let thought = line(
            "assistant",
            2,
            &thought,
            &json!({"message": {"id": "m", "content": thought}}),
        );
        let found = closing(&[&said(1, "earlier"), &thought, &part("one"), &part("two")]);
        assert_eq!(found.answer.as_deref(), Some("one\ntwo"));
        assert_eq!(closing(&[&thought]).answer, None);
    }

    #[test]
    fn commands_of_the_screen_are_no_prompts_and_an_interrupt_is_an_end() {
        let words = said(2, "done");
        for typed in [
            "<command-name>/exit</command-name>",
            "<local-command-stdout>Bye</local-command-stdout>",
            "Caveat: The messages below were generated by the user",
        ] {
            let found = closing(&[&words, &summary(3), &told(4, typed)]);
            assert_eq!(found.outcome, Some(Outcome::Completed), "{typed}");
        }
        let cut = json!([{"type": "text", "text": "[Request interrupted by user for tool use]"}]);
        let cut = line("user", 3, &cut, &json!({}));
        assert_eq!(closing(&[&words, &cut]).outcome, Some(Outcome::Interrupted));
    }

    #[test]
    fn commands_have_their_status_and_earlier_ones_are_another_turns() {
        let asks = |second, id: &str, command: &str| {
            let block = json!([{"type": "tool_use", "id": id, "name": "Bash", "input": {"command": command}}]);
            line("assistant", second, &block, &json!({}))
        };
        let gave = |second, id: &str, error: bool, text: &str| {
            let block = json!([{"type": "tool_result", "tool_use_id": id, "is_error": error, "content": text}]);
            line("user", second, &block, &json!({}))
        };
        let lines = [
            asks(1, "a", "first"),
            gave(2, "a", false, "x"),
            asks(3, "b", "second"),
            asks(3, "c", "third"),
            gave(5, "c", true, "Exit code 3\nno"),
            gave(6, "b", true, "it was refused"),
            asks(7, "d", "goes on"),
        ];
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let from = "2026-11-30T12:28:03Z".parse().unwrap();
        let found = commands(&Tail::of(&lines), from);
        let found: Vec<_> = found
            .iter()
            .map(|one| (one.text.as_str(), one.status))
            .collect();
        assert_eq!(found, [("third", Some(3)), ("second", None)]);
    }

    #[test]
    fn a_failed_request_has_a_word_where_claude_has_one() {
        for (fields, word) in [
            (
                json!({"error": "rate_limit", "apiErrorStatus": 429}),
                Some("rate_limit"),
            ),
            (
                json!({"error": "unknown", "apiErrorStatus": 500}),
                Some("http_500"),
            ),
            (json!({"error": "unknown"}), None),
        ] {
            let mut more = fields.clone();
            more["isApiErrorMessage"] = true.into();
            let content = json!([{"type": "text", "text": "no"}]);
            let failed = line("assistant", 2, &content, &more);
            let found = closing(&[&failed]);
            assert_eq!(
                found.outcome,
                Some(Outcome::Failed {
                    word: word.map(str::to_owned),
                    text: "no".to_owned()
                })
            );
            assert!(!found.is_stated && found.answer.is_none());
        }
    }
}
