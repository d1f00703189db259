//! Our hooks in a JSON file of the shape that Claude and Codex share:
//! `{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "…", "timeout": 10}]}]}}`.
//!
//! Only handlers that call this program are ours. They stand in a group of their own behind the person's
//! groups, so that a person's hook keeps its place, which Codex's trust depends on.

use camino::Utf8Path;
use serde_json::{Map, Value, json};

use crate::sys::shell;

/// One hook of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hook {
    /// The provider's name of the event.
    pub event: &'static str,
    /// Our word for it.
    pub verb: &'static str,
    /// Seconds until the CLI gives up on it.
    pub timeout: u64,
}

impl Hook {
    /// The command that the CLI runs through a shell.
    pub fn command(&self, program: &Utf8Path) -> String {
        format!("{} hook {}", shell::quote(program.as_str()), self.verb)
    }

    fn handler(&self, program: &Utf8Path) -> Value {
        json!({"type": "command", "command": self.command(program), "timeout": self.timeout})
    }
}

/// Whether a command is one of ours, under whatever path this program had.
pub fn is_ours(command: &str) -> bool {
    let Some((program, _)) = command.split_once(" hook ") else {
        return false;
    };
    program.trim_end_matches('\'').ends_with("/agent-fleet")
}

fn handler_is_ours(handler: &Value) -> bool {
    handler
        .get("command")
        .and_then(Value::as_str)
        .is_some_and(is_ours)
}

/// Where a handler stands: index of its group in the event's list, and its index in the group.
pub type Position = (usize, usize);

/// Positions and values of our handlers of an event.
fn ours<'a>(document: &'a Map<String, Value>, event: &str) -> Vec<(Position, &'a Value)> {
    let groups = document
        .get("hooks")
        .and_then(|hooks| hooks.get(event))
        .and_then(Value::as_array);
    let mut found = Vec::new();
    for (outer, group) in groups.into_iter().flatten().enumerate() {
        let handlers = group.get("hooks").and_then(Value::as_array);
        for (inner, handler) in handlers.into_iter().flatten().enumerate() {
            if handler_is_ours(handler) {
                found.push(((outer, inner), handler));
            }
        }
    }
    found
}

/// The position of each hook, when the document has it exactly as wanted and exactly once; otherwise the
/// key that is wrong.
pub fn positions(
    document: &Map<String, Value>,
    wanted: &[Hook],
    program: &Utf8Path,
) -> Result<Vec<(Hook, Position)>, String> {
    wanted
        .iter()
        .map(|hook| match ours(document, hook.event).as_slice() {
            [(position, handler)] if **handler == hook.handler(program) => Ok((*hook, *position)),
            [] => Err(format!("hooks.{} has no hook of ours", hook.event)),
            _ => Err(format!("hooks.{} is not as provisioned", hook.event)),
        })
        .collect()
}

/// The document's hooks without ours; `None` when nothing is left.
pub fn others(document: &Map<String, Value>) -> Option<Value> {
    let mut copy = document.clone();
    remove(&mut copy).ok()?;
    copy.shift_remove("hooks")
        .filter(|hooks| hooks.as_object().is_none_or(|hooks| !hooks.is_empty()))
}

/// Takes all our handlers out, and the groups and events that are empty without them.
fn remove(document: &mut Map<String, Value>) -> Result<(), String> {
    let Some(hooks) = document.get_mut("hooks") else {
        return Ok(());
    };
    let hooks = hooks.as_object_mut().ok_or("`hooks` is not an object")?;
    for (event, groups) in hooks.iter_mut() {
        let groups = groups
            .as_array_mut()
            .ok_or_else(|| format!("`hooks.{event}` is not a list"))?;
        groups.retain_mut(|group| {
            let Some(handlers) = group.get_mut("hooks").and_then(Value::as_array_mut) else {
                return true;
            };
            let before = handlers.len();
            handlers.retain(|handler| !handler_is_ours(handler));
            handlers.len() == before || !handlers.is_empty()
        });
    }
    hooks.retain(|_, groups| groups.as_array().is_none_or(|groups| !groups.is_empty()));
    Ok(())
}

/// Makes the document hold exactly these hooks of ours, and everyone else's as they are.
pub fn install(
    document: &mut Map<String, Value>,
    wanted: &[Hook],
    program: &Utf8Path,
) -> Result<(), String> {
    if positions(document, wanted, program).is_ok() {
        return Ok(());
    }
    remove(document)?;
    let hooks = document
        .entry("hooks")
        .or_insert_with(|| json!({}))
        .as_object_mut()
        .ok_or("`hooks` is not an object")?;
    for hook in wanted {
        hooks
            .entry(hook.event)
            .or_insert_with(|| json!([]))
            .as_array_mut()
            .ok_or_else(|| format!("`hooks.{}` is not a list", hook.event))?
            .push(json!({"hooks": [hook.handler(program)]}));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Hook, install, others, positions};
    use camino::Utf8Path;
    use serde_json::{Map, Value, json};

    const WANTED: [Hook; 2] = [
        Hook {
            event: "Stop",
            verb: "stop",
            timeout: 10,
        },
        Hook {
            event: "SessionStart",
            verb: "session-start",
            timeout: 10,
        },
    ];

    fn object(value: Value) -> Map<String, Value> {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn ours_are_repaired_and_everyone_else_s_stay() {
        let theirs = json!({"Stop": [
            {"matcher": "*", "hooks": [{"type": "command", "command": "say done"}]},
            {"strange": true},
        ]});
        let mut document = object(json!({"model": "x", "hooks": theirs.clone()}));
        let old = Utf8Path::new("/old place/agent-fleet");
        let new = Utf8Path::new("/new place/agent-fleet");
        install(&mut document, &WANTED, old).unwrap();
        assert!(positions(&document, &WANTED, new).is_err());
        install(&mut document, &WANTED, new).unwrap();
        let found = positions(&document, &WANTED, new).unwrap();
        assert_eq!(found[0].1, (2, 0), "ours stands behind theirs");
        assert_eq!(found[1].1, (0, 0));
        assert_eq!(others(&document), Some(theirs));
        let again = document.clone();
        install(&mut document, &WANTED, new).unwrap();
        assert_eq!(document, again, "not idempotent");
    }

    #[test]
    fn a_changed_or_doubled_hook_is_not_ready() {
        let program = Utf8Path::new("/p/agent-fleet");
        let mut document = Map::new();
        install(&mut document, &WANTED, program).unwrap();
        assert_eq!(others(&document), None);
        let mut changed = document.clone();
        changed["hooks"]["Stop"][0]["hooks"][0]["timeout"] = json!(600);
        assert!(
            positions(&changed, &WANTED, program)
                .unwrap_err()
                .contains("hooks.Stop")
        );
        let mut doubled = document.clone();
        let group = doubled["hooks"]["Stop"][0].clone();
        doubled["hooks"]["Stop"].as_array_mut().unwrap().push(group);
        assert!(positions(&doubled, &WANTED, program).is_err());
        install(&mut doubled, &WANTED, program).unwrap();
        assert_eq!(doubled, document);
    }

    #[test]
    fn a_document_of_another_shape_is_refused() {
        let program = Utf8Path::new("/p/agent-fleet");
        for shape in [json!({"hooks": 3}), json!({"hooks": {"Stop": "x"}})] {
            assert!(install(&mut object(shape), &WANTED, program).is_err());
        }
    }
}
