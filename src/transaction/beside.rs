//! What promotions leave beside a credential file, told by name and digest and never by content.
//!
//! A file is proved ours when it holds what its name says: the login that was to come or the one that was to go.
//! Whatever else lies under such a name, the provider's CLI wrote, and it may be the only copy.

use std::io;

use camino::{Utf8Path, Utf8PathBuf};

use super::journal::Digest;
use crate::store::files::{Disk, Files as _};

/// A file that a promotion put beside a credential file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beside {
    /// Where it is.
    pub path: Utf8PathBuf,
    /// Of which transaction.
    pub id: String,
    /// What it was put there as.
    pub role: Role,
}

/// What a file was put beside a credential file as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// To trade its name with the credential file.
    Staged {
        /// First eight digits of what shall be in force.
        new: String,
        /// First eight digits of what was in force, if anything was.
        old: Option<String>,
    },
    /// To be kept: the provider's CLI wrote it while its login was changed.
    Kept,
}

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// The login that was to come.
    New,
    /// The login that was to go.
    Old,
    /// Something that the provider's CLI wrote.
    Other,
    /// Nobody can tell.
    Unreadable,
}

/// How the names of such files begin.
pub(super) fn prefix(credential: &Utf8Path) -> String {
    let name = credential.file_name().unwrap_or("credential");
    format!(".{}.fleet-", name.trim_start_matches('.'))
}

/// Every such file beside a credential file, sorted by name. A home that is not there holds none.
pub fn find(credential: &Utf8Path) -> io::Result<Vec<Beside>> {
    let home = credential.parent().unwrap_or(credential);
    let prefix = prefix(credential);
    let entries = match home.read_dir_utf8() {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found: Vec<Beside> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.into_path();
            let (id, role) = parse(path.file_name()?.strip_prefix(&prefix)?)?;
            Some(Beside { path, id, role })
        })
        .collect();
    found.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}

/// The transaction and the role in the rest of a name.
fn parse(rest: &str) -> Option<(String, Role)> {
    let (rest, last) = rest.rsplit_once('.')?;
    if last == "orphan" {
        return Some((rest.to_owned(), Role::Kept));
    }
    let (id, new) = rest.rsplit_once('.')?;
    let is_short = |text: &str| text.len() == 8 && text.bytes().all(|b| b.is_ascii_hexdigit());
    let old = match last {
        "none" => None,
        short if is_short(short) => Some(short.to_owned()),
        _ => return None,
    };
    let new = is_short(new).then(|| new.to_owned())?;
    Some((id.to_owned(), Role::Staged { new, old }))
}

impl Beside {
    /// What it holds, by its digest.
    pub fn holds(&self) -> Holds {
        let Ok(Some(bytes)) = Disk.read(&self.path) else {
            return Holds::Unreadable;
        };
        let digest = Digest::of(&bytes);
        match &self.role {
            Role::Staged { new, .. } if digest.short() == new => Holds::New,
            Role::Staged { old: Some(old), .. } if digest.short() == old => Holds::Old,
            Role::Staged { .. } | Role::Kept => Holds::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Role, parse};

    #[test]
    fn names_tell_transaction_and_role_whatever_the_profile_is_called() {
        let staged = |old: Option<&str>| Role::Staged {
            new: "0123abcd".to_owned(),
            old: old.map(str::to_owned),
        };
        let id = "codex-a.b_c-20260101T000000Z-1f";
        for (end, role) in [
            ("0123abcd.ffffffff", staged(Some("ffffffff"))),
            ("0123abcd.none", staged(None)),
            ("orphan", Role::Kept),
        ] {
            assert_eq!(parse(&format!("{id}.{end}")), Some((id.to_owned(), role)));
        }
        for foreign in [
            "",
            "x",
            "a.b",
            "a.0123abcd.some",
            "a.0123abcg.none",
            "orphan",
        ] {
            assert_eq!(parse(foreign), None, "{foreign}");
        }
    }
}
