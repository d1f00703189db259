//! How often the providers are asked, whatever they answer and however many processes want to know.

use std::process::{Child, Stdio};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::support::https::{Answer, Asked};
use crate::support::online::{CLAUDE_USAGE, CODEX_USAGE, Online, PROFILE, slow, throttled, truth};
use crate::support::world::wait;

/// Most calls in an hour and for one profile.
const BUDGET: usize = 20;

fn start(world: &Online, line: &str) -> Child {
    let mut command = world.sandbox.command(line.split(' '));
    command
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts")
}

fn row(child: Child) -> Value {
    let output = child.wait_with_output().expect("a child");
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    answer["quota"][0].clone()
}

fn at(second: i64) -> String {
    let start: Timestamp = "2030-01-02T12:00:00Z".parse().expect("an instant");
    (start + SignedDuration::from_secs(second)).to_string()
}

/// An hour, told by the clock of the processes, in which `count` of them ask every few minutes. Returns how
/// often the server was asked.
fn an_hour(world: &mut Online, id: &str, count: usize) -> usize {
    let mut calls = 0;
    for second in (0..3600).step_by(290) {
        world.sandbox.set("AGENT_FLEET_TEST_NOW", at(second));
        let children: Vec<_> = (0..count)
            .map(|_| start(world, &format!("quota show {id}")))
            .collect();
        for child in children {
            let row = row(child);
            let age = u64::try_from(second).expect("a time of the hour") + 600;
            assert_eq!(
                row["age_seconds"], age,
                "the last good reading is gone: {row}"
            );
            assert_eq!(row["headroom_percent"], 90.0, "{row}");
            assert!(row["next_poll_at"].is_string(), "{row}");
        }
        calls += world.https.take_paths().len();
    }
    calls
}

/// A world whose server was asked once, ten minutes before the hour, and fails from then on.
fn measured_once(id: &str, respond: impl Fn(&Asked) -> Answer + Send + 'static) -> Online {
    let mut world = Online::new(&[id]);
    world.sandbox.set("AGENT_FLEET_TEST_NOW", at(-600));
    assert_eq!(world.show(id)["status"], "fresh");
    world.https.take_paths();
    world.https.respond(respond);
    world
}

#[test]
fn thirty_processes_and_an_hour_of_429_cost_a_handful_of_calls() {
    let mut world = measured_once("claude-1", throttled(Some("0")));
    let calls = an_hour(&mut world, "claude-1", 30);
    assert!((1..=6).contains(&calls), "{calls}");
    let row = world.show("claude-1");
    assert_eq!(
        (&row["status"], &row["reported_status"]),
        (&json!("presumed"), &json!("throttled"))
    );
}

#[test]
fn whatever_the_server_says_instead_of_an_answer_it_is_asked_seldom() {
    type Respond = Box<dyn Fn(&Asked) -> Answer + Send>;
    let answers: [(&str, Respond, usize); 5] = [
        ("claude-1", Box::new(throttled(Some("3600"))), 1),
        ("codex-1", Box::new(throttled(None)), 6),
        ("claude-1", Box::new(throttled(Some("a while"))), 6),
        ("codex-1", Box::new(|_| Answer::status(500)), 6),
        (
            "claude-1",
            Box::new(|_| Answer::status(503).header("retry-after", "3600")),
            1,
        ),
    ];
    for (id, respond, most) in answers {
        let mut world = measured_once(id, respond);
        let calls = an_hour(&mut world, id, 4);
        assert!(
            (1..=most).contains(&calls),
            "{calls} calls, {most} at most, for {id}"
        );
    }
}

#[test]
fn a_dead_network_is_tried_seldom_and_found_again_within_minutes() {
    let mut world = measured_once("claude-1", truth);
    let proxy = world.https.url();
    world.sandbox.set("HTTPS_PROXY", "http://127.0.0.1:1");
    assert_eq!(an_hour(&mut world, "claude-1", 4), 0);
    world.sandbox.set("HTTPS_PROXY", proxy);
    world.sandbox.set("AGENT_FLEET_TEST_NOW", at(3600 + 300));
    assert_eq!(world.show("claude-1")["status"], "fresh");
}

#[test]
fn a_person_who_keeps_on_asking_is_bounded_too() {
    let mut world = Online::new(&["codex-1", "claude-2"]);
    let mut calls = Vec::new();
    for second in 0..60 {
        world.sandbox.set("AGENT_FLEET_TEST_NOW", at(second * 10));
        drop(world.run("quota refresh"));
        drop(world.run("profile verify --all"));
        calls.extend(world.https.take_paths());
    }
    for path in [PROFILE, CLAUDE_USAGE, CODEX_USAGE] {
        let count = calls.iter().filter(|asked| *asked == path).count();
        assert!(
            (1..=BUDGET).contains(&count),
            "{count} calls of {path} in ten minutes"
        );
    }
    let row = world.show("codex-1");
    let next: Timestamp = row["next_poll_at"]
        .as_str()
        .expect("a time")
        .parse()
        .expect("a time");
    assert!(next > at(3500).parse().expect("a time"), "{row}");
}

