//! What routine commands cost that needs no clock to be told: system calls, files opened, syncs, processes.
//!
//! The bounds lie a quarter above what was measured.

use std::process::Command;
use std::time::{Duration, Instant};

use agent_fleet::env::Faults;
use agent_fleet::lease::Granted;

use crate::support::checkout::Checkout;
use crate::support::leases::{now, reserve, store};
use crate::support::sandbox::{Ran, Sandbox};
use crate::support::world::{Account, POOL, World, wait};

/// What one command did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cost {
    calls: usize,
    opened: usize,
    syncs: usize,
    processes: usize,
}

/// A world of this many accounts with fresh readings.
fn world(accounts: usize) -> World {
    let world = World::new(&[]);
    world.command(&["config", "set", "settings.quota_fresh_seconds", "3600"]);
    let registry = world.sandbox.path("config/accounts.toml");
    let mut text = std::fs::read_to_string(registry).expect("a registry");
    for index in 0..accounts {
        let name = format!("account-{index:03}");
        let home = world.sandbox.path(format!("homes/{name}"));
        std::fs::create_dir_all(&home).expect("a home");
        let home = home.to_str().expect("UTF-8");
        world.log_in(home, &Account::new(&name));
        let lines = [
            format!("[profiles.\"{name}\"]\nprovider = \"scripted\"\nhome = \"{home}\"\n"),
            format!("pools = [\"{POOL}\"]\nenabled = true\nmax_concurrent = 100\n"),
        ];
        text.push_str(&lines.concat());
    }
    world.sandbox.write("config/accounts.toml", text);
    world.command(&["profile", "provision", "--all"]);
    // A login that was proved within two seconds of its change is read again each time.
    let made = Instant::now();
    let old = || (made.elapsed() > Duration::from_millis(2500)).then_some(());
    wait("the logins to be old enough", old);
    // Some at a time: many at once wait for one lock. The server names the account with its reading.
    let names: Vec<String> = (0..accounts)
        .map(|index| format!("account-{index:03}"))
        .collect();
    for some in names.chunks(10) {
        let words = ["quota", "refresh"].into_iter();
        let line: Vec<&str> = words.chain(some.iter().map(String::as_str)).collect();
        world.command(&line);
    }
    world
}

/// This many leases of this process, over all accounts in turn.
fn hold(world: &World, accounts: usize, leases: usize) -> Vec<Granted> {
    let root = world.sandbox.path("state");
    let store = store(root.to_str().expect("UTF-8"), Faults::default());
    let held = (0..leases).map(|index| {
        let profile = format!("account-{:03}", index % accounts);
        reserve(&store, &now(&format!("held-{index}")), &[&profile], 100).expect("a free slot")
    });
    held.collect()
}

/// What a command costs; `None`, and said, where nothing can be traced.
fn cost(world: &World, arguments: &[&str]) -> Option<Cost> {
    traced(world, &world.sandbox.command(arguments))
}

fn traced(world: &World, command: &Command) -> Option<Cost> {
    let record = world.sandbox.path("tmp/calls");
    let mut strace = Sandbox::tool("strace");
    let variables = command.get_envs();
    strace
        .args(["-f", "-qq", "-e", "signal=none", "-o"])
        .arg(&record)
        .arg(command.get_program())
        .args(command.get_args())
        .current_dir(command.get_current_dir().expect("a directory"))
        .env_clear()
        .envs(variables.filter_map(|(name, value)| Some((name, value?))));
    let traced = Sandbox::tool("strace")
        .args(["-o", "/dev/null", "true"])
        .output();
    if !traced.is_ok_and(|traced| traced.status.success()) {
        println!("SKIPPED: nothing can be traced here (strace)");
        return None;
    }
    drop(Ran::of(&mut strace).success());
    let text = std::fs::read_to_string(record).expect("a record of calls");
    let lines = text
        .lines()
        .filter_map(|line| line.trim_start().split_once(' '));
    let calls: Vec<&str> = lines.map(|(_, call)| call.trim_start()).collect();
    let count = |names: &[&str]| {
        let is = |call: &&&str| {
            names
                .iter()
                .any(|name| call.split('(').next() == Some(name))
        };
        calls.iter().filter(is).count()
    };
    Some(Cost {
        calls: calls.len(),
        opened: count(&["open", "openat", "openat2"]),
        syncs: count(&[
            "fsync",
            "fdatasync",
            "sync",
            "syncfs",
            "sync_file_range",
            "msync",
        ]),
        processes: count(&["fork", "vfork", "clone", "clone3"]) + count(&["execve"]) - 1,
    })
}

/// Fails when a command costs more than `calls` system calls or opens more than `opened` files.
#[track_caller]
fn at_most(name: &str, cost: Option<Cost>, (calls, opened): (usize, usize)) {
    let Some(cost) = cost else { return };
    println!("{name}: {cost:?}");
    assert_eq!((cost.syncs, cost.processes), (0, 0), "{name}: {cost:?}");
    assert!(
        cost.calls <= calls,
        "{name}: more than {calls} calls, {cost:?}"
    );
    assert!(
        cost.opened <= opened,
        "{name}: more than {opened} files, {cost:?}"
    );
}

/// A choice and a look at all quotas in a world.
fn routine(accounts: usize, leases: usize) -> (Option<Cost>, Option<Cost>) {
    let world = world(accounts);
    let held = hold(&world, accounts, leases);
    let project = world.project.to_str().expect("UTF-8");
    let choose = [
        "lease",
        "choose",
        "--task",
        "t",
        "--pool",
        POOL,
        "--workspace",
        project,
    ];
    // The first choice compiles what the later ones read.
    world.command(&choose);
    world.command(&["lease", "release", "--task", "t"]);
    let costs = (cost(&world, &choose), cost(&world, &["quota", "show"]));
    drop(held);
    costs
}

#[test]
fn routine_commands_make_few_calls_sync_nothing_and_start_nothing() {
    let (choose, quota) = routine(10, 5);
    at_most(
        "a choice among 10 profiles beside 5 workers",
        choose,
        (250, 26),
    );
    at_most("the quotas of 10 profiles", quota, (137, 10));
}

#[test]
fn ten_times_the_profiles_cost_no_more_files() {
    let (choose, quota) = routine(100, 100);
    at_most(
        "a choice among 100 profiles beside 100 workers",
        choose,
        (636, 26),
    );
    at_most("the quotas of 100 profiles", quota, (378, 10));
}

#[test]
fn the_status_of_fifty_parked_workers_takes_no_lock_and_reads_two_files_for_each() {
    let checkout = Checkout::parked();
    let status = checkout.fleet(&["status"]);
    assert_eq!(status["workers"].as_array().map(Vec::len), Some(50));
    let cost = traced(&checkout.world, &checkout.line(&["status"]));
    at_most("a run of 50 parked workers", cost, (1110, 140));
}
