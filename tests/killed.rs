//! A shell supervisor that kills `lease choose` after its ten seconds, whatever the command was waiting for just then:
//! no lock stays, no slot is lost, and every file is whole.

use std::fs::File;
use std::process::{Child, Stdio};
use std::time::Duration;

use agent_fleet::clock::Clock;
use agent_fleet::store::lock::{Mode, try_flock, unlock};
use serde_json::Value;

use crate::support::fleet::Fleet;
use crate::support::sandbox::Sandbox;
use crate::support::world::{Account, POOL, World, wait};

/// Every file under its final name is whole, and no temporary one of a killed writer is there.
fn sound(sandbox: &Sandbox) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut folders = vec![sandbox.path("state")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a directory").flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            } else if name.starts_with(".tmp-")
                // Killed between two system calls, before the lock that tells it is dead; swept after an hour.
                && entry.metadata().is_ok_and(|file| file.len() > 0)
            {
                wrong.push(format!("litter: {}", path.display()));
            } else if path
                .extension()
                .is_some_and(|extension| extension == "json")
            {
                let text = std::fs::read(&path).expect("a file");
                if serde_json::from_slice::<Value>(&text).is_err() {
                    wrong.push(format!("does not parse: {}", path.display()));
                }
            }
        }
    }
    wrong
}

#[test]
fn a_choose_that_is_killed_at_any_moment_leaves_no_lock_no_slot_and_no_broken_file() {
    let fleet = Fleet::new(2, 2);
    let lease_ttl = ["config", "set", "settings.lease_ttl_seconds", "1"];
    fleet.sandbox.run(lease_ttl).success();
    fleet.sandbox.run(["profile", "verify", "--all"]).success();
    let mut killed = 0;
    for round in 0..160 {
        if round % 20 == 0 {
            // Everything is asked and written anew, so that each kill finds something to break.
            let snapshot = fleet.sandbox.path("state/snapshot/codex");
            drop(std::fs::remove_file(snapshot));
        }
        let mut line = fleet.choose(&format!("task-{}", round % 6));
        if round % 3 == 0 {
            line.extend(["--wait", "--timeout", "5"].map(str::to_owned));
        }
        let mut command = fleet.sandbox.command(line);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the program starts");
        Clock::real().pause(Duration::from_micros(round * 7_919 % 25_000));
        killed += u32::from(child.try_wait().expect("a child").is_none());
        child.kill().expect("a child of ours");
        child.wait().expect("a child of ours");
    }
    assert!(
        killed > 20,
        "only {killed} were killed: that proves nothing"
    );
    // The reservations of the dead end by themselves, and nobody holds a lock.
    wait("the last reservation's end", || {
        let list = fleet.sandbox.run(["lease", "list"]).success();
        let leases = list["leases"].as_array().expect("a list");
        let over = leases.iter().all(|lease| lease["verdict"] == "dead");
        over.then_some(())
    });
    fleet.sandbox.run(["profile", "verify", "--all"]).success();
    for slot in 0..4 {
        fleet
            .sandbox
            .run(fleet.choose(&format!("refill-{slot}")))
            .success();
    }
    let list = fleet.sandbox.run(["lease", "list"]).success();
    assert_eq!(list["waiting"], serde_json::json!([]), "{list}");
    assert_eq!(sound(&fleet.sandbox), [""; 0]);
}

/// What a command waits for, and how that is brought about.
struct Phase {
    /// The locks that somebody else holds.
    locks: &'static [&'static str],
    /// Nothing is known of the account any more.
    forgotten: bool,
    /// The only slot is taken.
    full: bool,
    /// More words of the command.
    words: &'static [&'static str],
}

const PHASES: [Phase; 9] = [
    Phase {
        locks: &["turnstile-scripted"],
        forgotten: false,
        full: false,
        words: &[],
    },
    Phase {
        locks: &["provider-scripted"],
        forgotten: false,
        full: false,
        words: &[],
    },
    Phase {
        locks: &["turnstile-scripted", "provider-scripted"],
        forgotten: false,
        full: false,
        words: &["--wait"],
    },
    Phase {
        locks: &["leases"],
        forgotten: false,
        full: false,
        words: &[],
    },
    Phase {
        locks: &["leases"],
        forgotten: false,
        full: false,
        words: &["--wait"],
    },
    Phase {
        locks: &["snapshot-scripted"],
        forgotten: true,
        full: false,
        words: &[],
    },
    Phase {
        locks: &["fetch-one"],
        forgotten: true,
        full: false,
        words: &[],
    },
    Phase {
        locks: &["fetch-one"],
        forgotten: true,
        full: false,
        words: &["--wait"],
    },
    Phase {
        locks: &[],
        forgotten: false,
        full: true,
        words: &["--wait"],
    },
];

