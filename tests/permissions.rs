//! Whatever the caller's umask: what we make is for its owner alone, and usable by its owner.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::support::ran::Ran;
use crate::support::sandbox::Sandbox;

/// A fleet of one from nothing to a finished worker, all of it under this umask.
fn fleet(umask: &str) -> Sandbox {
    let mut sandbox = Sandbox::new();
    sandbox.set(crate::enroll::SECOND_PROOF, "20");
    sandbox.set("PROGRAM", env!("CARGO_BIN_EXE_agent-fleet"));
    let project = sandbox.git_project("project");
    sandbox.set("PROJECT", project);
    let terms = "--pool scripted-crew --task t --workspace \"$PROJECT\"";
    let exec = format!("exec {terms} -- -p 'say hello'");
    let choose = format!("lease choose {terms}");
    for line in [
        "init --scripted 1",
        "project register --provider scripted \"$PROJECT\"",
        "profile provision --all",
        "profile enroll scripted-1",
        "profile enable scripted-1",
        "profile drain scripted-1 --reason rest",
        "profile undrain scripted-1",
        &choose,
        &exec,
        "status",
        "doctor --fix",
    ] {
        let line = format!("umask {umask}; printf 'alpha\\n' | \"$PROGRAM\" {line}");
        let ran = Ran::of(&mut sandbox.shell(&line));
        assert_eq!(ran.status, 0, "{line}: {}{}", ran.stdout, ran.stderr);
    }
    sandbox
}

/// Everything below a directory that others may read, write or enter.
fn open_to_others(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a directory").flatten() {
            let metadata = entry.metadata().expect("a file");
            let mode = metadata.permissions().mode() & 0o7777;
            if metadata.is_dir() {
                folders.push(entry.path());
            }
            if !metadata.is_symlink() && mode & 0o077 != 0 {
                found.push(format!("{} {mode:o}", entry.path().display()));
            }
        }
    }
    found
}

#[test]
fn nothing_that_we_make_is_open_to_others_whatever_the_umask() {
    let sandbox = fleet("0000");
    for root in ["config", "state", "share"] {
        assert_eq!(open_to_others(&sandbox.path(root)), [""; 0], "{root}");
    }
}

#[test]
fn a_umask_that_takes_everything_from_others_stops_nothing() {
    drop(fleet("0077"));
}
