//! `quota watch`: what it tells, and that watching costs the providers nothing.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStdout, Stdio};

use agent_fleet::store::replace::{Durability, replace};
use camino::Utf8PathBuf;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::support::https::Answer;
use crate::support::online::{CLAUDE_USAGE, Online, PROFILE, throttled, truth};
use crate::support::world::wait;

/// A world on a clock that moves for processes that live.
struct Moving {
    world: Online,
    clock: Utf8PathBuf,
}

impl Moving {
    fn new(ids: &[&str]) -> Self {
        let mut world = Online::new(ids);
        let clock = Utf8PathBuf::from_path_buf(world.sandbox.path("now")).expect("UTF-8");
        world
            .sandbox
            .set("AGENT_FLEET_TEST_NOW", format!("@{clock}"));
        let moving = Self { world, clock };
        moving.set(0);
        moving
    }

    fn set(&self, second: i64) {
        let start: Timestamp = "2030-01-02T12:00:00Z".parse().expect("an instant");
        let now = (start + SignedDuration::from_secs(second)).to_string();
        replace(&self.clock, now.as_bytes(), Durability::Volatile).expect("a file");
    }

    fn watch(&self) -> Watch {
        let mut child = self
            .world
            .sandbox
            .command(["quota", "watch", "--interval", "0.2"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe"));
        Watch { child, lines }
    }
}

/// A watch that runs; it ends with this value.
struct Watch {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Watch {
    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("text");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: `{line}`"))
    }

    /// Processor time in hundredths of a second.
    fn ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
        let stat = stat.expect("a child");
        let fields: Vec<&str> = stat
            .rsplit(") ")
            .next()
            .unwrap_or_default()
            .split(' ')
            .collect();
        let ticks = |at: usize| -> u64 { fields[at].parse().expect("a number") };
        ticks(11) + ticks(12)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn the_first_line_is_the_whole_answer_and_a_later_one_a_row_that_changed() {
    let moving = Moving::new(&["claude-1", "codex-2"]);
    let mut watch = moving.watch();
    let first = watch.line();
    assert_eq!(first["quota"][0]["headroom_percent"], 90.0, "{first}");
    assert_eq!(first["quota"][1]["profile"], "codex-2");
    moving
        .world
        .https
        .respond(|asked| match asked.path.as_str() {
            CLAUDE_USAGE => {
                Answer::json(&json!({"five_hour": {"utilization": 75, "resets_at": null}}))
            }
            _ => throttled(None)(asked),
        });
    moving.set(301);
    let change = loop {
        let line = watch.line();
        if line["row"]["headroom_percent"] == 25.0 {
            break line;
        }
    };
    assert_eq!(
        (
            &change["change"],
            &change["kind"],
            &change["row"]["profile"]
        ),
        (&json!("changed"), &json!("quota"), &json!("claude-1"))
    );
}

#[test]
fn ten_watchers_and_an_hour_of_429_cost_a_handful_of_calls_and_no_processor_time() {
    let moving = Moving::new(&["claude-1"]);
    drop(moving.world.show("claude-1"));
    moving.world.https.take_paths();
    moving.world.https.respond(throttled(Some("0")));
    let mut watches: Vec<_> = (0..10).map(|_| moving.watch()).collect();
    for watch in &mut watches {
        watch.line();
    }
    let mut calls = 0;
    for minute in 1..=60 {
        moving.set(minute * 60);
        let mut looks = 0;
        wait("a part of the hour", || {
            looks += 1;
            (looks > 8).then_some(())
        });
        calls += moving.world.https.take_paths().len();
    }
    assert!((1..=6).contains(&calls), "{calls}");
    for watch in &watches {
        let ticks = watch.ticks();
        assert!(
            ticks < 200,
            "{ticks} hundredths of a second of an idle watch"
        );
    }
}

#[test]
fn on_a_terminal_the_table_is_drawn_anew_when_it_changed() {
    let moving = Moving::new(&["claude-1"]);
    let program = env!("CARGO_BIN_EXE_agent-fleet");
    let line = format!(
        "exec script -qec 'stty rows 20 cols 160; TERM=xterm AGENT_FLEET_FORMAT= {program} quota watch --interval 0.2' /dev/null"
    );
    let mut terminal = moving
        .world
        .sandbox
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
    };
    hears("just read");
    moving
        .world
        .https
        .respond(|asked| match asked.path.as_str() {
            PROFILE => truth(asked),
            _ => throttled(Some("120"))(asked),
        });
    moving.set(400);
    hears("6 min old");
    hears("(throttled)");
    drop(terminal.kill());
    terminal.wait().expect("a child");
}

#[test]
fn an_interval_that_would_be_a_hot_loop_is_refused() {
    let moving = Moving::new(&[]);
    for interval in ["0", "-1", "0.01", "NaN", "1e9", "soon"] {
        let line = format!("quota watch --interval={interval}");
        moving.world.run(&line).refused("usage");
    }
}
