//! The speed budgets, each as a ratio to N in one interleaved run of the shipped build.
//!
//! N is what starting, ending and awaiting a no-op costs that was compiled for the same target and linked the
//! same way as the program: nothing that starts as a process can be faster. A no-op without any C library is
//! printed beside it, for the share that the target's own start-up has.
//!
//!     cargo bench --bench budgets                       print every ratio
//!     cargo bench --bench budgets -- --check            and fail when one misses its budget
//!     cargo bench --bench budgets -- --counts           only what no other load changes: calls and instructions
//!     RUSTFLAGS="-C target-feature=+crt-static -C relocation-model=static" cargo bench --target x86_64-unknown-linux-gnu --bench budgets
//!
//! The last line measures a static build; where the musl target is installed, name that one. Needs `rustc`,
//! `cc`, `strace` (for the calls) and `valgrind` (for the instructions).

#![expect(clippy::print_stdout, reason = "its answer is its output")]

mod counts;
mod instructions;
mod noop;
#[expect(dead_code, reason = "the growth bench uses the rest")]
mod world;

use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use agent_fleet::clock::Clock;
use agent_fleet::snapshot::registry::RACY;

use crate::noop::NoOp;
use crate::world::World;

/// Choices that are made before anything is measured.
const WARM: usize = 5;
/// Rounds; each runs every row once, so that a slow moment of the machine falls on all of them.
const ROUNDS: usize = 150;

/// A row of the table: what is run, and what comes after it outside the clock.
struct Row<'a> {
    name: &'a str,
    command: Box<dyn Fn() -> Command + 'a>,
    after: Box<dyn Fn() + 'a>,
    /// The exit status that it must have.
    ends: i32,
    samples: Vec<Duration>,
}

impl<'a> Row<'a> {
    fn new(name: &'a str, command: impl Fn() -> Command + 'a) -> Self {
        Self {
            name,
            command: Box::new(command),
            after: Box::new(|| ()),
            ends: 0,
            samples: Vec::with_capacity(ROUNDS),
        }
    }

    fn then(mut self, after: impl Fn() + 'a) -> Self {
        self.after = Box::new(after);
        self
    }

    fn ending(mut self, status: i32) -> Self {
        self.ends = status;
        self
    }

    fn run(&mut self) {
        let mut command = (self.command)();
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let start = Instant::now();
        let status = command.status().expect("the program starts");
        self.samples.push(start.elapsed());
        assert_eq!(status.code(), Some(self.ends), "{}", self.name);
        (self.after)();
    }

    /// The median, in microseconds.
    fn median(&self) -> f64 {
        median(self.samples.iter().map(|sample| micros(*sample)).collect())
    }

    /// The median of what this row took longer than the other in the same round, in microseconds.
    fn beyond(&self, other: &Self) -> f64 {
        let pairs = self.samples.iter().zip(&other.samples);
        median(
            pairs
                .map(|(mine, theirs)| micros(*mine) - micros(*theirs))
                .collect(),
        )
    }
}

fn micros(sample: Duration) -> f64 {
    sample.as_secs_f64() * 1e6
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn main() -> ExitCode {
    let arguments = World::arguments();
    if !arguments.iter().any(|word| word == "--bench") {
        println!("the budgets are measured on the shipped build: cargo bench --bench budgets");
        return ExitCode::SUCCESS;
    }
    let has = |option: &str| arguments.iter().any(|word| word == option);
    let check = has("--check") || has("--counts");
    let small = World::new(10, 10);
    let large = World::new(100, 100);
    let small_holders = small.hold(5);
    let large_holders = large.hold(100);
    // Workers leave evidence that the next choice folds in, so they get worlds of their own.
    let launches = World::new(10, 10);
    let mut missed = Vec::new();
    // A registry that changed just now is read by each command. Whoever comes first after that makes what is made
    // once, and the next ones look after what was left.
    Clock::real().pause(RACY * 2);
    for _ in 0..WARM {
        for world in [&small, &large] {
            run(world.choose());
            world.release();
        }
    }
    run(launches.exec("exit 0"));
    if !has("--counts") {
        missed.extend(budgets(&small, &large, &launches));
    }
    missed.extend(counts::print(&small, &launches));
    missed.extend(instructions::print(&small, &large));
    drop((small_holders, large_holders));
    if check && !missed.is_empty() {
        println!("missed: {}", missed.join(", "));
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Runs a command to its end.
fn run(mut command: Command) {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let ended = command.status().expect("the program starts");
    assert!(ended.success(), "{command:?}");
}

/// Measures every row; returns the names of those that miss their budgets.
fn budgets(small: &World, large: &World, launches: &World) -> Vec<String> {
    let noop = NoOp::compile();
    let turns = World::new(10, 10);
    let direct = launches.agent_environment();
    let parked = World::new(1, 1);
    parked.park(50);

    let mut rows = [
        Row::new("no-op, no C library", || noop.bare()),
        Row::new("no-op (N)", || noop.same()),
        Row::new("version", || small.command(&["version"])),
        Row::new("lease choose, 10 profiles, 5 live leases", || {
            small.choose()
        })
        .then(|| small.release()),
        Row::new("lease choose, 100 profiles, 100 live leases", || {
            large.choose()
        })
        .then(|| large.release()),
        Row::new("quota show, 10 profiles", || {
            small.command(&["quota", "show"])
        }),
        Row::new("lease choose after a worker's turn", || turns.choose()).then(|| {
            turns.release();
            turns.turn();
        }),
        Row::new("exec of a worker that cannot start", || {
            launches.exec_in_vain()
        })
        .ending(1),
        Row::new("the same worker, started directly", || {
            launches.agent_in_vain(&direct)
        })
        .ending(1),
        Row::new("fleet status, 50 parked workers", || {
            parked.fleet(&["status"])
        }),
    ];
    for row in &mut rows {
        row.run();
        row.samples.clear();
    }
    for _ in 0..ROUNDS {
        for row in &mut rows {
            row.run();
        }
    }
    let [
        bare,
        n,
        version,
        choose,
        choose_large,
        quota,
        after_turn,
        exec,
        worker,
        fleet_status,
    ] = rows.each_ref();
    let launch = exec.beyond(worker);
    let (exec, worker) = (exec.median(), worker.median());
    let (bare, n, choose) = (bare.median(), n.median(), choose.median());
    println!(
        "{}; N = {n:.0} us, a no-op without a C library {bare:.0} us; medians of {ROUNDS} interleaved rounds",
        noop::target()
    );
    let mut missed = Vec::new();
    for (name, cost, budget) in [
        ("version", version.median(), 3.0),
        ("lease choose, 10 profiles, 5 live leases", choose, 5.0),
        (
            "lease choose, 100 profiles, 100 live leases",
            choose_large.median(),
            9.0,
        ),
        ("quota show, 10 profiles", quota.median(), 4.0),
        (
            "fleet status, 50 parked workers",
            fleet_status.median(),
            12.0,
        ),
        (
            "exec less the worker itself less choose",
            launch - choose,
            1.5,
        ),
    ] {
        let ratio = cost / n;
        let verdict = if ratio <= budget { "ok" } else { "MISSED" };
        println!("{name:<46} {cost:>7.0} us {ratio:>6.2} N  budget {budget:.1} N  {verdict}");
        if ratio > budget {
            missed.push(name.to_owned());
        }
    }
    println!("exec {exec:.0} us, the worker itself {worker:.0} us, {launch:.0} us between them");
    println!(
        "lease choose that folds in what a worker's hooks saw: {:.0} us, {:.2} N, no budget",
        after_turn.median(),
        after_turn.median() / n
    );
    missed
}
