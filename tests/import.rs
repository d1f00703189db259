//! Accounts that a person has already: found on the machine, or in another tool's list.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::sandbox::{Ran, Sandbox};

const CLAUDE: &str = include_str!("../fixtures/provider/claude/credentials.json");
const CODEX: &str = include_str!("../fixtures/provider/codex/auth.json");

/// A Claude login of another account than the fixture's.
fn claude(number: u32) -> String {
    CLAUDE.replace("LAB0001", &format!("LAB{number:04}"))
}

/// Every file below a directory, with its bytes and the time of its last change.
fn files(root: &Path) -> BTreeMap<String, (Vec<u8>, std::time::SystemTime)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            let seen = std::fs::symlink_metadata(&path).expect("a file");
            if seen.is_dir() {
                folders.push(path);
            } else {
                let bytes = std::fs::read(&path).unwrap_or_default();
                let changed = seen.modified().expect("a time");
                found.insert(path.display().to_string(), (bytes, changed));
            }
        }
    }
    found
}

/// What became of each account: its words, outcome and profile.
fn rows(answer: &Value) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    answer["accounts"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| {
            (
                text(&row["account"]),
                text(&row["outcome"]),
                text(&row["profile"]),
            )
        })
        .collect()
}

fn wanted(rows: &[(&str, &str, &str)]) -> Vec<(String, String, String)> {
    rows.iter()
        .map(|(account, outcome, profile)| {
            (
                (*account).to_owned(),
                (*outcome).to_owned(),
                (*profile).to_owned(),
            )
        })
        .collect()
}

/// A person with everyday logins, homes of their own and of other tools, and lists.
fn home() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("home/.claude/.credentials.json", CLAUDE);
    sandbox.write("home/.codex/auth.json", CODEX);
    sandbox.write("home/.claude-Work/.credentials.json", claude(2));
    sandbox.write("home/.claude-copy/.credentials.json", CLAUDE);
    sandbox.write("home/.claude-a@lab.invalid/.credentials.json", claude(3));
    sandbox.write("home/.claude-odd/.credentials.json", "{\"x");
    sandbox.write("home/.claude-out/.credentials.json", "{}");
    sandbox.write(
        "home/.codex-paid/auth.json",
        include_str!("../fixtures/provider/codex/auth-api-key.json"),
    );
    sandbox.write("home/.ccs/instances/zoo/.credentials.json", claude(4));
    sandbox.write("home/.claude-link/keep", "");
    symlink(
        sandbox.path("home/.claude/.credentials.json"),
        sandbox.path("home/.claude-link/.credentials.json"),
    )
    .expect("a link");
    sandbox.write("home/.claude-swap-backup/sequence.json", b"\xff\xfe");
    sandbox.write("home/.local/share/claude-swap/sequence.json", SWAP);
    sandbox.write("home/.codex/accounts/registry.json", AUTH);
    sandbox
}

const SWAP: &str = r#"{"activeAccountNumber": 1, "sequence": [1, 2, 3], "accounts": {
    "1": {"email": "one@lab.invalid", "uuid": "u"},
    "2": {"email": "two@lab.invalid", "alias": "night"},
    "10": {"email": "ten@lab.invalid", "alias": "ten@lab.invalid"},
    "3": {"email": "three@lab.invalid", "provider": "codex"},
    "4": {"provider": "gemini"}, "5": 7}}"#;
const AUTH: &str = r#"{"schema_version": 3, "active_account_key": "k1", "accounts": [
    {"account_key": "k1", "email": "x@lab.invalid", "alias": ""},
    {"account_key": "k2", "email": "y@lab.invalid", "alias": "y@lab.invalid"}]}"#;

