//! What a reading is worth when it cannot be renewed, and whose it is.

use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::support::https::Answer;
use crate::support::online::{CLAUDE_USAGE, Online, PROFILE, throttled, truth};
use crate::support::world::{Account, World};

#[test]
fn a_quota_that_may_not_be_read_is_tried_once_a_day_and_routed_only_by_permission() {
    let mut world = Online::new(&["claude-1"]);
    world.https.respond(|asked| match asked.path.as_str() {
        PROFILE => truth(asked),
        _ => Answer::status(403),
    });
    for hour in 0..24 {
        world.later(hour * 3600);
        let row = world.show("claude-1");
        assert_eq!(
            (&row["status"], &row["reason"], &row["reported_status"]),
            (
                &json!("unmeasured"),
                &json!("unmeasurable"),
                &json!("unmeasurable")
            )
        );
        drop(world.run("quota refresh claude-1"));
    }
    assert_eq!(world.https.take_paths(), [PROFILE, CLAUDE_USAGE]);
    world
        .sandbox
        .run(world.dry_run())
        .refused("quota_unavailable");
    // Who would have it take work again is told when asking may help.
    let refused = world.run("profile enable claude-1");
    let refused = refused.refused("quota_unavailable");
    assert!(refused["retry_at"].is_string(), "{refused}");
    world.run("config set settings.unmeasured allow").success();
    let answer = world.sandbox.run(world.dry_run()).success();
    assert_eq!(
        (&answer["profile"], &answer["degraded"]),
        (&json!("claude-1"), &json!(true)),
        "{answer}"
    );
    assert_eq!(world.https.take_paths(), [""; 0]);
}

#[test]
fn an_account_that_was_measurable_once_is_not_presumed_full_for_ever() {
    let mut world = Online::new(&["claude-1"]);
    world.https.respond(|asked| match asked.path.as_str() {
        PROFILE => truth(asked),
        _ => Answer::json(&json!({"five_hour": {"utilization": 50, "resets_at": soon()}})),
    });
    world.later(0);
    assert_eq!(world.show("claude-1")["status"], "fresh");
    world.https.respond(|_| Answer::status(403));
    world.later(7200);
    let row = world.show("claude-1");
    assert_eq!(
        (&row["status"], &row["reason"]),
        (&json!("unmeasured"), &json!("unmeasurable")),
        "{row}"
    );
}

/// An hour from now by the machine's clock.
fn soon() -> String {
    let now = agent_fleet::clock::Clock::real().now();
    (now + SignedDuration::from_hours(1)).to_string()
}

#[test]
fn a_passed_reset_counts_as_full_until_it_is_measured_once() {
    let mut world = Online::new(&["claude-1"]);
    world.https.respond(|asked| match asked.path.as_str() {
        PROFILE => truth(asked),
        _ => Answer::json(&json!({
            "five_hour": {"utilization": 100, "resets_at": soon()},
            "seven_day": {"utilization": 40, "resets_at": "2100-01-01T00:00:00Z"},
        })),
    });
    world.later(0);
    assert_eq!(world.show("claude-1")["headroom_percent"], 0.0);
    world.sandbox.run(world.dry_run()).refused("quota_reserve");
    world.https.respond(throttled(None));
    world.later(4000);
    let row = world.show("claude-1");
    assert_eq!(
        (&row["status"], &row["reason"], &row["headroom_percent"]),
        (&json!("presumed"), &json!("throttled"), &json!(60.0))
    );
    assert_eq!(row["windows"][0]["presumed"], true, "{row}");
    let answer = world.sandbox.run(world.dry_run()).success();
    assert_eq!(
        (&answer["degraded"], &answer["degraded_reason"]),
        (&json!(true), &json!("throttled"))
    );
    world.https.respond(truth);
    world.https.take_paths();
    world.later(4400);
    let answer = world.sandbox.run(world.dry_run()).success();
    assert_eq!(
        (&answer["degraded"], &answer["headroom_percent"]),
        (&json!(false), &json!(90.0))
    );
    assert_eq!(world.https.take_paths(), [CLAUDE_USAGE], "measured once");
}

