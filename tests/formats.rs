//! Every version of every file that we keep, as it was written once: later versions must read them all.
//!
//! `fixtures/state/vN` is a state root and `fixtures/registry/vN` a registry of format version N. A fixture is
//! never changed; a new version gets a new directory. The lease table is read in `lease::table`, since its
//! leases are over in any other boot.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::sandbox::Sandbox;

fn fixture(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(relative)
}

/// A world whose registry and state root are those of version 1.
fn version_1() -> Sandbox {
    let sandbox = Sandbox::new();
    copy(&sandbox, &fixture("state/v1"), Path::new("state"));
    let registry = std::fs::read(fixture("registry/v1/accounts.toml")).expect("the registry");
    sandbox.write("config/accounts.toml", registry);
    sandbox
}

fn copy(sandbox: &Sandbox, from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("a fixture") {
        let entry = entry.expect("an entry");
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy(sandbox, &path, &to);
        } else {
            sandbox.write(to, std::fs::read(path).expect("a file"));
        }
    }
}

#[test]
fn a_registry_of_version_1_means_what_it_says() {
    let sandbox = version_1();
    let listed = sandbox.run(["config", "list"]).success();
    assert_eq!(listed["notes"], json!([]), "a key of version 1 is unknown");
    for setting in listed["settings"].as_array().expect("settings") {
        let key = setting["key"].as_str().expect("a key");
        let untouched = [
            "providers.scripted.quota_reader",
            "providers.scripted.worker_options",
        ];
        if !untouched.contains(&key) {
            assert_ne!(setting["value"], setting["default"], "{key} was not read");
        }
    }
    let profile = &sandbox.run(["profile", "list"]).success()["profiles"][0];
    assert_eq!(
        *profile,
        json!({
            "credential": "home",
            "enabled": true,
            "home": "/synthetic/homes/claude-1",
            "id": "claude-1",
            "max_concurrent": 5,
            "pools": ["claude-crew", "night"],
            "provider": "claude",
            "reserve_percent": 20.5,
            "safety_policy": "worker",
            "weight": 3,
        })
    );
    let projects = sandbox.run(["project", "list", "--provider", "claude"]);
    assert_eq!(
        projects.success()["providers"][0]["trusted_projects"],
        json!(["/synthetic/project", "/synthetic/shared"])
    );
}

#[test]
fn durable_facts_and_snapshot_of_version_1_are_known() {
    let sandbox = version_1();
    let status = sandbox.run(["profile", "status", "claude-1"]).success();
    assert_eq!(status["drain"]["reason"], "holiday");
    assert_eq!(status["cooldown"]["until"], "2199-01-01T00:00:00Z");
    assert_eq!(status["login_expires_at"], "2199-06-01T00:00:00Z");
    let quota = &status["quota"];
    assert_eq!(quota["identity_fingerprint"], "a1".repeat(32));
    assert_eq!(quota["verified_at"], "2020-01-02T03:04:05Z");
    // What the status line of the evidence saw is older than the reading, so the reading stands.
    let windows = quota["windows"].as_array().expect("windows");
    let left: Vec<(&Value, &Value)> = windows
        .iter()
        .map(|window| (&window["scope"], &window["remaining_percent"]))
        .collect();
    assert_eq!(
        left,
        [(&Value::Null, &json!(62.5)), (&json!("opus"), &json!(40.0))]
    );
    // Without its snapshot the durable file tells the same, and without that the pins know the account.
    std::fs::remove_file(sandbox.path("state/snapshot/claude")).expect("the snapshot");
    let rebuilt = sandbox.run(["profile", "status", "claude-1"]).success();
    assert_eq!(rebuilt["drain"], status["drain"]);
    std::fs::remove_file(sandbox.path("state/snapshot/claude")).expect("the snapshot");
    std::fs::remove_file(sandbox.path("state/profiles/claude-1.json")).expect("the record");
    let lost = sandbox.run(["profile", "status", "claude-1"]).success();
    assert_eq!(lost["routeability"]["reason"], "identity_unproven");
}

#[test]
fn sessions_and_evidence_of_version_1_are_continued() {
    let sandbox = version_1();
    let session = |task: &str| sandbox.run(["session", "status", "--task", task]).success();
    let recorded = session("fix the build");
    assert_eq!(
        (&recorded["session_id"], &recorded["session_event_seq"]),
        (&json!("11111111-1111-4111-8111-111111111111"), &json!(3))
    );
    assert_eq!(recorded["workspace"], "/synthetic/project");
    let folded = session("second task");
    assert_eq!(
        folded["session_id"], "22222222-2222-4222-8222-222222222222",
        "a foreign event moved the mapping, or the first one did not"
    );
}

#[test]
fn an_install_of_version_1_still_belongs_to_its_registry() {
    let sandbox = version_1();
    drop(sandbox.run(["profile", "list"]).success());
    let other = Sandbox::new();
    let registry = std::fs::read(fixture("registry/v1/accounts.toml")).expect("the registry");
    other.write("config/accounts.toml", registry);
    drop(other.run(["profile", "list"]).refused("install_mismatch"));
}

#[test]
fn an_epoch_of_version_1_is_counted_on() {
    let sandbox = version_1();
    assert_eq!(
        sandbox.run(["lease", "list"]).success()["leases"],
        json!([]),
        "a lease of another boot is shown"
    );
    let lease = ["lease", "release", "--task", "fix the build"];
    drop(sandbox.run(lease).refused("not_found"));
    let epoch = std::fs::read_to_string(sandbox.path("state/leases/epoch")).expect("an epoch");
    assert_eq!(epoch.split_whitespace().nth(1), Some("8"), "{epoch}");
}