#[test]
fn a_fetcher_that_is_killed_has_had_its_turn_and_those_who_waited_ask_nothing() {
    let world = Online::new(&["claude-1"]);
    world.https.respond(slow(30_000));
    let mut fetcher = start(&world, "quota show claude-1");
    wait("the request", || {
        (!world.https.asked().is_empty()).then_some(())
    });
    let waiting: Vec<_> = (0..5)
        .map(|_| start(&world, "quota show claude-1"))
        .collect();
    fetcher.kill().expect("a child");
    fetcher.wait().expect("a child");
    for child in waiting {
        let row = row(child);
        assert_eq!(row["status"], "unmeasured");
        assert!(row["next_poll_at"].is_string(), "{row}");
    }
    assert_eq!(world.https.take_paths(), [PROFILE]);
}

#[test]
fn the_back_off_of_before_outlives_a_fetcher_that_is_killed() {
    let mut world = measured_once("codex-1", throttled(Some("0")));
    world.sandbox.set("AGENT_FLEET_TEST_NOW", at(0));
    drop(world.show("codex-1"));
    world.https.respond(slow(30_000));
    world.sandbox.set("AGENT_FLEET_TEST_NOW", at(180));
    let mut fetcher = start(&world, "quota show codex-1");
    wait("the request", || {
        (world.https.asked().len() == 2).then_some(())
    });
    fetcher.kill().expect("a child");
    fetcher.wait().expect("a child");
    world.https.respond(throttled(None));
    world.https.take_paths();
    let row = world.show("codex-1");
    assert_eq!(row["reported_status"], "throttled");
    world.sandbox.set("AGENT_FLEET_TEST_NOW", at(360));
    let row = world.show("codex-1");
    assert_eq!(world.https.take_paths(), [CODEX_USAGE]);
    assert_eq!(
        row["next_poll_at"],
        at(360 + 720),
        "the killed one counts, and so does the second refusal"
    );
}

#[test]
fn many_at_once_wait_for_one_fetch_and_all_see_what_it_brought() {
    let world = Online::new(&["claude-1", "codex-2"]);
    world.https.respond(slow(300));
    let children: Vec<_> = (0..20)
        .map(|_| {
            let mut command = world.sandbox.command(world.dry_run());
            command
                .stdout(Stdio::piped())
                .spawn()
                .expect("the program starts")
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().expect("a child");
        let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(
            (&answer["profile"], &answer["degraded"]),
            (&json!("claude-1"), &json!(false))
        );
    }
    assert_eq!(
        world.https.take_paths(),
        [PROFILE, CLAUDE_USAGE, CODEX_USAGE]
    );
}

#[test]
fn choose_asks_exactly_what_it_needs_to_know() {
    let mut world = Online::new(&["claude-1", "codex-2"]);
    let chosen = |world: &Online| {
        let answer = world.sandbox.run(world.dry_run()).success();
        assert_eq!(answer["profile"], "claude-1", "{answer}");
        (answer["degraded"].clone(), world.https.take_paths())
    };
    world.later(0);
    let all = [PROFILE, CLAUDE_USAGE, CODEX_USAGE];
    assert_eq!(
        chosen(&world),
        (json!(false), all.map(str::to_owned).to_vec())
    );
    assert_eq!(chosen(&world).1, [""; 0], "everything is known");
    world.later(400);
    let measured = [CLAUDE_USAGE, CODEX_USAGE];
    assert_eq!(
        chosen(&world).1,
        measured,
        "the proofs hold, the readings have aged"
    );
    world.log_in("claude-1", "second");
    assert_eq!(
        chosen(&world).1,
        [PROFILE],
        "the login changed, its reading did not"
    );
    assert_eq!(chosen(&world).1, [""; 0]);
    world.later(800);
    world.https.respond(throttled(Some("600")));
    assert_eq!(
        chosen(&world),
        (json!(true), measured.map(str::to_owned).to_vec())
    );
    for seconds in [801, 900, 1399] {
        world.later(seconds);
        assert_eq!(
            chosen(&world),
            (json!(true), Vec::new()),
            "the server wants to be left alone"
        );
    }
    world.log_in("claude-1", "third");
    world.https.respond(|asked| match asked.path.as_str() {
        PROFILE => truth(asked),
        _ => Answer::status(429),
    });
    assert_eq!(
        chosen(&world),
        (json!(true), vec![PROFILE.to_owned()]),
        "whose login it is cannot wait"
    );
    world.https.respond(truth);
    world.later(1401);
    assert_eq!(
        chosen(&world),
        (json!(false), measured.map(str::to_owned).to_vec())
    );
}

#[test]
fn a_login_that_keeps_changing_is_proved_each_time_and_measured_no_more_often() {
    let mut world = Online::new(&["claude-1", "codex-2"]);
    world.later(0);
    world.run("quota show").success();
    world.https.take_paths();
    let mut paths = Vec::new();
    for round in 0..30 {
        for id in ["claude-1", "codex-2"] {
            world.log_in(id, &format!("round{round}"));
        }
        drop(world.run("quota show"));
        paths.extend(world.https.take_paths());
    }
    let count = |path: &str| paths.iter().filter(|asked| *asked == path).count();
    assert_eq!(
        count(CLAUDE_USAGE),
        0,
        "the reading is of the same account and fresh"
    );
    assert_eq!(
        (count(PROFILE), count(CODEX_USAGE)),
        (BUDGET - 1, BUDGET - 1)
    );
}
