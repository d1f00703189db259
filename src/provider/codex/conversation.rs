//! Where Codex keeps a conversation, and whose it is.
//!
//! `<home>/sessions/YYYY/MM/DD/rollout-<local time>-<id>.jsonl`; the first line is `session_meta` with the
//! account that made it. Days are searched newest first, at most ten thousand files.

use std::fs;
use std::path::{Path, PathBuf};

use camino::Utf8Path;
use serde_json::Value;

use crate::identity::fingerprint::Account;
use crate::provider::home::conversation::{first_line, is_id};

/// Most directory entries looked at.
const ENTRIES: usize = 10_000;

/// The transcript of a conversation, if it exists.
pub fn path(home: &Utf8Path, session: &str) -> Option<PathBuf> {
    if !is_id(session) {
        return None;
    }
    let suffix = format!("-{session}.jsonl");
    let mut left = ENTRIES;
    for year in newest_first(home.join("sessions").as_std_path(), &mut left) {
        for month in newest_first(&year, &mut left) {
            for day in newest_first(&month, &mut left) {
                for file in newest_first(&day, &mut left) {
                    let name = file.file_name()?.to_string_lossy();
                    if name.starts_with("rollout-") && name.ends_with(&suffix) {
                        return Some(file);
                    }
                }
            }
        }
    }
    None
}

fn newest_first(directory: &Path, left: &mut usize) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries
        .flatten()
        .take(*left)
        .map(|entry| entry.path())
        .collect();
    *left -= paths.len();
    paths.sort_unstable_by(|a, b| b.cmp(a));
    paths
}

/// Who the first line says the conversation belongs to; `None` when it says nothing.
pub fn owner(transcript: &Path) -> Option<Account> {
    let line = first_line(transcript)?;
    let meta = line.get("payload")?;
    let text = |name: &str| meta.get(name).and_then(Value::as_str).map(str::to_owned);
    let account = Account {
        user: text("creator_user_id"),
        account: text("creator_account_id"),
        organization: None,
    };
    (account.user.is_some() || account.account.is_some()).then_some(account)
}

#[cfg(test)]
mod tests {
    use super::{owner, path};
    use crate::provider::home::tests::World;

    #[test]
    fn a_rollout_is_found_by_its_id_newest_day_first() {
        let world = World::new();
        let home = world.path("home");
        let id = "0199a2b3-0000-7000-8000-000000000001";
        assert_eq!(path(&home, id), None);
        let old = world.write(
            &format!("home/sessions/2029/12/31/rollout-2029-12-31T23-59-59-{id}.jsonl"),
            "",
        );
        world.write(
            "home/sessions/2030/01/01/rollout-2030-01-01T00-00-00-other.jsonl",
            "",
        );
        world.write("home/sessions/strange", "");
        assert_eq!(path(&home, id).unwrap(), old);
        let new = world.write(
            &format!("home/sessions/2030/01/02/rollout-2030-01-02T00-00-00-{id}.jsonl"),
            "",
        );
        assert_eq!(path(&home, id).unwrap(), new);
        assert_eq!(path(&home, "../x"), None);
    }

    #[test]
    fn the_owner_is_what_session_meta_says() {
        let world = World::new();
        let line = r#"{"type":"session_meta","payload":{"creator_user_id":"u","creator_account_id":"a","id":"x"}}"#;
        let file = world.write("r.jsonl", &format!("{line}\n"));
        let found = owner(file.as_std_path()).unwrap();
        assert_eq!(
            (found.user.as_deref(), found.account.as_deref()),
            (Some("u"), Some("a"))
        );
        let silent = world.write(
            "s.jsonl",
            "{\"type\":\"session_meta\",\"payload\":{\"id\":\"x\"}}\n",
        );
        assert_eq!(owner(silent.as_std_path()), None);
    }
}
