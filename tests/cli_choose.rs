//! `choose`, `lease choose` and `exec`: by which windows a profile is chosen, and how that is told.

use serde_json::{Value, json};

use crate::support::sandbox::Ran;
use crate::support::world::{Account, POOL, World};

/// Lets the readings age, so that the next choice asks the pretend server again.
fn age(world: &mut World) {
    world.sandbox.set("AGENT_FLEET_TEST_NOW", "+400");
}

/// Sets what the server says is used of each window of an account, and until when.
fn uses(world: &World, account: &str, windows: &[(&str, u64, f64, Option<&str>)]) {
    let rows: Vec<Value> = windows
        .iter()
        .map(|(id, minutes, used, scope)| {
            let ends =
                agent_fleet::clock::Clock::real().now() + jiff::SignedDuration::from_hours(3);
            let ends = if *minutes > 300 {
                ends + jiff::SignedDuration::from_hours(60)
            } else {
                ends
            };
            json!({"id": id, "minutes": minutes, "used_percent": used, "scope": scope,
                   "resets_at": ends.round(jiff::Unit::Second).expect("a second").to_string()})
        })
        .collect();
    world.change(account, |file| file["windows"] = json!(rows));
}

const SESSION: (&str, u64, f64, Option<&str>) = ("five_hour", 300, 10.0, None);

fn terms<'a>(world: &'a World, verb: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    let project = world.project.to_str().expect("UTF-8");
    let mut line = verb.to_vec();
    line.extend(["--task", "t", "--pool", POOL, "--workspace", project]);
    line.extend(more);
    line
}

fn look(world: &World, more: &[&str]) -> Ran {
    world
        .sandbox
        .run(terms(world, &["choose", "--dry-run", "--explain"], more))
}

#[test]
fn a_used_up_window_of_one_model_keeps_nobody_else_waiting() {
    let mut world = World::with(1);
    let opus = ("seven_day_opus", 10_080, 100.0, Some("opus"));
    uses(
        &world,
        "one",
        &[SESSION, ("seven_day", 10_080, 30.0, None), opus],
    );
    age(&mut world);

    let refused = look(&world, &[]).refused("quota_reserve");
    assert!(
        refused["retry_at"].is_string(),
        "the window resets: {refused}"
    );
    let refused = look(&world, &["--model", "claude-opus-4-1"]).refused("quota_reserve");
    assert_eq!(refused["details"]["model"], "claude-opus-4-1");
    let chosen = look(&world, &["--model", "sonnet"]).success();
    assert_eq!(chosen["model"], "sonnet");
    assert_eq!(chosen["headroom_percent"], 70.0);

    // A worker's own argument says it too, and a flag of ours outweighs it.
    let exec = |own: &str, flag: &[&str]| {
        let mut line = terms(&world, &["exec"], flag);
        line.extend(["--", "-p", "--model", own, "exit 0"]);
        world.sandbox.run(line)
    };
    exec("opus", &[]).refused("quota_reserve");
    exec("sonnet", &["--model", "opus"]).refused("quota_reserve");
    assert_eq!(exec("sonnet", &[]).status, 0);
    let reserved = terms(&world, &["lease", "choose"], &["--model", "Sonnet 4.5"]);
    assert_eq!(world.sandbox.run(reserved).success()["model"], "Sonnet 4.5");
    // The task has its lease now: it is taken up whatever the model.
    assert_eq!(exec("opus", &[]).status, 0);
    look(&world, &["--model", "\u{1b}"]).refused("usage");
}

