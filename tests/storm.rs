//! Many commands at once, through the real program, and orders of events that need real processes: a launcher that
//! dies, another pid namespace, a change of the registry beside a choice. What kills everything at random is
//! `tests/chaos`.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use agent_fleet::env::Faults;
use agent_fleet::lease::{Force, LeaseStore as _};
use agent_fleet::store::lock::{Mode, try_flock, unlock};
use serde_json::Value;

use crate::support::fleet::Fleet;
use crate::support::sandbox::{Ran, Sandbox};
use crate::support::world::{World, wait};

const PROFILES: usize = 4;
const CAP: u32 = 3;

/// Starts a `lease choose` for each task at the same time; the codes of those that were refused.
fn at_once(fleet: &Fleet, count: usize) -> Vec<String> {
    let children: Vec<Child> = (0..count)
        .map(|number| {
            fleet
                .sandbox
                .command(fleet.choose(&format!("task-{number}")))
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .expect("the program starts")
        })
        .collect();
    let code = |child: Child| {
        let output = child.wait_with_output().expect("a child");
        let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        (!output.status.success()).then(|| answer["code"].as_str().unwrap_or_default().to_owned())
    };
    children.into_iter().filter_map(code).collect()
}

#[test]
fn simultaneous_chooses_share_equal_profiles_evenly_in_every_round_and_name_the_holders_when_full()
{
    const ROUNDS: u32 = 100;
    const SLOTS: u32 = 5;
    let fleet = Fleet::new(4, SLOTS);
    let state = fleet.sandbox.path("state");
    let store = crate::support::leases::store(state.to_str().expect("UTF-8"), Faults::default());
    // Counts and gives back; in this process, where a hundred rounds cost little.
    let settle = || -> Vec<usize> {
        let all = store.list().expect("a readable table").leases;
        for lease in &all {
            let task = lease.task.as_deref().expect("a task");
            let task = task.parse().expect("a task");
            store.release(&task, Force::No).expect("a reservation");
        }
        let of = |id: &String| {
            let held = all.iter().filter(|lease| lease.profile.as_str() == id);
            held.count()
        };
        fleet.profiles().map(of).collect()
    };
    for round in 0..ROUNDS {
        assert_eq!(at_once(&fleet, 12), [""; 0], "round {round}");
        assert_eq!(settle(), [3; 4], "round {round}: 12 over 4 profiles");
        assert_eq!(at_once(&fleet, 24), ["capacity"; 4], "round {round}");
        assert_eq!(settle(), [5; 4], "round {round}: 24 for 20 slots");
    }
    assert_eq!(at_once(&fleet, 20), [""; 0]);
    let full = fleet
        .sandbox
        .run(fleet.choose("one-more"))
        .refused("capacity");
    let holders = full["details"]["holders"].as_array().expect("a list");
    let whole = |holder: &&Value| holder["task"].is_string() && holder["profile"].is_string();
    assert_eq!(holders.iter().filter(whole).count(), 20, "{full}");
    assert!(full["retry_at"].is_string(), "when a slot frees: {full}");
}

/// A worker that starts a child which inherits what it has, killed while the child lives; the answer to
/// another task that asks for its only slot.
fn launcher_child(faults: &str) -> Ran {
    let mut fleet = Fleet::new(1, 1);
    fleet.sandbox.set("AGENT_FLEET_TEST_FAULTS", faults);
    let (started, end) = (fleet.sandbox.path("started"), fleet.sandbox.path("end"));
    let prompt = format!("launch {} {}", started.display(), end.display());
    let mut launcher = fleet
        .sandbox
        .command(fleet.exec("launcher", &prompt))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    wait("the launcher's child", || started.exists().then_some(()));
    launcher.kill().expect("a child of ours");
    launcher.wait().expect("a child of ours");
    let answer = fleet.sandbox.run(fleet.choose("other"));
    let made = std::fs::File::options().create(true).append(true).open(end);
    drop(made.expect("the child's sign to end"));
    answer
}

#[test]
fn a_child_that_outlives_a_killed_provider_keeps_its_slot_thanks_to_the_witness() {
    let refusal = launcher_child("").refused("capacity");
    let holder = &refusal["details"]["holders"][0];
    assert_eq!(holder["verdict"], "orphaned", "{refusal}");
    launcher_child("no-witness").success();
}

