//! What others could change is not relied on, and what others put in our place is not written.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};

use crate::support::ran::Ran;
use crate::support::sandbox::Sandbox;
use crate::support::world::{Account, World};

fn chmod(path: &Path, mode: u32) {
    let permissions = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(path, permissions).expect("a file of ours");
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("it is there").mode() & 0o7777
}

/// Types the next command of a refusal.
fn typed(sandbox: &Sandbox, refusal: &serde_json::Value) {
    let hint = refusal["hint"].as_str().expect("a next command");
    let status = sandbox.shell(hint).status().expect("sh runs");
    assert!(status.success(), "{hint}");
}

/// The refusal of a command because of a path, which it names.
#[track_caller]
fn refused(ran: Ran, path: &Path) -> serde_json::Value {
    let refusal = ran.refused("exposed");
    let path = path.to_str().expect("UTF-8");
    assert!(
        refusal["error"]
            .as_str()
            .expect("a sentence")
            .contains(path),
        "{refusal}"
    );
    refusal
}

#[test]
fn a_root_that_others_may_write_is_refused_until_its_next_command_is_typed() {
    let world = World::with(1);
    let sandbox = &world.sandbox;
    std::fs::create_dir(sandbox.path("state/credentials")).expect("a directory");
    for (root, open) in [
        ("config", 0o777),
        ("config/accounts.toml", 0o666),
        ("state", 0o1777),
        ("state/credentials", 0o703),
        ("share", 0o707),
    ] {
        let path = sandbox.path(root);
        let before = mode(&path);
        chmod(&path, open);
        for line in [
            world.exec_line("task", "say hello"),
            ["status"].map(str::to_owned).to_vec(),
            ["doctor"].map(str::to_owned).to_vec(),
            ["config", "set", "settings.lease_ttl_seconds", "90"]
                .map(str::to_owned)
                .to_vec(),
        ] {
            drop(refused(sandbox.run(line), &path));
        }
        assert_eq!(mode(&path), open, "its mode is a person's to change");
        assert_eq!(sandbox.run(["version"]).status, 0);
        let refusal = refused(sandbox.run(["status"]), &path);
        typed(sandbox, &refusal);
        assert_eq!(mode(&path) & !0o7055, before & !0o7055, "{root}");
        assert_eq!(sandbox.run(["status"]).status, 0, "{root}");
    }
    assert_eq!(world.requests("turn"), [""; 0]);
    assert_eq!(world.exec("task", "say hello").status, 0);
}

#[test]
fn a_home_that_others_may_write_or_that_a_link_stands_for_takes_no_worker_and_no_login() {
    let mut world = World::new(&[
        Account::new("one").pools(&["crew", "lone"]),
        Account::new("two"),
    ]);
    world.sandbox.set("AGENT_FLEET_TEST_SECOND_PROOF", "0");
    let home = world.command(&["profile", "status", "one"])["home"]
        .as_str()
        .expect("a home")
        .to_owned();
    let home = PathBuf::from(home);
    let sandbox = &world.sandbox;
    let project = world.project.to_str().expect("UTF-8");
    let lone = [
        "exec",
        "--task",
        "task",
        "--pool",
        "lone",
        "--workspace",
        project,
        "--",
        "-p",
        "say hello",
    ];
    let lines: [&[&str]; 3] = [
        &lone,
        &["profile", "provision", "one"],
        &["profile", "enroll", "one"],
    ];

    chmod(&home, 0o777);
    let before = tree(&home);
    for line in lines {
        drop(refused(sandbox.run(line), &home));
    }
    // The others go on.
    let chosen = sandbox.run([
        "lease",
        "choose",
        "--task",
        "other",
        "--pool",
        "crew",
        "--workspace",
        project,
    ]);
    assert_eq!(chosen.success()["profile"], "two");
    assert_eq!(tree(&home), before);
    typed(sandbox, &refused(sandbox.run(lone), &home));
    assert_eq!(sandbox.run(lone).status, 0);

    let elsewhere = sandbox.path("elsewhere");
    #[expect(clippy::disallowed_methods, reason = "what a person does")]
    std::fs::rename(&home, &elsewhere).expect("the home is moved");
    symlink(&elsewhere, &home).expect("a link");
    let (before, turns) = (tree(&elsewhere), world.requests("turn").len());
    for line in lines {
        drop(refused(sandbox.run(line), &home));
    }
    assert_eq!(tree(&elsewhere), before);
    assert_eq!(world.requests("turn").len(), turns);
}

#[test]
fn what_belongs_to_another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let world = World::with(1);
    let home = world.command(&["profile", "status", "one"])["home"]
        .as_str()
        .expect("a home")
        .to_owned();
    for path in [
        world.sandbox.path("config/accounts.toml"),
        world.sandbox.path("state"),
        PathBuf::from(home),
    ] {
        chown(&path, Some(4_242), None).expect("root may");
        let refusal = refused(world.exec("task", "say hello"), &path);
        let hint = refusal["hint"].as_str().expect("a next command");
        assert!(hint.starts_with("sudo chown -R "), "{hint}");
        chown(&path, Some(0), None).expect("root may");
    }
    assert_eq!(world.requests("turn"), [""; 0]);
    assert_eq!(world.exec("task", "say hello").status, 0);
}

