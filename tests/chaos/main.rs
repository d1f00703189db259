//! Chaos: many real processes that do everything at once and are killed at any moment, and a judge that goes by kernel
//! locks of its own.
//!
//!     cargo test --features test-fakes --test chaos                     eight seconds and the cheapest proof
//!     cargo test --features test-fakes --test chaos -- --seconds 600    as long as one likes
//!     cargo test --features test-fakes --test chaos -- --prove          what it would see
//!
//! `--seed N`, or `AGENT_FLEET_CHAOS_SEED`, makes another run of it: all choices follow from it, the order in which the
//! kernel lets processes go on does not. `--prove` switches one protection off at a time and demands that a violation
//! is named within a minute; `--prove leases` does that for one. Ends with status 1 when something may not have
//! happened, or a proof found nothing.

#![expect(
    clippy::print_stdout,
    clippy::panic,
    reason = "its answer is its output, and what it cannot go on with ends it"
)]

mod actor;
mod helper;
mod inflict;
mod judge;
mod mix;
mod people;
mod prove;
#[path = "../support/ran.rs"]
#[expect(dead_code, reason = "the suite reads more of an answer")]
mod ran;
#[path = "../support/sandbox.rs"]
#[expect(dead_code, reason = "the suite makes more of it")]
mod sandbox;
#[path = "../support/secrets.rs"]
mod secrets;
mod stage;
mod storm;
mod tabled;
mod truth;
#[path = "../support/world.rs"]
#[expect(dead_code, reason = "the suite makes more of it")]
mod world;

use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use agent_fleet::env::Variables;

use crate::mix::Mix;
use crate::sandbox::Sandbox;
use crate::storm::{Plan, Report};

const SEED: &str = "AGENT_FLEET_CHAOS_SEED";
const MOUNTS: &str = "AGENT_FLEET_CHAOS_MOUNTS";
/// A run beside the other tests, in seconds.
const SHORT: u64 = 8;

/// What was asked for.
enum Asked {
    Run {
        seed: u64,
        seconds: u64,
        mix: Mix,
        proof: bool,
    },
    Prove {
        seed: u64,
        names: Vec<String>,
    },
    Nothing,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["--actor", seed] => {
            actor::run(seed.parse().expect("a seed"));
            return ExitCode::SUCCESS;
        }
        ["--helper", role, directory, span] => {
            helper::run(role, Path::new(directory), span.parse().expect("a time"));
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    let asked = asked(&words);
    if matches!(asked, Asked::Nothing) {
        return ExitCode::SUCCESS;
    }
    if !has_own_mounts()
        && let Some(status) = again_with_own_mounts(&words)
    {
        return status;
    }
    let good = match asked {
        Asked::Run {
            seed,
            seconds,
            mix,
            proof,
        } => {
            let plan = Plan {
                seed,
                span: Duration::from_secs(seconds),
                mix,
                faults: "",
                namespaces: false,
                thorough: true,
            };
            let report = storm::run(&plan);
            tell(&plan, &report);
            report.judge.violations.is_empty()
                && (!proof || prove::run(seed, &["leases".to_owned()]))
        }
        Asked::Prove { seed, names } => prove::run(seed, &names),
        Asked::Nothing => true,
    };
    if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// What the words mean: ours, or those of the test runner, who may ask for tests by a part of their name.
fn asked(words: &[&str]) -> Asked {
    let variables = Variables::capture();
    let mut seed = variables
        .text(SEED)
        .map_or(1, |text| text.parse().expect("a seed is a whole number"));
    let (mut seconds, mut names, mut proves) = (None, Vec::new(), false);
    let mut mix = Mix::All;
    let mut rest = words.iter().copied();
    while let Some(word) = rest.next() {
        let mut value = || {
            rest.next()
                .unwrap_or_else(|| panic!("`{word}` needs a value"))
        };
        match word {
            "--seed" => seed = value().parse().expect("a seed is a whole number"),
            "--seconds" => seconds = Some(value().parse().expect("seconds are a whole number")),
            "--mix" => mix = value().parse().expect("all, gates, queue or work"),
            "--prove" => proves = true,
            "--list" | "--ignored" => return Asked::Nothing,
            "--skip" | "--test-threads" | "--format" | "--color" => drop(value()),
            word if word.starts_with('-') => {}
            name if proves => names.push(name.to_owned()),
            name if !"chaos".contains(name) => return Asked::Nothing,
            _ => {}
        }
    }
    if proves {
        return Asked::Prove { seed, names };
    }
    Asked::Run {
        seed,
        seconds: seconds.unwrap_or(SHORT),
        mix,
        proof: seconds.is_none(),
    }
}

/// Whether what this process mounts is its own affair.
pub(crate) fn has_own_mounts() -> bool {
    Variables::capture().text(MOUNTS).is_some()
}

/// Whether a process may have namespaces of its own, by these options of `unshare`.
pub(crate) fn may_unshare(options: &[&str]) -> bool {
    Sandbox::tool("unshare")
        .args(options)
        .arg("true")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Runs this program again where it may mount; `None` where nobody may.
fn again_with_own_mounts(words: &[&str]) -> Option<ExitCode> {
    let options: &[&str] = [&["--mount"][..], &["--user", "--map-root-user", "--mount"]]
        .into_iter()
        .find(|options| may_unshare(options))?;
    let this = std::env::current_exe().expect("this program");
    let status = Sandbox::tool("unshare")
        .args(options)
        .arg(this)
        .args(words)
        .env(MOUNTS, "1")
        .status()
        .ok()?;
    Some(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn tell(plan: &Plan, report: &Report) {
    let judge = &report.judge;
    println!(
        "chaos: seed {}, {} s, {} operations, {} kills, {} processes, {} rounds",
        plan.seed,
        plan.span.as_secs(),
        judge.count(),
        report.kills,
        report.started,
        report.rounds
    );
    println!(
        "chaos: {} closed times and {} waits judged, {} jumps of the clock, {} full disks, {} damaged files",
        judge.judged.0, judge.judged.1, report.jumps, report.fills, report.harmed
    );
    for (kind, codes) in &judge.operations {
        let codes: Vec<String> = codes
            .iter()
            .map(|(code, count)| format!("{code} {count}"))
            .collect();
        println!("  {kind:<18} {}", codes.join(", "));
    }
    for what in &report.uncovered {
        println!("chaos: NOT COVERED here: {what}");
    }
    for violation in judge.violations.iter().take(40) {
        println!("chaos: {violation}");
    }
    println!("chaos: {} violations", judge.violations.len());
}