#[test]
fn a_refused_login_is_broken_until_it_is_taken_again_or_replaced() {
    let mut world = Online::new(&["claude-1"]);
    world.later(0);
    world.show("claude-1");
    world.https.respond(|_| Answer::status(401));
    world.later(400);
    assert_eq!(world.show("claude-1")["reason"], "auth_broken");
    world.sandbox.run(world.dry_run()).refused("auth_broken");
    world.https.take_paths();
    world.https.respond(truth);
    assert_eq!(
        world.show("claude-1")["reason"],
        "auth_broken",
        "the back-off holds"
    );
    assert_eq!(world.https.take_paths(), [""; 0]);
    world.later(800);
    assert_eq!(
        world.show("claude-1")["reason"],
        Value::Null,
        "the very same login is taken again"
    );
    world.https.respond(|_| Answer::status(401));
    world.later(1200);
    assert_eq!(world.show("claude-1")["reason"], "auth_broken");
    world.https.respond(truth);
    world.https.take_paths();
    world.log_in("claude-1", "second");
    let answer = world.sandbox.run(world.dry_run()).success();
    assert_eq!(
        answer["profile"], "claude-1",
        "a new login is proved by the choose that wants it"
    );
    assert_eq!(world.https.take_paths(), [PROFILE, CLAUDE_USAGE]);
}

#[test]
fn a_reading_is_worth_nothing_once_another_account_sits_in_the_home() {
    let mut world = Online::new(&["claude-1"]);
    world.later(0);
    assert_eq!(world.show("claude-1")["headroom_percent"], 90.0);
    world.log_in_as("claude-1", "7", "first");
    let row = world.show("claude-1");
    assert_eq!(
        (&row["reason"], &row["status"], &row["headroom_percent"]),
        (
            &json!("identity_changed"),
            &json!("unmeasured"),
            &Value::Null
        )
    );
}

/// The whole night with a real worker in it: it used the account after the last reading, so nothing is known
/// to be left of the week, and only a worker can renew the token.
#[test]
fn a_token_that_expired_overnight_keeps_its_account_routeable_until_a_worker_renews_it() {
    let mut world = World::new(&[Account::new("one").used(40.0).expires_in(8 * 3600)]);
    world.sandbox.set("AGENT_FLEET_TEST_NOW", "+0");
    assert_eq!(world.exec("evening", "say hi").status, 0);
    world.sandbox.set("AGENT_FLEET_TEST_NOW", "+1000");
    assert_eq!(world.exec("late", "say hi").status, 0);
    world.sandbox.set("AGENT_FLEET_TEST_NOW", "+40000");
    let project = world.project.to_str().expect("UTF-8").to_owned();
    let line = [
        "choose",
        "--dry-run",
        "--task",
        "t",
        "--pool",
        "crew",
        "--workspace",
        &project,
    ];
    let asked = world.requests("usage").len();
    let answer = world.command(&line);
    assert_eq!(
        (&answer["degraded"], &answer["degraded_reason"]),
        (&json!(true), &json!("token_expired")),
        "{answer}"
    );
    assert_eq!(
        answer["headroom_percent"], 60.0,
        "the week has not begun anew"
    );
    assert_eq!(
        world.requests("usage").len(),
        asked,
        "an expired token is shown to nobody"
    );
    assert_eq!(
        world.requests("refresh"),
        [""; 0],
        "nobody but a worker renews it"
    );
    assert_eq!(world.exec("morning", "say hi").status, 0);
    assert_eq!(world.requests("refresh"), ["one ok"]);
    assert_eq!(world.command(&line)["degraded"], false);
}

#[test]
fn an_external_reader_that_tells_of_another_account_proves_and_measures_nothing() {
    // The login names `account-1`, the stand-in reader answers `codex-1-account`.
    let world = Online::new(&["codex-1"]);
    let reader = env!("CARGO_BIN_EXE_fake-reader");
    world
        .run(&format!("config set providers.codex.quota_reader {reader}"))
        .success();
    let row = world.show("codex-1");
    assert_eq!(
        (
            &row["status"],
            &row["verified_recent"],
            &row["reported_status"]
        ),
        (
            &json!("unmeasured"),
            &json!(false),
            &json!("hint_disagrees")
        ),
        "{row}"
    );
    assert_eq!(world.https.asked(), []);
}
