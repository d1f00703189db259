//! A worker on the provider's own screen, seen by viewers: `fleet attach` and `peek`. Whatever becomes of a viewer, the
//! run comes to the same verified result.

use std::os::unix::fs::PermissionsExt as _;

use agent_fleet::sys::pty::Size;
use agent_fleet::sys::tend::Exit;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::background::Background;
use crate::support::checkout::{Checkout, step};
use crate::support::ran::Ran;
use crate::support::sandbox::Sandbox;
use crate::support::terminal::{Terminal, child_of};
use crate::support::world::wait;

/// Ctrl-C, as a terminal sends it.
const CTRL_C: &str = "\u{3}";
/// Ctrl-\.
const CTRL_BACKSLASH: &str = "\u{1c}";
const KEYS: &str = "files = [\"a.txt\"]\nmode = \"terminal\"";

/// A step on a screen that has begun, shows a word, and goes on once there is a file `go` beside the project.
fn held(more: &str) -> String {
    let script = format!(
        "write a.txt begun\nsay on the screen\nhold ../go\n{more}\nwrite a.txt done\nsay Status: needs-verification"
    );
    step("one", KEYS, script.trim())
}

fn go(checkout: &Checkout) {
    checkout.world.sandbox.write("go", "");
}

fn attach(checkout: &Checkout, words: &[&str]) -> Terminal {
    Terminal::start(&mut checkout.line(&[&["attach", "one"], words].concat()))
}

fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).expect("a pid")).expect("a pid");
    kill_process(pid, signal).expect("it lives");
}

fn verified(run: &mut Background<'_>) {
    let status = run.ended().success();
    assert_eq!(
        Checkout::step(&status, "one")["state"],
        "verified",
        "{status}"
    );
}

#[test]
fn viewers_see_the_screen_also_late_and_whatever_becomes_of_them_changes_nothing() {
    let checkout = Checkout::with(1);
    let noise = "spawn seq 1 20000 > /dev/tty";
    let mut run = Background::start(&checkout, "r", &held(noise));
    run.until_busy("one", "a.txt");
    let mut first = attach(&checkout, &[]);
    first.until("on the screen");
    first.until("one, launch 1: Ctrl-C leaves");
    let mut late = attach(&checkout, &[]);
    late.until("on the screen");
    let mut stopped = attach(&checkout, &[]);
    stopped.until("on the screen");
    let mut left = Terminal::start_in_shell(&checkout.line(&["attach", "one"]));
    left.until("on the screen");
    left.types(CTRL_C);
    assert_eq!(left.ended_and_restored(), Exit::Status(0));
    assert!(left.written.contains("`one` goes on"), "{:?}", left.written);
    signal(first.pid(), Signal::KILL);
    signal(stopped.pid(), Signal::STOP);
    assert_eq!(first.ended(), Exit::Signal(9));
    go(&checkout);
    verified(&mut run);
    assert_eq!(checkout.read("a.txt"), "done\n");
    // The one that stayed is told how it ended.
    assert_eq!(late.ended(), Exit::Status(0));
    let rows = late.rows();
    let ended = "-- launch 1 of one on one ended: done";
    assert!(rows.iter().any(|row| row.starts_with(ended)), "{rows:?}");
    signal(stopped.pid(), Signal::CONT);
    assert_eq!(stopped.ended(), Exit::Status(0));
}

#[test]
fn only_who_asked_for_it_types_and_the_turn_is_not_over_before_the_keys_are_left() {
    let checkout = Checkout::with(1);
    let mut run = Background::start(&checkout, "r", &held(""));
    run.until_busy("one", "a.txt");
    let mut typing = Terminal::start_in_shell(&checkout.line(&["attach", "one", "--type"]));
    typing.until("your keys go to it; Ctrl-\\ leaves");
    wait("the lead to be told", || {
        let one = Checkout::worker(&run.status(), "one");
        (one["reason"] == "typed_at").then_some(())
    });
    let mut looking = attach(&checkout, &[]);
    looking.until("on the screen");
    looking.types("write c.txt looked on\r");
    go(&checkout);
    // Each is a turn of its own, whose end nobody takes for the end of the work.
    for number in 1..=3 {
        typing.types(&format!("write b.txt {number}\r"));
        wait("what was typed to be done", || {
            (checkout.read("b.txt") == format!("{number}\n")).then_some(())
        });
    }
    typing.types("spawn stty size < /dev/tty > b.txt\r");
    wait("the size", || {
        (checkout.read("b.txt") == "29 100\n").then_some(())
    });
    typing.resize(Size {
        rows: 20,
        columns: 70,
    });
    wait("the new size", || {
        typing.types("spawn stty size < /dev/tty > b.txt\r");
        typing.rows();
        (checkout.read("b.txt") == "19 70\n").then_some(())
    });
    let status = Checkout::worker(&run.status(), "one");
    assert_eq!(
        (&status["state"], &status["launch"]),
        (&"running".into(), &1.into())
    );
    assert_eq!(checkout.read("c.txt"), "as it was\n");
    typing.types(CTRL_BACKSLASH);
    assert_eq!(typing.ended_and_restored(), Exit::Status(0));
    looking.ended();
    drop(run.ended());
    let status = Checkout::worker(&run.status(), "one");
    assert!(status["state"] == "parked", "{status}");
}

