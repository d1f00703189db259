//! Every budget for speed in one run, and how costs grow with profiles, live leases and processes at once.
//!
//!     cargo bench --bench scale
//!     RUSTFLAGS="-C target-feature=+crt-static -C relocation-model=static" cargo bench --target x86_64-unknown-linux-gnu --bench scale
//!
//! With `-- --small` without the thousand profiles and the ten thousand leases, in a minute or two.
//!
//! Every figure is in N, what starting, ending and awaiting a no-op costs in the same rounds, or in shares of what
//! the machine can start of those. The leases are held by another process, with their witnesses: starting programs
//! costs more in one that has ten thousand files open. The last line of growth is
//! of a world whose ten thousand leases have ended. Needs `rustc`, `cc` and `strace` (for the time under the lock). Takes some minutes.

#![expect(clippy::print_stdout, reason = "its answer is its output")]

mod budget;
mod critical;
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
const SIZES: [(usize, usize); 10] = [
    (10, 0),
    (10, 10),
    // One slot of each is left to choose.
    (10, 9_990),
    (100, 0),
    (100, 100),
    (100, 10_000),
    (1000, 0),
    (1000, 100),
    (1000, 10_000),
    (1000, 1),
];
/// Slots of a profile: as many as there can be.
const SLOTS: usize = 1000;
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
    println!(
        "profiles  leases   N us  version   choose  release   status    quota     list   locked"
    );
    let small = arguments.iter().any(|word| word == "--small");
    let worlds: BTreeMap<usize, World> = [10, 100, 1000]
        .into_iter()
        .filter(|profiles| !small || *profiles < 1000)
        .map(|profiles| (profiles, World::many(profiles, SLOTS)))
        .collect();
    let mut measured = Measured::default();
    for (profiles, leases) in SIZES {
        if small && (profiles >= 1000 || leases >= 9_990) {
            continue;
        }
        let world = &worlds[&profiles];
        let held = Held::by_another(world, profiles, leases);
        let costs = grow(&noop, world, (profiles, leases));
        measured.costs.insert((profiles, leases), costs);
        held.end();
    }
    measured.launch = launch(&noop, &worlds[&10]);
    println!("\nat once  no-ops/s   choose+release/s   share   p50 ms   p99 ms");
    for (profiles, leases) in [(10, 0), (100, 100)] {
        println!("{profiles} profiles, {leases} leases of others");
        let world = &worlds[&profiles];
        let held = Held::by_another(world, profiles, leases);
        for at_once in AT_ONCE {
            let crowd = crowd(&noop, world, at_once);
            measured.crowds.insert((profiles, at_once), crowd);
        }
        held.end();
    }
    budget::print(&measured);
    ExitCode::SUCCESS
}

/// What commands cost in one size of world, in N.
#[derive(Clone, Copy, Debug)]
struct Costs {
    version: f64,
    choose: f64,
    quota: f64,
    /// From taking to leaving the `leases` lock, in one choice; `None` where nothing can be traced.
    locked: Option<f64>,
}

/// What many processes at once got done.
#[derive(Clone, Copy, Debug)]
struct Crowd {
    /// Processes per no-op that could have been started.
    share: f64,
    /// Milliseconds of a choice.
    p50: f64,
    p99: f64,
}

/// Everything that was measured.
#[derive(Debug, Default)]
struct Measured {
    costs: BTreeMap<(usize, usize), Costs>,
    /// What `exec` takes beyond the worker and the choice, in N.
    launch: f64,
    crowds: BTreeMap<(usize, usize), Crowd>,
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
                    cap: SLOTS.try_into().expect("a small number"),
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
fn grow(noop: &NoOp, world: &World, (profiles, leases): (usize, usize)) -> Costs {
    let commands: [&dyn Fn() -> Command; 7] = [
        &|| noop.same(),
        &|| world.command(&["version"]),
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
    let locked = critical::locked(world).map(|seconds| seconds / n);
    let ratios: Vec<String> = rest
        .iter()
        .map(|cost| cost / n)
        .chain(locked)
        .map(|cost| format!("{cost:>7.2}"))
        .collect();
    println!(
        "{profiles:>8} {leases:>7} {:>6.0}  {}",
        n * 1e6,
        ratios.join("  ")
    );
    let [version, choose, _, _, quota, _] = rest.map(|cost| cost / n);
    Costs {
        version,
        choose,
        quota,
        locked,
    }
}

/// What `exec` costs beyond its worker and beyond a choice, in N.
fn launch(noop: &NoOp, world: &World) -> f64 {
    let direct = world.agent_environment();
    let mut samples = [(); 4].map(|()| Vec::new());
    for _ in 0..ROUNDS {
        let all = [
            time(noop.same()).0,
            time(world.choose()).0,
            time(world.exec_in_vain()).0,
            time(world.agent_in_vain(&direct)).0,
        ];
        world.release();
        for (samples, took) in samples.iter_mut().zip(all) {
            samples.push(took);
        }
    }
    let [n, choose, exec, worker] = samples.map(median);
    let launch = (exec - worker - choose) / n;
    println!("exec beyond the worker itself and a choice, 10 profiles: {launch:.2} N");
    launch
}

/// Runs a command to its end, which must be good; how long that took, in seconds.
fn run(command: Command) -> f64 {
    let line = format!("{command:?}");
    let (took, good) = time(command);
    assert!(good, "{line} failed");
    took
}

/// Runs a command to its end; how long that took, in seconds, and whether it was good.
fn time(mut command: Command) -> (f64, bool) {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let begun = Instant::now();
    let status = command.status().expect("the program starts");
    (begun.elapsed().as_secs_f64(), status.success())
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
fn crowd(noop: &NoOp, world: &World, at_once: usize) -> Crowd {
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
    let share = done * 2.0 / starts;
    println!(
        "{at_once:>7} {starts:>9.0} {done:>18.0} {:>6.0}% {p50:>8.1} {p99:>8.1}",
        share * 100.0
    );
    Crowd { share, p50, p99 }
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
