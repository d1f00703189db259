//! The path under which hooks call this program.
//!
//! `share/bin/agent-fleet` is a link to the executable that ran last, so that hooks in homes and hashes that
//! Codex trusts survive an upgrade to another path.

use std::path::PathBuf;

use camino::Utf8PathBuf;

use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::store::{directory, symlink};

/// The stable path.
pub fn path(context: &Context) -> Utf8PathBuf {
    context.roots.share.join("bin/agent-fleet")
}

/// Makes the stable path lead to this executable; true when it did not before.
pub fn ensure(context: &Context) -> Result<bool> {
    let link = path(context);
    let executable = executable(context).ok_or_else(|| {
        Error::new(code::IO, "the path of this program cannot be told").hint("agent-fleet version")
    })?;
    // Called through the link itself on a system that does not resolve it: it must not lead to itself.
    if executable == link || std::fs::read_link(&link).is_ok_and(|target| target == executable) {
        return Ok(false);
    }
    if let Some(parent) = link.parent() {
        directory::ensure(parent)?;
    }
    symlink::replace(&executable, &link)?;
    Ok(true)
}

/// This program's file; one that was replaced while it ran is looked for under its old path.
fn executable(context: &Context) -> Option<PathBuf> {
    let path = context.executable.clone()?;
    if path.exists() {
        return Some(path);
    }
    let renewed = PathBuf::from(path.to_str()?.strip_suffix(" (deleted)")?);
    renewed.exists().then_some(renewed)
}

#[cfg(test)]
mod tests {
    use super::{ensure, path};
    use crate::provider::home::tests::World;

    #[test]
    fn the_stable_path_follows_an_upgrade() {
        let world = World::new();
        let mut context = world.context();
        for name in ["one", "two"] {
            let program = world.write(name, "");
            context.executable = Some(program.into_std_path_buf());
            assert!(ensure(&context).unwrap());
            assert!(!ensure(&context).unwrap());
            let target = std::fs::read_link(path(&context)).unwrap();
            assert_eq!(Some(target), context.executable);
        }
        let replaced = world.path("two (deleted)");
        context.executable = Some(replaced.into_std_path_buf());
        assert!(
            !ensure(&context).unwrap(),
            "it leads to the new file already"
        );
        context.executable = Some(world.path("gone").into_std_path_buf());
        assert!(ensure(&context).is_err());
    }
}
