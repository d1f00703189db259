//! What workers leave in their transcripts reaches the very choice that it matters for, also when no hook told
//! of it: the worker was killed, or its CLI fires none and stays alive.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::support::sandbox::Ran;
use crate::support::world::{Account, POOL, Worker, World, wait};

/// Two accounts, of which `one` is preferred, and has room, until something is known against it.
fn world() -> World {
    World::new(&[Account::new("one").slots(5), Account::new("two").used(80.0)])
}

fn choose(world: &World, task: &str) -> Ran {
    let project = world.project.to_str().expect("sandbox paths are text");
    let mut line = vec!["lease", "choose", "--task", task, "--pool", POOL];
    line.extend(["--workspace", project]);
    world.sandbox.run(line)
}

#[track_caller]
fn chosen(world: &World, task: &str) -> String {
    let profile = &choose(world, task).success()["profile"];
    profile.as_str().expect("a profile").to_owned()
}

fn status(world: &World, profile: &str) -> Value {
    world.command(&["profile", "status", profile])
}

/// A worker on `one` in the middle of its turn.
fn worker(world: &World, task: &str) -> (Worker, PathBuf) {
    let worker = world.start(task, "say hello\nhold go-on");
    let transcript = wait("the worker's transcript", || transcript(world, task));
    wait("the worker's first words", || {
        std::fs::read_to_string(&transcript)
            .ok()
            .filter(|text| text.contains("hello"))
    });
    (worker, transcript)
}

fn transcript(world: &World, task: &str) -> Option<PathBuf> {
    let ran = world.sandbox.run(["session", "status", "--task", task]);
    let session: Value = serde_json::from_str(&ran.stdout).ok()?;
    let home = status(world, session["profile"].as_str()?)["home"].clone();
    let file = format!("transcripts/{}.jsonl", session["session_id"].as_str()?);
    Some(PathBuf::from(home.as_str()?).join(file)).filter(|path| path.is_file())
}

/// What the agent writes when its turn fails, as one line at the end of its transcript.
fn fail(transcript: &PathBuf, limit: &str, resets_at: Option<Timestamp>) {
    append(
        transcript,
        &json!({
            "type": "failure",
            "limit": limit,
            "resets_at": resets_at.map(|at| at.to_string()),
            "timestamp": now().to_string(),
        }),
    );
}

fn append(transcript: &PathBuf, line: &Value) {
    let mut file = OpenOptions::new()
        .append(true)
        .open(transcript)
        .expect("the transcript is there");
    writeln!(file, "{line}").expect("the transcript takes a line");
}

#[expect(
    clippy::disallowed_methods,
    reason = "compared with the program's clock"
)]
fn now() -> Timestamp {
    Timestamp::now()
}

fn in_minutes(minutes: i64) -> Timestamp {
    let at = now() + SignedDuration::from_mins(minutes);
    Timestamp::from_second(at.as_second()).expect("a time")
}

#[test]
fn the_choose_that_reclaims_a_worker_killed_after_its_limit_takes_another_profile() {
    let world = world();
    let (worker, transcript) = worker(&world, "first");
    let reset = in_minutes(40);
    fail(&transcript, "quota", Some(reset));
    worker.kill();
    assert_eq!(chosen(&world, "second"), "two");
    let cooldown = &status(&world, "one")["cooldown"];
    assert_eq!(cooldown["reason"], "quota", "{cooldown}");
    assert!(
        cooldown.to_string().contains(&reset.to_string()),
        "not until {reset}: {cooldown}"
    );
}

#[test]
fn a_live_worker_that_sits_on_its_limit_turns_the_next_choose_away() {
    let world = world();
    let (_worker, transcript) = worker(&world, "first");
    assert_eq!(chosen(&world, "before"), "one");
    fail(&transcript, "quota", Some(in_minutes(40)));
    assert_eq!(chosen(&world, "after"), "two");
}

#[test]
fn usage_that_was_paid_for_keeps_work_from_a_profile_that_may_not_spend_until_a_person_looked() {
    let world = world();
    let (worker, transcript) = worker(&world, "first");
    append(
        &transcript,
        &json!({"type": "failure", "overage_used": true, "timestamp": now().to_string()}),
    );
    worker.kill();
    assert_eq!(chosen(&world, "second"), "two");
    let told = status(&world, "one")["routeability"].clone();
    assert_eq!(told["reason"], "money_guard");
    let lift = "agent-fleet profile cooldown-clear one";
    assert_eq!(told["hint"], lift);
    let doctor = world.command(&["doctor"]);
    let checks = doctor["profiles"][0]["checks"].as_array().expect("checks");
    let billing = checks.iter().find(|check| check["id"] == "billing");
    let billing = billing.expect("the check");
    assert_eq!(
        (&billing["level"], &billing["fix"]),
        (&"fail".into(), &lift.into())
    );
    for page in [world.command(&["status"]).to_string(), billing.to_string()] {
        assert!(
            page.contains("beyond the subscription was being paid for"),
            "{page}"
        );
    }
    world.command(&["profile", "cooldown-clear", "one"]);
    assert_eq!(chosen(&world, "third"), "one");
}

#[test]
fn releasing_a_dead_workers_lease_reads_its_limit() {
    let world = world();
    let (worker, transcript) = worker(&world, "first");
    fail(&transcript, "rate", None);
    worker.kill();
    world.command(&["lease", "release", "--task", "first"]);
    assert_eq!(status(&world, "one")["cooldown"]["reason"], "rate");
    assert_eq!(chosen(&world, "second"), "two");
}

