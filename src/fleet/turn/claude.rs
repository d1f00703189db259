//! Claude Code's `--output-format stream-json --verbose`, line by line. Pure.
//!
//! The scripted agent writes the same. Measured with 2.1.332: a failed request is an `assistant` line with
//! `is_api_error_message`, and `result` repeats it without its word; a denied tool leaves `subtype` at
//! `success` and the exit status at 0, and stands in `permission_denials` of `result` alone, or in a line of
//! its own when nobody can be asked; SIGINT ends with `terminal_reason` `aborted_…` and status 0, SIGTERM
//! without a `result`. What a worker or a tool prints is never taken for any of these.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;

use super::event::{End, Event, Failure, Tool};
use crate::provider::answer::{instant, number};
use crate::provider::claude::ending::Refused;
use crate::provider::claude::usage::classify;
use crate::provider::home::conversation::is_id;
use crate::quota::limit::{Limit, Reset};
use crate::quota::reset;
use crate::quota::window::Window;
use crate::snapshot::evidence::word;

/// Most tools at work at once that are remembered.
const TOOLS: usize = 512;
/// The word of a resume that found no conversation.
pub const NO_CONVERSATION: &str = "no_conversation";
/// The word of a failure that has none.
pub const UNNAMED: &str = "provider_error";

/// What is remembered from line to line.
#[derive(Debug, Default)]
pub(super) struct Claude {
    tools: BTreeMap<String, Tool>,
    /// The reset of a window that the server said is used up.
    rejected: Option<Reset>,
    /// A failed request was told already, so `result` only repeats it.
    failed: bool,
    /// When the last line was written that says it.
    at: Option<Timestamp>,
}

impl Claude {
    pub(super) fn read(
        &mut self,
        line: &Value,
        said: Timestamp,
        local: &TimeZone,
        events: &mut Vec<Event>,
    ) {
        self.at = instant(&line["timestamp"]).or(self.at);
        match line["type"].as_str() {
            Some("system") => self.system(line, events),
            Some("assistant") if line["is_api_error_message"] == true => {
                let said = instant(&line["timestamp"]).unwrap_or(said);
                self.failed = true;
                let text = texts(&line["message"]["content"]);
                events.push(Event::Failed(self.failure(line, text, said, local)));
            }
            Some("assistant") => self.assistant(line, events),
            Some("user") => self.user(line, events),
            Some("rate_limit_event") => self.windows(&line["rate_limit_info"], events),
            Some("result") => self.result(line, said, local, events),
            _ => {}
        }
    }

    fn system(&mut self, line: &Value, events: &mut Vec<Event>) {
        match line["subtype"].as_str() {
            Some("init") => {
                self.failed = false;
                self.rejected = None;
                let model = line["model"].as_str().and_then(word);
                events.extend(named(line));
                events.push(Event::Began { model });
            }
            Some("permission_denied") => events.push(denied(line)),
            Some("api_retry") => {
                let word = line["error"].as_str().and_then(word);
                events.push(Event::Hitch(format!(
                    "a request failed ({}) and is tried again",
                    word.as_deref().unwrap_or(UNNAMED)
                )));
            }
            _ => {}
        }
    }

    fn assistant(&mut self, line: &Value, events: &mut Vec<Event>) {
        let own = line["parent_tool_use_id"].is_null();
        for block in line["message"]["content"].as_array().into_iter().flatten() {
            match block["type"].as_str() {
                Some("text") if own => {
                    events.extend(block["text"].as_str().map(|text| Event::Said(text.into())));
                }
                Some("tool_use") => {
                    let tool = tool(block);
                    if let (Some(id), true) = (block["id"].as_str(), self.tools.len() < TOOLS) {
                        self.tools.insert(id.to_owned(), tool.clone());
                    }
                    events.push(Event::ToolBegan(tool));
                }
                _ => {}
            }
        }
    }

    fn user(&mut self, line: &Value, events: &mut Vec<Event>) {
        for block in line["message"]["content"].as_array().into_iter().flatten() {
            if block["type"] != "tool_result" {
                continue;
            }
            let id = block["tool_use_id"].as_str().unwrap_or_default();
            let tool = self.tools.remove(id).unwrap_or_default();
            let failed = block["is_error"] == true;
            let content = &block["content"];
            let output = content
                .as_str()
                .map_or_else(|| texts(content), str::to_owned);
            let told = || {
                let rest = output.strip_prefix("Exit code ")?;
                rest.lines().next()?.trim().parse().ok()
            };
            let status = match (tool.is_command, failed) {
                (false, _) => None,
                (true, false) => Some(0),
                (true, true) => told(),
            };
            events.push(Event::ToolEnded {
                tool,
                status,
                failed,
                output,
            });
        }
    }

