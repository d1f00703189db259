//! `profile verify --probe` and `doctor --probe`: the provider's own CLI refreshes what nobody can be asked about, and is never killed.

use serde_json::json;

use super::{asked, credential, home, one_works, refused_everywhere, status, world};
use crate::support::sandbox::Ran;
use crate::support::world::{Account, World, wait};

/// The login of `one` changed, and its token has run out since.
fn changed_and_expired() -> World {
    let mut world = world();
    world.log_in(
        home(&world, "one").to_str().expect("UTF-8"),
        &Account::new("one").expires_in(100),
    );
    world.sandbox.set("AGENT_FLEET_TEST_NOW", "+7200");
    world
}

fn probe(world: &World, more: &[&str]) -> Ran {
    let mut line = vec!["profile", "verify", "one", "--probe"];
    line.extend(more);
    world.sandbox.run(line)
}

#[test]
fn a_changed_login_whose_token_ran_out_is_unproven_until_a_probe_refreshes_it_once() {
    let world = changed_and_expired();
    refused_everywhere(&world, "identity_unproven");
    assert_eq!(
        status(&world, "one")["hint"],
        "agent-fleet profile verify one --probe"
    );
    drop(
        world
            .sandbox
            .run(["profile", "verify", "one"])
            .refused("identity_unproven"),
    );
    assert_eq!(world.requests("refresh"), [""; 0]);
    let turns = world.requests("turn").len();
    let answer = probe(&world, &[]).success();
    assert_eq!(answer["verified"][0]["reason"], "proven");
    assert_eq!(world.requests("refresh"), ["one ok"]);
    assert_eq!(world.requests("turn").len(), turns, "the model was asked");
    assert!(
        world.lease("@probe/one").is_none(),
        "the probe holds its slots still"
    );
    one_works(&world, "t");
}

#[test]
fn a_probe_that_shows_another_account_quarantines_the_profile() {
    let mut world = world();
    world.log_in(
        home(&world, "one").to_str().expect("UTF-8"),
        &Account::new("three").expires_in(100),
    );
    world.sandbox.set("AGENT_FLEET_TEST_NOW", "+7200");
    drop(probe(&world, &[]).refused("identity_changed"));
    assert_eq!(world.requests("refresh"), ["three ok"]);
    refused_everywhere(&world, "identity_changed");
}

#[test]
fn a_probe_is_refused_while_a_lease_of_the_profile_lives_and_of_another_one_not() {
    let world = changed_and_expired();
    drop(asked(&world, &["lease", "choose"], "t", Some("two")).success());
    drop(probe(&world, &[]).success());
    // Its login changes and runs out again while a worker is on it.
    let worker = world.start("u", "hold never");
    let profile = world.lease("u").expect("a lease")["profile"].clone();
    assert_eq!(profile, "one");
    wait("its turn", || world.requests("turn").get(1).cloned());
    let mut login: serde_json::Value =
        serde_json::from_slice(&std::fs::read(credential(&world, "one")).unwrap()).unwrap();
    login["token"] = "changed".into();
    login["expires_at"] = json!("2020-01-01T00:00:00Z");
    world
        .sandbox
        .write(credential(&world, "one"), login.to_string());
    let refused = probe(&world, &[]).refused("lease_active");
    assert_eq!(refused["details"]["holders"][0]["task"], "u", "{refused}");
    assert_eq!(world.requests("refresh"), ["one ok"]);
    worker.kill();
}

#[test]
fn a_slow_refresh_is_left_alone_holds_every_slot_and_frees_them_when_it_is_done() {
    let world = changed_and_expired();
    world.change("one", |account| {
        account["refresh_latency_seconds"] = 4.into();
    });
    let refused = probe(&world, &["--patience", "1"]).refused("probe_slow");
    assert!(
        refused["error"]
            .as_str()
            .is_some_and(|text| text.contains("probe-slow")),
        "{refused}"
    );
    let lease = world.lease("@probe/one").expect("the probe's lease");
    assert_eq!(
        (&lease["verdict"], &lease["profile"]),
        (&json!("orphaned"), &json!("one"))
    );
    drop(asked(&world, &["lease", "choose"], "t", Some("one")).refused("identity_unproven"));
    drop(probe(&world, &["--patience", "1"]).refused("lease_active"));
    wait("the end of the refresh", || {
        (world.requests("refresh") == ["one ok"]).then_some(())
    });
    wait("the end of the probe", || {
        let lease = world.lease("@probe/one");
        lease
            .is_none_or(|lease| lease["verdict"] == "dead")
            .then_some(())
    });
    one_works(&world, "t");
    assert_eq!(
        world.requests("refresh"),
        ["one ok"],
        "the refresh token was spent twice"
    );
}

