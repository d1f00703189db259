//! How many instructions the shipped build executes, counted by callgrind: the same on a busy machine as on an
//! idle one. The bounds lie a quarter above what was measured.

use std::process::Command;

use crate::world::{World, tool};

/// Millions of instructions that each command may execute.
const VERSION: f64 = 1.25;
const CHOOSE: f64 = 3.2;
const CHOOSE_LARGE: f64 = 35.0;
const QUOTA: f64 = 4.0;
const QUOTA_LARGE: f64 = 27.5;

/// Prints the counts; returns the names of those above their bounds.
pub(crate) fn print(small: &World, large: &World) -> Vec<String> {
    if tool("valgrind").arg("--version").output().is_err() {
        println!("SKIPPED: instructions are not counted, valgrind is not installed");
        return Vec::new();
    }
    let mut missed = Vec::new();
    for (name, command, bound) in [
        ("version", small.command(&["version"]), VERSION),
        (
            "lease choose, 10 profiles, 5 live leases",
            small.choose(),
            CHOOSE,
        ),
        (
            "lease choose, 100 profiles, 100 live leases",
            large.choose(),
            CHOOSE_LARGE,
        ),
        (
            "quota show, 10 profiles",
            small.command(&["quota", "show"]),
            QUOTA,
        ),
        (
            "quota show, 100 profiles",
            large.command(&["quota", "show"]),
            QUOTA_LARGE,
        ),
    ] {
        let count = count(small, &command);
        let verdict = if count <= bound { "ok" } else { "MISSED" };
        println!("{name:<46} {count:>7.2} million instructions, at most {bound:.2}  {verdict}");
        if count > bound {
            missed.push(format!("{name}: instructions"));
        }
    }
    small.release();
    large.release();
    missed
}

/// Millions of instructions of one run.
fn count(world: &World, command: &Command) -> f64 {
    let file = world.path("callgrind");
    let mut valgrind = tool("valgrind");
    valgrind.arg("--tool=callgrind");
    valgrind.arg(format!("--callgrind-out-file={}", file.display()));
    valgrind.arg(command.get_program()).args(command.get_args());
    valgrind.env_clear();
    let variables = command.get_envs();
    valgrind.envs(variables.filter_map(|(name, value)| Some((name, value?))));
    valgrind.current_dir(world.path("home"));
    let output = valgrind.output().expect("valgrind starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "under valgrind: {said}");
    let text = std::fs::read_to_string(&file).expect("callgrind wrote its record");
    let total = text.lines().find_map(|line| line.strip_prefix("summary: "));
    let total = total.and_then(|total| total.trim().parse::<f64>().ok());
    total.expect("callgrind sums up") / 1e6
}
