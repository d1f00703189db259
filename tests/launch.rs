//! What a launch is given and gives back: `exec` with everything that a caller may add, `run`, `lease
//! acquire`, `lease recover`, and arguments checked without a lease.

use serde_json::Value;

use crate::support::sandbox::Ran;
use crate::support::world::{Account, POOL, World};

fn project(world: &World) -> &str {
    world.project.to_str().expect("sandbox paths are text")
}

/// `exec` of a script with more of our own words before the `--`.
fn exec_with(world: &World, task: &str, more: &[&str], script: &str) -> Ran {
    let mut line = vec![
        "exec",
        "--task",
        task,
        "--pool",
        POOL,
        "--workspace",
        project(world),
    ];
    line.extend(more);
    line.extend(["--", "-p", script]);
    world.sandbox.run(line)
}

#[test]
fn a_worker_gets_what_its_caller_gave_and_its_caller_gets_told() {
    let world = World::with(1);
    let at = |name: &str| world.sandbox.path(name).to_string_lossy().into_owned();
    let (receipt, turn_end, events) = (at("receipt.json"), at("turn-end"), at("events"));
    let script = "env AGENT_FLEET_LABEL_TICKET AGENT_FLEET_TASK_ID AGENT_FLEET_PROFILE AGENT_FLEET_GENERATION";
    let more = [
        "--label",
        "TICKET=42 and more",
        "--receipt",
        &receipt,
        "--turn-end",
        &turn_end,
        "--events",
        &events,
    ];
    let ran = exec_with(&world, "given", &more, script);
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
    let seen: Value = serde_json::from_str(ran.stdout.trim()).expect("the agent answers in JSON");
    let receipt: Value = serde_json::from_slice(&std::fs::read(receipt).unwrap()).unwrap();
    assert_eq!(
        (&receipt["ok"], &receipt["profile"], &receipt["code"]),
        (&true.into(), &"one".into(), &Value::Null)
    );
    assert!(receipt["pid"].as_u64().is_some());
    for (name, wanted) in [
        ("AGENT_FLEET_LABEL_TICKET", "42 and more".to_owned()),
        ("AGENT_FLEET_TASK_ID", "given".to_owned()),
        ("AGENT_FLEET_PROFILE", "one".to_owned()),
        ("AGENT_FLEET_GENERATION", receipt["generation"].to_string()),
    ] {
        assert_eq!(seen[name], wanted, "{name} in {seen}");
    }
    assert!(
        std::path::Path::new(&turn_end).exists(),
        "nobody was told that the turn ended"
    );
    let told = std::fs::read_dir(world.sandbox.path("events/new"))
        .expect("a maildir")
        .count();
    assert!(told >= 2, "{told} events");
    let left = world.lease("given").expect("nobody has reclaimed it yet");
    assert_eq!(
        (&left["verdict"], &left["labels"]["TICKET"]),
        (&"dead".into(), &"42 and more".into())
    );
}

#[test]
fn run_starts_a_worker_in_this_worktree_under_a_name_of_its_own() {
    let world = World::with(1);
    let nested = world.project.join("deep/inside");
    std::fs::create_dir_all(&nested).unwrap();
    let mut run = world.sandbox.command(["run", POOL, "--", "-p", "say here"]);
    let ran = Ran::of(run.current_dir(nested));
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "here\n"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("task run/"), "{}", ran.stderr);
    let sessions = world.command(&["session", "list"]);
    assert_eq!(sessions["sessions"][0]["workspace"], project(&world));
}

#[test]
fn an_acquired_lease_names_its_profile_and_is_taken_by_the_exec_of_its_task() {
    let world = World::new(&[Account::new("one"), Account::new("two").used(50.0)]);
    let acquired = world.command(&[
        "lease",
        "acquire",
        "--profile",
        "two",
        "--task",
        "t",
        "--workspace",
        project(&world),
    ]);
    assert_eq!(
        (&acquired["decision_reason"], &acquired["profile"]),
        (&"explicit".into(), &"two".into())
    );
    assert_eq!(acquired["lease"]["state"], "reserved");
    let ran = exec_with(
        &world,
        "t",
        &[],
        "env AGENT_FLEET_PROFILE AGENT_FLEET_GENERATION",
    );
    let seen: Value = serde_json::from_str(ran.stdout.trim()).expect("the agent answers in JSON");
    assert_eq!(seen["AGENT_FLEET_PROFILE"], "two");
    assert_eq!(
        seen["AGENT_FLEET_GENERATION"],
        acquired["generation"].to_string()
    );
}

#[test]
fn recover_reserves_where_the_conversation_is_and_never_beside_a_live_worker() {
    let world = World::new(&[Account::new("one"), Account::new("two").used(50.0)]);
    let first = exec_with(&world, "t", &["--profile", "two"], "say first");
    assert_eq!(first.status, 0, "{}", first.stderr);
    let line = [
        "lease",
        "recover",
        "--task",
        "t",
        "--workspace",
        project(&world),
    ];
    let recovered = world.command(&line);
    assert_eq!(
        (&recovered["decision_reason"], &recovered["profile"]),
        (&"sticky-resume".into(), &"two".into())
    );
    let resumed = world.sandbox.run([
        "resume",
        "--task",
        "t",
        "--workspace",
        project(&world),
        "--",
        "-p",
        "say on",
    ]);
    assert_eq!(
        (resumed.status, resumed.stdout.as_str()),
        (0, "on\n"),
        "{}",
        resumed.stderr
    );
    let worker = world.start("u", "hold never");
    crate::support::world::wait("the session of `u`", || {
        (world
            .sandbox
            .run(["session", "status", "--task", "u"])
            .status
            == 0)
            .then_some(())
    });
    let refused = world
        .sandbox
        .run([
            "lease",
            "recover",
            "--task",
            "u",
            "--workspace",
            project(&world),
        ])
        .refused("task_owned");
    assert!(
        refused["error"]
            .as_str()
            .is_some_and(|text| text.contains("refusing recovery")),
        "{refused}"
    );
    worker.kill();
    drop(
        world
            .sandbox
            .run(["session", "status", "--task", "nobody"])
            .refused("not_found"),
    );
}

#[test]
fn arguments_are_checked_without_a_lease() {
    let mut world = World::with(1);
    world.sandbox.set("ANTHROPIC_API_KEY", "synthetic");
    let answer = exec_with(&world, "t", &["--validate-only"], "say hello").success();
    assert_eq!(
        (&answer["ok"], &answer["mode"], &answer["provider"]),
        (&true.into(), &"headless".into(), &"scripted".into())
    );
    assert!(
        answer["scrubbed"]
            .as_array()
            .is_some_and(|names| names.contains(&"ANTHROPIC_API_KEY".into())),
        "{answer}"
    );
    let line = [
        "exec",
        "--task",
        "t",
        "--pool",
        POOL,
        "--workspace",
        project(&world),
        "--validate-only",
        "--",
        "--resume",
        "x",
    ];
    drop(world.sandbox.run(line).refused("argument_refused"));
    assert_eq!(
        world.command(&["lease", "list"])["leases"],
        Value::Array(Vec::new())
    );
}
