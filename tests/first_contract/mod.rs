//! The first public contract, step by step, as one run against stand-ins for provider and reader.

mod world;

use std::os::fd::AsRawFd as _;

use serde_json::{Value, json};

use self::world::{World, no_ambient, seen};

#[test]
fn the_first_public_contract_holds_step_by_step() {
    let world = World::new();
    let workspace = world.workspace();

    // 1, 2
    let version = world.run(&["version"]).success();
    assert_eq!(version["contract_version"], 1);
    assert!(version["cli_version"].is_string());
    let contract = world.run(&["contract"]).success();
    assert_eq!(contract["formats"], json!(["json", "toon", "human"]));
    for key in [
        "atomic_choose",
        "dry_run",
        "explicit_acquire",
        "exec",
        "resume_task",
        "resume_explicit",
        "pool_summary",
    ] {
        assert!(contract["commands"][key].is_string(), "no usage for {key}");
    }
    assert_eq!(
        contract["commands"]["atomic_choose"],
        "lease choose --pool <pool> --task <task> --workspace <path>"
    );
    for field in [
        "profile",
        "provider",
        "pool",
        "decision_reason",
        "quota_fresh",
        "headroom_percent",
        "active_lease_count",
        "degraded",
    ] {
        assert!(
            contract["selection_fields"]
                .as_array()
                .unwrap()
                .contains(&json!(field)),
            "no field {field}"
        );
    }

    // 3
    world.run(&["quota", "refresh"]).success();
    let shown = world.run(&["quota", "show", "--all"]);
    let leaked = shown.stdout.contains("\"account\":") || shown.stdout.contains("-1-account");
    assert!(!leaked, "an account leaked: {}", shown.stdout);
    let quota = shown.success();
    for row in quota["quota"].as_array().unwrap() {
        assert_eq!(
            (&row["fresh"], &row["headroom_percent"]),
            (&json!(true), &json!(80.0)),
            "{row}"
        );
        assert_eq!(row["identity_fingerprint"].as_str().unwrap().len(), 64);
        assert_eq!(
            (&row["identity_source"], &row["verified_recent"]),
            (&json!("quota-account"), &json!(true))
        );
        let window = &row["windows"][0];
        assert_eq!(
            (&window["id"], &window["kind"], &window["remaining_percent"]),
            (&json!("five_hour"), &json!("session"), &json!(80.0))
        );
    }
    assert_eq!(quota["quota"].as_array().unwrap().len(), 2);

    // 4
    let codex = seen(&world.exec(
        "sticky-codex-task",
        "codex-crew",
        "codex-1",
        &["exec", "record-session"],
    ));
    assert_eq!(codex["cwd"], workspace);
    assert_eq!(
        codex["variables"]["CODEX_HOME"],
        world
            .sandbox
            .path("share/accounts/codex/codex-1")
            .to_str()
            .unwrap()
    );
    assert_eq!(
        codex["variables"]["AGENT_FLEET_TASK_ID"],
        "sticky-codex-task"
    );
    assert_eq!(codex["variables"]["AGENT_FLEET_PROFILE"], "codex-1");
    no_ambient(&codex);
    let argv: Vec<&str> = codex["argv"]
        .as_array()
        .unwrap()
        .iter()
        .map(|word| word.as_str().unwrap())
        .collect();
    assert_eq!(argv.last(), Some(&"record-session"));
    let prompt = argv.len() - 1;
    let before = |needle: &str| {
        argv.iter()
            .position(|word| word.contains(needle))
            .is_some_and(|at| at < prompt)
    };
    assert!(
        before("plugins") && before("projects=") && before(workspace),
        "our settings do not precede the prompt: {argv:?}"
    );

    // 5, 6
    let session = world
        .run(&["session", "status", "--task", "sticky-codex-task"])
        .success();
    for (field, value) in [
        ("profile", "codex-1"),
        ("provider", "codex"),
        ("pool", "codex-crew"),
        ("workspace", workspace),
    ] {
        assert_eq!(session[field], value);
    }
    let id = session["session_id"].as_str().unwrap().to_owned();
    assert!(session["updated_at"].is_string() && session["schema"].is_number());
    let day = world
        .sandbox
        .path("share/accounts/codex/codex-1/sessions/2026/01/01");
    let rollout = format!(
        "share/accounts/codex/codex-1/sessions/2026/01/01/rollout-2026-01-01T00-00-00-{id}.jsonl"
    );
    world.sandbox.write(
        &rollout,
        format!(
            "{}\n",
            json!({"type": "session_meta", "payload": {"id": id, "cwd": workspace}})
        ),
    );
    assert!(day.exists());
    let resumed = seen(&world.run(&[
        "resume",
        "--task",
        "sticky-codex-task",
        "--workspace",
        workspace,
        "--",
        "exec",
        "env-check",
    ]));
    assert_eq!(
        resumed["variables"]["CODEX_HOME"],
        codex["variables"]["CODEX_HOME"]
    );
    let argv: Vec<&str> = resumed["argv"]
        .as_array()
        .unwrap()
        .iter()
        .map(|word| word.as_str().unwrap())
        .collect();
    assert_eq!(argv[0], "exec");
    let at = argv
        .iter()
        .position(|word| *word == "resume")
        .expect("the provider's resume form");
    assert!(
        argv[at..].contains(&id.as_str()),
        "the recorded session is not in {argv:?}"
    );

    // 7
    let claude = seen(&world.exec(
        "claude-task",
        "claude-crew",
        "claude-1",
        &["-p", "env-check"],
    ));
    assert!(
        claude["variables"]["CLAUDE_CONFIG_DIR"]
            .as_str()
            .unwrap()
            .ends_with("accounts/claude/claude-1")
    );
    assert_eq!(claude["variables"]["DISABLE_LOGIN_COMMAND"], "1");
    assert_eq!(claude["variables"]["DISABLE_LOGOUT_COMMAND"], "1");
    no_ambient(&claude);

    // 8, 9, 10
    let choice = world.choose_claude().success();
    assert_eq!(
        (&choice["profile"], &choice["decision_reason"]),
        (&json!("claude-1"), &json!("quota"))
    );
    assert_eq!(
        (&choice["lease"], &choice["dry_run"]),
        (&Value::Null, &json!(true))
    );
    world.sandbox.write(
        "desktop/config.json",
        r#"{"lastKnownAccountUuid":"claude-1-account"}"#,
    );
    let overlap = world.choose_claude().refused("desktop_identity");
    assert!(
        overlap["error"]
            .as_str()
            .unwrap()
            .contains("duplicate_provider_identity")
    );
    std::fs::remove_file(&world.desktop).unwrap();
    let missing = world.choose_claude().refused("desktop_identity_unverified");
    assert!(
        missing["error"]
            .as_str()
            .unwrap()
            .contains("duplicate_provider_identity")
    );
    world.sandbox.write(
        "desktop/config.json",
        r#"{"lastKnownAccountUuid":"desktop-captain-account"}"#,
    );

    // 11
    let registry = std::fs::read(world.sandbox.path("config/accounts.toml")).unwrap();
    let lock = std::fs::File::open(world.sandbox.path("state/locks/provider-claude.lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let busy = world
        .run(&["profile", "add", "claude-2", "--provider", "claude"])
        .refused("maintenance_busy");
    assert_eq!(
        busy["error"],
        "provider maintenance is already in progress for claude"
    );
    assert_eq!(
        std::fs::read(world.sandbox.path("config/accounts.toml")).unwrap(),
        registry
    );
    assert!(lock.as_raw_fd() >= 0);
    drop(lock);

    // 12 to 15
    let held = world.hold("live-owned-task");
    let owned = world
        .exec(
            "live-owned-task",
            "codex-crew",
            "codex-1",
            &["exec", "env-check"],
        )
        .refused("task_owned");
    let pid = held.child.id();
    assert_eq!(
        owned["error"],
        format!("task lease is already owned by live process {pid}")
    );
    let disabled = world.run(&["profile", "disable", "codex-1"]).success();
    assert_eq!(
        (
            &disabled["id"],
            &disabled["enabled"],
            &disabled["max_concurrent"]
        ),
        (&json!("codex-1"), &json!(false), &json!(3))
    );
    let refused = world
        .run(&["profile", "enroll", "codex-1"])
        .refused("lease_active");
    assert_eq!(
        refused["error"],
        "refusing codex login while any same-provider Fleet lease is active"
    );
    let logins = world.sandbox.path("logins");
    assert!(!logins.exists(), "the provider's login was invoked");
    let released = world
        .run(&["lease", "release", "--task", "live-owned-task", "--force"])
        .success();
    assert_eq!(
        released,
        json!({"profile": "codex-1", "released": true, "task": "live-owned-task"})
    );
    held.end(&world.sandbox);

    // 16
    let home = world.sandbox.path("share/accounts/codex/codex-1");
    // Its access token has run out, so that a new login takes its place; the CLI would refresh it.
    let login = |access: &str| {
        json!({"auth_mode": "chatgpt", "tokens": {"account_id": "codex-1-account",
            "access_token": access, "refresh_token": "synthetic-refresh"}})
        .to_string()
    };
    let (old, new) = (login("synthetic-a.eyJleHAiOjF9.c"), login("synthetic-new"));
    let path = "share/accounts/codex/codex-1/auth.json";
    let installed = world.sandbox.write(path, &old);
    world.run(&["quota", "refresh"]).success();
    let mut enroll = world.sandbox.command(["profile", "enroll", "codex-1"]);
    enroll
        .env("FAKE_LOGIN", &new)
        .env(crate::enroll::SECOND_PROOF, "0");
    crate::support::change::ended(&mut enroll, "promote.in_force");
    assert_eq!(std::fs::read(&installed).unwrap(), new.as_bytes());
    let pending = world.run(&["transaction", "list"]).success();
    assert_eq!(pending["transactions"][0]["profile"], "codex-1");
    // Nobody else is kept from work.
    world.choose_claude().success();
    let status = world.run(&["profile", "status", "codex-1"]).success();
    assert_eq!(std::fs::read(&installed).unwrap(), old.as_bytes());
    let journals = std::fs::read_dir(world.sandbox.path("state/transactions")).unwrap();
    assert_eq!(journals.count(), 0, "the journal is still there");
    let litter = std::fs::read_dir(&home).unwrap().flatten();
    let litter: Vec<_> = litter
        .filter(|entry| entry.file_name().to_string_lossy().contains(".fleet-"))
        .collect();
    assert!(litter.is_empty(), "{litter:?}");
    assert_eq!(
        (
            &status["quota"]["fresh"],
            &status["quota"]["headroom_percent"]
        ),
        (&json!(true), &json!(80.0)),
        "{status}"
    );
    let routeability = &status["routeability"];
    assert_eq!(
        (
            &routeability["eligible"],
            &routeability["mode"],
            &routeability["reason"]
        ),
        (&json!(true), &json!("quota"), &json!("fresh")),
        "{status}"
    );
}