#[test]
fn every_login_that_is_there_is_found_none_is_touched_and_doing_it_twice_adds_nothing() {
    let sandbox = home();
    let before = files(&sandbox.path("home"));
    let first = sandbox.run(["init", "--import"]).success();
    let found = wanted(&[
        ("a Claude login, plan max, in ~/.claude", "kept", "-"),
        ("a Codex login, plan pro, in ~/.codex", "kept", "-"),
        (
            "a Claude login, plan max, in ~/.claude-Work",
            "added",
            "claude-Work",
        ),
        ("a Claude login, plan max, in ~/…", "left_out", "-"),
        (
            "a Claude login, plan max, in ~/.claude-copy",
            "left_out",
            "-",
        ),
        ("a Claude login in ~/.claude-link", "left_out", "-"),
        ("a Claude login in ~/.claude-odd", "left_out", "-"),
        ("a Claude login in ~/.claude-out", "left_out", "-"),
        ("a Codex login in ~/.codex-paid", "left_out", "-"),
        (
            "a Claude login, plan max, in ~/.ccs/instances/zoo",
            "added",
            "claude-zoo",
        ),
        ("Claude account 1 of claude-swap", "kept", "-"),
        ("Claude account 2 of claude-swap", "added", "claude-night"),
        ("Codex account 3 of claude-swap", "added", "codex-3"),
        ("an account 4 of claude-swap", "left_out", "-"),
        ("an account 5 of claude-swap", "left_out", "-"),
        ("Claude account 10 of claude-swap", "added", "claude-10"),
        (
            "a list of accounts in ~/.claude-swap-backup/sequence.json",
            "left_out",
            "-",
        ),
        ("Codex account 1 of codex-auth", "kept", "-"),
        ("Codex account 2 of codex-auth", "added", "codex-2"),
    ]);
    assert_eq!(rows(&first), found, "{first:#}");
    assert_eq!(
        first["next"],
        json!([
            "agent-fleet project register /path/to/your/repository",
            "agent-fleet profile provision --all",
            "agent-fleet profile enroll claude-Work --adopt",
            "agent-fleet profile enroll claude-zoo --adopt",
            "agent-fleet profile enroll --all-missing",
            "agent-fleet profile enable claude-Work",
        ])
    );
    let again = sandbox.run(["init", "--import"]).success();
    assert_eq!(again["written"], false);
    assert!(rows(&again).iter().all(|row| row.1 != "added"), "{again:#}");
    assert_eq!(
        files(&sandbox.path("home")),
        before,
        "something was written"
    );
    let list = sandbox.run(["profile", "list"]).success();
    let profiles = list["profiles"].as_array().expect("profiles");
    assert_eq!(profiles.len(), 6);
    assert!(profiles.iter().all(|profile| profile["enabled"] == false));
    // Neither addresses nor tokens are anywhere but where they were.
    let mut ours = files(&sandbox.path("config"));
    ours.extend(files(&sandbox.path("state")));
    let told: Vec<u8> = ours.into_values().flat_map(|(bytes, _)| bytes).collect();
    let told = format!("{}{first}{again}", String::from_utf8_lossy(&told));
    for secret in ["lab.invalid", "synthetic", "LAB0"] {
        assert!(!told.contains(secret), "{secret} was told");
    }
}

#[test]
fn a_person_without_any_login_is_told_how_to_begin() {
    let sandbox = Sandbox::new();
    let answer = sandbox.run(["init", "--import"]).success();
    assert_eq!(answer["accounts"], json!([]));
    assert_eq!(
        answer["next"],
        json!(["agent-fleet profile add claude-1 --provider claude"])
    );
    // Profiles are counted for a new registry alone.
    let refused = sandbox.run(["init", "--import", "--scripted", "1"]);
    drop(refused.refused("already_exists"));
}

#[test]
fn a_list_of_another_tool_is_read_once_and_each_account_is_accounted_for() {
    let sandbox = Sandbox::new();
    drop(sandbox.run(["init", "--scripted", "1"]).success());
    let own = sandbox.path("elsewhere/homes/two");
    sandbox.write("elsewhere/homes/two/.credentials.json", claude(2));
    let named = sandbox.path("home/.claude-a@lab.invalid");
    sandbox.write("home/.claude-a@lab.invalid/.credentials.json", claude(3));
    let list = sandbox.write(
        "elsewhere/accounts.toml",
        format!(
            "version = 1\n[profiles.claude-2]\nprovider = \"claude\"\nhome = {own:?}\npools = [\"night\"]\nweight = 3\n\
             enabled = true\nallow_overage = true\n[profiles.gone]\nprovider = \"codex\"\nhome = \"/nowhere/gone\"\n\
             reserve_percent = 20\n[profiles.mine]\nprovider = \"claude\"\nsafety_policy = \"manual_only\"\n\
             [profiles.key]\nprovider = \"claude\"\ncredential = \"api-key\"\n[profiles.other]\nprovider = \"gemini\"\n\
             [profiles.named]\nprovider = \"claude\"\nhome = {named:?}\n"
        ),
    );
    let list = list.to_str().expect("UTF-8");
    let answer = sandbox.run(["profile", "import", list]).success();
    assert_eq!(
        rows(&answer),
        wanted(&[
            ("profile claude-2 of the registry", "added", "claude-2"),
            ("profile gone of the registry", "added", "gone"),
            ("profile mine of the registry", "added", "mine"),
            ("profile key of the registry", "left_out", "-"),
            ("profile other of the registry", "left_out", "-"),
            ("profile named of the registry", "left_out", "-"),
        ]),
        "{answer:#}"
    );
    let profile = |id: &str| {
        let list = sandbox.run(["profile", "list"]).success();
        let all = list["profiles"].as_array().expect("profiles").clone();
        all.into_iter()
            .find(|one| one["id"] == id)
            .expect("a profile")
    };
    let two = profile("claude-2");
    assert_eq!(
        (&two["home"], &two["pools"], &two["weight"], &two["enabled"]),
        (&json!(own), &json!(["night"]), &json!(3), &json!(false))
    );
    assert!(!answer.to_string().contains("lab.invalid"), "{answer}");
    assert_eq!(profile("gone")["reserve_percent"], 20.0);
    assert_eq!(profile("mine")["safety_policy"], "manual_only");
    let again = sandbox.run(["profile", "import", list]).success();
    assert!(rows(&again).iter().all(|row| row.1 != "added"), "{again:#}");
    let instances = sandbox.path("ccs/instances/work");
    std::fs::create_dir_all(&instances).expect("a directory");
    sandbox.write(
        "ccs/profiles.json",
        r#"{"version": "2.0.0", "profiles": {"Work": {"type": "account"}, "a@lab.invalid": {"type": "account"}, "glm": {"type": "settings"}}}"#,
    );
    let answer = Ran::of(
        sandbox
            .command(["profile", "import", "profiles.json"])
            .current_dir(sandbox.path("ccs")),
    )
    .success();
    assert_eq!(
        rows(&answer),
        wanted(&[
            ("profile Work of ccs", "added", "claude-Work"),
            ("profile 2 of ccs", "present", "claude-2"),
            ("profile glm of ccs", "left_out", "-"),
        ]),
        "{answer:#}"
    );
    assert_eq!(profile("claude-Work")["home"], json!(instances));
    // A file is no profile, whatever it is called.
    let audit = sandbox.run(["audit"]).success();
    let events = audit["events"].as_array().expect("events");
    let imports = events
        .iter()
        .filter(|event| event["by"] == "profile import");
    assert!(imports.clone().count() > 2, "{audit}");
    assert!(
        imports.clone().all(|event| event["profile"].is_null()),
        "{audit}"
    );
}

