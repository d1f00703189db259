//! The tools of a turn: used, denied, or asked for.

use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::super::output::Output;
use super::super::{hooks, typed};
use super::{Agent, End, internal_end, io_end};
use crate::sys::descriptor;

/// How long a tool may take.
const TOOL_LIMIT: Duration = Duration::from_mins(10);

impl Agent<'_> {
    /// Asks whether a tool may work, until somebody answers.
    pub(super) fn ask(&mut self, tool: &str) -> Result<(), End> {
        self.fire("PermissionRequest", json!({ "tool_name": tool }));
        Output::line(&format!("May {tool} work? (y/n)"));
        let answer = typed().map_err(|error| internal_end(&error))?;
        let Some(answer) = answer else {
            return Err(End::Exit(1));
        };
        let allowed = answer == "y";
        self.record(&json!({"type": "tool", "name": tool, "allowed": allowed}))?;
        self.say(if allowed { "it may" } else { "it may not" })
    }

    /// A tool that is not allowed: the turn goes on without it.
    pub(super) fn deny(&mut self, tool: &str) {
        let id = self.next_tool();
        let input = json!({});
        self.output.tool(&self.session, &id, tool, &input);
        let why = "Permission for this tool use was denied.";
        let now = self.context.clock.now();
        self.output.answered(&self.session, &id, why, true, now);
        self.denied
            .push(json!({"tool_name": tool, "tool_use_id": id, "tool_input": input}));
    }

    fn next_tool(&mut self) -> String {
        self.tools += 1;
        format!("tool-{}", self.tools)
    }

    /// A tool call: its child gets no descriptor of ours, as with the real CLIs, so it cannot hold a lease.
    pub(super) fn tool(&mut self, command: &str) -> Result<(), End> {
        let id = self.next_tool();
        let input = json!({ "command": command });
        self.output.tool(&self.session, &id, "Bash", &input);
        let ended = descriptor::withheld(|| {
            hooks::shell(
                self.context,
                &self.workspace,
                command,
                Vec::new(),
                TOOL_LIMIT,
            )
        });
        let ended = ended.map_err(|error| io_end("run", Path::new("/bin/sh"), &error))?;
        let text = String::from_utf8_lossy(&ended.stdout);
        let errors = String::from_utf8_lossy(&ended.stderr);
        let failed = ended.status != Some(0);
        let how = match ended.status {
            Some(0) => String::new(),
            Some(status) => format!("Exit code {status}\n"),
            None => "It was killed\n".to_owned(),
        };
        self.record(
            &json!({"type": "tool", "name": "Bash", "command": command, "status": ended.status}),
        )?;
        let answer = format!("{how}{text}{errors}");
        let now = self.context.clock.now();
        self.output
            .answered(&self.session, &id, answer.trim_end(), failed, now);
        match text.trim_end() {
            "" => Ok(()),
            text => self.say(text),
        }
    }
}
