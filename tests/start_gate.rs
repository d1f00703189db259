//! The start gate: workers that start together on an old login spend its refresh token once.

use std::time::Duration;

use agent_fleet::clock::Clock;
use agent_fleet::store::lock::{Locks, Mode, Name};
use camino::Utf8Path;
use jiff::Timestamp;

use crate::support::world::{Account, World, wait};

/// Four workers at once on a login that is about to expire; the server answers refreshes slowly and revokes
/// the account when a refresh token comes twice.
fn four_at_once(world: &World) -> Vec<i32> {
    world.change("one", |account| {
        account["refresh_latency_seconds"] = 0.8.into();
        account["reuse_revokes"] = true.into();
    });
    let workers: Vec<_> = ["a", "b", "c", "d"]
        .iter()
        .map(|task| world.launch(task, "say hi"))
        .collect();
    workers.into_iter().map(|worker| worker.wait()).collect()
}

fn old_login() -> World {
    World::new(&[Account::new("one").slots(4).expires_in(30)])
}

#[test]
fn four_starts_on_an_old_login_refresh_it_once_and_all_work() {
    let world = old_login();
    assert_eq!(four_at_once(&world), [0; 4]);
    assert_eq!(world.requests("refresh"), ["one ok"]);
    let turns: Vec<Timestamp> = world.times("turn");
    assert_eq!(turns.len(), 4);
    let spread = turns[3].duration_since(turns[0]);
    assert!(
        spread.as_secs() < 10,
        "the last turn came {spread:?} after the first"
    );
}

#[cfg(feature = "test-fakes")]
#[test]
fn without_the_gate_the_token_is_spent_twice() {
    let mut world = old_login();
    world
        .sandbox
        .set("AGENT_FLEET_TEST_FAULTS", "no-start-gate");
    four_at_once(&world);
    let refreshes = world.requests("refresh");
    assert!(
        refreshes.contains(&"one reused".to_owned()),
        "{refreshes:?}"
    );
}

/// A worker that waited for the gate's lock starts on the account that was proved, or not at all.
#[test]
fn a_login_that_is_replaced_while_a_start_waits_is_not_worked_on() {
    let world = old_login();
    let home = world.command(&["profile", "list"])["profiles"][0]["home"].clone();
    let state = world.sandbox.path("state");
    let clock = Clock::real();
    let locks = Locks::new(Utf8Path::from_path(&state).expect("UTF-8"), clock);
    let deadline = clock.deadline(Duration::from_secs(10));
    let name = Name::Start("one".parse().expect("a profile"));
    let guard = locks.take(&name, Mode::Exclusive, &deadline);
    let worker = world.start("a", "say hi");
    // Bound, it examines its profile and then does nothing but try for the lock. A busy machine keeps it from
    // sleeping long, so that it is seen with the lock's file will do as well.
    let mut asleep = 0;
    wait("a start that waits", || {
        let process = format!("/proc/{}", worker.pid);
        let descriptors = std::fs::read_dir(format!("{process}/fd")).ok()?;
        let tries = descriptors
            .flatten()
            .filter_map(|entry| std::fs::read_link(entry.path()).ok())
            .any(|file| file.ends_with("start-one.lock"));
        let status = std::fs::read_to_string(format!("{process}/status")).ok()?;
        let sleeps = status.contains("State:\tS");
        asleep = if sleeps { asleep + 1 } else { 0 };
        (tries || asleep == 20).then_some(())
    });
    world.log_in(home.as_str().expect("a path"), &Account::new("other"));
    drop(guard);
    assert_ne!(worker.wait(), 0);
    assert_eq!(world.requests("turn"), [""; 0]);
}