    fn windows(&mut self, info: &Value, events: &mut Vec<Event>) {
        let reset = |value: &Value| instant(value);
        if info["status"] == "rejected" {
            self.rejected = reset(&info["resetsAt"]).map(|at| Reset { at, guessed: false });
        }
        let named = info["unifiedWindows"].as_object();
        let windows: Vec<Window> = named
            .into_iter()
            .flatten()
            .filter_map(|(id, window)| {
                let id = word(id)?;
                let (kind, scope) = classify(&id);
                let used = number(&window["utilization"]).filter(|used| *used >= 0.0)?;
                let used = if window["status"] == "rejected" {
                    1.0
                } else {
                    used
                };
                Some(Window {
                    id,
                    kind,
                    scope,
                    remaining_percent: (100.0 - used * 100.0).clamp(0.0, 100.0),
                    resets_at: reset(&window["resetsAt"]),
                })
            })
            .collect();
        if !windows.is_empty() {
            let at = self.at;
            events.push(Event::Windows { windows, at });
        }
        if info["isUsingOverage"] == true || info["overageInUse"] == true {
            events.push(Event::OverageUsed);
        }
    }

    fn result(&mut self, line: &Value, said: Timestamp, local: &TimeZone, events: &mut Vec<Event>) {
        // A resume that fails at once names its conversation nowhere else.
        events.extend(named(line));
        let denials = line["permission_denials"].as_array();
        events.extend(denials.into_iter().flatten().map(denied));
        let reason = line["terminal_reason"].as_str().unwrap_or_default();
        let end = if reason.starts_with("aborted") {
            End::Interrupted
        } else if line["is_error"] == false && line["subtype"] == "success" {
            End::Completed
        } else {
            End::Failed
        };
        if end == End::Failed && !self.failed {
            let text = line["result"].as_str().map(str::to_owned);
            let text = text.unwrap_or_else(|| {
                let errors = line["errors"].as_array().into_iter().flatten();
                let errors: Vec<&str> = errors.filter_map(Value::as_str).collect();
                errors.join("\n")
            });
            events.push(Event::Failed(self.failure(line, text, said, local)));
        }
        let answer = line["result"].as_str().filter(|_| end == End::Completed);
        events.push(Event::Ended {
            end,
            answer: answer.map(str::to_owned),
        });
    }

    fn failure(&self, line: &Value, text: String, said: Timestamp, local: &TimeZone) -> Failure {
        let error = line["error"].as_str().unwrap_or_default();
        let status = line["api_error_status"].as_u64();
        let rejected = &line["api_error_params"]["rate_limit_info"];
        let refused = Refused {
            error,
            status,
            used_up: line["api_error"] == "usage_limit_reached" || rejected["status"] == "rejected",
            text: &text,
        };
        let limit = refused.limit();
        let stated = instant(&rejected["resetsAt"]).map(|at| Reset { at, guessed: false });
        let reset = (limit == Some(Limit::Quota)).then_some(()).and_then(|()| {
            stated
                .or(self.rejected)
                .or_else(|| reset::reset(&text, said, local))
        });
        Failure {
            limit,
            reset,
            word: name(line, error, status, &text),
            text,
        }
    }
}

/// One safe word for a failure.
fn name(line: &Value, error: &str, status: Option<u64>, text: &str) -> String {
    if text.starts_with("No conversation found") {
        return NO_CONVERSATION.to_owned();
    }
    let own = word(error).filter(|word| word != "unknown");
    let kind = || line["subtype"].as_str().filter(|kind| *kind != "success");
    own.or_else(|| status.map(|status| format!("http_{status}")))
        .or_else(|| kind().and_then(word))
        .unwrap_or_else(|| UNNAMED.to_owned())
}

fn named(line: &Value) -> Option<Event> {
    let session = line["session_id"].as_str().filter(|id| is_id(id))?;
    Some(Event::Named(session.to_owned()))
}

/// A denial counts whatever its tool is called.
fn denied(line: &Value) -> Event {
    Event::Denied(tool_word(line["tool_name"].as_str()))
}

/// A tool's name as a safe word.
pub(super) fn tool_word(name: Option<&str>) -> String {
    name.and_then(word).unwrap_or_else(|| "tool".to_owned())
}

fn tool(block: &Value) -> Tool {
    let input = &block["input"];
    let command = input["command"].as_str();
    let spoken = [
        "file_path",
        "path",
        "pattern",
        "url",
        "query",
        "description",
    ];
    let spoken = spoken.iter().find_map(|name| input[name].as_str());
    let arguments = match command.or(spoken) {
        Some(text) => text.to_owned(),
        None if input.is_null() => String::new(),
        None => input.to_string(),
    };
    Tool {
        name: block["name"].as_str().unwrap_or_default().to_owned(),
        arguments,
        is_command: command.is_some(),
    }
}

fn texts(content: &Value) -> String {
    let blocks = content.as_array().into_iter().flatten();
    let texts: Vec<&str> = blocks.filter_map(|block| block["text"].as_str()).collect();
    texts.join("\n")
}
