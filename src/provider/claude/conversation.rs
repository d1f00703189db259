//! Where Claude Code keeps a conversation, and whose it is.
//!
//! `<home>/projects/<workspace with every other character as a dash>/<id>.jsonl`; the first line of a recent
//! version names the owner. Very long workspace paths are shortened by Claude in a way of its own, so a
//! transcript that is not in its place is looked for in every project of the home.

use std::fs;
use std::path::PathBuf;

use camino::Utf8Path;
use jiff::Timestamp;
use serde_json::Value;

use crate::identity::fingerprint::Account;
use crate::provider::home::conversation::{first_line, is_id, last_lines};
use crate::quota::window::{Kind, Window};
use crate::snapshot::evidence::word;

/// Most projects looked through.
const PROJECTS: usize = 4096;

/// The transcript of a conversation, if it exists.
pub fn path(home: &Utf8Path, workspace: &Utf8Path, session: &str) -> Option<PathBuf> {
    if !is_id(session) {
        return None;
    }
    let projects = home.join("projects");
    let file = format!("{session}.jsonl");
    let expected = projects.join(mangled(workspace)).join(&file);
    if expected.is_file() {
        return Some(expected.into_std_path_buf());
    }
    fs::read_dir(&projects)
        .ok()?
        .flatten()
        .take(PROJECTS)
        .map(|project| project.path().join(&file))
        .find(|path| path.is_file())
}

fn mangled(workspace: &Utf8Path) -> String {
    // Claude replaces per UTF-16 unit.
    let dash = |unit: u16| match u8::try_from(unit) {
        Ok(byte) if byte.is_ascii_alphanumeric() => char::from(byte),
        _ => '-',
    };
    workspace.as_str().encode_utf16().map(dash).collect()
}

/// Who the first line says the conversation belongs to; `None` when it says nothing.
pub fn owner(transcript: &std::path::Path) -> Option<Account> {
    let line = first_line(transcript)?;
    if line.get("type")?.as_str()? != "session-owner" {
        return None;
    }
    let text = |name: &str| line.get(name).and_then(Value::as_str).map(str::to_owned);
    Some(Account {
        user: None,
        account: text("accountUuid"),
        organization: text("organizationUuid"),
    })
}

/// The window that the last turn failed on. Claude's `StopFailure` hook is told the kind of error alone; the
/// transcript's last answer carries `quotaLimits` with the reset (2.1.332).
pub fn used_up(transcript: &std::path::Path) -> Vec<Window> {
    let lines = last_lines(transcript);
    let answer = lines.iter().rev().find(|line| line["type"] == "assistant");
    let Some(limits) = answer
        .filter(|answer| answer["isApiErrorMessage"] == true)
        .map(|answer| &answer["quotaLimits"])
        .filter(|limits| limits["status"] == "rejected")
    else {
        return Vec::new();
    };
    let reset = limits["resetsAt"].as_i64();
    let Some(resets_at) = reset.and_then(|at| Timestamp::from_second(at).ok()) else {
        return Vec::new();
    };
    let id = limits["rateLimitType"].as_str().and_then(word);
    let id = id.unwrap_or_else(|| "unknown".to_owned());
    let kind = match id.as_str() {
        "five_hour" => Kind::Session,
        "seven_day" => Kind::Weekly,
        _ => Kind::Other,
    };
    vec![Window {
        id,
        kind,
        scope: None,
        remaining_percent: 0.0,
        resets_at: Some(resets_at),
    }]
}

#[cfg(test)]
mod tests {
    use super::{mangled, owner, path, used_up};
    use crate::provider::home::tests::World;

    const ID: &str = "0b0e7d9e-7d5c-4a8e-9d5e-2f3f0a1b2c3d";

    #[test]
    fn a_transcript_is_found_in_its_place_and_elsewhere() {
        let world = World::new();
        let home = world.path("home");
        let workspace = camino::Utf8Path::new("/w/my repo.x");
        assert_eq!(path(&home, workspace, ID), None);
        let moved = world.write(&format!("home/projects/-else/{ID}.jsonl"), "{}\n");
        assert_eq!(path(&home, workspace, ID).unwrap(), moved);
        let placed = world.write(&format!("home/projects/-w-my-repo-x/{ID}.jsonl"), "{}\n");
        assert_eq!(path(&home, workspace, ID).unwrap(), placed);
        for escape in ["../x", "", "a/b"] {
            assert_eq!(path(&home, workspace, escape), None);
        }
        assert_eq!(mangled("/é/\u{1F980}".into()), "-----");
    }

    #[test]
    fn the_owner_is_what_the_first_line_says() {
        let world = World::new();
        let line = r#"{"type":"session-owner","accountUuid":"a","organizationUuid":"o"}"#;
        let file = world.write("t.jsonl", &format!("{line}\n{{\"type\":\"user\"}}\n"));
        let found = owner(file.as_std_path()).unwrap();
        assert_eq!(
            (found.account.as_deref(), found.organization.as_deref()),
            (Some("a"), Some("o"))
        );
        let older = world.write("old.jsonl", "{\"type\":\"user\"}\n");
        assert_eq!(owner(older.as_std_path()), None);
    }

    #[test]
    fn a_turn_that_met_a_limit_says_when_it_resets() {
        let world = World::new();
        let failed = r#"{"type":"assistant","isApiErrorMessage":true,"error":"rate_limit","quotaLimits":{"status":"rejected","resetsAt":1796040180,"rateLimitType":"five_hour"}}"#;
        let good = r#"{"type":"assistant","message":{}}"#;
        let windows = |name: &str, lines: &[&str]| {
            let file = world.write(name, &(lines.join("\n") + "\n"));
            used_up(file.as_std_path())
        };
        let found = windows("limit.jsonl", &[good, failed, r#"{"type":"cost-state"}"#]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].id, "five_hour");
        assert_eq!(found[0].resets_at.unwrap().as_second(), 1_796_040_180);
        assert_eq!(windows("later.jsonl", &[failed, good]), []);
        let unstated = failed.replace("1796040180", "null");
        assert_eq!(windows("unstated.jsonl", &[&unstated]), []);
        let prose = failed.replace("five_hour", "a sentence of somebody");
        assert_eq!(windows("prose.jsonl", &[&prose])[0].id, "unknown");
        assert_eq!(used_up(std::path::Path::new("/nowhere")), []);
    }
}
