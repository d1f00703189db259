//! Codex's `exec --json`, line by line. Pure.
//!
//! Measured with 0.171: `turn.completed` and `turn.failed` end a turn, and SIGINT and SIGTERM end it with
//! neither. A failed turn has a sentence and no word; the exact reset of a limit is in the rollout alone
//! ([`Turn::refine`](super::Turn::refine)).
//!
//! Limits: a command that Codex itself refuses to run (`rm -rf …` without anybody to ask) leaves no line here
//! at all, and one that its sandbox refuses is a command that failed. Only what is `declined` is a denial. A
//! resume that finds no conversation says so on standard error alone, before any line.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;

use super::claude::{UNNAMED, tool_word};
use super::event::{End, Event, Failure, Tool};
use crate::provider::codex::ending::limit;
use crate::provider::home::conversation::is_id;
use crate::quota::limit::Limit;
use crate::quota::reset;

/// What one line tells.
pub(super) fn read(line: &Value, said: Timestamp, local: &TimeZone, events: &mut Vec<Event>) {
    match line["type"].as_str() {
        Some("thread.started") => {
            let session = line["thread_id"].as_str().filter(|id| is_id(id));
            events.extend(session.map(|id| Event::Named(id.to_owned())));
        }
        Some("turn.started") => events.push(Event::Began { model: None }),
        Some("item.started") => {
            let tool = tool(&line["item"]);
            events.extend(tool.map(Event::ToolBegan));
        }
        Some("item.completed") => item(&line["item"], events),
        Some("error") => {
            let text = line["message"].as_str().unwrap_or_default();
            events.push(Event::Hitch(text.to_owned()));
        }
        Some("turn.completed") => events.push(Event::Ended {
            end: End::Completed,
            answer: None,
        }),
        Some("turn.failed") => {
            events.push(Event::Failed(failure(&line["error"], said, local)));
            events.push(Event::Ended {
                end: End::Failed,
                answer: None,
            });
        }
        _ => {}
    }
}

fn failure(error: &Value, said: Timestamp, local: &TimeZone) -> Failure {
    let text = error["message"].as_str().unwrap_or_default();
    let limit = limit(error);
    let used_up = limit == Some(Limit::Quota);
    Failure {
        limit,
        reset: reset::reset(text, said, local).filter(|_| used_up),
        word: UNNAMED.to_owned(),
        text: text.to_owned(),
    }
}

fn item(item: &Value, events: &mut Vec<Event>) {
    if item["type"] == "agent_message" {
        events.extend(item["text"].as_str().map(|text| Event::Said(text.into())));
        return;
    }
    if item["type"] == "error" {
        let text = item["message"].as_str().unwrap_or_default();
        events.push(Event::Hitch(text.to_owned()));
        return;
    }
    let Some(tool) = tool(item) else {
        return;
    };
    let state = item["status"].as_str().unwrap_or_default();
    if state == "declined" {
        events.push(Event::Denied(tool_word(Some(&tool.name))));
    }
    let output = ["aggregated_output", "error"].iter().find_map(|name| {
        let part = &item[name];
        part.as_str().or_else(|| part["message"].as_str())
    });
    events.push(Event::ToolEnded {
        status: item["exit_code"].as_i64(),
        failed: matches!(state, "failed" | "declined"),
        output: output.unwrap_or_default().to_owned(),
        tool,
    });
}

/// The tool of an item; `None` for what is none.
fn tool(item: &Value) -> Option<Tool> {
    let text = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
    let (name, arguments, is_command) = match item["type"].as_str()? {
        "command_execution" => ("shell".to_owned(), unwrapped(&text("command")), true),
        "file_change" => {
            let changes = item["changes"].as_array().into_iter().flatten();
            let paths: Vec<&str> = changes.filter_map(|one| one["path"].as_str()).collect();
            ("apply_patch".to_owned(), paths.join(" "), false)
        }
        "mcp_tool_call" => (
            format!("{}.{}", text("server"), text("tool")),
            String::new(),
            false,
        ),
        "web_search" => ("web_search".to_owned(), text("query"), false),
        "collab_tool_call" => (text("tool"), text("prompt"), false),
        _ => return None,
    };
    Some(Tool {
        name,
        arguments,
        is_command,
    })
}

/// The command itself: Codex shows the shell that runs it too.
fn unwrapped(command: &str) -> String {
    let quoted = |rest: &str, mark: char| {
        let inner = rest.strip_prefix(mark)?.strip_suffix(mark)?;
        (!inner.contains(mark)).then(|| inner.to_owned())
    };
    let shells = [
        "/bin/bash -lc ",
        "bash -lc ",
        "/bin/sh -lc ",
        "/bin/zsh -lc ",
    ];
    let rest = shells.iter().find_map(|shell| command.strip_prefix(shell));
    rest.and_then(|rest| quoted(rest, '\''))
        .unwrap_or_else(|| command.to_owned())
}
