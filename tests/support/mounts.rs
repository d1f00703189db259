//! Scripts of a shell that may mount what they like: full, read-only and other disks.

use std::path::Path;
use std::process::Stdio;

use super::ran::Ran;
use super::sandbox::Sandbox;
use super::world::World;

/// Whether mount namespaces can be made here; says so where they cannot.
pub(crate) fn may_mount() -> bool {
    let allowed = Sandbox::tool("unshare")
        .args(["-m", "true"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !allowed {
        println!("SKIPPED: no mount namespace can be made here (unshare needs root)");
    }
    allowed
}

/// Runs a script in a mount namespace of its own; `None` where nobody may make one. `$ROOT` is the world, `$STATE` and
/// `$SHARE` its roots, `$HOUSE` the provider home, `$PROJECT` the project.
pub(crate) fn mounted(world: &World, house: &Path, script: &str) -> Option<Ran> {
    if !may_mount() {
        return None;
    }
    let inner = world.sandbox.shell("");
    let mut outer = Sandbox::tool("unshare");
    outer
        .args(["-m", "sh", "-ec"])
        .arg(format!("mount --make-rprivate /\n{script}"))
        .env_clear()
        .envs(
            inner
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .env("PROGRAM", env!("CARGO_BIN_EXE_agent-fleet"))
        .env("ROOT", world.sandbox.path(""))
        .env("STATE", world.sandbox.path("state"))
        .env("SHARE", world.sandbox.path("share"))
        .env("HOUSE", house)
        .env("PROJECT", &world.project)
        .current_dir(world.sandbox.path("tmp"))
        .stdin(Stdio::null());
    Some(Ran::of(&mut outer))
}
