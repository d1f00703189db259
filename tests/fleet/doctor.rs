//! `fleet doctor`, `providers` and `skill install`.

use serde_json::Value;

use crate::support::checkout::{Checkout, step};

fn check(doctor: &Value, id: &str) -> Value {
    let checks = doctor["checks"].as_array().expect("checks");
    let found = checks.iter().find(|check| check["id"] == id);
    found
        .unwrap_or_else(|| panic!("no `{id}` in {doctor}"))
        .clone()
}

#[test]
fn what_keeps_a_fleet_from_work_is_named_with_what_helps() {
    let checkout = Checkout::with(1);
    let doctor = checkout.fleet(&["doctor"]);
    assert_eq!(doctor["healthy"], true, "{doctor}");
    // One family cannot review itself.
    assert_eq!(check(&doctor, "families")["level"], "warn");
    checkout.plan(
        "r",
        &[step(
            "one",
            "files = [\"a.txt\"]",
            "say Status: needs-verification",
        )],
    );
    let records = checkout.bytes_of("r");
    let run = records
        .keys()
        .find(|path| path.ends_with("run.json"))
        .expect("run.json");
    let ledger = run.with_file_name("ledger.jsonl");
    checkout.world.sandbox.write(ledger, "nonsense\n");
    checkout.write(".fleet/runs/.merge-x/new/a.txt", "mine");
    checkout
        .world
        .sandbox
        .write("config/fleet.toml", "[defaults]\nreview = \"cross-all\"\n");
    let doctor = checkout.fleet(&["doctor"]);
    assert_eq!(doctor["healthy"], false);
    assert_eq!(check(&doctor, "runs")["level"], "fail");
    assert_eq!(check(&doctor, "merges")["level"], "warn");
    assert_eq!(check(&doctor, "families")["level"], "fail");
    checkout
        .world
        .sandbox
        .write("config/fleet.toml", "nonsense = 1\n");
    let doctor = checkout.fleet(&["doctor"]);
    assert_eq!(check(&doctor, "settings")["level"], "fail");
    checkout.world.sandbox.write("config/fleet.toml", "");
    checkout.world.command(&["profile", "disable", "one"]);
    let doctor = checkout.fleet(&["doctor"]);
    assert_eq!(check(&doctor, "tier_heavy")["level"], "fail");
    assert_eq!(check(&doctor, "accounts")["level"], "fail");
}

#[test]
fn the_settings_are_data() {
    let checkout = Checkout::with_reviewers(1, "cross-heavy");
    let settings = checkout.fleet(&["providers"]);
    assert_eq!(settings["review"], "cross-heavy");
    assert_eq!(settings["tiers"]["standard"]["workers"][0]["model"], "red");
    assert_eq!(
        settings["tiers"]["review"]["workers"][0]["family"],
        "blue-family"
    );
    assert_eq!(settings["tiers"]["heavy"]["problem"], Value::Null);
}

#[test]
fn the_skill_goes_where_the_persons_own_clis_read_and_keeps_their_changes() {
    let checkout = Checkout::with(1);
    let install = ["skill", "install"];
    checkout.run(&install).refused("not_found");
    let home = checkout.world.sandbox.path("home");
    std::fs::create_dir_all(home.join(".claude")).expect("made");
    std::fs::create_dir_all(home.join(".codex")).expect("made");
    let answer = checkout.fleet(&install);
    assert_eq!(
        answer["skills"].as_array().expect("rows").len(),
        2,
        "{answer}"
    );
    let page = home.join(".claude/skills/agent-fleet/SKILL.md");
    let ours = std::fs::read_to_string(&page).expect("the page");
    assert!(ours.starts_with("---\nname: agent-fleet\n"));
    assert_eq!(
        checkout.fleet(&install)["skills"][0]["outcome"],
        "unchanged"
    );
    checkout.world.sandbox.write(&page, "mine");
    checkout.run(&install).refused("already_exists");
    assert_eq!(std::fs::read_to_string(&page).expect("the page"), "mine");
    let forced = checkout.fleet(&["skill", "install", "--force"]);
    assert_eq!(forced["skills"][0]["outcome"], "replaced");
    assert_eq!(std::fs::read_to_string(&page).expect("the page"), ours);
    checkout.fleet(&["skill", "install", "--dir", "elsewhere"]);
    assert_eq!(checkout.read("elsewhere/agent-fleet/SKILL.md"), ours);
}
