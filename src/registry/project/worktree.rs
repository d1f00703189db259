//! Git worktrees, told apart from the files alone: no git process, no git configuration is believed.
//!
//! A linked worktree counts only if both ends agree: its `.git` file names an administrative directory
//! below a repository, and that directory's `gitdir` names this very `.git` file. A copied or forged `.git`
//! file therefore gains nothing.

use std::fs;
use std::path::{Path, PathBuf};

use camino::{Utf8Path, Utf8PathBuf};

/// What a directory is to git.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The root of a worktree that stands for itself: a `.git` directory, or one kept elsewhere.
    Main,
    /// The root of a linked worktree of the repository whose common directory (`…/.git`) this is.
    Linked(Utf8PathBuf),
    /// Below the worktree root that this names.
    Inside(Utf8PathBuf),
    /// A `.git` that leads nowhere, with what is wrong with it.
    Broken(String),
    /// No worktree at all.
    Outside,
}

/// Looks at a canonical directory.
pub fn inspect(directory: &Utf8Path) -> Kind {
    let entry = directory.join(".git");
    match fs::metadata(&entry) {
        Ok(metadata) if metadata.is_dir() => {
            if is_repository(entry.as_std_path()) {
                Kind::Main
            } else {
                Kind::Broken(format!("`{entry}` has no `HEAD`"))
            }
        }
        Ok(_) => linked(directory, &entry).unwrap_or_else(Kind::Broken),
        Err(_) => above(directory),
    }
}

/// Whether a directory that is in no worktree is a repository itself, as far as a look tells.
pub fn is_bare(directory: &Utf8Path) -> bool {
    let holds = |name: &str| directory.join(name).is_dir();
    is_repository(directory.as_std_path()) && holds("objects") && holds("refs")
}

fn above(directory: &Utf8Path) -> Kind {
    let is_root = |ancestor: &&Utf8Path| {
        let entry = ancestor.join(".git");
        fs::metadata(&entry)
            .is_ok_and(|metadata| metadata.is_file() || is_repository(entry.as_std_path()))
    };
    match directory.ancestors().skip(1).find(is_root) {
        Some(root) => Kind::Inside(root.to_owned()),
        None => Kind::Outside,
    }
}

/// `HEAD` may be a dangling link in old repositories, so only its presence counts.
fn is_repository(directory: &Path) -> bool {
    fs::symlink_metadata(directory.join("HEAD")).is_ok()
}

fn linked(directory: &Utf8Path, entry: &Utf8Path) -> Result<Kind, String> {
    let admin = pointer(
        entry.as_std_path(),
        Some("gitdir: "),
        directory.as_std_path(),
    )?;
    let admin = admin
        .canonicalize()
        .map_err(|_| format!("`{entry}` names `{}`, which is gone", admin.display()))?;
    if !is_repository(&admin) {
        return Err(format!(
            "`{entry}` names `{}`, which has no `HEAD`",
            admin.display()
        ));
    }
    let common = admin.join("commondir");
    if fs::symlink_metadata(&common).is_err() {
        // A submodule, or a repository directory kept elsewhere: a worktree of its own.
        return Ok(Kind::Main);
    }
    let common = pointer(&common, None, &admin)?
        .canonicalize()
        .map_err(|_| format!("the repository of `{entry}` is gone"))?;
    let back = pointer(&admin.join("gitdir"), None, &admin)?;
    if back.canonicalize().ok().as_deref() != Some(entry.as_std_path()) {
        return Err(format!(
            "`{entry}` names `{}`, which belongs to another worktree",
            admin.display()
        ));
    }
    if admin.parent().and_then(Path::parent) != Some(&common) {
        return Err(format!(
            "`{entry}` names `{}`, which is not in its repository",
            admin.display()
        ));
    }
    let common = Utf8PathBuf::from_path_buf(common)
        .map_err(|path| format!("`{}` is not UTF-8", path.display()))?;
    Ok(Kind::Linked(common))
}

/// The path in a one-line file of git, relative to `base`.
fn pointer(file: &Path, prefix: Option<&str>, base: &Path) -> Result<PathBuf, String> {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let unreadable = || format!("`{}` cannot be read", file.display());
    let bytes = crate::store::read::optional(file)
        .map_err(|_| unreadable())?
        .ok_or_else(unreadable)?;
    let line = bytes.strip_prefix(prefix.unwrap_or_default().as_bytes());
    let line = line.map(|line| line.strip_suffix(b"\n").unwrap_or(line));
    match line {
        Some(line) if !line.is_empty() && !line.contains(&b'\n') => {
            Ok(base.join(OsStr::from_bytes(line)))
        }
        _ => Err(format!("`{}` is not a pointer of git", file.display())),
    }
}