#[test]
fn a_worker_in_another_pid_namespace_keeps_its_slot_thanks_to_the_witness() {
    let options = ["--fork", "--pid", "--mount-proc", "--kill-child"];
    if !crate::lease_process::namespaces_allowed() {
        return;
    }
    for (faults, granted) in [("", false), ("no-witness", true)] {
        let mut fleet = Fleet::new(1, 1);
        fleet.sandbox.set("AGENT_FLEET_TEST_FAULTS", faults);
        let (started, end) = (fleet.sandbox.path("started"), fleet.sandbox.path("end"));
        let prompt = format!("launch {} {}", started.display(), end.display());
        let inner = fleet.sandbox.command(fleet.exec("inside", &prompt));
        let mut outer = Sandbox::tool("unshare");
        outer
            .args(options)
            .arg(inner.get_program())
            .args(inner.get_args())
            .env_clear();
        outer.envs(
            inner
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        let mut worker = outer
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("unshare starts");
        wait("the worker inside", || started.exists().then_some(()));
        let answer = fleet.sandbox.run(fleet.choose("other"));
        worker.kill().expect("a child of ours");
        worker.wait().expect("a child of ours");
        if granted {
            answer.success();
        } else {
            answer.refused("capacity");
            wait("the slot of the killed namespace", || {
                (fleet.sandbox.run(fleet.choose("other")).status == 0).then_some(())
            });
        }
    }
}

#[test]
fn a_choice_that_waited_for_maintenance_goes_by_the_registry_that_it_left() {
    let world = World::with(1);
    // Makes the locks.
    assert_eq!(world.exec("before", "say hi").status, 0);
    let lock = |name: &str| {
        let path = world
            .sandbox
            .path(format!("state/locks/{name}-scripted.lock"));
        std::fs::File::open(path).expect("a lock")
    };
    let (turnstile, provider) = (lock("turnstile"), lock("provider"));
    assert!(try_flock(&provider, Mode::Exclusive).expect("a lock"));
    let waiting = world.launch("late", "say hi");
    // It holds the turnstile while it waits for the provider: by then it has read the registry.
    wait("the choice to wait", || {
        let free = try_flock(&turnstile, Mode::Exclusive).expect("a lock");
        if free {
            unlock(&turnstile).expect("a lock");
        }
        (!free).then_some(())
    });
    let registry = std::fs::read_to_string(world.sandbox.path("config/accounts.toml"));
    let disabled = registry
        .expect("the registry")
        .replace("enabled = true", "enabled = false");
    world.sandbox.write("config/accounts.toml", disabled);
    unlock(&provider).expect("a lock");
    assert_eq!(
        waiting.wait(),
        2,
        "a worker was started on a disabled profile"
    );
    assert!(world.lease("late").is_none());
}

#[test]
fn a_drain_gets_in_within_a_second_while_64_selectors_hammer_the_provider() {
    let fleet = Fleet::new(PROFILES, CAP);
    fleet.sandbox.run(["profile", "verify", "--all"]).success();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let chosen = std::sync::atomic::AtomicU32::new(0);
    let took = std::thread::scope(|scope| {
        for selector in 0..64 {
            let (fleet, stop, chosen) = (&fleet, &stop, &chosen);
            scope.spawn(move || {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let task = format!("task-{selector}");
                    drop(fleet.sandbox.run(fleet.choose(&task)));
                    chosen.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    drop(fleet.sandbox.run(["lease", "release", "--task", &task]));
                }
            });
        }
        wait("the selectors", || {
            (chosen.load(std::sync::atomic::Ordering::Relaxed) > 64).then_some(())
        });
        let took: Vec<Duration> = (0..5)
            .map(|_| {
                let begun = Instant::now();
                let drain = ["profile", "drain", "codex-1", "--reason", "rest"];
                fleet.sandbox.run(drain).success();
                let took = begun.elapsed();
                fleet
                    .sandbox
                    .run(["profile", "undrain", "codex-1"])
                    .success();
                took
            })
            .collect();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        took
    });
    eprintln!("drains took {took:?} beside 64 selectors");
    // The programs of 64 selectors share the processors with it: on a loaded machine its start alone takes long.
    assert!(
        took.iter().min().expect("some") < &Duration::from_secs(1),
        "{took:?}"
    );
}
