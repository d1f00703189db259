//! What choosing and launching must not do at all, counted by strace.

use std::path::Path;

use crate::world::{PROGRAM, World, tool};

/// System calls that are recorded: syncing, starting processes, opening files.
const CALLS: &str = "trace=fsync,fdatasync,sync,syncfs,sync_file_range,msync,execve,fork,vfork,clone,clone3,open,openat,openat2";

/// Prints the counts of a choice in `small` and of a launch in `launches`; returns the names of those that are
/// not zero.
pub(crate) fn print(small: &World, launches: &World) -> Vec<String> {
    if tool("strace").arg("-V").output().is_err() {
        println!("SKIPPED: system calls are not counted, strace is not installed");
        return Vec::new();
    }
    let choose = trace(small, &small.choose());
    small.release();
    let exec = trace(launches, &launches.exec("exit 0"));
    let mut missed = Vec::new();
    for (verb, calls) in [
        ("lease choose", &choose[..]),
        ("exec", before_worker(&exec)),
    ] {
        for (what, count) in [
            (
                "syncs",
                count(calls, |call| {
                    call.contains("sync") && !call.starts_with("open")
                }),
            ),
            ("processes started", count(calls, starts_process)),
            (
                "opens of the provider's binary",
                count(calls, |call| {
                    call.starts_with("open") && call.contains(&format!("\"{PROGRAM}\""))
                }),
            ),
        ] {
            let verdict = if count == 0 { "ok" } else { "MISSED" };
            println!("{verb}: {what:<32} {count:>3}  budget 0  {verdict}");
            if count > 0 {
                missed.push(format!("{verb}: {what}"));
            }
        }
    }
    missed
}

/// Everything up to the moment when the process becomes the worker.
fn before_worker(calls: &[String]) -> &[String] {
    let mut replaced = calls
        .iter()
        .enumerate()
        .filter(|(_, call)| call.starts_with("execve("))
        .map(|(index, _)| index)
        .skip(1);
    &calls[..replaced.next().unwrap_or(calls.len())]
}

fn count(calls: &[String], is: impl Fn(&str) -> bool) -> usize {
    calls.iter().filter(|call| is(call)).count()
}

/// A thread is no process.
fn starts_process(call: &str) -> bool {
    ["fork(", "vfork(", "clone(", "clone3("]
        .iter()
        .any(|name| call.starts_with(name))
        && !call.contains("CLONE_THREAD")
}

/// The recorded calls of a command and of all that it starts, without the process ids.
fn trace(world: &World, command: &std::process::Command) -> Vec<String> {
    let file = world.path("trace");
    let mut strace = tool("strace");
    strace.args(["-f", "-qq", "-e", CALLS, "-o"]).arg(&file);
    strace
        .arg(command.get_program())
        .args(command.get_args())
        .env_clear();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            strace.env(name, value);
        }
    }
    strace.current_dir(command.get_current_dir().unwrap_or(Path::new("/")));
    let output = strace.output().expect("strace starts");
    assert!(
        output.status.success(),
        "a traced command failed: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    std::fs::read_to_string(&file)
        .expect("strace wrote its record")
        .lines()
        .filter_map(|line| line.trim_start().split_once(' '))
        .map(|(_, call)| call.trim_start().to_owned())
        .collect()
}
