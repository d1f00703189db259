//! Leases held by real processes that are killed, stopped, reused, or live in another pid namespace.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use agent_fleet::contract::lease::Verdict;
use agent_fleet::env::{Faults, Variables};
use agent_fleet::error::code;
use agent_fleet::lease::{Ended, Force, LeaseStore as _, TableStore};
use agent_fleet::sys::process;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::support::again::{self, Role};
use crate::support::leases::{later, now, profile, reserve, store};
use crate::support::sandbox::Sandbox;

const ROOT: &str = "AGENT_FLEET_TEST_ROOT";
const TASK: &str = "AGENT_FLEET_TEST_TASK";
const FAULTS: &str = "AGENT_FLEET_TEST_ROLE_FAULTS";

const NO_WITNESS: Faults = Faults {
    no_leases_lock: false,
    no_snapshot_lock: false,
    no_turnstile: false,
    no_witness: true,
    no_start_gate: false,
    no_queue: false,
    last_look_fails: false,
};

fn faults_of(variables: &Variables) -> Faults {
    match variables.text(FAULTS) {
        Some(_) => NO_WITNESS,
        None => Faults::default(),
    }
}

fn text<'a>(variables: &'a Variables, name: &str) -> &'a str {
    variables.text(name).expect("the starter sets it")
}

/// Role: binds the task on profile `a` and waits to be killed.
pub(crate) fn hold(variables: &Variables) {
    let store = store(text(variables, ROOT), faults_of(variables));
    let granted = reserve(&store, &now(text(variables, TASK)), &["a"], 1).expect("a free slot");
    again::say("bound");
    let _kept = granted;
    again::wait_for_the_end();
}

/// Role: like `hold`, with a child that inherits the witness, as a launcher script's would.
pub(crate) fn launch(variables: &Variables) {
    let store = store(text(variables, ROOT), faults_of(variables));
    let granted = reserve(&store, &now(text(variables, TASK)), &["a"], 1).expect("a free slot");
    let witness = granted.witness.as_ref().expect("a running lease has one");
    witness.hand_over().expect("a free descriptor");
    #[expect(
        clippy::zombie_processes,
        reason = "this process is killed, and init waits for the child"
    )]
    let child = Sandbox::tool("sleep")
        .arg("600")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("sleep starts");
    again::say(&child.id().to_string());
    let _kept = granted;
    again::wait_for_the_end();
}

/// Role: asks for a reservation on profile `a` and says what came of it.
pub(crate) fn ask(variables: &Variables) {
    let store = store(text(variables, ROOT), faults_of(variables));
    let answer = reserve(&store, &later(text(variables, TASK)), &["a"], 1);
    again::say(match &answer {
        Ok(_) => "granted",
        Err(error) => error.code.name,
    });
    again::wait_for_the_end();
}

struct World {
    directory: tempfile::TempDir,
    faults: Faults,
}

impl World {
    fn new(faults: Faults) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        Self { directory, faults }
    }

    fn root(&self) -> &str {
        self.directory.path().to_str().expect("an UTF-8 path")
    }

    fn store(&self) -> TableStore {
        store(self.root(), self.faults)
    }

    fn variables<'a>(&'a self, task: &'a str) -> Vec<(&'a str, &'a str)> {
        let mut variables = vec![(ROOT, self.root()), (TASK, task)];
        if self.faults.no_witness {
            variables.push((FAULTS, "1"));
        }
        variables
    }

    fn start(&self, role: &str, task: &str) -> Role {
        again::start(&mut again::command(role, &self.variables(task)))
    }

    fn start_in_namespace(&self, role: &str, task: &str, options: &[&str]) -> Role {
        let mut arguments = vec!["--fork", "--pid", "--kill-child"];
        arguments.extend(options);
        let variables = self.variables(task);
        again::start(&mut again::command_behind(
            "unshare", &arguments, role, &variables,
        ))
    }

    /// On a machine that has another name.
    fn start_renamed(&self, role: &str, task: &str) -> Role {
        let rename = "hostname elsewhere && exec \"$0\" \"$@\"";
        let variables = self.variables(task);
        again::start(&mut again::command_behind(
            "unshare",
            &["--uts", "sh", "-c", rename],
            role,
            &variables,
        ))
    }

    fn refusal(&self, task: &str) -> &'static str {
        match reserve(&self.store(), &later(task), &["a"], 1) {
            Ok(_) => "granted",
            Err(error) => error.code.name,
        }
    }

    fn verdict(&self, task: &str) -> Option<Verdict> {
        let task = task.parse().expect("a task");
        let lease = self.store().find(&task).expect("a readable table");
        lease.map(|lease| lease.verdict)
    }
}

