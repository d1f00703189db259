//! A worker's lease as it is seen with other settings, and what of the broker a worker's children hold.

use std::path::Path;

use crate::support::world::{Account, World, wait};

fn world() -> World {
    World::new(&[Account::new("one").slots(1)])
}

#[test]
fn a_worker_lives_on_in_another_time_zone_and_another_language() {
    let mut world = world();
    world.sandbox.set("TZ", "UTC");
    world.sandbox.set("LC_ALL", "C");
    let worker = world.start("t", "hold go; say done");
    let started = world.lease("t").expect("its lease");
    world.sandbox.set("LC_ALL", "de_DE.UTF-8");
    for zone in ["Asia/Tokyo", "America/St_Johns", "Etc/GMT+12"] {
        world.sandbox.set("TZ", zone);
        assert_eq!(world.lease("t"), Some(started.clone()), "{zone}");
        world.exec("u", "write u x").refused("capacity");
        world.exec("t", "write t x").refused("task_owned");
    }
    let mut names = std::fs::read_dir(&world.project).expect("the project");
    let started = |name: &str| name == "u" || name == "t";
    assert!(!names.any(|entry| entry.is_ok_and(|it| it.file_name().to_str().is_some_and(started))));
    worker.kill();
    assert_eq!(world.exec("u", "say hello").status, 0, "its slot is lost");
}

/// The files below `root` that a process has open.
fn open_files(pid: &str, root: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("a process of ours");
    let targets = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    let ours = targets.filter_map(|target| {
        let below = target.strip_prefix(root).ok()?;
        Some(below.to_str()?.to_owned())
    });
    ours.collect()
}

#[test]
fn a_worker_holds_nothing_but_its_witness_and_what_it_leaves_behind_holds_nothing() {
    let world = world();
    let stays = "echo $$ >left.new; mv left.new left; exec sleep 60";
    let left = format!("spawn sh -c '{stays}' </dev/null >/dev/null 2>&1 &");
    let worker = world.start("t", &format!("{left}\nhold go\nsay done"));
    let left = wait("what a tool leaves behind", || {
        std::fs::read_to_string(world.project.join("left")).ok()
    });
    let left = left.trim();
    let state = world.sandbox.path("state");
    let held = open_files(&worker.pid.to_string(), &state);
    let [witness] = &held[..] else {
        panic!("the worker holds {held:?}");
    };
    let name = Path::new(witness);
    assert!(
        name.starts_with("leases") && name.extension().is_some_and(|it| it == "live"),
        "{witness}"
    );
    assert_eq!(open_files(left, &state), [""; 0], "a tool holds our files");
    world.sandbox.write(world.project.join("go"), "");
    assert_eq!(worker.wait(), 0);
    assert!(
        world
            .lease("t")
            .is_none_or(|lease| lease["verdict"] == "dead")
    );
    assert_eq!(world.exec("u", "say hello").status, 0, "its slot is lost");
    let pid = left.parse().ok().and_then(rustix::process::Pid::from_raw);
    let pid = pid.expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL)
        .expect("it outlived the worker");
}
