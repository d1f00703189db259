//! The lease store with a damaged, lost or foreign table: no live slot is given away, and nothing is overwritten.

use std::os::unix::fs::FileExt as _;

use agent_fleet::error::code;
use agent_fleet::lease::{Force, LeaseStore as _};

use crate::support::lease_world::{task, world};
use crate::support::leases::{later, now, profile, reserve};

#[test]
fn lost_details_never_lose_the_lease() {
    let world = world();
    let lease = reserve(&world.store, &later("t"), &["a"], 1).unwrap().lease;
    let name = format!("leases/{}.{}.json", task("t").key().hex(), lease.generation);
    std::fs::remove_file(world.directory.path().join(name)).unwrap();
    let found = world.store.find(&task("t")).unwrap().unwrap();
    assert!(found.details_lost && found.task.is_none());
    assert!(
        reserve(&world.store, &later("t"), &["a"], 1)
            .unwrap()
            .sticky
    );
    world.store.bind(&now("t")).unwrap();
}

#[test]
fn a_damaged_record_affects_its_profile_and_task_alone_until_it_is_settled() {
    let world = world();
    reserve(&world.store, &later("broken"), &["a"], 1).unwrap();
    world.damage(256 + 90);
    let before = std::fs::read(world.table()).unwrap();
    let error = reserve(&world.store, &later("broken"), &["b"], 1).unwrap_err();
    assert_eq!(error.code, code::RECORD_DAMAGED);
    let settle = "agent-fleet lease release --record 0 --force";
    assert_eq!(error.hint.as_deref(), Some(settle));
    let full = reserve(&world.store, &later("other"), &["a"], 1).unwrap_err();
    assert_eq!(
        full.code,
        code::CAPACITY,
        "it no longer counts against its profile"
    );
    assert_eq!(
        std::fs::read(world.table()).unwrap(),
        before,
        "it was overwritten"
    );
    reserve(&world.store, &later("other"), &["b"], 1).unwrap();
    let listing = world.store.list().unwrap();
    assert_eq!(listing.damaged.len(), 1);
    assert_eq!(listing.damaged[0].profile, Some(profile("a")));
    assert_eq!(listing.damaged[0].task.as_deref(), Some("broken"));
    assert_eq!(listing.damaged[0].settle, settle);
    assert_eq!(world.store.settle(1).unwrap_err().code, code::NOT_FOUND);
    world.store.settle(0).unwrap();
    reserve(&world.store, &later("broken"), &["a"], 1).unwrap();
}

#[test]
fn a_damaged_record_keeps_its_slot_whatever_of_it_is_broken() {
    let record = |at: usize, bytes: &[u8]| (256 + at, bytes.to_vec());
    for (broken, (at, bytes)) in [
        ("a profile that is none", record(120, b";")),
        ("another profile's name", record(120, b"b")),
        ("the length of the name", record(2, &[9])),
        ("the task", record(8, &[0; 32])),
        ("the generation", record(56, &[0xee; 8])),
        ("everything", record(0, &[0xff; 256])),
    ] {
        let world = world();
        let held = reserve(&world.store, &now("live"), &["a"], 1).unwrap();
        let table = world.open_table();
        table.write_all_at(&bytes, at as u64).expect("room for it");
        let error = reserve(&world.store, &later("new"), &["a"], 1).unwrap_err();
        assert_eq!(error.code, code::CAPACITY, "{broken}: given away");
        assert_eq!(
            error.details["damaged"][0]["settle"], "agent-fleet lease release --record 0 --force",
            "{broken}: nobody could tell who has the slot"
        );
        let used = world.store.occupancy().unwrap();
        assert_eq!(used.live(&profile("a")), 1, "{broken}");
        reserve(&world.store, &later("new"), &["c"], 1).unwrap();
        let damaged = world.store.list().unwrap().damaged;
        assert_eq!(damaged.len(), 1, "{broken}");
        if broken.contains("name") || broken.contains("profile") {
            assert_eq!(damaged[0].profile, Some(profile("a")), "{broken}");
        }
        held.witness.unwrap().give_up();
        world.store.settle(0).unwrap();
        reserve(&world.store, &later("more"), &["a"], 1).unwrap();
    }
}