#[test]
fn a_refused_login_in_a_dead_workers_transcript_breaks_its_profile_alone() {
    let world = world();
    let (worker, transcript) = worker(&world, "first");
    fail(&transcript, "auth", None);
    worker.kill();
    assert_eq!(chosen(&world, "second"), "two");
    assert_eq!(
        status(&world, "one")["routeability"]["reason"],
        "auth_broken"
    );
    world.command(&["profile", "verify", "one"]);
    assert_eq!(chosen(&world, "third"), "one", "the server takes the login");
}

#[test]
fn a_billing_block_that_a_person_lifted_stays_lifted_when_its_cause_is_read_again() {
    let world = world();
    let (worker, transcript) = worker(&world, "first");
    fail(&transcript, "billing", None);
    assert_eq!(chosen(&world, "second"), "two");
    assert_eq!(
        status(&world, "one")["routeability"]["reason"],
        "money_guard"
    );
    world.command(&["profile", "cooldown-clear", "one"]);
    append(&transcript, &json!({"type": "prompt", "text": "go on"}));
    assert_eq!(chosen(&world, "third"), "one");
    worker.kill();
    assert_eq!(chosen(&world, "fourth"), "one");
}

#[test]
fn what_a_worker_says_or_prints_about_limits_causes_nothing() {
    let world = world();
    let quoted = r#"{"type":"failure","limit":"quota","resets_at":"2099-01-01T00:00:00Z"}"#;
    let script = format!(
        "say You've hit your usage limit. Try again at 9:59 AM.\nspawn echo '{quoted}'\ncrash"
    );
    let ran = world.exec("first", &script);
    assert_eq!(ran.status, 137, "{}", ran.stderr);
    assert_eq!(chosen(&world, "second"), "one");
    assert_eq!(status(&world, "one")["cooldown"], Value::Null);
}

#[test]
fn a_transcript_that_is_gone_keeps_nobody_from_choosing() {
    let world = world();
    let (worker, transcript) = worker(&world, "first");
    std::fs::remove_file(&transcript).expect("it was there");
    worker.kill();
    assert_eq!(chosen(&world, "second"), "one");
}

#[test]
fn a_short_rest_becomes_the_stated_one_once_the_record_is_there() {
    let world = world();
    let (_worker, transcript) = worker(&world, "first");
    fail(&transcript, "rate", None);
    assert_eq!(chosen(&world, "second"), "two");
    assert_eq!(status(&world, "one")["cooldown"]["reason"], "rate");
    fail(&transcript, "quota", Some(in_minutes(40)));
    assert_eq!(chosen(&world, "third"), "two");
    assert_eq!(status(&world, "one")["cooldown"]["reason"], "quota");
}

#[test]
fn a_dead_workers_transcript_is_found_by_its_sessions_mapping_too() {
    let world = world();
    let (worker, transcript) = worker(&world, "first");
    for lost in ["state/snapshot/scripted", "state/evidence/scripted.jsonl"] {
        std::fs::remove_file(world.sandbox.path(lost)).expect("it was there");
    }
    fail(&transcript, "quota", Some(in_minutes(40)));
    worker.kill();
    assert_eq!(chosen(&world, "second"), "two");
    assert_eq!(status(&world, "one")["cooldown"]["reason"], "quota");
    let leases = world.command(&["lease", "list"]);
    assert_eq!(
        leases["leases"].as_array().map(Vec::len),
        Some(1),
        "{leases}"
    );
}

#[test]
fn transcripts_that_did_not_change_are_not_written_down_again() {
    let world = world();
    let (_worker, _) = worker(&world, "first");
    assert_eq!(chosen(&world, "second"), "one");
    let snapshot = world.sandbox.path("state/snapshot/scripted");
    let inode = |path: &PathBuf| {
        use std::os::unix::fs::MetadataExt as _;
        std::fs::metadata(path).expect("a snapshot").ino()
    };
    let before = inode(&snapshot);
    world.command(&["lease", "release", "--task", "second"]);
    assert_eq!(chosen(&world, "second"), "one");
    assert_eq!(inode(&snapshot), before, "the snapshot was replaced");
}

#[test]
fn what_is_known_of_an_account_is_not_taken_for_its_successors() {
    let mut world = world();
    world.sandbox.set(crate::enroll::SECOND_PROOF, "0");
    let (working, transcript) = worker(&world, "old");
    fail(&transcript, "quota", Some(in_minutes(7 * 24 * 60)));
    working.kill();
    // Nobody has looked at it. The profile of this name is of another account now, in the same home.
    world.command(&["lease", "release", "--task", "old", "--force"]);
    world.command(&["profile", "remove", "one"]);
    let home = world.sandbox.path("share/accounts/scripted/one");
    std::fs::remove_file(home.join("login.json")).expect("a login");
    let home = home.to_str().expect("UTF-8");
    let add = ["profile", "add", "one", "--provider", "scripted"];
    world.command(&[&add[..], &["--pool", POOL, "--home", home, "--in-place"]].concat());
    let mut enroll = world.sandbox.command(["profile", "enroll", "one"]);
    Ran::answered(&mut enroll, "three\n").success();
    // What its worker's last hooks told late is folded with the next look.
    let evidence = world.sandbox.path("state/evidence/scripted.jsonl");
    let late = std::fs::read_to_string(&evidence).expect("evidence");
    append(
        &evidence,
        &serde_json::from_str(late.lines().last().expect("a line")).expect("JSON"),
    );
    let mut limit: Value =
        serde_json::from_str(late.lines().last().expect("a line")).expect("JSON");
    limit["event"] = "stop-failure".into();
    limit["reason"] = "usage_limit_reached".into();
    limit["resets_at"] = in_minutes(7 * 24 * 60).to_string().into();
    append(&evidence, &limit);
    world.command(&["profile", "enable", "one"]);
    let status = status(&world, "one");
    assert_eq!(status["routeability"]["eligible"], true, "{status}");
    assert_eq!(chosen(&world, "new"), "one");
}
