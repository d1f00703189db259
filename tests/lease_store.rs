//! The lease store within one process: terms, times and caps.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agent_fleet::contract::lease::{State, Verdict};
use agent_fleet::error::code;
use agent_fleet::id::{ProviderKind, Task};
use agent_fleet::lease::holder::Holder;
use agent_fleet::lease::{Choice, Ended, Force, Hold, LeaseStore as _, Occupancy, Request};

use crate::support::lease_world::{task, world};
use crate::support::leases::{later, now, profile, reserve};

#[test]
fn the_same_terms_return_the_same_lease_and_others_are_named() {
    let world = world();
    let first = reserve(&world.store, &later("t"), &["a", "b"], 1).unwrap();
    assert!(!first.sticky);
    let again = reserve(&world.store, &later("t"), &["b"], 1).unwrap();
    assert!(again.sticky, "the task was given a second lease");
    assert_eq!(
        (again.lease.generation, &again.lease.profile),
        (first.lease.generation, &profile("a"))
    );
    for (what, request) in [
        (
            "workspace",
            Request {
                workspace: "/elsewhere".into(),
                ..later("t")
            },
        ),
        (
            "pool",
            Request {
                pool: Some("other".parse().unwrap()),
                ..later("t")
            },
        ),
        (
            "profile",
            Request {
                profile: Some(profile("b")),
                ..later("t")
            },
        ),
        (
            "provider",
            Request {
                provider: Some(ProviderKind::Codex),
                ..later("t")
            },
        ),
    ] {
        let error = reserve(&world.store, &request, &["a"], 1).unwrap_err();
        assert_eq!(error.code, code::TASK_CONFLICT);
        assert_eq!(error.details["differences"][0]["what"], what);
        assert_eq!(error.details["differences"].as_array().unwrap().len(), 1);
    }
    let any_pool = Request {
        pool: None,
        ..later("t")
    };
    assert!(reserve(&world.store, &any_pool, &["a"], 1).unwrap().sticky);
}

#[test]
fn a_bind_keeps_the_generation_and_adds_labels() {
    let world = world();
    let mut asked = later("t");
    asked.labels.insert("step".into(), "1".into());
    let reserved = reserve(&world.store, &asked, &["a"], 1).unwrap();
    assert_eq!(reserved.lease.verdict, Verdict::Reserved);
    let mut asked = now("t");
    asked.labels.insert("try".into(), "2".into());
    let bound = world.store.bind(&asked).unwrap();
    assert!(bound.witness.is_some());
    assert_eq!(bound.lease.generation, reserved.lease.generation);
    let found = world.store.find(&task("t")).unwrap().unwrap();
    assert_eq!(
        (found.state, found.verdict, found.pid),
        (State::Running, Verdict::Alive, Some(std::process::id()))
    );
    assert_eq!(found.labels.len(), 2, "{:?}", found.labels);
    let grant = world.store.lookup(task("t").key()).unwrap().unwrap();
    assert_eq!(grant.holder, Some(Holder::current().unwrap()));
    world.store.abandon(bound).unwrap();
    assert_eq!(world.store.find(&task("t")).unwrap(), None);
    assert_eq!(
        world.files(),
        ["epoch", "table"],
        "a lease left files behind"
    );
}

#[test]
fn binding_without_a_lease_uses_the_words_that_supervisors_match() {
    let world = world();
    let error = world.store.bind(&now("t 1")).unwrap_err();
    assert_eq!(
        (error.code, error.message.as_str()),
        (code::NOT_FOUND, "no lease for task: t 1")
    );
    let error = world.store.release(&task("t 1"), Force::No).unwrap_err();
    assert_eq!(error.message, "no lease for task: t 1");
    let _held = reserve(&world.store, &now("t"), &["a"], 1).unwrap();
    let error = reserve(&world.store, &now("t"), &["a"], 2).unwrap_err();
    let pid = std::process::id();
    assert_eq!(error.code, code::TASK_OWNED);
    assert_eq!(
        error.message,
        format!("task lease is already owned by live process {pid}")
    );
}

#[test]
fn a_full_profile_lists_its_holders_and_never_exceeds_its_cap() {
    let world = world();
    for name in ["one", "two"] {
        reserve(&world.store, &later(name), &["a"], 2).unwrap();
    }
    let error = reserve(&world.store, &later("three"), &["a"], 2).unwrap_err();
    assert_eq!(error.code, code::CAPACITY);
    let holders = error.details["holders"].as_array().unwrap();
    assert_eq!(holders.len(), 2);
    assert_eq!(holders[0]["task"], "one");
    // A pick that takes a full profile all the same is stopped by the store.
    let mut blind = |_: &Occupancy| {
        Ok(Choice::Take {
            profile: profile("a"),
            provider: ProviderKind::Scripted,
            cap: 2,
        })
    };
    let error = world
        .store
        .reserve(&later("three"), &mut blind)
        .unwrap_err();
    assert_eq!(error.code, code::CAPACITY);
    assert_eq!(error.details["holders"].as_array().unwrap().len(), 2);
}

