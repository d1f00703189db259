//! Every command that changes something for good, ended after each of its durable steps.
//!
//! After each end: the registry is the old one or the new one, whole; the login is the same file, byte for
//! byte; the command can be given again; and a worker can be given an account.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::sandbox::{Ran, Sandbox};
use crate::support::secrets;
use crate::support::world::{Account, POOL, World};

/// Aborted, as a shell counts it.
pub(crate) const ABORTED: i32 = 128 + 6;

/// The sandbox as it was before the command, to be put back for each end.
pub(crate) struct Before {
    backup: PathBuf,
    original: PathBuf,
}

impl Before {
    pub(crate) fn of(sandbox: &Sandbox) -> Self {
        let original = sandbox.path("");
        let name = original
            .file_name()
            .expect("the sandbox has a name")
            .to_string_lossy()
            .into_owned();
        let backup = original.with_file_name(format!("{name}-before"));
        copy(&original, &backup);
        Self { backup, original }
    }

    pub(crate) fn restore(&self) {
        let found = secrets::below(&self.original, &[""], &BTreeMap::new());
        assert!(found.is_empty(), "secrets were written: {found:#?}");
        std::fs::remove_dir_all(&self.original).expect("the sandbox can be removed");
        copy(&self.backup, &self.original);
    }
}

impl Drop for Before {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.backup));
    }
}

fn copy(from: &Path, to: &Path) {
    let done = Sandbox::tool("cp")
        .arg("-a")
        .arg(from)
        .arg(to)
        .status()
        .expect("cp runs");
    assert!(done.success(), "cp failed");
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_default()
}

/// Ends `command` after each durable step in turn.
fn each_end(command: &[&str], prepare: impl FnOnce(&World)) {
    each_end_of(command, None, prepare);
}

/// The same, with one more word that depends on the world.
fn each_end_of(
    command: &[&str],
    last: Option<&dyn Fn(&World) -> String>,
    prepare: impl FnOnce(&World),
) {
    let world = World::new(&[Account::new("one")]);
    // A worker's hooks and leases are part of the state that a crash must leave alone.
    let settled = world.exec("settled", "say hello");
    assert_eq!(settled.status, 0, "{}{}", settled.stdout, settled.stderr);
    prepare(&world);
    let last = last.map(|last| last(&world));
    let command: Vec<&str> = command.iter().copied().chain(last.as_deref()).collect();
    let command = command.as_slice();
    let before = Before::of(&world.sandbox);
    let registry = world.sandbox.path("config/accounts.toml");
    let login = world.sandbox.path("share/accounts/scripted/one/login.json");
    let project = world.project.to_str().expect("sandbox paths are text");
    let (old, kept) = (read(&registry), read(&login));

    let name = world.sandbox.path("");
    let name = name
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let trace = std::env::temp_dir().join(format!("crash-trace-{}-{name}", std::process::id()));
    let mut run = world.sandbox.command(command);
    Ran::of(run.env("AGENT_FLEET_TEST_CRASH_TRACE", &trace)).success();
    let new = read(&registry);
    let points = String::from_utf8(read(&trace)).expect("names are text");
    drop(std::fs::remove_file(&trace));
    let points: Vec<&str> = points.lines().collect();
    assert!(
        !points.is_empty(),
        "{command:?} passes no crash point: is it durable?"
    );

    for (index, point) in points.iter().enumerate() {
        let at = format!(
            "{command:?} ended at {point} ({} of {})",
            index + 1,
            points.len()
        );
        before.restore();
        let mut run: Command = world.sandbox.command(command);
        let ran = Ran::of(run.env("AGENT_FLEET_TEST_CRASH_AT", (index + 1).to_string()));
        assert_eq!(ran.status, ABORTED, "{at}: {}{}", ran.stdout, ran.stderr);
        let left = read(&registry);
        assert!(
            left == old || left == new || without_ids(&left) == without_ids(&new),
            "{at}: the registry is neither old nor new"
        );
        assert_eq!(read(&login), kept, "{at}: the login changed");
        let again = world.sandbox.run(command);
        let repeatable = again.status == 0 || again.stdout.contains("already_exists");
        assert!(
            repeatable,
            "{at}: cannot be given again: {}{}",
            again.stdout, again.stderr
        );
        let listed = world.sandbox.run(["config", "list"]);
        assert_eq!(listed.status, 0, "{at}: {}", listed.stdout);
        // What took the profile out of routing by its own purpose is put back first.
        drop(world.sandbox.run(["profile", "undrain", "one"]));
        drop(world.sandbox.run(["profile", "enable", "one"]));
        let chosen = world.sandbox.run([
            "lease",
            "choose",
            "--task",
            "next",
            "--pool",
            POOL,
            "--workspace",
            project,
        ]);
        assert_eq!(
            chosen.status, 0,
            "{at}: no account can be given: {}",
            chosen.stdout
        );
    }
}

/// A registry without what is random in it.
fn without_ids(registry: &[u8]) -> String {
    let text = String::from_utf8_lossy(registry);
    text.lines()
        .filter(|line| !line.starts_with("install_id"))
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn a_setting_survives_any_end_of_its_change() {
    each_end(
        &["config", "set", "settings.lease_ttl_seconds", "45"],
        |_| {},
    );
}

#[test]
fn profiles_survive_any_end_of_an_addition() {
    each_end(
        &[
            "profile",
            "add",
            "two",
            "--provider",
            "scripted",
            "--pool",
            POOL,
        ],
        |_| {},
    );
}

#[test]
fn a_drain_survives_any_end_and_can_be_lifted() {
    each_end(&["profile", "drain", "one", "--reason", "trying"], |_| {});
}

#[test]
fn a_project_survives_any_end_of_its_removal_and_return() {
    let project = |world: &World| {
        let path = world.project.to_str().expect("sandbox paths are text");
        path.to_owned()
    };
    let register = ["project", "register", "--provider", "scripted"];
    each_end_of(&register, Some(&project), |world| {
        let path = project(world);
        world.command(&["project", "remove", "--provider", "scripted", &path]);
    });
}

#[test]
fn a_profile_survives_any_end_of_being_enabled() {
    each_end(&["profile", "enable", "one"], |world| {
        world.command(&["profile", "disable", "one"]);
    });
}

#[test]
fn a_profile_survives_any_end_of_being_disabled() {
    each_end(&["profile", "disable", "one"], |_| {});
}

#[test]
fn a_home_survives_any_end_of_provisioning() {
    each_end(&["profile", "provision", "one"], |world| {
        let settings = world
            .sandbox
            .path("share/accounts/scripted/one/settings.json");
        std::fs::remove_file(settings).expect("a provisioned home has settings");
    });
}

#[test]
fn a_lost_record_of_an_account_survives_any_end_of_its_return() {
    each_end(&["profile", "verify", "one"], |world| {
        std::fs::remove_file(world.sandbox.path("state/profiles/one.json"))
            .expect("an account was pinned");
    });
}

#[test]
fn leases_survive_any_end_of_the_first_grant() {
    let lease = [
        "lease",
        "choose",
        "--task",
        "first",
        "--pool",
        POOL,
        "--workspace",
    ];
    let sandbox_project = |world: &World| {
        world
            .project
            .to_str()
            .expect("sandbox paths are text")
            .to_owned()
    };
    each_end_of(&lease, Some(&sandbox_project), |world| {
        std::fs::remove_dir_all(world.sandbox.path("state/leases")).expect("leases were granted");
    });
}