#[test]
fn what_is_no_list_is_refused_and_a_login_is_never_taken_for_one() {
    let sandbox = Sandbox::new();
    let missing = sandbox.run(["profile", "import", "nothing.json"]);
    drop(missing.refused("config_missing"));
    drop(sandbox.run(["init", "--scripted", "1"]).success());
    for (name, bytes, code) in [
        ("login.json", CLAUDE.as_bytes(), "usage"),
        ("auth.json", CODEX.as_bytes(), "usage"),
        ("empty", b"", "usage"),
        ("list.json", b"[]", "usage"),
        ("number.json", b"{\"accounts\": 7}", "usage"),
        ("odd.toml", b"profiles = 3", "usage"),
        ("binary", b"\xff\x00", "usage"),
        ("deep.json", "[".repeat(100_000).as_bytes(), "usage"),
    ] {
        let path = sandbox.write(format!("home/{name}"), bytes);
        let path = path.to_str().expect("UTF-8");
        let refused = sandbox.run(["profile", "import", path]).refused(code);
        assert!(refused["hint"].is_string(), "{refused}");
        assert!(!refused.to_string().contains("synthetic"), "{refused}");
    }
    let missing = sandbox.run(["profile", "import", "nothing.json"]);
    drop(missing.refused("not_found"));
    let folder = sandbox.path("home");
    let folder = sandbox.run(["profile", "import", folder.to_str().expect("UTF-8")]);
    drop(folder.refused("io"));
    let none = sandbox.write("home/none.json", r#"{"profiles": {}}"#);
    let none = sandbox.run(["profile", "import", none.to_str().expect("UTF-8")]);
    assert_eq!(none.success()["accounts"], json!([]));
}

#[test]
fn an_account_is_not_taken_for_a_profile_of_another_provider() {
    let sandbox = Sandbox::new();
    sandbox.run(["init"]).success();
    let home = sandbox.path("home/.one");
    std::fs::create_dir_all(&home).expect("a home");
    let home = home.display();
    let line = format!("profile add one --provider codex --home {home} --in-place");
    sandbox.run(line.split(' ')).success();
    let list = sandbox.write(
        "list.toml",
        format!("[profiles.one]\nprovider = \"claude\"\n[profiles.two]\nprovider = \"claude\"\nhome = \"{home}\"\n"),
    );
    let list = list.to_str().expect("UTF-8");
    let answer = sandbox.run(["profile", "import", list]).success();
    for (at, what) in ["id", "home"].iter().enumerate() {
        let row = &answer["accounts"][at];
        assert_eq!(row["outcome"], "left_out", "{row}");
        let reason = row["reason"].as_str().expect("a reason");
        let told = format!("its {what} is that of profile `one`, which is of codex");
        assert_eq!(reason, told);
    }
}