/// Every file below a directory with its bytes.
fn tree(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(root).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(tree(&path));
        } else if !path.is_symlink() {
            let bytes = std::fs::read(&path).unwrap_or_default();
            found.insert(path, bytes);
        }
    }
    found
}

/// What stands where a file of ours was.
#[derive(Clone, Copy, Debug)]
enum Planted {
    /// A link to a file of somebody else, who copied ours: other bytes would soon be refused.
    Link,
    /// A second name of such a file.
    SecondName,
    /// A pipe that nobody writes to.
    Pipe,
    /// A directory.
    Directory,
}

impl Planted {
    const EVERY: [Self; 4] = [Self::Link, Self::SecondName, Self::Pipe, Self::Directory];

    /// Puts it there; returns the file of somebody else.
    fn plant(self, sandbox: &Sandbox, path: &Path) -> PathBuf {
        let bytes = std::fs::read(path).expect("a file");
        let theirs = sandbox.path("theirs");
        drop(std::fs::remove_file(&theirs));
        #[expect(clippy::disallowed_methods, reason = "what somebody else does")]
        std::fs::write(&theirs, bytes).expect("a file");
        std::fs::remove_file(path).expect("it goes");
        match self {
            Self::Link => symlink(&theirs, path).expect("a link"),
            Self::SecondName => {
                std::fs::hard_link(&theirs, path).expect("a second name");
            }
            Self::Pipe => {
                let path = path.to_str().expect("UTF-8");
                rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RWXU)
                    .expect("a pipe");
            }
            Self::Directory => std::fs::create_dir(path).expect("a directory"),
        }
        theirs
    }
}

/// Puts the roots back as they were.
fn restore(sandbox: &Sandbox) {
    let line = "cd .. && rm -rf config state share && cp -a saved/. .";
    assert!(sandbox.shell(line).status().expect("sh runs").success());
}

#[test]
fn nothing_of_ours_is_written_through_what_somebody_else_put_in_its_place() {
    let mut world = World::with(1);
    world
        .sandbox
        .set("PROGRAM", env!("CARGO_BIN_EXE_agent-fleet"));
    world.sandbox.set("PROJECT", world.project.clone());
    assert_eq!(world.exec("first", "say hello").status, 0);
    world.command(&["profile", "drain", "one", "--reason", "rest"]);
    world.command(&["profile", "undrain", "one"]);
    let sandbox = &world.sandbox;
    let save = sandbox
        .shell("cd .. && mkdir saved && cp -a config state share saved")
        .status();
    assert!(save.expect("sh runs").success());
    let files: Vec<PathBuf> = ["config", "state", "share/hooks"]
        .iter()
        .flat_map(|root| tree(&sandbox.path(root)).into_keys())
        .collect();
    assert!(files.len() > 15, "{files:?}");
    let terms = "--pool crew --workspace \"$PROJECT\"";
    let commands = [
        "doctor".to_owned(),
        format!("lease choose --task second {terms}"),
        format!("exec --task third {terms} -- -p 'say hello'"),
        "lease release --task second".to_owned(),
        "profile drain one --reason rest".to_owned(),
        "profile undrain one".to_owned(),
        "config set settings.lease_ttl_seconds 90".to_owned(),
        "audit".to_owned(),
    ];
    let mut findings = Vec::new();
    for path in &files {
        for planted in Planted::EVERY {
            let theirs = planted.plant(sandbox, path);
            let before = (std::fs::read(&theirs).expect("theirs"), mode(&theirs));
            let place = format!("{planted:?} at {}", path.display());
            for command in &commands {
                let ran =
                    Ran::of(&mut sandbox.shell(&format!("timeout 20 \"$PROGRAM\" {command}")));
                let (out, err) = (&ran.stdout, &ran.stderr);
                if !matches!(ran.status, 0 | 2) || out.contains("\"code\":\"internal\"") {
                    findings.push(format!(
                        "{place}: `{command}` ended with {}: {out}{err}",
                        ran.status
                    ));
                } else if ran.status == 2 && !out.contains("\"hint\":\"") {
                    findings.push(format!("{place}: `{command}` has no next command: {out}"));
                }
            }
            // The registry may be a link to where a person keeps such files, and is edited there.
            let follows = path.ends_with("accounts.toml") && matches!(planted, Planted::Link);
            if !follows && before != (std::fs::read(&theirs).expect("theirs"), mode(&theirs)) {
                findings.push(format!("{place}: somebody else's file was changed"));
            }
            restore(sandbox);
        }
    }
    assert!(
        findings.is_empty(),
        "{} findings:\n{}",
        findings.len(),
        findings.join("\n")
    );
}
