//! The lease store within one process: terms, times, damage and loss.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agent_fleet::contract::lease::{State, Verdict};
use agent_fleet::env::Faults;
use agent_fleet::error::code;
use agent_fleet::id::{ProviderKind, Task};
use agent_fleet::lease::holder::Holder;
use agent_fleet::lease::{
    Choice, Ended, Force, Hold, LeaseStore as _, Occupancy, Request, TableStore,
};

use crate::support::leases::{later, now, profile, reserve, store};

struct World {
    directory: tempfile::TempDir,
    store: TableStore,
}

fn world() -> World {
    let directory = tempfile::tempdir().expect("a directory");
    let store = store(
        directory.path().to_str().expect("an UTF-8 path"),
        Faults::default(),
    );
    World { directory, store }
}

impl World {
    fn table(&self) -> PathBuf {
        self.directory.path().join("leases/table")
    }

    fn files(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.directory.path().join("leases"))
            .expect("a directory")
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }

    fn open_table(&self) -> File {
        let table = File::options().read(true).write(true).open(self.table());
        table.expect("a table")
    }

    /// Changes the header and seals it again.
    fn rewrite_header(&self, change: impl FnOnce(&mut [u8])) {
        let file = self.open_table();
        let mut header = [0; 256];
        file.read_exact_at(&mut header, 0).expect("a header");
        change(&mut header);
        let sum = crc32fast::hash(&header[..252]);
        header[252..].copy_from_slice(&sum.to_le_bytes());
        file.write_all_at(&header, 0).expect("room for it");
    }

    /// Flips bits of a byte of the table; records of 256 bytes follow a header of 256.
    fn damage(&self, place: u64) {
        let file = self.open_table();
        let mut was = [0];
        file.read_exact_at(&mut was, place).expect("a byte there");
        file.write_all_at(&[was[0] ^ 0x5a], place)
            .expect("room for it");
    }
}

fn task(name: &str) -> Task {
    name.parse().expect("a task")
}

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