#[test]
fn a_probe_that_is_killed_leaves_its_refresh_to_end_by_itself() {
    let world = changed_and_expired();
    world.change("one", |account| {
        account["refresh_latency_seconds"] = 2.into();
    });
    let mut child = world
        .sandbox
        .command(["profile", "verify", "one", "--probe"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("the program starts");
    wait("the CLI of the probe", || running(&world).then_some(()));
    child.kill().expect("ours to kill");
    child.wait().expect("our child");
    let lease = world.lease("@probe/one").expect("the probe's lease");
    assert_eq!(lease["verdict"], "orphaned");
    wait("the end of the refresh", || {
        (world.requests("refresh") == ["one ok"]).then_some(())
    });
    wait("the end of the CLI", || (!running(&world)).then_some(()));
    one_works(&world, "t");
}

/// Whether an agent of this world's `one` is running.
fn running(world: &World) -> bool {
    let home = format!("SCRIPTED_HOME={}", home(world, "one").display());
    let entries = std::fs::read_dir("/proc").expect("a process list");
    entries.flatten().any(|entry| {
        let read = |name: &str| std::fs::read(entry.path().join(name)).unwrap_or_default();
        let ours = read("environ")
            .split(|byte| *byte == 0)
            .any(|pair| pair == home.as_bytes());
        ours && read("cmdline")
            .split(|byte| *byte == 0)
            .any(|word| word == b"status")
    })
}

#[test]
fn a_refused_refresh_is_said_and_so_is_what_to_type() {
    let world = changed_and_expired();
    world.change("one", |account| account["revoked"] = true.into());
    let refused = probe(&world, &[]).refused("provider_failed");
    assert_eq!(refused["hint"], "agent-fleet profile enroll one");
}

#[test]
fn nothing_is_started_in_a_home_whose_login_something_would_replace() {
    let world = changed_and_expired();
    let settings = home(&world, "one").join("settings.json");
    let mut file: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&settings).unwrap()).unwrap();
    file["env"] = json!({"SCRIPTED_TOKEN": "foreign"});
    world.sandbox.write(&settings, file.to_string());
    drop(probe(&world, &[]).refused("auth_override"));
    assert_eq!(world.requests("refresh"), [""; 0]);
}

/// The level of the check that says whether the account of `one` is proved.
fn identity(doctor: &serde_json::Value) -> serde_json::Value {
    let profiles = doctor["profiles"].as_array().expect("profiles");
    let one = profiles.iter().find(|one| one["profile"] == "one");
    let checks = one.expect("the profile")["checks"].as_array();
    let mut checks = checks.expect("checks").iter();
    let found = checks.find(|check| check["id"] == "identity");
    found.expect("the check")["level"].clone()
}

#[test]
fn doctor_asks_nobody_until_it_is_told_to_probe_and_then_reports_what_came_of_it() {
    let world = changed_and_expired();
    let (asked, turns) = (world.requests("usage").len(), world.requests("turn").len());
    let before = world.command(&["doctor"]);
    assert_ne!(identity(&before), "ok");
    assert_eq!(world.requests("usage").len(), asked, "the server was asked");
    assert_eq!(world.requests("refresh"), [""; 0]);
    let ran = world.sandbox.run(["doctor", "--probe"]);
    assert!(
        ran.stderr.contains("refreshes the login of `one`"),
        "{}",
        ran.stderr
    );
    assert_eq!(identity(&ran.success()), "ok");
    assert_eq!(world.requests("refresh"), ["one ok"]);
    assert_eq!(world.requests("turn").len(), turns, "the model was asked");
    one_works(&world, "t");
    drop(world.command(&["doctor", "--probe"]));
    assert_eq!(world.requests("refresh"), ["one ok"], "it needed none");
}

#[test]
fn doctor_reports_all_the_same_when_a_probe_is_refused_or_nobody_can_be_asked() {
    let world = changed_and_expired();
    world.change("one", |account| account["revoked"] = true.into());
    let ran = world.sandbox.run(["doctor", "--probe"]);
    assert!(
        ran.stderr
            .contains("ended without refreshing the login of profile `one`"),
        "{}",
        ran.stderr
    );
    assert_ne!(identity(&ran.success()), "ok");
    world.sandbox.write("config/accounts.toml", "version = [");
    let ran = world.sandbox.run(["doctor", "--probe"]);
    assert!(ran.stderr.contains("nobody was asked: "), "{}", ran.stderr);
    assert_eq!(ran.success()["healthy"], false);
}