#[test]
fn one_full_account_stops_nobody() {
    let world = World::new(&[
        Account::new("one").used(100.0),
        Account::new("two").used(40.0),
        Account::new("three").used(20.0),
    ]);
    let chosen = look(&world, &[]).success();
    assert_eq!(chosen["profile"], "three");
    let rows = chosen["explain"].as_array().expect("rows");
    let told: Vec<_> = rows
        .iter()
        .map(|row| {
            (
                row["profile"].as_str(),
                row["reason"].as_str(),
                row["score"].is_number(),
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            (Some("three"), Some("fresh"), true),
            (Some("two"), Some("fresh"), true),
            (Some("one"), Some("quota_reserve"), false),
        ],
        "the pick first, then as they rank"
    );
    assert_eq!(rows[2]["headroom_percent"], 0.0);
    assert!(rows[2]["retry_at"].is_string());
}

#[test]
fn the_week_counts_as_much_as_the_hours() {
    let mut world = World::with(2);
    uses(&world, "one", &[SESSION, ("seven_day", 10_080, 84.0, None)]);
    uses(
        &world,
        "two",
        &[
            ("five_hour", 300, 30.0, None),
            ("seven_day", 10_080, 20.0, None),
        ],
    );
    age(&mut world);
    for strategy in ["soonest-reset", "headroom"] {
        world.command(&["config", "set", "settings.strategy", strategy]);
        assert_eq!(look(&world, &[]).success()["profile"], "two", "{strategy}");
    }
}

#[test]
fn people_see_the_pick_first_and_where_each_word_is_explained() {
    let world = World::new(&[Account::new("one").used(99.0), Account::new("two")]);
    let page = look(&world, &["--format", "human"]).stdout;
    assert!(
        page.starts_with("would lease two (scripted, crew) for t\n"),
        "{page}"
    );
    assert!(
        page.contains("\nwords:  agent-fleet reasons quota_reserve\n"),
        "{page}"
    );
    let words = world.command(&["reasons", "quota_reserve"]);
    assert_eq!(words["reasons"][0]["class"], "time");
    let code = world.command(&["reasons", "timeout"]);
    assert_eq!(
        code["reasons"][0]["word"], "timeout",
        "any code may be a reason"
    );
    let told = look(&world, &["--profile", "one", "--format", "human"]);
    let told = told.stdout + &told.stderr;
    assert!(
        told.contains("[quota_reserve]") && told.contains("agent-fleet reasons quota_reserve"),
        "{told}"
    );
    world
        .sandbox
        .run(["reasons", "nonsense"])
        .refused("not_found");
}

#[test]
fn a_window_that_has_reset_is_full_and_measured_once() {
    let mut world = World::new(&[Account::new("one").used(100.0)]);
    look(&world, &[]).refused("quota_reserve");
    // The server is full again after five hours; the week needs longer, so it is taken out.
    uses(&world, "one", &[("five_hour", 300, 100.0, None)]);
    age(&mut world);
    look(&world, &[]).refused("quota_reserve");
    let asked = world.requests("usage").len();
    world.sandbox.set("AGENT_FLEET_TEST_NOW", "+12000");
    for _ in 0..3 {
        assert_eq!(look(&world, &[]).success()["headroom_percent"], 100.0);
    }
    assert_eq!(world.requests("usage").len(), asked + 1);
}

#[test]
fn a_full_pool_is_back_when_its_first_reservation_expires() {
    let world = World::new(&[Account::new("one").slots(1), Account::new("two").slots(1)]);
    let project = world.project.to_str().expect("UTF-8");
    let reserve = |task: &str| {
        let line = [
            "lease",
            "choose",
            "--task",
            task,
            "--pool",
            POOL,
            "--workspace",
            project,
        ];
        world.command(&line)["lease"]["expires_at"].clone()
    };
    let first = reserve("a");
    let pool = || world.command(&["pool", "status", "--pool", POOL])["providers"][0].clone();
    assert_eq!(
        (&pool()["available"], &pool()["retry_at"]),
        (&json!(true), &Value::Null)
    );
    reserve("b");
    let full = pool();
    assert_eq!(
        (&full["available"], &full["eligible_profiles"]),
        (&json!(false), &json!(0))
    );
    assert_eq!(full["active_leases"], 2);
    assert_eq!(full["best_adjusted_headroom_percent"], Value::Null);
    for profile in full["profiles"].as_array().expect("profiles") {
        assert_eq!(profile["routeability"]["reason"], "capacity", "{profile}");
    }
    let second = |at: &Value| {
        at.as_str()
            .expect("a time")
            .parse::<jiff::Timestamp>()
            .expect("a time")
            .as_second()
    };
    assert!(
        second(&full["retry_at"]).abs_diff(second(&first)) <= 1,
        "{full} {first}"
    );
    let refused = look(&world, &[]).refused("capacity");
    assert!(
        second(&refused["retry_at"]).abs_diff(second(&first)) <= 1,
        "{refused} {first}"
    );
    // A worker ends when it ends: then there is no time to tell.
    world.command(&["lease", "release", "--task", "a"]);
    world.command(&["lease", "release", "--task", "b"]);
    let one = world.start("c", "sleep 60");
    let two = world.start("d", "sleep 60");
    assert_eq!(pool()["retry_at"], Value::Null);
    assert_eq!(
        look(&world, &[]).refused("capacity")["retry_at"],
        Value::Null
    );
    one.kill();
    two.kill();
    assert_eq!(pool()["available"], true);
}
