//! How the cost of routine commands grows with profiles, live leases and processes at once.
//!
//!     cargo bench --bench scale
//!
//! Every figure is in N, what starting, ending and awaiting a no-op costs in the same rounds, or in shares of what
//! the machine can start of those. The leases are held by another process, with their witnesses: starting programs
//! costs more in one that has ten thousand files open. Takes some minutes.

#![expect(clippy::print_stdout, reason = "its answer is its output")]

#[path = "../noop.rs"]
#[expect(dead_code, reason = "the budgets use the rest")]
mod noop;
#[path = "../world.rs"]
#[expect(dead_code, reason = "the budgets use the rest")]
mod world;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use agent_fleet::clock::Clock;
use agent_fleet::env::{Context, Variables, World as Captured};
use agent_fleet::lease::holder::Holder;
use agent_fleet::lease::{Choice, Granted, Hold, LeaseStore as _, Request, TableStore};

use crate::noop::NoOp;
use crate::world::{World, tool};

/// Asks this program to be the other process.
const HOLD: &str = "--hold";
/// Profiles and live leases, spread evenly.
const SIZES: [(usize, usize); 6] = [
    (10, 0),
    (10, 10),
    (100, 100),
    (1000, 100),
    (100, 10_000),
    (1000, 10_000),
];
/// Rounds of one size.
const ROUNDS: usize = 40;
/// Processes at once.
const AT_ONCE: [usize; 4] = [1, 8, 64, 256];
/// How long each of those is measured.
const SPAN: Duration = Duration::from_secs(4);

fn main() -> ExitCode {
    let arguments = World::arguments();
    if let [_, verb, state, profiles, leases] = &arguments[..]
        && verb == HOLD
    {
        let number = |text: &str| text.parse().expect("a number");
        hold(state, number(profiles), number(leases));
        return ExitCode::SUCCESS;
    }
    if !arguments.iter().any(|word| word == "--bench") {
        println!("growth is measured on the shipped build: cargo bench --bench scale");
        return ExitCode::SUCCESS;
    }
    let noop = NoOp::compile();
    println!(
        "{}; medians of {ROUNDS} interleaved rounds, in N",
        noop::target()
    );
    println!("profiles  leases   N us  choose  release  status  quota show  lease list");
    let worlds: BTreeMap<usize, World> = [10, 100, 1000]
        .map(|profiles| (profiles, World::many(profiles, 1000)))
        .into_iter()
        .collect();
    for (profiles, leases) in SIZES {
        let world = &worlds[&profiles];
        let held = Held::by_another(world, profiles, leases);
        grow(&noop, world, (profiles, leases));
        held.end();
    }
    println!("\nat once  no-ops/s   choose+release/s   share   p50 ms   p99 ms");
    for (profiles, world) in worlds.iter().filter(|(profiles, _)| **profiles < 1000) {
        println!("{profiles} profiles");
        for at_once in AT_ONCE {
            crowd(&noop, world, at_once);
        }
    }
    ExitCode::SUCCESS
}

fn store(state: &str) -> TableStore {
    let pairs = [("HOME", state), ("AGENT_FLEET_STATE_DIR", state)];
    let captured = Captured {
        arguments: Vec::new(),
        variables: pairs.into_iter().collect::<Variables>(),
        directory: None,
        executable: None,
    };
    let context = Context::resolve(&captured, None).expect("absolute roots");
    let deadline = context.clock.deadline(Duration::from_mins(10));
    TableStore::open(&context, deadline).expect("the kernel tells who we are")
}

/// A process that holds leases.
struct Held(Child);

