//! `lease watch`: what supervisors and terminals are told, and when it ends.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStdout, Stdio};

use agent_fleet::env::Faults;
use agent_fleet::lease::{Force, LeaseStore as _, TableStore};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::leases::{later, reserve, store};
use crate::support::sandbox::Sandbox;
use crate::support::world::wait;

/// A watch that runs, with what it says.
struct Watch {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Watch {
    fn start(sandbox: &Sandbox) -> Self {
        let mut child = sandbox
            .command(["lease", "watch"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, lines }
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("text");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: `{line}`"))
    }
}

fn world() -> (Sandbox, TableStore) {
    let sandbox = Sandbox::new();
    let state = sandbox.path("state");
    let store = store(state.to_str().expect("an UTF-8 path"), Faults::default());
    (sandbox, store)
}

#[test]
fn the_first_line_is_the_whole_list_and_each_later_one_a_change() {
    let (sandbox, store) = world();
    reserve(&store, &later("a"), &["p"], 9).unwrap();
    let mut watch = Watch::start(&sandbox);
    assert_eq!(watch.line()["leases"][0]["task"], "a");
    reserve(&store, &later("b"), &["p"], 9).unwrap();
    let change = watch.line();
    assert_eq!(
        (&change["change"], &change["kind"], &change["row"]["task"]),
        (&"new".into(), &"lease".into(), &"b".into())
    );
    store.release(&"a".parse().unwrap(), Force::No).unwrap();
    let change = watch.line();
    assert_eq!(
        (&change["change"], &change["row"]["task"]),
        (&"gone".into(), &"a".into())
    );
    // Ctrl-C ends it by the signal, as a shell expects.
    let pid = Pid::from_child(&watch.child);
    kill_process(pid, Signal::INT).unwrap();
    let status = watch.child.wait().unwrap();
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    assert_eq!(signal, Some(2));
}

#[test]
fn it_ends_well_when_nobody_reads_any_more_although_nothing_changes() {
    let (sandbox, _store) = world();
    let mut watch = Watch::start(&sandbox);
    watch.line();
    let Watch { mut child, lines } = watch;
    drop(lines);
    let status = wait("the end of the watch", || {
        child.try_wait().expect("a child")
    });
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_look_that_is_refused_is_told_and_does_not_end_it() {
    let (sandbox, store) = world();
    reserve(&store, &later("a"), &["p"], 9).unwrap();
    let mut watch = Watch::start(&sandbox);
    watch.line();
    let table = sandbox.path("state/leases/table");
    let aside = sandbox.path("state/leases/aside");
    #[expect(clippy::disallowed_methods, reason = "a test that breaks a file")]
    let rename = |from: &std::path::Path, to: &std::path::Path| std::fs::rename(from, to).unwrap();
    rename(&table, &aside);
    std::fs::create_dir(&table).unwrap();
    // The list may have been seen empty between the two.
    let refused = loop {
        let line = watch.line();
        if line["ok"] == false {
            break line;
        }
    };
    assert_eq!(refused["code"], "io");
    std::fs::remove_dir(&table).unwrap();
    rename(&aside, &table);
    reserve(&store, &later("b"), &["p"], 9).unwrap();
    let told = loop {
        let line = watch.line();
        if line["row"]["task"] == "b" {
            break line;
        }
    };
    assert_eq!(told["change"], "new");
    drop(watch.child.kill());
    watch.child.wait().unwrap();
}

#[test]
fn on_a_terminal_the_page_is_drawn_in_place_and_again_when_it_changed() {
    let (sandbox, store) = world();
    reserve(&store, &later("a"), &["p"], 9).unwrap();
    let program = env!("CARGO_BIN_EXE_agent-fleet");
    let line = format!(
        "exec script -qec 'stty rows 20 cols 100; TERM=xterm AGENT_FLEET_FORMAT= {program} lease watch' /dev/null"
    );
    let mut terminal = sandbox
        .shell(&line)
        .stdout(Stdio::piped())
        .spawn()
        .expect("a shell");
    let mut output = terminal.stdout.take().expect("a pipe");
    let mut said = String::new();
    let mut hears = |wanted: &str| {
        let mut bytes = [0; 4096];
        while !said.contains(wanted) {
            let count = output.read(&mut bytes).expect("a terminal's output");
            assert!(count > 0, "it ended without `{wanted}`: {said}");
            said.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
        said.matches("\u{1b}[H").count()
    };
    assert_eq!(hears("1 lease: 0 running, 1 reserved"), 1);
    reserve(&store, &later("b"), &["p"], 9).unwrap();
    assert!(hears("2 leases: 0 running, 2 reserved") > 1);
    drop(terminal.kill());
    terminal.wait().unwrap();
}