fn signal(pid: u32, signal: Signal) {
    kill_process(pid_of(pid), signal).expect("a process to signal");
}

fn pid_of(pid: u32) -> Pid {
    let number = i32::try_from(pid).expect("pids are small");
    Pid::from_raw(number).expect("pids are not zero")
}

#[track_caller]
fn eventually(promise: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < end, "not within 20 s: {promise}");
        std::thread::yield_now();
    }
}

/// Says loudly, past the test harness's capture, that a test proved nothing.
fn skipped(why: &str) {
    use std::io::Write as _;
    drop(writeln!(std::io::stderr(), "SKIPPED: {why}"));
}

/// True where a pid namespace can be made; says so where not.
pub(crate) fn namespaces_allowed() -> bool {
    let made = Sandbox::tool("unshare")
        .args(["--fork", "--pid", "--mount-proc", "true"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !made {
        skipped("no pid namespace can be made here (unshare needs root)");
    }
    made
}

#[test]
fn a_killed_holder_is_reclaimed_by_the_very_next_choose() {
    for reaped in [true, false] {
        let world = World::new(Faults::default());
        let mut holder = world.start("hold", "t");
        assert_eq!(holder.hears(), "bound");
        assert_eq!(world.refusal("other"), "capacity");
        if reaped {
            holder.kill();
        } else {
            holder.kill_unreaped();
            eventually("the holder is a zombie, its last thread included", || {
                let status = process::status(holder.pid()).expect("/proc is readable");
                status.expect("it is not reaped").zombie
            });
        }
        let store = world.store();
        let next = reserve(&store, &later("other"), &["a"], 1).unwrap();
        assert_eq!(next.active_before, 0, "reaped: {reaped}");
        let ended = store.reclaimed();
        assert_eq!(ended.len(), 1);
        assert_eq!(ended[0].ended, Ended::Died);
        assert_eq!(ended[0].lease.task.as_deref(), Some("t"));
        assert_eq!(ended[0].lease.pid, Some(holder.pid()));
        let witness = format!("leases/{}.live", ended[0].task_key.hex());
        assert!(
            !world.directory.path().join(witness).exists(),
            "its witness stayed"
        );
    }
}

#[test]
fn a_dead_holders_task_starts_again_at_once() {
    let world = World::new(Faults::default());
    let mut holder = world.start("hold", "t");
    holder.hears();
    holder.kill();
    assert_eq!(world.verdict("t"), Some(Verdict::Dead));
    let again = reserve(&world.store(), &now("t"), &["a"], 1).unwrap();
    assert!(!again.sticky, "a dead worker's lease was handed on");
    let released = world.store().release(&"t".parse().unwrap(), Force::No);
    assert_eq!(released.unwrap_err().code, code::LEASE_ACTIVE);
}

#[test]
fn another_process_under_a_dead_holders_pid_owns_nothing() {
    // With the kernel's unique number of the process, and as on kernels that have none.
    for numbered in [true, false] {
        let world = World::new(Faults::default());
        let mut holder = world.start("hold", "t");
        holder.hears();
        holder.kill();
        let table = world.directory.path().join("leases/table");
        let table = File::options().read(true).write(true).open(table).unwrap();
        let mut record = [0; 256];
        table.read_exact_at(&mut record, 256).unwrap();
        assert_eq!(record[0], 2, "not a running lease");
        record[4..8].copy_from_slice(&std::process::id().to_le_bytes());
        if !numbered {
            record[104..112].fill(0);
        }
        let sum = crc32fast::hash(&record[..252]);
        record[252..].copy_from_slice(&sum.to_le_bytes());
        table.write_all_at(&record, 256).unwrap();
        assert_eq!(world.verdict("t"), Some(Verdict::Dead));
        assert_eq!(world.refusal("other"), "granted");
    }
}

#[test]
fn a_stopped_holder_is_never_robbed() {
    let world = World::new(Faults::default());
    let mut holder = world.start("hold", "t");
    holder.hears();
    signal(holder.pid(), Signal::STOP);
    let stat = format!("/proc/{}/stat", holder.pid());
    eventually("the holder is stopped", || {
        std::fs::read_to_string(&stat).unwrap().contains(") T ")
    });
    assert_eq!(world.refusal("other"), "capacity");
    let error = reserve(&world.store(), &now("t"), &["a"], 9).unwrap_err();
    assert_eq!(
        error.message,
        format!(
            "task lease is already owned by live process {}",
            holder.pid()
        )
    );
    assert_eq!(world.verdict("t"), Some(Verdict::Alive));
}

/// Kills a launcher whose child holds the witness, and asks for its slot while the child lives.
fn launcher_child(faults: Faults) -> (World, u32) {
    let world = World::new(faults);
    let mut launcher = world.start("launch", "t");
    let child: u32 = launcher.hears().parse().expect("a pid");
    launcher.kill();
    test_kill_process(pid_of(child)).expect("the child outlives its launcher");
    (world, child)
}

#[test]
fn a_child_that_outlives_its_launcher_keeps_slot_and_task() {
    let (world, child) = launcher_child(Faults::default());
    assert_eq!(world.verdict("t"), Some(Verdict::Orphaned));
    let error = reserve(&world.store(), &later("other"), &["a"], 1).unwrap_err();
    assert_eq!(error.code, code::CAPACITY);
    assert_eq!(error.details["holders"][0]["verdict"], "orphaned");
    let error = reserve(&world.store(), &now("t"), &["a", "b"], 1).unwrap_err();
    assert_eq!(error.code, code::TASK_OWNED);
    let error = world
        .store()
        .release(&"t".parse().unwrap(), Force::No)
        .unwrap_err();
    assert_eq!(error.code, code::LEASE_ACTIVE);
    world
        .store()
        .release(&"t".parse().unwrap(), Force::Yes)
        .unwrap();
    assert_eq!(
        world.refusal("t"),
        "task_owned",
        "forced, but the child lives"
    );
    assert_eq!(
        world.refusal("other"),
        "granted",
        "the forced slot is not free"
    );
    signal(child, Signal::KILL);
    eventually("the task is free once the child is gone", || {
        reserve(&world.store(), &later("t"), &["b"], 1).is_ok()
    });
}

#[test]
fn without_the_witness_a_launchers_child_is_robbed() {
    let (world, child) = launcher_child(NO_WITNESS);
    let robbed = world.refusal("other");
    signal(child, Signal::KILL);
    assert_eq!(
        robbed, "granted",
        "the witness protects nothing that this test can see"
    );
}

#[test]
fn a_holder_in_another_pid_namespace_is_judged_by_its_witness() {
    if !namespaces_allowed() {
        return;
    }
    // With its own /proc, and with a /proc that shows other processes under its pids.
    for options in [&["--mount-proc"][..], &[]] {
        let world = World::new(Faults::default());
        let mut holder = world.start_in_namespace("hold", "t", options);
        assert_eq!(holder.hears(), "bound");
        assert_eq!(world.verdict("t"), Some(Verdict::Alive), "{options:?}");
        assert_eq!(world.refusal("other"), "capacity", "{options:?}");
        let mut asker = world.start_in_namespace("ask", "other", options);
        assert_eq!(asker.hears(), "capacity", "from a third namespace");
        let error = reserve(&world.store(), &now("t"), &["a"], 9).unwrap_err();
        assert_eq!(error.code, code::TASK_OWNED);
        holder.kill();
        eventually("the slot of the killed namespace is free", || {
            world.refusal("other") == "granted"
        });
    }
}

#[test]
fn a_holder_out_here_is_alive_for_a_namespace() {
    if !namespaces_allowed() {
        return;
    }
    let world = World::new(Faults::default());
    let mut holder = world.start("hold", "t");
    holder.hears();
    let mut asker = world.start_in_namespace("ask", "other", &["--mount-proc"]);
    assert_eq!(asker.hears(), "capacity");
    assert_eq!(world.verdict("t"), Some(Verdict::Alive));
}

#[test]
fn without_the_witness_a_holder_in_another_namespace_is_robbed() {
    if !namespaces_allowed() {
        return;
    }
    let world = World::new(NO_WITNESS);
    let mut holder = world.start_in_namespace("hold", "t", &["--mount-proc"]);
    holder.hears();
    assert_eq!(world.refusal("other"), "granted");
}

#[test]
fn a_machine_that_was_renamed_keeps_its_leases_and_takes_back_those_of_the_dead() {
    if !namespaces_allowed() {
        return;
    }
    let world = World::new(Faults::default());
    let mut holder = world.start("hold", "t");
    assert_eq!(holder.hears(), "bound");
    let mut asker = world.start_renamed("ask", "other");
    assert_eq!(asker.hears(), "capacity", "a new name freed a live slot");
    holder.kill();
    let mut asker = world.start_renamed("ask", "other");
    assert_eq!(asker.hears(), "granted", "a new name kept a dead slot");
}

#[test]
fn the_profile_of_a_dead_holder_is_free_for_a_dry_run_too() {
    let world = World::new(Faults::default());
    let mut holder = world.start("hold", "t");
    holder.hears();
    assert_eq!(world.store().occupancy().unwrap().live(&profile("a")), 1);
    holder.kill();
    assert_eq!(world.store().occupancy().unwrap().live(&profile("a")), 0);
    let listed = world.store().list().unwrap().leases;
    assert_eq!(listed.len(), 1, "a dry run removed something");
}
