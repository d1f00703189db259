//! `lease choose --wait` with real processes: the order of turns, what wakes a waiter, what ends a wait.

use std::time::{Duration, Instant};

use agent_fleet::clock::Clock;
use agent_fleet::id::ProviderKind;
use agent_fleet::store::lock::{Locks, Mode, Name};
use rustix::process::Signal;
use serde_json::Value;

use crate::support::ran::Ran;
use crate::support::waiter::{Waiter, waiting};
use crate::support::world::{Account, POOL, World, wait};

/// A world whose clock is moved by a file while processes run.
fn world(accounts: &[Account]) -> World {
    let mut world = World::new(accounts);
    world.command(&["config", "set", "settings.lease_ttl_seconds", "600"]);
    let file = world.sandbox.write("now", "+0");
    let file = file.to_str().expect("UTF-8");
    world
        .sandbox
        .set("AGENT_FLEET_TEST_NOW", format!("@{file}"));
    world
}

fn one(slots: u32) -> World {
    world(&[Account::new("one").slots(slots)])
}

fn set_clock(world: &World, ahead: u32) {
    // Replaced, so that nobody reads half of it.
    let new = world.sandbox.write("now.new", format!("+{ahead}"));
    #[expect(clippy::disallowed_methods, reason = "test data")]
    std::fs::rename(new, world.sandbox.path("now")).expect("a file in the sandbox");
}

fn direct(world: &World, task: &str, words: &[&str]) -> Ran {
    let project = world.project.to_str().expect("UTF-8");
    let mut line = vec!["lease", "choose", "--pool", POOL, "--task", task];
    line.extend(["--workspace", project]);
    line.extend(words);
    world.sandbox.run(line)
}

fn release(world: &World, task: &str) {
    world.command(&["lease", "release", "--task", task]);
}

fn queue_up(world: &World, task: &str, words: &[&str]) -> Waiter {
    Waiter::queue_up(&world.sandbox, POOL, task, words)
}

/// Puts a profile to rest for this long, as a worker that met its limit does.
fn exhaust(world: &World, profile: &str, seconds: u32) {
    let project = world.project.to_str().expect("UTF-8");
    let mut line = vec!["exec", "--task", "exhausting", "--pool", POOL];
    line.extend(["--profile", profile, "--workspace", project, "--", "-p"]);
    let script = format!("limit quota {seconds}");
    line.push(&script);
    let ran = world.sandbox.run(line);
    assert_eq!(ran.status, 1, "{ran:?}");
}

fn leases(world: &World) -> Vec<Value> {
    let list = world.command(&["lease", "list"]);
    list["leases"].as_array().expect("a list").clone()
}

