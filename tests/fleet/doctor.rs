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

/// A checkout whose run `r` has launched its only worker, in a worktree.
fn in_a_worktree(script: &str) -> Checkout {
    let checkout = Checkout::with(1);
    checkout.plan("r", &[step("one", "worktree = true", script)]);
    checkout.fleet(&["launch", "--ready"]);
    checkout
}

#[test]
fn a_worktree_of_a_stopped_run_is_named_with_the_command_that_removes_it() {
    let checkout = in_a_worktree("write new.txt half\nhold never");
    checkout.until("r", "one", "running");
    checkout.fleet(&["stop", "--all"]);
    let doctor = checkout.fleet(&["doctor"]);
    let left = check(&doctor, "worktrees");
    assert_eq!(left["level"], "warn", "{left}");
    let root = checkout.world.sandbox.path("share/worktrees");
    let root = root.to_str().expect("UTF-8");
    assert!(
        left["evidence"].as_str().expect("text").contains(root),
        "{left}"
    );
    let fix = left["fix"]
        .as_str()
        .expect("a command")
        .replace("TEXT", "unwanted");
    let words: Vec<&str> = fix.split(' ').collect();
    assert_eq!(words[..2], ["agent-fleet", "fleet"], "{fix}");
    let status = checkout.fleet(&words[2..]);
    assert_eq!(status["state"], "stopped", "{status}");
    assert_eq!(
        check(&checkout.fleet(&["doctor"]), "worktrees")["level"],
        "ok"
    );
    assert!(!checkout.git(&["worktree", "list"]).contains(root));
}

#[test]
fn a_worktree_that_no_run_knows_is_named_with_what_removes_it() {
    let checkout = in_a_worktree("write new.txt half\nsay Status: blocked");
    checkout.until("r", "one", "parked");
    std::fs::remove_dir_all(checkout.records("r")).expect("it is there");
    let left = check(&checkout.fleet(&["doctor"]), "worktrees");
    let told = left["evidence"].as_str().expect("text");
    let remove = told
        .split('`')
        .find(|part| part.starts_with("git -C"))
        .expect("a command");
    let mut shell = crate::support::sandbox::Sandbox::tool("sh");
    assert!(
        shell.args(["-c", remove]).status().expect("sh").success(),
        "{remove}"
    );
    assert_eq!(
        check(&checkout.fleet(&["doctor"]), "worktrees")["level"],
        "ok",
        "{told}"
    );
}