#[test]
fn an_expired_reservation_frees_its_slot_in_the_same_call() {
    let world = world();
    let short = Request {
        hold: Hold::Later(Duration::ZERO),
        ..later("short")
    };
    reserve(&world.store, &short, &["a"], 1).unwrap();
    assert_eq!(world.store.occupancy().unwrap().live(&profile("a")), 0);
    let next = reserve(&world.store, &later("next"), &["a"], 1).unwrap();
    assert_eq!(next.active_before, 0);
    let reclaimed = world.store.reclaimed();
    assert_eq!(reclaimed.len(), 1);
    assert_eq!(reclaimed[0].ended, Ended::Expired);
    assert_eq!(reclaimed[0].lease.task.as_deref(), Some("short"));
    assert!(world.store.reclaimed().is_empty(), "told twice");
}

#[test]
fn a_reservation_is_renewed_by_the_next_choose() {
    let world = world();
    let short = Request {
        hold: Hold::Later(Duration::from_secs(20)),
        ..later("t")
    };
    let first = reserve(&world.store, &short, &["a"], 1).unwrap();
    let again = reserve(&world.store, &later("t"), &["a"], 1).unwrap();
    assert!(again.lease.expires_at > first.lease.expires_at);
}

#[test]
fn a_forced_release_frees_the_slot_but_not_the_task() {
    let world = world();
    let held = reserve(&world.store, &now("t"), &["a"], 1).unwrap();
    let error = world.store.release(&task("t"), Force::No).unwrap_err();
    assert_eq!(error.code, code::LEASE_ACTIVE);
    assert_eq!(
        error.hint.as_deref(),
        Some("agent-fleet lease release --task t --force")
    );
    let released = world.store.release(&task("t"), Force::Yes).unwrap();
    assert_eq!(
        (released.profile, released.verdict),
        (profile("a"), Verdict::Alive)
    );
    assert!(world.store.list().unwrap().leases.is_empty());
    assert_eq!(world.store.lookup(task("t").key()).unwrap(), None);
    reserve(&world.store, &later("other"), &["a"], 1).unwrap();
    let error = reserve(&world.store, &later("t"), &["b"], 1).unwrap_err();
    assert_eq!(error.code, code::TASK_OWNED);
    assert!(
        error
            .message
            .starts_with("task lease is already owned by live process "),
        "{}",
        error.message
    );
    let again = world.store.release(&task("t"), Force::Yes).unwrap_err();
    assert_eq!(again.code, code::NOT_FOUND);
    held.witness.unwrap().give_up();
    reserve(&world.store, &later("t"), &["b"], 1).unwrap();
}

#[test]
fn the_last_pick_survives_the_release() {
    let world = world();
    let first = reserve(&world.store, &later("t"), &["a"], 1).unwrap();
    world.store.release(&task("t"), Force::No).unwrap();
    let occupancy = world.store.occupancy().unwrap();
    assert_eq!(occupancy.last_pick(&profile("a")), first.lease.generation);
    assert_eq!(occupancy.live(&profile("a")), 0);
}

#[test]
fn a_table_becomes_short_again_when_its_leases_have_ended() {
    const BURST: usize = 200;
    let world = world();
    let length = || std::fs::metadata(world.table()).expect("a table").len() / 256 - 1;
    let stays = reserve(&world.store, &later("stays"), &["a"], 1000).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Who looks without the lock sees the table at any moment of its change.
        let watcher = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let listing = world.store.list().expect("the table can be read");
                let mut tasks = listing
                    .leases
                    .iter()
                    .filter_map(|lease| lease.task.as_deref());
                assert!(tasks.any(|task| task == "stays"), "a lease was missed");
                assert!(listing.damaged.is_empty(), "a record seems damaged");
            }
        });
        for _ in 0..3 {
            for index in 0..BURST {
                reserve(
                    &world.store,
                    &later(&format!("burst-{index}")),
                    &["b"],
                    1000,
                )
                .unwrap();
            }
            assert!(length() > BURST as u64, "the burst was not in the table");
            for index in 0..BURST {
                let task = task(&format!("burst-{index}"));
                world.store.release(&task, Force::No).unwrap();
            }
            assert!(length() < 70, "{} records are left of three", length());
        }
        over.store(true, Ordering::Relaxed);
        watcher.join().expect("the watcher saw nothing wrong");
    });
    let occupancy = world.store.occupancy().unwrap();
    assert_eq!(occupancy.live(&profile("a")), 1);
    let last = reserve(&world.store, &later("last"), &["b"], 1000).unwrap();
    assert!(last.lease.generation > stays.lease.generation + 3 * BURST as u64 - 1);
}

#[test]
fn a_probe_holds_every_slot_of_its_profile() {
    let world = world();
    let me = Holder::current().unwrap();
    let scripted = ProviderKind::Scripted;
    reserve(&world.store, &later("t"), &["a"], 3).unwrap();
    let error = world.store.probe(&profile("a"), scripted, me).unwrap_err();
    assert_eq!(error.code, code::LEASE_ACTIVE);
    world.store.release(&task("t"), Force::No).unwrap();
    let probe = world.store.probe(&profile("a"), scripted, me).unwrap();
    let error = reserve(&world.store, &later("t"), &["a"], 3).unwrap_err();
    assert_eq!(error.code, code::CAPACITY);
    assert_eq!(
        error.details["holders"][0]["task"],
        Task::probe(&profile("a")).as_str()
    );
    world.store.abandon(probe).unwrap();
    reserve(&world.store, &later("t"), &["a"], 3).unwrap();
    let named = reserve(&world.store, &later("@probe/a"), &["a"], 3).unwrap_err();
    assert_eq!(named.code, code::USAGE);
}