#[test]
fn a_slot_that_is_released_goes_to_the_one_who_waits_and_its_ticket_goes() {
    let world = one(1);
    direct(&world, "holder", &[]).success();
    let changes = world.sandbox.write("changes", "");
    let file = std::fs::File::options().append(true).open(&changes);
    let mut watch = world
        .sandbox
        .command(["lease", "watch"])
        .stdout(file.expect("a file"))
        .spawn()
        .expect("the program starts");
    let told = |wanted: &str| {
        wait(&format!("the watch to tell of {wanted}"), || {
            let text = std::fs::read_to_string(&changes).expect("a file");
            text.contains(wanted).then_some(())
        });
    };
    told(r#""waiting":[]"#);
    let mut waiter = queue_up(&world, "waiter", &[]);
    told(r#""change":"new","kind":"waiting""#);
    direct(&world, "other", &[]).refused("capacity");
    release(&world, "holder");
    let (status, selection) = waiter.answer();
    assert_eq!(status, 0, "{selection}");
    assert_eq!(
        (&selection["profile"], &selection["decision_reason"]),
        (&"one".into(), &"quota".into())
    );
    told(r#""change":"gone","kind":"waiting""#);
    drop(watch.kill());
    watch.wait().expect("a child");
    assert!(waiting(&world.sandbox).is_empty());
    let left = std::fs::read_dir(world.sandbox.path("state/queue/crew"));
    assert_eq!(left.expect("the queue's directory").count(), 0);
    let notes = waiter.notes();
    assert!(
        notes.contains("waiting for a profile of pool crew"),
        "{notes}"
    );
}

#[test]
fn a_worker_that_ends_wakes_the_one_who_waits_at_once() {
    let world = one(1);
    let holder = world.start("holder", "sleep 600");
    let mut waiter = queue_up(&world, "waiter", &[]);
    wait("the estimate", || {
        waiter.notes().contains("1 worker to end").then_some(())
    });
    holder.kill();
    assert_eq!(waiter.profile(), "one");
}

#[test]
fn a_reservation_that_expires_goes_to_the_one_who_waits() {
    let world = one(1);
    world.command(&["config", "set", "settings.lease_ttl_seconds", "5"]);
    direct(&world, "holder", &[]).success();
    assert_eq!(queue_up(&world, "waiter", &[]).profile(), "one");
}

#[test]
fn the_end_of_a_drain_is_waited_for() {
    let world = one(1);
    world.command(&["profile", "drain", "one", "--reason", "a look"]);
    let mut waiter = queue_up(&world, "waiter", &[]);
    world.command(&["profile", "undrain", "one"]);
    assert_eq!(waiter.profile(), "one");
}

#[test]
fn what_only_a_person_can_change_is_refused_at_once_and_said() {
    let world = one(1);
    let refused = |code: &str| {
        let begun = Instant::now();
        let refusal = direct(&world, "t", &["--wait"]).refused(code);
        assert!(begun.elapsed() < Duration::from_secs(5), "it waited");
        refusal["error"].as_str().expect("a sentence").to_owned()
    };
    world.command(&["profile", "disable", "one"]);
    let said = refused("profile_disabled");
    assert!(said.ends_with("waiting does not change that"), "{said}");
    let elsewhere = world.sandbox.git_project("elsewhere");
    let elsewhere = elsewhere.to_str().expect("UTF-8");
    let mut line = vec!["lease", "choose", "--wait", "--task", "t", "--pool"];
    line.extend([POOL, "--workspace", elsewhere]);
    world.sandbox.run(&line).refused("workspace_untrusted");
    line[6] = "nobody";
    world.sandbox.run(&line).refused("not_found");
    direct(&world, "t", &["--timeout", "1"]).refused("usage");
    assert!(waiting(&world.sandbox).is_empty());
}

#[test]
fn a_wait_that_becomes_vain_ends() {
    let world = one(1);
    direct(&world, "holder", &[]).success();
    let mut waiter = queue_up(&world, "waiter", &[]);
    world.command(&["profile", "disable", "one"]);
    let (status, refusal) = waiter.answer();
    assert_eq!((status, &refusal["code"]), (2, &"profile_disabled".into()));
}

#[test]
fn the_timeout_ends_a_wait_with_the_refusal_that_holds_then() {
    let world = one(1);
    direct(&world, "holder", &[]).success();
    let begun = Instant::now();
    let refusal = direct(&world, "waiter", &["--wait", "--timeout", "1"]).refused("capacity");
    assert!(
        begun.elapsed() >= Duration::from_secs(1),
        "it gave up early"
    );
    assert_eq!(refusal["details"]["holders"][0]["task"], "holder");
    assert!(refusal["retry_at"].is_string(), "{refusal}");
    release(&world, "holder");
    exhaust(&world, "one", 3600);
    let refusal = direct(&world, "waiter", &["--wait", "--timeout", "0"]).refused("cooldown");
    assert!(refusal["retry_at"].is_string(), "{refusal}");
    assert!(waiting(&world.sandbox).is_empty());
}

#[test]
fn a_killed_waiter_leaves_a_ticket_that_the_next_command_sweeps() {
    let world = one(1);
    direct(&world, "holder", &[]).success();
    let mut waiter = queue_up(&world, "waiter", &[]);
    waiter.kill();
    let tickets = || {
        let folder = std::fs::read_dir(world.sandbox.path("state/queue/crew"));
        folder.expect("the queue's directory").count()
    };
    assert_eq!(tickets(), 1, "a killed waiter cleaned up");
    release(&world, "holder");
    direct(&world, "next", &[]).success();
    assert_eq!(tickets(), 0, "the ticket of the dead stayed");
}

#[test]
fn a_wait_of_hours_for_the_only_account_outlasts_its_cooldown_and_asks_nobody() {
    let world = one(1);
    exhaust(&world, "one", 5 * 3600);
    let asked = world.requests("usage").len();
    let mut waiter = queue_up(&world, "waiter", &[]);
    wait("the estimate", || {
        let notes = waiter.notes();
        let told = |span: &str| notes.contains(&format!("the first may come free in {span} ("));
        (told("5 h") || told("4 h 59 min")).then_some(())
    });
    // Hours go by in steps; each is noticed and none of them ends the wait.
    for hour in 1..5 {
        set_clock(&world, hour * 3600);
        Clock::real().pause(Duration::from_millis(600));
        assert!(waiter.waits(), "it gave up after {hour} hours");
    }
    assert_eq!(world.requests("usage").len(), asked, "it asked the server");
    set_clock(&world, 5 * 3600 + 10);
    assert_eq!(waiter.profile(), "one");
}

#[test]
fn a_wait_costs_next_to_nothing() {
    let world = one(1);
    direct(&world, "holder", &[]).success();
    let mut waiter = queue_up(&world, "waiter", &[]);
    let used = |pid: u32| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).expect("a process");
        let nanoseconds = text.split(' ').next().and_then(|word| word.parse().ok());
        Duration::from_nanos(nanoseconds.expect("a number"))
    };
    let before = used(waiter.pid());
    Clock::real().pause(Duration::from_secs(3));
    let spent = used(waiter.pid()).saturating_sub(before);
    println!("three seconds of waiting cost {spent:?}");
    assert!(spent < Duration::from_millis(300), "{spent:?}");
    assert!(waiter.waits());
}

#[test]
fn a_request_for_something_else_is_not_kept_waiting_by_the_one_before_it() {
    let world = world(&[Account::new("one").slots(1), Account::new("two").slots(1)]);
    direct(&world, "first", &["--profile", "one"]).success();
    direct(&world, "second", &["--profile", "two"]).success();
    let mut picky = queue_up(&world, "picky", &["--profile", "one"]);
    let mut any = queue_up(&world, "any", &[]);
    release(&world, "second");
    assert_eq!(any.profile(), "two");
    // The other profile is the picky one's alone, and a later direct request does not get it.
    release(&world, "first");
    let late = direct(&world, "late", &[]);
    assert_eq!(picky.profile(), "one");
    late.refused("capacity");
}

#[test]
fn a_profile_of_two_pools_goes_to_the_oldest_of_both() {
    let world = world(&[Account::new("one").slots(1).pools(&[POOL, "night"])]);
    direct(&world, "holder", &[]).success();
    let mut night = Waiter::queue_up(&world.sandbox, "night", "night", &[]);
    let mut day = queue_up(&world, "day", &[]);
    release(&world, "holder");
    direct(&world, "late", &[]).refused("capacity");
    assert_eq!(night.profile(), "one");
    assert!(day.waits());
}

#[test]
fn a_crowd_for_one_slot_is_served_one_by_one_in_the_order_of_its_queue() {
    const CROWD: usize = 12;
    let world = one(1);
    direct(&world, "holder", &[]).success();
    // All at once, among direct requests that sweep and look.
    let mut waiters: Vec<Waiter> = (0..CROWD)
        .map(|number| Waiter::start(&world.sandbox, POOL, &format!("w{number}"), &[]))
        .collect();
    let queue = wait("everybody to queue up", || {
        direct(&world, "late", &[]).refused("capacity");
        let queue = waiting(&world.sandbox);
        (queue.len() == CROWD).then_some(queue)
    });
    let mut last = 0;
    let mut holder = "holder".to_owned();
    for place in &queue {
        let task = place["task"].as_str().expect("a task");
        release(&world, &holder);
        direct(&world, "late", &[]).refused("capacity");
        let lease = wait(&format!("{task} to be served"), || {
            let mut held = leases(&world);
            assert!(held.len() <= 1, "above the cap: {held:?}");
            held.pop()
        });
        assert_eq!(lease["task"], task, "out of turn");
        let generation = lease["generation"].as_u64().expect("a number");
        assert!(generation > last, "a generation came twice");
        last = generation;
        task.clone_into(&mut holder);
    }
    for waiter in &mut waiters {
        assert_eq!(waiter.profile(), "one");
    }
}

/// Stops a waiter while it holds no lock that others need: anything that is stopped with one is in the way.
fn stop(world: &World, waiter: &Waiter) {
    let state = world.sandbox.path("state");
    let clock = Clock::real();
    let locks = Locks::new(state.to_str().expect("UTF-8").into(), clock);
    let deadline = clock.deadline(Duration::from_secs(8));
    let take = |name| {
        locks
            .take(&name, Mode::Exclusive, &deadline)
            .expect("a lock")
    };
    let guards = (
        take(Name::Leases),
        take(Name::Snapshot(ProviderKind::Scripted)),
    );
    waiter.signal(Signal::STOP);
    drop(guards);
}

/// Ten that wait for three profiles at rest, one killed and one stopped; which task got which profile.
fn ten_waiters_and_three_resets(faults: &str) -> Vec<String> {
    let mut world = world(&[
        Account::new("one").slots(3),
        Account::new("two").slots(3),
        Account::new("three").slots(3),
    ]);
    for (profile, seconds) in [("one", 1000), ("two", 2000), ("three", 3000)] {
        exhaust(&world, profile, seconds);
    }
    world.sandbox.set("AGENT_FLEET_TEST_FAULTS", faults);
    let mut waiters: Vec<Waiter> = (0..10)
        .map(|number| queue_up(&world, &format!("w{number}"), &[]))
        .collect();
    waiters[2].kill();
    stop(&world, &waiters[4]);
    wait("the stopped one's turn to pass", || {
        let queue = waiting(&world.sandbox);
        let stopped = queue.iter().find(|one| one["task"] == "w4");
        (stopped.expect("it waits")["attending"] == false).then_some(())
    });
    let mut problems = Vec::new();
    let turns = [
        (1010, "one", [0, 1, 3]),
        (2010, "two", [4, 5, 6]),
        (3010, "three", [7, 8, 9]),
    ];
    for (round, (time, profile, turns)) in turns.into_iter().enumerate() {
        set_clock(&world, time);
        // A direct request that comes in between must not overtake.
        let late = direct(&world, &format!("late-{round}"), &[]);
        if late.status == 0 {
            problems.push(format!("a direct request overtook: {}", late.stdout));
        }
        if !problems.is_empty() {
            return problems;
        }
        // By the time it looks, those who wait may have taken all slots: then the others' rest is the reason.
        let taken = late.stdout.contains("all_exhausted");
        late.refused(if taken { "all_exhausted" } else { "capacity" });
        for turn in turns {
            assert_eq!(waiters[turn].profile(), profile, "w{turn}");
        }
        for lease in ["one", "two", "three"] {
            let held = leases(&world);
            let held = held.iter().filter(|held| held["profile"] == lease);
            assert!(held.count() <= 3, "above the cap of {lease}");
        }
        if round == 0 {
            for waiter in &mut waiters[5..] {
                assert!(waiter.waits());
            }
            waiters[4].signal(Signal::CONT);
            wait("the continued one to take its turn again", || {
                let queue = waiting(&world.sandbox);
                (queue[0]["task"] == "w4" && queue[0]["attending"] == true).then_some(())
            });
        }
    }
    assert!(waiting(&world.sandbox).is_empty());
    problems
}

#[test]
fn ten_waiters_are_served_in_order_over_three_resets_and_nobody_overtakes() {
    assert_eq!(ten_waiters_and_three_resets(""), [""; 0]);
}

#[test]
fn the_waiters_test_sees_what_the_queue_prevents() {
    let problems = ten_waiters_and_three_resets("no-queue");
    assert!(
        !problems.is_empty(),
        "without the queue nobody overtook: the test proves nothing"
    );
}

#[test]
fn a_registry_that_is_being_saved_ends_no_wait_and_one_that_stays_broken_does() {
    let world = one(1);
    direct(&world, "holder", &[]).success();
    let registry = world.sandbox.path("config/accounts.toml");
    let whole = std::fs::read_to_string(&registry).expect("the registry");
    let mut waiter = queue_up(&world, "waiter", &[]);
    world.sandbox.write("config/accounts.toml", "version = [");
    direct(&world, "other", &[]).refused("config_invalid");
    // Four looks of the waiter.
    let looked = Instant::now() + Duration::from_secs(1);
    wait("the waiter to look", || {
        let ended = !waiter.waits();
        (ended || Instant::now() > looked).then_some(())
    });
    assert!(waiter.waits(), "{}", waiter.notes());
    world.sandbox.write("config/accounts.toml", &whole);
    release(&world, "holder");
    assert_eq!(waiter.profile(), "one");
    let mut late = queue_up(&world, "late", &[]);
    world.sandbox.write("config/accounts.toml", "version = [");
    let (status, refusal) = late.answer();
    assert_eq!((status, &refusal["code"]), (2, &"config_invalid".into()));
}