#[test]
fn a_table_that_is_cut_right_after_a_grant_gives_no_live_slot_away() {
    // The first record of a table; one behind the last pick; and one that no other stands before.
    for grants in [&["a"][..], &["a", "a"], &["a", "a", "b"]] {
        let world = world();
        let held: Vec<_> = grants
            .iter()
            .enumerate()
            .map(|(at, profile)| {
                let task = format!("t{at}");
                reserve(&world.store, &now(&task), &[*profile], 2).unwrap()
            })
            .collect();
        let running = |at: &u64| {
            let mut state = [0];
            world.open_table().read_exact_at(&mut state, *at).unwrap();
            state == [2]
        };
        let length = std::fs::metadata(world.table()).unwrap().len();
        let last = (256..length).step_by(256).filter(running).last().unwrap();
        world.open_table().set_len(last).unwrap();
        for profile in ["a", "b"] {
            let taken = grants.iter().filter(|it| **it == profile).count();
            let cap = u32::try_from(taken).unwrap();
            let error = reserve(&world.store, &later("new"), &[profile], cap).unwrap_err();
            assert_eq!(error.code, code::CAPACITY, "{grants:?}: given away");
        }
        drop(held);
    }
}

#[test]
fn a_lost_or_broken_table_gives_no_live_slot_away_and_no_generation_twice() {
    for loss in ["removed", "header", "cut"] {
        let world = world();
        let held = reserve(&world.store, &now("live"), &["a"], 1).unwrap();
        let last = reserve(&world.store, &later("waiting"), &["b"], 1).unwrap();
        reserve(&world.store, &later("more"), &["b"], 9).unwrap();
        match loss {
            "removed" => std::fs::remove_file(world.table()).unwrap(),
            "header" => world.damage(20),
            _ => world.open_table().set_len(256).unwrap(),
        }
        let error = reserve(&world.store, &later("new"), &["a"], 1).unwrap_err();
        assert_eq!(
            error.code,
            code::CAPACITY,
            "{loss}: its slot was given away"
        );
        let error = reserve(&world.store, &now("live"), &["b"], 1).unwrap_err();
        assert_eq!(
            error.code,
            code::TASK_OWNED,
            "{loss}: its task was given away"
        );
        let next = reserve(&world.store, &later("waiting"), &["b"], 1).unwrap();
        assert!(next.lease.generation > last.lease.generation, "{loss}");
        let kept = world.files().iter().any(|name| name == "table.damaged-2");
        assert_eq!(kept, loss != "removed", "{loss}: {:?}", world.files());
        held.witness.unwrap().give_up();
        reserve(&world.store, &later("new"), &["a"], 1).unwrap();
    }
}

#[test]
fn a_table_of_another_boot_is_over_and_its_dead_are_reported() {
    let world = world();
    let held = reserve(&world.store, &now("old"), &["a"], 1).unwrap();
    world.rewrite_header(|header| header[16..32].fill(7));
    drop(held);
    assert!(world.store.list().unwrap().leases.is_empty());
    let next = reserve(&world.store, &later("new"), &["a"], 1).unwrap();
    assert_eq!(next.lease.generation >> 32, 2, "the epoch was not raised");
    let ended = world.store.reclaimed();
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0].lease.task.as_deref(), Some("old"));
    assert_eq!(
        ended[0].lease.boot_id,
        "07070707-0707-0707-0707-070707070707"
    );
}

#[test]
fn a_newer_table_is_refused_and_left_alone() {
    let world = world();
    reserve(&world.store, &later("t"), &["a"], 1).unwrap();
    world.rewrite_header(|header| header[8] = 9);
    let bytes = std::fs::read(world.table()).unwrap();
    for error in [
        reserve(&world.store, &later("u"), &["a"], 9).unwrap_err(),
        world.store.release(&task("t"), Force::Yes).unwrap_err(),
        world.store.list().unwrap_err(),
    ] {
        assert_eq!(error.code, code::NEWER_FORMAT);
    }
    assert_eq!(std::fs::read(world.table()).unwrap(), bytes);
}
