//! `agent-fleet audit` tells afterwards what happened and which command did it.

use serde_json::Value;

use crate::support::sandbox::Sandbox;
use crate::support::world::{Account, POOL, World, wait};

fn world() -> World {
    World::new(&[Account::new("one").slots(2), Account::new("two").used(60.0)])
}

fn audit(sandbox: &Sandbox, more: &[&str]) -> Vec<Value> {
    let line = [&["audit"], more].concat();
    let answer = sandbox.run(line).success();
    assert_eq!(answer["damaged"], 0, "{answer}");
    answer["events"].as_array().expect("a list").clone()
}

/// The events as `word by reason`.
fn told(sandbox: &Sandbox, more: &[&str]) -> Vec<String> {
    let text = |event: &Value, field: &str| event[field].as_str().unwrap_or("-").to_owned();
    audit(sandbox, more)
        .iter()
        .map(|event| ["event", "by", "reason"].map(|field| text(event, field)))
        .map(|words| words.join(" | "))
        .collect()
}

fn choose(world: &World, task: &str) {
    let project = world.project.to_str().expect("sandbox paths are text");
    let mut line = vec!["lease", "choose", "--task", task, "--pool", POOL];
    line.extend(["--workspace", project]);
    world.sandbox.run(line).success();
}

#[test]
fn the_life_of_a_lease_is_told_with_the_command_that_made_each_step() {
    let world = world();
    choose(&world, "given-back");
    let release = ["lease", "release", "--task", "given-back"];
    world.sandbox.run(release).success();
    let life = [
        "lease_reserved | lease choose | -",
        "lease_released | lease release | -",
    ];
    assert_eq!(told(&world.sandbox, &["--task", "given-back"]), life);

    choose(&world, "killed");
    let worker = world.start("killed", "hold go-on");
    let generation = world.lease("killed").expect("a lease")["generation"].clone();
    worker.kill();
    let life = [
        "lease_reserved | lease choose | -",
        "lease_bound | exec | -",
        "lease_reclaimed | lease choose | died",
    ];
    // What a worker leaves behind may hold its witness for a moment.
    let found = wait("the dead worker's lease", || {
        choose(&world, "next");
        let release = ["lease", "release", "--task", "next"];
        world.sandbox.run(release).success();
        let told = told(&world.sandbox, &["--task", "killed"]);
        (told.len() == life.len()).then_some(told)
    });
    assert_eq!(found, life);
    for event in audit(&world.sandbox, &["--task", "killed"]) {
        assert_eq!(event["profile"], "one");
        assert_eq!(event["provider"], "scripted");
        assert_eq!(event["generation"], generation);
    }

    let held = world.start("held", "hold go-on");
    let force = ["lease", "release", "--force", "--task", "held"];
    world.sandbox.run(force).success();
    let last = told(&world.sandbox, &["--task", "held", "--limit", "1"]);
    assert_eq!(last, ["lease_forced | lease release | -"]);
    held.kill();
}

#[test]
fn what_changes_for_a_profile_and_what_a_person_changed_is_told() {
    let world = world();
    let run = |line: &[&str]| world.sandbox.run(line.iter().copied());
    run(&["profile", "drain", "one", "--reason", "new disk"]).success();
    run(&["profile", "undrain", "one"]).success();
    run(&["profile", "disable", "one"]).success();
    run(&["profile", "add", "--provider", "scripted", "new"]).success();
    assert_eq!(told(&world.sandbox, &["--profile", "scripted"]), [""; 0]);
    let new = ["command_done | profile add | -"];
    assert_eq!(told(&world.sandbox, &["--profile", "new"]), new);
    let one = told(&world.sandbox, &["--profile", "one", "--limit", "5"]);
    let expected = [
        "drained | profile drain | new disk",
        "command_done | profile drain | -",
        "undrained | profile undrain | -",
        "command_done | profile undrain | -",
        "command_done | profile disable | -",
    ];
    assert_eq!(one, expected);
}

#[test]
fn what_a_person_pasted_by_mistake_is_not_written_down() {
    let world = world();
    let secret = "sk-ant-oat01-synthetic-token";
    // One that looks like a token is refused before any command has it; another name may be one all the same.
    let refused = world.sandbox.mistyped(["profile", "enable", secret]);
    assert_eq!(refused.status.code(), Some(2));
    let unknown = world.sandbox.run(["profile", "enable", "nobody"]);
    unknown.refused("not_found");
    let last = told(&world.sandbox, &["--limit", "1"]);
    assert_eq!(last, ["command_refused | profile enable | not_found"]);
    let file = std::fs::read_to_string(world.sandbox.path("state/audit.jsonl"));
    assert!(!file.expect("the file").contains(secret));
}

#[test]
fn lines_that_are_no_events_are_counted_and_cost_nothing_else() {
    let world = world();
    choose(&world, "a");
    let path = world.sandbox.path("state/audit.jsonl");
    let before = std::fs::read_to_string(&path).expect("the file");
    let odd = format!(
        "{before}\n{{\"torn\n{}\n\u{0}\u{0}\n{{\"schema\":1",
        "x".repeat(9000)
    );
    world.sandbox.write("state/audit.jsonl", odd);
    choose(&world, "b");
    let answer = world.sandbox.run(["audit"]).success();
    assert_eq!(answer["damaged"], 4, "{answer}");
    let last = answer["events"].as_array().and_then(|events| events.last());
    assert_eq!(last.expect("an event")["task"], "b");
}

#[test]
fn a_file_that_cannot_be_written_stops_nobody() {
    let world = world();
    std::fs::remove_file(world.sandbox.path("state/audit.jsonl")).expect("the file");
    std::fs::create_dir(world.sandbox.path("state/audit.jsonl")).expect("a directory");
    choose(&world, "a");
    let release = ["lease", "release", "--task", "a"];
    world.sandbox.run(release).success();
    let refused = world.sandbox.run(["audit"]);
    refused.refused("io");
}
