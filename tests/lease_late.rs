//! A reservation that nobody came for in time, and a supervisor that comes all the same.

use serde_json::Value;

use crate::support::world::{Account, POOL, World, wait};

fn reserve(world: &World, task: &str) -> Value {
    let project = world.project.to_str().expect("UTF-8");
    let line = ["lease", "choose", "--pool", POOL, "--task", task];
    let line = line.into_iter().chain(["--workspace", project]);
    world.sandbox.run(line).success()
}

/// A world with one slot, in which the reservation of `late` has expired; its generation.
fn expired() -> (World, u64) {
    let world = World::new(&[Account::new("one").slots(1)]);
    world.command(&["config", "set", "settings.lease_ttl_seconds", "1"]);
    let first = reserve(&world, "late")["generation"].as_u64();
    wait("the reservation to expire", || {
        (world.lease("late")?["verdict"] == "dead").then_some(())
    });
    world.command(&["config", "set", "settings.lease_ttl_seconds", "60"]);
    (world, first.expect("a number"))
}

#[test]
fn a_reservation_that_expired_and_is_bound_late_never_takes_the_slot_of_the_next_owner() {
    let (world, first) = expired();
    let mut owner = world.start("owner", "hold go; say done");
    let held = world.lease("owner").expect("the owner's lease");
    assert!(held["generation"].as_u64() > Some(first), "{held}");
    let late = world.exec("late", "write late x").refused("capacity");
    let holder = &late["details"]["holders"][0];
    assert_eq!(
        (&holder["task"], &holder["profile"], &holder["pid"]),
        (&"owner".into(), &"one".into(), &owner.pid.into())
    );
    assert!(holder["age_seconds"].is_u64(), "{late}");
    assert!(!world.project.join("late").exists(), "it was launched");
    assert!(owner.ended().is_none(), "the owner lost its slot");
}

#[test]
fn of_two_supervisors_with_one_task_the_late_one_starts_nothing_and_the_generation_grows() {
    let (world, first) = expired();
    let second = reserve(&world, "late")["generation"].as_u64();
    assert!(second > Some(first), "a generation came twice");
    let mut owner = world.start("late", "hold go; say done");
    let held = world.lease("late").expect("the owner's lease");
    assert_eq!(held["generation"].as_u64(), second);
    let refusal = world.exec("late", "write late x").refused("task_owned");
    assert_eq!(refusal["details"]["pid"], owner.pid);
    assert!(!world.project.join("late").exists(), "it was launched");
    assert!(owner.ended().is_none(), "the owner lost its task");
}

#[test]
fn at_the_cap_the_refusal_names_task_pid_age_and_profile_of_each_holder() {
    let world = World::new(&[Account::new("one").slots(1), Account::new("two").slots(1)]);
    let worker = world.start("running", "sleep 600");
    reserve(&world, "reserved");
    let refusal = world.exec("more", "say more").refused("capacity");
    let holders = refusal["details"]["holders"].as_array().expect("a list");
    let of = |task: &str| {
        let found = holders.iter().find(|holder| holder["task"] == task);
        found.unwrap_or_else(|| panic!("{task} is not named: {refusal}"))
    };
    assert_eq!(holders.len(), 2, "{refusal}");
    assert_eq!(of("running")["pid"], worker.pid);
    assert_eq!(of("reserved")["pid"], Value::Null);
    for holder in holders {
        assert!(holder["age_seconds"].is_u64(), "{holder}");
        assert!(holder["profile"].is_string(), "{holder}");
    }
}
