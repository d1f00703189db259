//! Profiles, pools and projects through the commands.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use serde_json::json;

use crate::support::sandbox::Sandbox;

fn scripted() -> Sandbox {
    let sandbox = Sandbox::new();
    drop(sandbox.run(["init", "--scripted", "2"]).success());
    sandbox
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

fn git(arguments: &[&OsStr]) {
    let done = Sandbox::tool("git").args(arguments).status();
    assert!(done.expect("git runs").success(), "git {arguments:?}");
}

#[test]
fn a_profile_goes_through_its_life_and_its_login_stays() {
    let sandbox = scripted();
    let added = sandbox
        .run([
            "profile",
            "add",
            "third",
            "--provider",
            "scripted",
            "--max-concurrent",
            "5",
            "--pool",
            "night",
        ])
        .success();
    assert_eq!(added["enabled"], false);
    assert_eq!(
        (&added["max_concurrent"], &added["pools"]),
        (&json!(5), &json!(["night"]))
    );
    assert_eq!(
        added["home"],
        text(&sandbox.path("share/accounts/scripted/third"))
    );
    drop(
        sandbox
            .run(["profile", "add", "third", "--provider", "scripted"])
            .refused("already_exists"),
    );

    let status = sandbox.run(["profile", "status", "third"]).success();
    assert_eq!(status["provisioned"], false, "{status}");
    assert!(status["provision_reason"].is_string(), "{status}");

    let drained = sandbox
        .run(["profile", "drain", "third", "--reason", "holiday"])
        .success();
    assert_eq!(drained["drain"]["reason"], "holiday");
    assert_eq!(
        sandbox.run(["profile", "undrain", "third"]).success()["changed"],
        true
    );
    assert_eq!(
        sandbox.run(["profile", "undrain", "third"]).success()["changed"],
        false
    );
    assert_eq!(
        sandbox
            .run(["profile", "cooldown-clear", "third"])
            .success()["changed"],
        false
    );
    assert_eq!(
        sandbox.run(["profile", "disable", "third"]).success()["enabled"],
        false
    );

    let login = sandbox.write("share/accounts/scripted/third/login", "x");
    let removed = sandbox.run(["profile", "remove", "third"]).success();
    assert_eq!(
        removed,
        json!({"profile": "third", "removed": true, "home_deleted": false,
               "home": text(login.parent().expect("a directory"))})
    );
    assert!(login.exists());
    drop(
        sandbox
            .run(["profile", "remove", "third"])
            .refused("not_found"),
    );
    let again = sandbox
        .run(["profile", "add", "third", "--provider", "scripted"])
        .refused("already_exists");
    assert!(
        again["hint"]
            .as_str()
            .expect("a hint")
            .ends_with("--in-place")
    );
    drop(
        sandbox
            .run([
                "profile",
                "add",
                "third",
                "--provider",
                "scripted",
                "--in-place",
            ])
            .success(),
    );
}

#[test]
fn homes_ids_and_pools_that_would_mix_accounts_are_refused() {
    let sandbox = scripted();
    let before = std::fs::read_to_string(sandbox.path("config/accounts.toml")).expect("text");
    let inside = sandbox.path("share/accounts/scripted/scripted-1/deeper");
    let state = sandbox.path("state/x");
    for arguments in [
        vec!["a@b.invalid", "--provider", "codex"],
        vec!["../x", "--provider", "codex"],
        vec!["x", "--provider", "gemini"],
        vec!["x", "--provider", "codex", "--home", text(&inside)],
        vec!["x", "--provider", "codex", "--home", text(&state)],
        vec!["x", "--provider", "codex", "--home", "~/.codex"],
        vec!["x", "--provider", "claude", "--home", "~/.claude/worker"],
        vec!["x", "--provider", "codex", "--pool", "scripted-crew"],
        vec![
            "x",
            "--provider",
            "scripted",
            "--safety-policy",
            "manual_only",
            "--pool",
            "scripted-crew",
        ],
        vec!["x", "--provider", "codex", "--max-concurrent", "0"],
        vec!["x", "--provider", "codex", "--reserve-percent", "100"],
        vec!["x", "--provider", "codex", "--safety-policy", "free"],
    ] {
        let error = sandbox
            .run(
                ["profile", "add"]
                    .into_iter()
                    .chain(arguments.iter().copied()),
            )
            .refused("usage");
        assert!(
            !error["error"]
                .as_str()
                .expect("text")
                .contains("a@b.invalid was"),
            "{error}"
        );
    }
    drop(
        sandbox
            .run(["profile", "policy", "scripted-1"])
            .refused("usage"),
    );
    drop(
        sandbox
            .run(["profile", "policy", "nobody", "--weight", "2"])
            .refused("not_found"),
    );
    let after = std::fs::read_to_string(sandbox.path("config/accounts.toml")).expect("text");
    assert_eq!(before, after);
}

#[test]
fn reserves_are_never_enabled() {
    let sandbox = scripted();
    let policy = [
        "profile",
        "policy",
        "scripted-1",
        "--safety-policy",
        "manual_only",
    ];
    drop(sandbox.run(policy).refused("usage"));
    drop(
        sandbox
            .run(policy.into_iter().chain(["--pool", "by-hand"]))
            .success(),
    );
    let error = sandbox
        .run(["profile", "enable", "scripted-1"])
        .refused("policy");
    assert_eq!(
        error["hint"],
        "agent-fleet profile policy scripted-1 --safety-policy worker"
    );
}

#[test]
fn pools_count_who_is_enabled() {
    let sandbox = scripted();
    let pools = sandbox.run(["pool", "list"]).success();
    assert_eq!(
        pools,
        json!({"pools": [{"pool": "scripted-crew", "profiles": ["scripted-1", "scripted-2"],
                          "enabled": 0, "slots": 0, "providers": ["scripted"]}]})
    );
}

#[test]
fn projects_are_worktree_roots_and_survive_odd_names() {
    let sandbox = scripted();
    let project = sandbox.git_project("work/it's a \"project\"");
    let register = |path: &Path| {
        sandbox.run([
            "project".as_ref(),
            "register".as_ref(),
            "--provider".as_ref(),
            "scripted".as_ref(),
            path.as_os_str(),
        ])
    };
    let only = json!({"provider": "scripted", "trusted_projects": [text(&project)]});
    assert_eq!(register(&project).success(), only);
    assert_eq!(
        register(&project).success(),
        only,
        "registering twice changes nothing"
    );
    std::os::unix::fs::symlink(&project, sandbox.path("link")).expect("a link");
    assert_eq!(register(&sandbox.path("link")).success(), only);
    assert_eq!(
        sandbox.run(["project", "list"]).success(),
        json!({ "providers": [only] })
    );

    std::fs::create_dir(project.join("src")).expect("a directory");
    let inside = register(&project.join("src")).refused("workspace_invalid");
    assert_eq!(inside["details"]["root"], text(&project));
    std::fs::create_dir(sandbox.path("plain")).expect("a directory");
    drop(register(&sandbox.path("plain")).refused("workspace_invalid"));
    drop(register(&sandbox.path("gone")).refused("workspace_invalid"));
    drop(register(Path::new(OsStr::from_bytes(b"/tmp/\xff"))).refused("usage"));
}

#[test]
fn a_linked_worktree_is_a_root_of_its_own_and_a_deleted_project_can_be_removed() {
    let sandbox = scripted();
    let main = sandbox.git_project("main");
    let linked = sandbox.path("linked one");
    let at = |path: &Path| path.as_os_str().to_owned();
    git(&[
        "-C".as_ref(),
        &at(&main),
        "-c".as_ref(),
        "user.name=n".as_ref(),
        "-c".as_ref(),
        "user.email=n@example.invalid".as_ref(),
        "commit".as_ref(),
        "-q".as_ref(),
        "--allow-empty".as_ref(),
        "-m".as_ref(),
        "x".as_ref(),
    ]);
    git(&[
        "-C".as_ref(),
        &at(&main),
        "worktree".as_ref(),
        "add".as_ref(),
        "-q".as_ref(),
        "--detach".as_ref(),
        &at(&linked),
    ]);
    let run = |verb: &str, path: &Path| {
        sandbox.run(["project".as_ref(), verb.as_ref(), path.as_os_str()])
    };
    drop(run("register", &main).success());
    let both = run("register", &linked).success();
    assert_eq!(
        both["providers"][0]["trusted_projects"],
        json!([text(&linked), text(&main)])
    );
    std::fs::remove_dir_all(&linked).expect("a worktree");
    let left = run("remove", &linked).success();
    assert_eq!(
        left["providers"][0]["trusted_projects"],
        json!([text(&main)])
    );
    drop(run("remove", &linked).refused("not_found"));
    let one = sandbox.run(["project", "remove", "--provider", "scripted", text(&main)]);
    drop(one.refused("policy"));
    drop(run("remove", &main).success());
}

#[test]
fn a_home_to_be_taken_in_place_must_be_there() {
    let sandbox = scripted();
    let missing = sandbox.path("missing");
    let line = ["profile", "add", "third", "--provider", "scripted"];
    let mut line: Vec<&str> = line.into_iter().chain(["--home", text(&missing)]).collect();
    line.push("--in-place");
    let refused = sandbox.run(line).refused("not_found");
    assert!(
        !refused["hint"]
            .as_str()
            .expect("a hint")
            .contains("--in-place"),
        "{refused}"
    );
    let listed = sandbox.run(["profile", "list"]).success();
    assert_eq!(listed["profiles"].as_array().map(Vec::len), Some(2));
}

#[test]
fn who_wants_more_profiles_of_an_existing_registry_is_told_how_to_add_one() {
    let refused = scripted()
        .run(["init", "--scripted", "5"])
        .refused("already_exists");
    assert_eq!(
        refused["hint"],
        "agent-fleet profile add scripted-3 --provider scripted"
    );
}
