//! Quota and identity end to end, with the built-in provider: what is asked of its server, and what is told.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::sandbox::{Ran, Sandbox};

/// Two profiles, `one` and `two`, logged in to the accounts of the same names.
struct World {
    sandbox: Sandbox,
}

impl World {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        let home = |id: &str| sandbox.path(format!("share/accounts/scripted/{id}"));
        let registry = format!(
            "version = 1\n[providers.scripted]\nbase_home = false\ndesktop_identity_file = false\nservice = \"{}\"\n\
             [profiles.one]\nprovider = \"scripted\"\nhome = \"{}\"\npools = [\"crew\"]\nenabled = true\n\
             [profiles.two]\nprovider = \"scripted\"\nhome = \"{}\"\npools = [\"crew\"]\nenabled = true\n",
            sandbox.path("service").display(),
            home("one").display(),
            home("two").display(),
        );
        sandbox.write("config/accounts.toml", registry);
        let world = Self { sandbox };
        for id in ["one", "two"] {
            world.log_in(id, id, &[]);
        }
        world
    }

    fn home(&self, id: &str) -> PathBuf {
        self.sandbox.path(format!("share/accounts/scripted/{id}"))
    }

    fn log_in(&self, id: &str, account: &str, more: &[&str]) {
        std::fs::create_dir_all(self.home(id)).expect("a directory in the sandbox");
        let service = self.sandbox.path("service");
        let mut line = vec![
            "scripted-agent",
            "--",
            "login",
            "--account",
            account,
            "--service",
        ];
        line.push(service.to_str().expect("UTF-8"));
        line.extend(more);
        let mut command = self.sandbox.command(line);
        command.env("SCRIPTED_HOME", self.home(id));
        let ran = Ran::of(&mut command);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
    }

    fn account(&self, account: &str, change: &Value) {
        let path = format!("service/{account}.json");
        let bytes = std::fs::read(self.sandbox.path(&path)).expect("the account");
        let mut file: Value = serde_json::from_slice(&bytes).expect("JSON");
        for (key, value) in change.as_object().expect("an object") {
            file[key] = value.clone();
        }
        self.sandbox.write(path, file.to_string());
    }

    fn run(&self, line: &str) -> Ran {
        self.sandbox.run(line.split(' '))
    }

    /// The row of a profile after `quota show`.
    fn show(&self, id: &str) -> Value {
        self.run(&format!("quota show {id}")).success()["quota"][0].clone()
    }

    /// How often the server was asked about an account.
    fn asked(&self, account: &str) -> usize {
        let log = std::fs::read_to_string(self.sandbox.path("service/requests.jsonl"));
        log.unwrap_or_default()
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter(|entry| entry["request"] == "usage" && entry["account"] == account)
            .count()
    }

    fn state(&self, path: &str) -> PathBuf {
        self.sandbox.path(format!("state/{path}"))
    }
}

