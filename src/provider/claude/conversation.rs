//! Where Claude Code keeps a conversation, and whose it is.
//!
//! `<home>/projects/<workspace with every other character as a dash>/<id>.jsonl`; the first line of a recent
//! version names the owner. Very long workspace paths are shortened by Claude in a way of its own, so a
//! transcript that is not in its place is looked for in every project of the home.

use std::fs;
use std::path::PathBuf;

use camino::Utf8Path;
use serde_json::Value;

use crate::identity::fingerprint::Account;
use crate::provider::home::conversation::{first_line, is_id};

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

#[cfg(test)]
mod tests {
    use super::{mangled, owner, path};
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
}