/// How often the threads of a process gave up the processor by themselves: by pausing between two looks.
fn pauses(child: &Child) -> u32 {
    let threads = std::fs::read_dir(format!("/proc/{}/task", child.id()));
    let of = |thread: std::fs::DirEntry| -> Option<u32> {
        let status = std::fs::read_to_string(thread.path().join("status")).ok()?;
        let mut lines = status.lines();
        let count = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        count.trim().parse().ok()
    };
    threads.into_iter().flatten().flatten().filter_map(of).sum()
}

/// The locks that somebody holds.
fn held(sandbox: &Sandbox) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(sandbox.path("state/locks"))
        .expect("a directory")
        .flatten()
    {
        let file = File::open(entry.path()).expect("a lock");
        if !try_flock(&file, Mode::Exclusive).expect("a lock") {
            found.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    found
}

#[test]
fn a_choose_that_is_killed_while_it_waits_for_anything_leaves_nothing() {
    for phase in &PHASES {
        let at = format!("{:?} {:?}", phase.locks, phase.words);
        let world = World::new(&[Account::new("one").slots(1)]);
        world.command(&["config", "set", "settings.lease_ttl_seconds", "1"]);
        assert_eq!(world.exec("before", "say hi").status, 0, "{at}");
        let holder = phase.full.then(|| world.start("holder", "sleep 600"));
        if phase.forgotten {
            std::fs::remove_file(world.sandbox.path("state/snapshot/scripted"))
                .expect("a snapshot");
        }
        let locks = phase.locks.iter().map(|name| {
            let path = world.sandbox.path(format!("state/locks/{name}.lock"));
            let file = File::open(path).expect("a lock");
            assert!(
                try_flock(&file, Mode::Exclusive).expect("a lock"),
                "{at}: {name}"
            );
            file
        });
        let locks: Vec<File> = locks.collect();
        let project = world.project.to_str().expect("UTF-8");
        let mut line = vec![
            "lease",
            "choose",
            "--pool",
            POOL,
            "--task",
            "killed",
            "--workspace",
            project,
        ];
        line.extend(phase.words);
        let mut command = world.sandbox.command(&line);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the program starts");
        // Its own pauses tell that it waits: else it would have ended by then.
        let enough = if phase.full { 4 } else { 25 };
        wait(&format!("the choose to wait for {at}"), || {
            assert!(
                child.try_wait().expect("a child").is_none(),
                "{at}: it did not wait"
            );
            (pauses(&child) >= enough).then_some(())
        });
        child.kill().expect("a child of ours");
        child.wait().expect("a child of ours");
        for file in &locks {
            unlock(file).expect("a lock of ours");
        }
        assert_eq!(held(&world.sandbox), [""; 0], "{at}");
        assert_eq!(world.lease("killed"), None, "{at}: it never got one");
        let list = world.command(&["lease", "list"]);
        assert_eq!(list["waiting"], serde_json::json!([]), "{at}: {list}");
        assert_eq!(sound(&world.sandbox), [""; 0], "{at}");
        if let Some(holder) = holder {
            holder.kill();
        }
        world.command(&line[..8]);
    }
}

#[test]
fn a_drain_and_a_rest_are_answered_when_no_choice_can_be_under_way_that_does_not_know_of_them() {
    for words in [
        ["drain", "one", "--reason", "rest"],
        ["cooldown", "one", "--for", "1h"],
    ] {
        let world = World::with(1);
        assert_eq!(world.exec("before", "say hi").status, 0);
        let lock = |name: &str| {
            let path = world
                .sandbox
                .path(format!("state/locks/{name}-scripted.lock"));
            File::open(path).expect("a lock")
        };
        // A choice that has looked already.
        let (turnstile, choice) = (lock("turnstile"), lock("provider"));
        assert!(try_flock(&choice, Mode::Shared).expect("a lock"));
        let mut command = world.sandbox.command(["profile"].iter().chain(&words));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the program starts");
        wait("the change to wait for the choice", || {
            assert!(
                child.try_wait().expect("a child").is_none(),
                "{words:?} was answered beside a choice"
            );
            let free = try_flock(&turnstile, Mode::Exclusive).expect("a lock");
            if free {
                unlock(&turnstile).expect("a lock");
            }
            (!free).then_some(())
        });
        // It is in force for everybody who looks from now on.
        let record = std::fs::read_to_string(world.sandbox.path("state/profiles/one.json"));
        assert!(record.expect("a record").contains(if words[0] == "drain" {
            "rest"
        } else {
            "manual"
        }));
        unlock(&choice).expect("a lock");
        let status = wait("its answer", || child.try_wait().expect("a child"));
        assert!(status.success(), "{words:?}");
    }
}