#[test]
fn a_terminal_is_as_it_was_after_a_signal_and_the_worker_goes_on() {
    let checkout = Checkout::with(1);
    let mut run = Background::start(&checkout, "r", &held(""));
    run.until_busy("one", "a.txt");
    for kind in [Signal::TERM, Signal::HUP, Signal::INT] {
        let mut viewer = Terminal::start_in_shell(&checkout.line(&["attach", "one", "--type"]));
        viewer.until("on the screen");
        signal(child_of(viewer.pid()), kind);
        viewer.ended_and_restored();
    }
    go(&checkout);
    verified(&mut run);
}

#[test]
fn keys_reach_nobody_who_is_headless_or_idle_and_nobody_without_a_terminal() {
    let checkout = Checkout::with(1);
    let plan = [
        held(""),
        step(
            "two",
            "files = [\"b.txt\"]\nneeds = [\"one\"]",
            "say Status: needs-verification",
        ),
    ];
    let mut run = Background::start(&checkout, "r", &plan.concat());
    run.until_busy("one", "a.txt");
    checkout.run(&["attach", "one", "--type"]).refused("usage");
    let mut inside = checkout.line(&["attach", "one", "--type"]);
    inside.env("AGENT_FLEET_LABEL_FLEET_TOKEN", "t");
    Ran::of(&mut inside).refused("nested");
    go(&checkout);
    run.ended().success();
    let headless = checkout.run(&["attach", "two", "--type"]);
    let told = headless.refused("usage");
    assert_eq!(told["hint"], "agent-fleet fleet take two", "{told}");
    let mut idle = attach(&checkout, &["--type"]);
    assert_eq!(idle.ended(), Exit::Status(2));
    idle.until("has no screen now");
}

#[test]
fn a_peek_is_the_screen_while_there_is_one() {
    let checkout = Checkout::with(1);
    let more = "say write to ada@somewhere.example";
    let script = held("").replace("say on the screen", &format!("say on the screen\n{more}"));
    let mut run = Background::start(&checkout, "r", &script);
    run.until_busy("one", "a.txt");
    let peek = wait("the screen", || {
        let peek = checkout.fleet(&["peek", "one"]);
        let rows = peek["lines"].as_array().expect("lines");
        let has = |text: &str| rows.iter().any(|row| row == text);
        // An address is no business of whoever reads this.
        (has("on the screen") && has("write to [withheld]")).then_some(peek.clone())
    });
    assert_eq!(peek["source"], "screen", "{peek}");
    let one = checkout.fleet(&["peek", "one", "--lines", "1"]);
    assert_eq!(one["lines"].as_array().map(Vec::len), Some(1), "{one}");
    go(&checkout);
    verified(&mut run);
    let after = checkout.fleet(&["peek", "one"]);
    assert_eq!(after["source"], "transcript", "{after}");
}

#[test]
fn a_screen_in_a_directory_that_others_may_enter_is_not_looked_at_and_the_work_goes_on() {
    let checkout = Checkout::with(1);
    let mut run = Background::start(&checkout, "r", &held(""));
    run.until_busy("one", "a.txt");
    let bytes = std::fs::read(run.launch("one", 1, "screen.json")).expect("its screen");
    let screen: Value = serde_json::from_slice(&bytes).expect("JSON");
    let socket = std::path::Path::new(screen["socket"].as_str().expect("a path")).to_owned();
    let directory = socket.parent().expect("a directory");
    let mode = |mode| {
        std::fs::set_permissions(directory, std::fs::Permissions::from_mode(mode)).expect("ours");
    };
    mode(0o755);
    let mut viewer = attach(&checkout, &[]);
    assert_eq!(viewer.ended(), Exit::Status(2));
    let said = viewer.written;
    assert!(said.contains("may be entered by other users"), "{said:?}");
    let fallen = checkout.run(&["peek", "one"]);
    fallen.refused("exposed");
    mode(0o700);
    attach(&checkout, &[]).until("on the screen");
    go(&checkout);
    verified(&mut run);
    assert!(!socket.exists(), "a socket is left behind");
}

#[test]
fn a_screen_whose_host_is_killed_is_hung_up_although_hang_ups_were_ignored_where_it_was_started() {
    let checkout = Checkout::with(1);
    checkout.write("plan.toml", &held(""));
    let line = checkout.line(&["run", "plan.toml", "--run", "r"]);
    let mut shell = Sandbox::tool("/bin/sh");
    shell.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]);
    shell
        .arg(line.get_program())
        .args(line.get_args())
        .env_clear();
    shell.envs(
        line.get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    shell.current_dir(&checkout.world.project);
    shell
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    let mut driver = shell.spawn().expect("a shell");
    wait("the work", || {
        (checkout.read("a.txt") == "begun\n").then_some(())
    });
    let started = || -> Option<Value> {
        let path = checkout.records("r").join("launches/one.1/started.json");
        serde_json::from_slice(&std::fs::read(path).ok()?).ok()
    };
    let started = wait("its processes", started);
    driver.kill().expect("a child of ours");
    driver.wait().expect("a child of ours");
    let pid =
        |which: &str| u32::try_from(started[which]["pid"].as_u64().expect("a pid")).expect("a pid");
    signal(pid("host"), Signal::KILL);
    let child = pid("child");
    wait("the worker's end", || {
        let status = agent_fleet::sys::process::status(child).expect("/proc");
        status.is_none_or(|status| status.zombie).then_some(())
    });
}