impl Held {
    fn by_another(world: &World, profiles: usize, leases: usize) -> Self {
        let program = std::env::current_exe().expect("this program");
        let mut child = tool(program)
            .args([HOLD, world.path("state").to_str().expect("text")])
            .args([profiles.to_string(), leases.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program starts");
        let mut ready = [0];
        let output = child.stdout.as_mut().expect("a pipe");
        output.read_exact(&mut ready).expect("all leases are held");
        Self(child)
    }

    /// Gives all of them back.
    fn end(mut self) {
        drop(self.0.stdin.take());
        let ended = self.0.wait().expect("a child of ours");
        assert!(ended.success(), "the leases were not given back");
    }
}

/// Holds live leases, one task each, over all profiles in turn, until the input ends.
fn hold(state: &str, profiles: usize, leases: usize) {
    let store = store(state);
    let holder = Holder::current().expect("the kernel tells who we are");
    let held: Vec<Granted> = (0..leases)
        .map(|index| {
            let request = Request {
                task: format!("held-{index}").parse().expect("a task"),
                workspace: "/srv/space".into(),
                pool: Some("crew".parse().expect("a pool")),
                provider: None,
                profile: None,
                labels: BTreeMap::new(),
                hold: Hold::Now(holder),
            };
            let profile = format!("account-{:03}", index % profiles);
            let mut take = |_: &_| {
                Ok(Choice::Take {
                    profile: profile.parse().expect("a profile"),
                    provider: agent_fleet::id::ProviderKind::Scripted,
                    cap: 1000,
                })
            };
            store.reserve(&request, &mut take).expect("a free slot")
        })
        .collect();
    println!("ready");
    drop(std::io::stdin().read_to_end(&mut Vec::new()));
    for granted in held {
        store.abandon(granted).expect("a lease of ours");
    }
}

/// What routine commands cost in one size of world.
fn grow(noop: &NoOp, world: &World, (profiles, leases): (usize, usize)) {
    let commands: [&dyn Fn() -> Command; 6] = [
        &|| noop.same(),
        &|| world.choose(),
        &|| world.command(&["lease", "release", "--task", "bench"]),
        &|| world.command(&["status"]),
        &|| world.command(&["quota", "show"]),
        &|| world.command(&["lease", "list"]),
    ];
    let mut samples = commands.map(|_| Vec::new());
    for round in 0..=ROUNDS {
        for (command, samples) in commands.iter().zip(&mut samples) {
            let took = run(command());
            if round > 0 {
                samples.push(took);
            }
        }
    }
    let [n, rest @ ..] = samples.map(median);
    let ratios: Vec<String> = rest
        .iter()
        .map(|cost| format!("{:>7.2}", cost / n))
        .collect();
    println!(
        "{profiles:>8} {leases:>7} {:>6.0} {}",
        n * 1e6,
        ratios.join("  ")
    );
}

/// Runs a command to its end, which must be good; how long that took, in seconds.
fn run(mut command: Command) -> f64 {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let begun = Instant::now();
    let status = command.status().expect("the program starts");
    let took = begun.elapsed().as_secs_f64();
    assert!(status.success(), "{command:?}");
    took
}

fn median(samples: Vec<f64>) -> f64 {
    share(samples, 0.5)
}

/// The sample that this share of all does not exceed.
fn share(mut samples: Vec<f64>, share: f64) -> f64 {
    samples.sort_by(f64::total_cmp);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "an index into few samples"
    )]
    let at = (samples.len() as f64 * share) as usize;
    samples[at.min(samples.len() - 1)]
}

/// What many processes at once get done, beside how many no-ops they could start.
fn crowd(noop: &NoOp, world: &World, at_once: usize) {
    let starts = all_at_once(at_once, |_| {
        run(noop.same());
        Vec::new()
    });
    let pairs = all_at_once(at_once, |place| {
        let task = format!("crowd-{place}");
        let took = run(world.choose_for(&task));
        run(world.command(&["lease", "release", "--task", &task]));
        vec![took]
    });
    #[expect(clippy::cast_precision_loss, reason = "counts of a few seconds")]
    let per_second = |count: usize| count as f64 / SPAN.as_secs_f64();
    let (starts, done) = (per_second(starts.0), per_second(pairs.0));
    let p50 = share(pairs.1.clone(), 0.5) * 1e3;
    let p99 = share(pairs.1, 0.99) * 1e3;
    // Each pair starts two processes.
    println!(
        "{at_once:>7} {starts:>9.0} {done:>18.0} {:>6.0}% {p50:>8.1} {p99:>8.1}",
        done * 2.0 / starts * 100.0
    );
}

/// Does something from this many threads for a while; how often it was done, and what it measured.
fn all_at_once(threads: usize, work: impl Fn(usize) -> Vec<f64> + Sync) -> (usize, Vec<f64>) {
    let over = AtomicBool::new(false);
    let all: Vec<(usize, Vec<f64>)> = std::thread::scope(|scope| {
        let (over, work) = (&over, &work);
        let threads: Vec<_> = (0..threads)
            .map(|place| {
                scope.spawn(move || {
                    let mut done = 0;
                    let mut samples = Vec::new();
                    while !over.load(Ordering::Relaxed) {
                        samples.extend(work(place));
                        done += 1;
                    }
                    (done, samples)
                })
            })
            .collect();
        Clock::real().pause(SPAN);
        over.store(true, Ordering::Relaxed);
        let ended = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
        ended.map(|thread| thread.expect("no panic")).collect()
    });
    let count = all.iter().map(|(count, _)| count).sum();
    (
        count,
        all.into_iter().flat_map(|(_, samples)| samples).collect(),
    )
}
