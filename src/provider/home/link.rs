//! Links: those that provisioning makes for shared entries, and those that it refuses.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;

use camino::{Utf8Path, Utf8PathBuf};

use crate::error::{Error, Result, code};
use crate::provider::HomePlan;
use crate::registry::schema::Anchor;
use crate::store::{directory, symlink};
use crate::sys::shell;

/// Names that are never shared, whatever the registry says: logins, state and the files we edit ourselves.
const NEVER: [&str; 15] = [
    ".claude.json",
    ".config.json",
    ".credentials.json",
    "agent-fleet.json",
    "auth.json",
    "config.toml",
    "history.jsonl",
    "hooks.json",
    "installation_id",
    "log",
    "packages",
    "projects",
    "sessions",
    "settings.json",
    "settings.local.json",
];

/// Refuses when one of these files of the home is a symbolic link or has another name: a refresh replaces
/// a link by a private file, and whoever shares it loses the login.
pub fn refuse(home: &Utf8Path, files: &[&str]) -> Result<()> {
    for file in files {
        let path = home.join(file);
        if let Some(how) = linked(&path)? {
            return Err(Error::new(
                code::NOT_PROVISIONED,
                format!(
                    "`{path}` is {how}; a login and its settings are never shared between homes"
                ),
            )
            .hint(format!("ls -li {}", shell::quote(path.as_str())))
            .detail("path", path.as_str()));
        }
    }
    Ok(())
}

/// How a file is linked, if it is.
pub fn linked(path: &Utf8Path) -> Result<Option<String>> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => {
            let target = fs::read_link(path).unwrap_or_default();
            Ok(Some(format!("a symbolic link to `{}`", target.display())))
        }
        Ok(found) if found.is_file() && found.nlink() > 1 => {
            Ok(Some(format!("a file with {} hard links", found.nlink())))
        }
        Ok(_) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("look at", path, &error)),
    }
}

/// Links the shared entries of the base home into the home. What the home has under such a name itself is
/// left alone; a link of ours whose target is gone is removed.
pub fn share(plan: &HomePlan<'_>, changes: &mut Vec<String>) -> Result<()> {
    let Anchor::At(base) = &plan.settings.base_home else {
        return Ok(());
    };
    for name in &plan.settings.shared_entries {
        let plain = !name.is_empty() && !name.contains('/') && name != "." && name != "..";
        if !plain || NEVER.contains(&name.as_str()) || name.contains(".sqlite") {
            return Err(Error::new(
                code::CONFIG_INVALID,
                format!("`{name}` may not be shared between homes"),
            )
            .hint(format!(
                "agent-fleet config get providers.{}.shared_entries",
                plan.settings.kind
            )));
        }
        let (target, link) = (base.join(name), plan.profile.home.join(name));
        let ours = fs::read_link(&link).is_ok_and(|to| to == target);
        if ours && !target.exists() {
            directory::remove_file(&link)?;
            changes.push(format!("removed the link `{link}`: its target is gone"));
        } else if !ours && target.exists() && fs::symlink_metadata(&link).is_err() {
            symlink::replace(&target, &link)?;
            changes.push(format!("linked `{link}` to `{target}`"));
        }
    }
    Ok(())
}

/// Makes the home, 0700, when there is none.
pub fn ensure_home(home: &Utf8PathBuf, changes: &mut Vec<String>) -> Result<()> {
    if !home.is_dir() {
        directory::establish(home)?;
        changes.push(format!("made `{home}`"));
    }
    Ok(())
}
