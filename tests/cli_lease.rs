//! `lease list` and `lease release`, as supervisors call them.

use agent_fleet::env::Faults;

use crate::support::leases::{later, now, reserve, store};
use crate::support::sandbox::Sandbox;

fn world() -> (Sandbox, agent_fleet::lease::TableStore) {
    let sandbox = Sandbox::new();
    let state = sandbox.path("state");
    let store = store(state.to_str().expect("an UTF-8 path"), Faults::default());
    (sandbox, store)
}

#[test]
fn nothing_is_listed_and_nothing_made_where_nothing_is_leased() {
    let sandbox = Sandbox::new();
    assert_eq!(
        sandbox.run(["lease", "list"]).success()["leases"],
        serde_json::json!([])
    );
    assert!(
        !sandbox.path("state/leases").exists(),
        "a look made a directory"
    );
}

#[test]
fn leases_are_listed_by_task_and_released_without_a_registry() {
    let (sandbox, store) = world();
    for task in ["b", "a"] {
        reserve(&store, &later(task), &["p"], 9).unwrap();
    }
    let listed = sandbox.run(["lease", "list"]).success();
    assert_eq!(listed["leases"][0]["task"], "a");
    assert_eq!(listed["leases"][1]["verdict"], "reserved");
    assert!(listed.get("damaged").is_none());
    let released = sandbox.run(["lease", "release", "--task", "b"]).success();
    let expected = serde_json::json!({"profile": "p", "released": true, "task": "b"});
    assert_eq!(released, expected);
    let refused = sandbox
        .run(["lease", "release", "--task", "b"])
        .refused("not_found");
    assert_eq!(refused["error"], "no lease for task: b");
}

#[test]
fn a_live_lease_needs_force_and_its_worker_keeps_the_task() {
    let (sandbox, store) = world();
    let held = reserve(&store, &now("t"), &["p"], 1).unwrap();
    let refused = sandbox
        .run(["lease", "release", "--task", "t"])
        .refused("lease_active");
    assert_eq!(refused["details"]["pid"], std::process::id());
    let released = sandbox
        .run(["lease", "release", "--task", "t", "--force"])
        .success();
    assert_eq!(released["profile"], "p");
    assert!(
        reserve(&store, &later("u"), &["p"], 1).is_ok(),
        "the slot is not free"
    );
    assert!(
        reserve(&store, &later("t"), &["q"], 1).is_err(),
        "the task was given away"
    );
    drop(held);
}

#[test]
fn a_damaged_record_is_listed_with_the_command_that_settles_it() {
    let (sandbox, store) = world();
    reserve(&store, &later("t"), &["p"], 1).unwrap();
    let table = sandbox.path("state/leases/table");
    let mut bytes = std::fs::read(&table).unwrap();
    bytes[256 + 90] ^= 0x5a;
    sandbox.write("state/leases/table", bytes);
    let listed = sandbox.run(["lease", "list"]).success();
    let settle = listed["damaged"][0]["settle"].as_str().unwrap();
    assert_eq!(settle, "agent-fleet lease release --record 0 --force");
    let unforced = sandbox.run(["lease", "release", "--record", "0"]);
    unforced.refused("usage");
    let settled = sandbox.run(settle.split(' ').skip(1)).success();
    assert_eq!(
        (&settled["profile"], &settled["task"]),
        (&"p".into(), &"t".into())
    );
    assert!(reserve(&store, &later("t"), &["p"], 1).is_ok());
}

#[test]
fn a_state_root_that_cannot_be_written_refuses_and_loses_nothing() {
    let (sandbox, store) = world();
    reserve(&store, &later("t"), &["p"], 1).unwrap();
    let leases = sandbox.path("state/leases");
    let table = std::fs::read(leases.join("table")).unwrap();
    std::fs::remove_file(leases.join("table")).unwrap();
    std::fs::create_dir(leases.join("table")).unwrap();
    sandbox
        .run(["lease", "release", "--task", "t"])
        .refused("io");
    sandbox.run(["lease", "list"]).refused("io");
    std::fs::remove_dir(leases.join("table")).unwrap();
    sandbox.write("state/leases/table", table);
    sandbox.run(["lease", "release", "--task", "t"]).success();
}