fn keys(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                found.push(key.clone());
                keys(inner, found);
            }
        }
        Value::Array(list) => list.iter().for_each(|inner| keys(inner, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn quota_is_measured_once_and_then_shown_from_what_is_known() {
    let world = World::new();
    let answer = world.run("quota show --all").success();
    let row = &answer["quota"][0];
    assert_eq!(
        (&row["profile"], &row["status"]),
        (&json!("one"), &json!("fresh"))
    );
    assert_eq!(row["fresh"], true);
    assert_eq!(row["verified_recent"], true);
    assert_eq!(row["identity_source"], "scripted");
    assert_eq!(row["identity_fingerprint"].as_str().unwrap().len(), 64);
    assert!(row["headroom_percent"].is_number(), "{row}");
    assert_eq!(answer["quota"][1]["profile"], "two");
    let mut names = Vec::new();
    keys(&answer, &mut names);
    assert!(!names.contains(&"account".to_owned()), "{answer}");
    for _ in 0..3 {
        world.run("quota show").success();
    }
    assert_eq!((world.asked("one"), world.asked("two")), (1, 1));
}

#[test]
fn thirty_processes_ask_the_server_once() {
    let world = World::new();
    let children: Vec<_> = (0..30)
        .map(|_| {
            let mut command = world.sandbox.command(["quota", "show", "one"]);
            command
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer["quota"][0]["status"], "fresh", "{answer}");
    }
    assert_eq!(world.asked("one"), 1);
}

#[test]
fn another_accounts_login_in_a_home_is_caught_and_only_that_profile_stops() {
    let world = World::new();
    world.run("quota show --all").success();
    let login = world.home("one").join("login.json");
    let own = std::fs::read(&login).unwrap();
    let foreign = std::fs::read(world.home("two").join("login.json")).unwrap();
    world.sandbox.write(&login, foreign);
    let row = world.show("one");
    assert_eq!(
        (&row["reason"], &row["verified_recent"]),
        (&json!("identity_changed"), &json!(false))
    );
    world.run("profile verify one").refused("identity_changed");
    world.run("profile verify two").success();
    std::fs::remove_file(world.state("snapshot/scripted")).unwrap();
    assert_eq!(
        world.show("one")["reason"],
        "identity_changed",
        "the snapshot is not what holds it"
    );
    world.sandbox.write(&login, own);
    let answer = world.run("profile verify one").success();
    assert_eq!(
        answer["verified"][0]["verified"], true,
        "the right login was put back"
    );
}

#[test]
fn two_homes_of_one_account_are_both_refused() {
    let world = World::new();
    world.log_in("two", "one", &[]);
    world.run("profile verify one").success();
    let error = world
        .run("profile verify --all")
        .refused("duplicate_provider_identity");
    assert!(
        error["error"]
            .as_str()
            .unwrap()
            .contains("duplicate_provider_identity"),
        "{error}"
    );
    let rows = &error["details"]["verified"];
    assert_eq!(
        (&rows[0]["verified"], &rows[1]["verified"]),
        (&json!(false), &json!(false))
    );
}

#[test]
fn an_expired_token_is_shown_to_nobody_and_keeps_its_account() {
    let mut world = World::new();
    world.log_in("one", "one", &["--expires-in", "100"]);
    assert_eq!(world.show("one")["status"], "fresh");
    world.sandbox.set("AGENT_FLEET_TEST_NOW", "+7200");
    let row = world.show("one");
    assert_eq!(
        (&row["status"], &row["reason"]),
        (&json!("presumed"), &json!("token_expired"))
    );
    assert_eq!(row["verified_recent"], true, "its tokens did not change");
    assert_eq!(world.asked("one"), 1);
}

#[test]
fn a_throttling_server_is_left_alone_and_the_last_reading_stays() {
    let mut world = World::new();
    assert_eq!(world.show("one")["status"], "fresh");
    world.account("one", &json!({"fault": "throttled"}));
    world.sandbox.set("AGENT_FLEET_TEST_NOW", "+400");
    for _ in 0..5 {
        let row = world.show("one");
        assert_eq!(row["reported_status"], "throttled");
        assert_eq!(row["age_seconds"].as_u64().unwrap() / 100, 4);
        assert!(
            row["headroom_percent"].is_number() && row["next_poll_at"].is_string(),
            "{row}"
        );
    }
    assert_eq!(world.asked("one"), 2, "one good answer, one refusal");
}

#[test]
fn a_revoked_login_is_broken_until_it_is_proved_again() {
    let world = World::new();
    world.run("profile provision one").success();
    world.run("quota show one").success();
    world.account("one", &json!({"revoked": true}));
    let refused = world.run("profile verify one").refused("auth_broken");
    assert_eq!(world.show("one")["reason"], "auth_broken");
    let login = refused["hint"].as_str().expect("a hint").to_owned();
    assert_eq!(login, "agent-fleet profile enroll one");
    let hint = |world: &World| {
        let status = world.run("profile status one").success();
        status["routeability"]["hint"].clone()
    };
    assert_eq!(hint(&world), login, "only a new login helps");
    world.account("one", &json!({"revoked": false}));
    world.log_in("one", "one", &[]);
    assert_eq!(
        hint(&world),
        Value::Null,
        "the login is new, and is proved by the choose that wants it"
    );
    world.run("profile verify one").success();
    assert_eq!(world.show("one")["reason"], Value::Null);
}

#[test]
fn a_login_that_was_refused_from_the_start_says_to_log_in() {
    let world = World::new();
    world.account("one", &json!({"revoked": true}));
    let refused = world.run("profile verify one").refused("auth_broken");
    let login = refused["hint"].as_str().expect("a hint");
    assert_eq!(login, "agent-fleet profile enroll one");
}

#[test]
fn a_lost_record_is_unproven_until_a_person_has_it_verified() {
    let world = World::new();
    world.run("quota show one").success();
    std::fs::remove_file(world.state("profiles/one.json")).unwrap();
    assert_eq!(world.show("one")["reason"], "identity_unproven");
    std::fs::remove_file(world.state("snapshot/scripted")).unwrap();
    assert_eq!(world.show("one")["reason"], "identity_unproven");
    assert!(
        !world.state("profiles/one.json").exists(),
        "it was pinned anew by itself"
    );
    world.run("profile verify one").success();
    assert!(world.state("profiles/one.json").exists());
    assert_eq!(world.show("one")["reason"], Value::Null);
}

#[test]
fn a_damaged_record_is_named_left_alone_and_stops_its_profile_only() {
    let world = World::new();
    world.run("quota show --all").success();
    let path = world.state("profiles/one.json");
    std::fs::remove_file(&path).unwrap();
    world.sandbox.write(&path, "{");
    let error = world.run("profile verify one").refused("record_damaged");
    assert!(
        error["hint"].as_str().unwrap().contains("one.json"),
        "{error}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), b"{");
    world.run("profile verify two").success();
}

#[test]
fn no_home_no_login_and_unknown_profiles_have_their_words() {
    let world = World::new();
    let login = world.home("one").join("login.json");
    std::fs::remove_file(&login).unwrap();
    assert_eq!(world.show("one")["reason"], "no_login");
    world.run("profile verify one").refused("identity_unproven");
    let status = world.run("profile status one").success();
    assert_eq!(
        status["routeability"]["hint"].as_str(),
        world.run("profile verify one").refused("identity_unproven")["hint"].as_str()
    );
    std::os::unix::fs::symlink(world.home("two").join("login.json"), &login).unwrap();
    assert_eq!(world.show("one")["reason"], "credential_link");
    let error = world.run("profile verify one").refused("identity_unproven");
    assert!(
        error["hint"].as_str().unwrap().contains("login.json"),
        "{error}"
    );
    world.run("quota show three").refused("not_found");
    assert_eq!(world.asked("one") + world.asked("two"), 0);
}
